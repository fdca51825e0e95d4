"""Observers of a walk: they see each good batch once, in order, however the log is cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.audit.sums import Sums
from kafkatool.engine.batches.observers import ROWS, Observer
from kafkatool.engine.jobs.survey import Split, Task, survey
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.report.gathering import BatchNumbers
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.errors import KafkatoolError
from kafkatool.format.columns import BatchColumns
from tests.logs import batches, write_log

COUNT = 40


@dataclass(slots=True)
class SeenOffsets(Observer):
    """Remembers every batch, and whether a walk has left it."""

    offsets: list[int] = field(default_factory=list)
    is_left: bool = False

    @contextmanager
    def walking(self, _position: int) -> Iterator[None]:
        try:
            yield
        finally:
            self.is_left = True

    def take(self, columns: BatchColumns) -> None:
        self.offsets += columns.base_offset.tolist()

    def merge(self, behind: Self) -> None:
        self.offsets += behind.offsets


class FullDisk(Observer):
    def take(self, columns: BatchColumns) -> None:
        raise KafkatoolError("no room")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("t-0"), b"".join(batches(COUNT)))


def walked(log: Path, cuts: list[int], jobs: int = 1) -> LogFacts:
    size, job = log.stat().st_size, LogJob(0, observers=(SeenOffsets(), Sums(), BatchNumbers(0)))
    splits = tuple(Split(str(log), a, b, size) for a, b in zip([0, *cuts], [*cuts, size], strict=True))
    with workers(jobs) as pool:
        [(_key, facts)] = survey(iter([Task(0, job, splits)]), pool)
    assert job.observers[0] == SeenOffsets()
    return facts


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("every", [1, 7, 100])
def test_every_batch_is_seen_once_by_each(log: Path, jobs: int, every: int) -> None:
    starts = [sum(map(len, batches(at))) for at in range(COUNT)]
    seen, sums, numbers = walked(log, starts[every::every], jobs).observers
    assert seen.offsets == [3 * at for at in range(COUNT)]
    assert sum(sums.magic_batches) == numbers.stats.batches == COUNT


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_cuts_and_any_damage_show_the_same_batches(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(log.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    raw = raw[: data.draw(st.integers(len(raw) - 300, len(raw)))]
    copy = write_log(tmp_path_factory.mktemp("damaged"), bytes(raw))
    whole = walked(copy, [])
    cut = walked(copy, sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=6))))
    assert cut.observers[:2] == whole.observers[:2]
    assert (
        cut.observers[2].stats.batches == whole.observers[2].stats.batches == len(whole.observers[0].offsets)
    )


def test_more_batches_than_a_table_has_room_for_are_all_seen(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", b"".join(batches(ROWS + 10, per_batch=1)))
    [seen, *_rest] = walked(log, []).observers
    assert seen.offsets == list(range(ROWS + 10))


def test_an_observer_is_left_when_another_fails(log: Path) -> None:
    size = log.stat().st_size
    job = LogJob(0, observers=(SeenOffsets(), FullDisk()))
    before = job.map(Split(str(log), 0, 0, size), None)
    before.observers[0].is_left = False
    facts = job.map(Split(str(log), 0, size, size), before)
    assert facts.failure == "no room"
    assert facts.observers[0].is_left
