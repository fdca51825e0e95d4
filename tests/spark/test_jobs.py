"""The jobs of the engine on Spark: for any size of splits the same as in processes of this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kafkatool.engine.directory.targets import expand
from kafkatool.engine.jobs.survey import SPLIT_SIZE, Split
from kafkatool.engine.jobs.worker_pool import Pending, Workers, workers
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from kafkatool.errors import KafkatoolError
from kafkatool.spark.workers import SparkWorkers
from tests.cli import Run, run
from tests.log_dirs import read_tree
from tests.spark.matrix import NOW, counted, verified, without_free_space

SMALL_MAP = f"log.cleaner.dedupe.buffer.size={24 * 2000}"
"""Room for fewer keys than there are."""
SIZES = [64 << 10, 300_000, SPLIT_SIZE]


def compare(spark: Any, directory: Path, split_size: int, *, deep: bool) -> list[Any]:
    """Processes here, one walk from front to end, and Spark: all the same."""
    with workers(2) as processes:
        here = verified(directory, processes, split_size, deep=deep)
        numbers = counted(directory, processes, split_size, deep=deep)
    assert here == verified(directory, Workers(), SPLIT_SIZE, deep=deep)
    with SparkWorkers(spark) as pool:
        assert verified(directory, pool, split_size, deep=deep) == here
        assert counted(directory, pool, split_size, deep=deep) == numbers
    return here[0]


@pytest.mark.parametrize("split_size", SIZES)
def test_verify_and_stats_give_the_same_on_spark(spark: Any, damaged: Path, split_size: int) -> None:
    findings = compare(spark, damaged, split_size, deep=split_size == SIZES[1])
    assert {"bad_index", "bit_flip"} <= {str(one.damage.kind) for one in findings}


def both(*arguments: object) -> tuple[Run, Run]:
    """The same command here and on Spark."""
    name, *rest = map(str, arguments)
    return run(name, *rest), run(name, "--spark", "local[2]", *rest)


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "-v"],
        ["stats", "--deep", "--by", "topic", "--format", "ndjson", "--now", NOW],
        ["stats", "--from", "70", "--to", "300", "--deep", "--format", "ndjson", "--now", NOW],
        ["stats", "--to", "@1700000100000", "--by", "file", "--format", "ndjson", "--now", NOW],
        ["retention", "--set", "retention.ms=1", "--at", NOW, "--format", "ndjson"],
        ["retention", "--forecast", "7d", "--at", NOW],
        ["compact", "--at", NOW, "--format", "ndjson"],
        ["compact", "--at", NOW, "--until-stable"],
        ["compact", "--at", NOW, "--top", "3"],
        ["compact", "--memory", "40K", "--at", NOW, "--format", "ndjson"],
        ["compact", "--memory", "40K", "--set", SMALL_MAP, "--at", NOW, "--until-stable"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_command_says_the_same_on_spark(spark: Any, damaged: Path, words: list[str]) -> None:
    here, there = both(*words, damaged)
    assert (there.exit_code, there.stderr) == (here.exit_code, here.stderr)
    assert without_free_space(there.stdout) == without_free_space(here.stdout) != b""


class Watched(SparkWorkers):
    """Notes who runs a function, for how much it is, and what it gives."""

    def __init__(self, session: Any, notes: Path) -> None:
        super().__init__(session)
        self.notes = notes

    def submit(self, run: Callable[..., Any], *arguments: object) -> Pending[Any]:
        return super().submit(noted, self.notes, run, *arguments)


def noted(notes: Path, run: Callable[..., Any], *arguments: object) -> Any:
    from pyspark import TaskContext

    result = run(*arguments)
    task = TaskContext.get()
    assert task is not None
    note = {"what": run.__name__, "pid": os.getpid(), "task": task.taskAttemptId()}
    if run.__name__ == "count_new_keys":
        note["keys"] = None if result is None else sum(result.new_keys)
    (notes / f"{task.taskAttemptId()}-{uuid4()}.json").write_text(json.dumps(note))
    return result


def test_keys_that_do_not_fit_are_a_task_a_part(
    spark: Any, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkatool.spark.workers.SparkWorkers", lambda session, _: Watched(session, tmp_path))
    monkeypatch.setattr("kafkatool.spark.workers.LEAST_TASK", 1)
    words = ["compact", "--at", NOW, "--format", "ndjson"]
    here = run(*words, str(good / "users-0"))
    there = run(*words, "--memory", "40K", "--spark", "local[2]", str(good / "users-0"))
    assert there.stdout == here.stdout
    notes = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    by_name = {name: [one for one in notes if one["what"] == name] for name in PART_STEPS}
    assert len(by_name["clean_partition"]) == 2
    counted = [one["keys"] for one in by_name["count_new_keys"]]
    fitting = [keys for keys in counted if keys is not None]
    assert None in counted
    assert len(fitting) == len(by_name["superseded"]) >= 3
    assert max(fitting) <= 1024 < sum(fitting)
    for steps in by_name.values():
        assert len({one["task"] for one in steps}) == len(steps)
    assert os.getpid() not in {one["pid"] for one in notes}


PART_STEPS = ["clean_partition", "count_new_keys", "superseded"]


def test_compacted_copies_are_the_same_byte_for_byte(spark: Any, good: Path, tmp_path: Path) -> None:
    for name, more in (("here", []), ("there", ["--spark", "local[2]"])):
        done = run("compact", "--at", NOW, "--write-to", str(tmp_path / name), *more, str(good / "users-0"))
        assert done.exit_code == 0, done.stderr
    assert read_tree(tmp_path / "here", ours=True) == read_tree(tmp_path / "there", ours=True)


@pytest.mark.parametrize("fmt", ["parquet", "ndjson"])
def test_exported_files_are_the_same(spark: Any, damaged: Path, tmp_path: Path, fmt: str) -> None:
    said = []
    for name, more in (("here", []), ("there", ["--spark", "local[2]"])):
        done = run("export", "--format", fmt, "-o", str(tmp_path / name), *more, str(damaged))
        assert done.exit_code == 4
        said.append(sorted(done.stderr.replace(name.encode(), b"X").splitlines()))
    assert said[0] == said[1]
    here, there = (read_tree(tmp_path / name, ours=True) for name in ("here", "there"))
    assert here.keys() == there.keys()
    manifest = "_kafkatool_export.json"
    assert json.loads(here.pop(manifest)) == json.loads(there.pop(manifest))
    assert here == there
    again = run("export", "--format", fmt, "-o", str(tmp_path / "there"), "--spark", "local[2]", str(damaged))
    assert b"0 records in 0 files" in again.stderr


def fail_at(split: Split) -> None:
    raise ZeroDivisionError(f"no luck with {split.start}")


def test_a_task_that_fails_names_its_file_and_bytes(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "where.log"
    log.touch()
    with SparkWorkers(spark) as pool:
        pending = pool.submit(fail_at, Split(str(log), 4096, 8192, 8192))
        good = pool.submit(len, "abc")
        while not (pending.is_done and good.is_done):
            pool.wait()
    with pytest.raises(KafkatoolError, match=r"/where\.log from byte 4096 to 8192: ZeroDivisionError"):
        pending.result()
    assert good.result() == 3


def test_progress_is_told_and_ends_at_all_of_it(spark: Any, good: Path) -> None:
    told: list[int] = []
    run = Verification(expand([str(good)]).targets, VerifyRequest(split_size=256 << 10))
    with SparkWorkers(spark, told.append) as pool:
        assert not [one for one in run.findings(pool) if one.damage.severity]
    assert sum(told) == run.size


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "--spark", "mesos://x"], b"is no master"),
        (["verify", "--conf", "spark.x=1"], b"give --spark too"),
        (["verify", "--spark", "local[2]", "--conf", "x=1"], b"not spark.NAME=VALUE"),
        (["compact", "--spark", "local[2]", "--apply"], b"leave it out with --apply"),
        (["export", "--spark", "local[2]", "-o", "one.parquet"], b"name a directory"),
    ],
)
def test_what_makes_no_sense_is_refused(spark: Any, good: Path, words: list[str], said: bytes) -> None:
    done = run(*words, str(good))
    assert done.exit_code == 2
    assert said in done.stderr
