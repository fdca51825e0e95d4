"""A run of a start-up yields the same for any number of workers, and what it copies only when asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.batches.damage import Severity, SeverityMet
from kafkatool.engine.cluster.topic_settings import NumberSettings
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.recover.run import (
    PartitionRecovered,
    PartitionSalvaged,
    RecoveryEvent,
    RecoveryRun,
    StartedDirectory,
    StartEnds,
)
from kafkatool.format.names import segment_file
from tests.engine.disk import START_MS, write_partition
from tests.logs import GUEST
from tests.mutations import flip


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for number in range(3):
        write_partition(tmp_path / "logs", f"orders-{number}")
    log = tmp_path / "logs" / "orders-1" / segment_file(60, ".log")
    flip(log, os.path.getsize(log) // 2 + 300)
    return tmp_path / "logs"


def recovery(log_dir: Path, *, jobs: int = 1, keep: str | None = None) -> tuple[list[RecoveryEvent], int]:
    """The events of one directory, and the bytes that a progress bar was told of."""
    found = Selection(expand([str(log_dir)]).targets, GUEST)
    how = Applying(START_MS, offline=True)
    run = RecoveryRun(found, [str(log_dir)], NumberSettings(), how, False, GUEST, keep)
    read: list[int] = []
    with workers(jobs) as pool:
        *_leftovers, started = run.start(found.homes[0], pool, read.append)
    assert isinstance(started, StartedDirectory)
    return list(run.outcome(started)), sum(read)


def test_what_is_lost_is_told_behind_its_partition(log_dir: Path) -> None:
    found, read = recovery(log_dir)
    names = [Path(one.recovered.path).name for one in found if isinstance(one, PartitionRecovered)]
    assert names == ["orders-0", "orders-1", "orders-2"]
    assert read == sum(path.stat().st_size for path in log_dir.rglob("*.log"))
    [met] = [at for at, one in enumerate(found) if one == SeverityMet(Severity.LOSS)]
    last = [one for one in found[:met] if isinstance(one, PartitionRecovered)][-1]
    assert Path(last.recovered.path).name == "orders-1"


def test_any_number_of_processes_yields_the_same_events(log_dir: Path) -> None:
    assert recovery(log_dir, jobs=3) == recovery(log_dir)


def test_what_is_cut_is_copied_only_where_that_was_asked_for(log_dir: Path, tmp_path: Path) -> None:
    found, _read = recovery(log_dir)
    assert not [one for one in found if isinstance(one, PartitionSalvaged)]
    found, _read = recovery(log_dir, keep=str(tmp_path / "saved"))
    [salvaged] = [one for one in found if isinstance(one, PartitionSalvaged)]
    assert salvaged.saved.batches > 0
    assert (tmp_path / "saved").is_dir()


def test_a_directory_that_no_broker_knows_ends_the_start(log_dir: Path) -> None:
    (log_dir / "what is this").mkdir()
    found, _read = recovery(log_dir)
    assert isinstance(found[0], StartEnds)
    assert found[1] == SeverityMet(Severity.NO_START)
