"""Every job over some directories, for every size of splits: what is told must not depend on where it ran.

    python -m tests.spark.matrix MASTER OUT DIRECTORY…

writes down what they tell on a master, as `answers` gives it.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafkatool.engine.directory.targets import expand
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.survey import SPLIT_SIZE
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.stats.grouping import By
from kafkatool.engine.stats.statistics import Statistics, StatsRequest
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from tests.cli import run
from tests.log_dirs import read_tree

NOW = "2030-01-01T00:00:00Z"
NOW_MS = 1_893_456_000_000
DEEP = 200_000
SIZES = (64 << 10, DEEP, 1 << 20, SPLIT_SIZE, None)
"""Of splits, up to whole files; None: as it is left."""


def verified(directory: Path, pool: Workers, split_size: int | None, *, deep: bool) -> tuple[list[Any], Any]:
    run = Verification(expand([str(directory)]).targets, VerifyRequest(deep=deep, split_size=split_size))
    return list(run.findings(pool)), replace(run.summary)


def counted(directory: Path, pool: Workers, split_size: int | None, *, deep: bool) -> list[Any]:
    from kafkatool.commands.rows.stats import stats_row

    run = Statistics(expand([str(directory)]).targets, Guest())
    request = StatsRequest(NOW_MS, By.FILE, deep, split_size)
    return [stats_row(group) for group in run.groups(request, pool)]


def commands(directory: Path, target: Path) -> list[list[str]]:
    """Every job, on one directory; compaction with keys that do not fit, and what it writes."""
    ndjson = ["--format", "ndjson"]
    parts = ["--memory", "40K", "--write-to", str(target / "compact")]
    return [
        ["verify", *ndjson, str(directory)],
        ["stats", "--deep", *ndjson, "--now", NOW, str(directory)],
        ["retention", "--set", "retention.ms=1", "--at", NOW, *ndjson, str(directory)],
        ["compact", "--at", NOW, *parts, *ndjson, str(directory)],
        ["export", "-q", "-o", str(target / "export"), str(directory)],
    ]


def answers(directories: Sequence[Path], pool: Workers, master: str | None) -> dict[tuple[object, ...], Any]:
    """What every job tells and writes; on the session that is there if a master is named."""
    found: dict[tuple[object, ...], Any] = {}
    for directory in directories:
        for size in SIZES:
            found[directory, "verify", size] = verified(directory, pool, size, deep=size == DEEP)
            found[directory, "stats", size] = counted(directory, pool, size, deep=size == DEEP)
        with TemporaryDirectory() as target:
            for number, (name, *words) in enumerate(commands(directory, Path(target))):
                done = run(name, *(("--spark", master) if master else ()), *words)
                said = (done.stdout + done.stderr).replace(target.encode(), b"")
                found[directory, name, number] = done.exit_code, without_free_space(said)
            found[directory, "files"] = read_tree(Path(target), ours=True)
    return found


def without_free_space(text: bytes) -> bytes:
    return re.sub(rb'"bytes_free":\d+', b"", text)


def main() -> None:
    from kafkatool.spark.session import open_session
    from kafkatool.spark.workers import SparkWorkers

    master, out, *directories = sys.argv[1:]
    with open_session(master, {}) as session, SparkWorkers(session) as pool:
        Path(out).write_bytes(pickle.dumps(answers([Path(one) for one in directories], pool, master)))


if __name__ == "__main__":
    main()
