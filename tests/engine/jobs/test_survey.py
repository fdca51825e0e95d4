"""The same answer for any number of workers and any size of splits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.batches.indexes import sound_offset_index
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.survey import Split, Task, cut, survey
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.format.names import segment_file
from tests.engine.partitions_to_verify import aborted_transaction, batch, write_segment

BATCHES = 40


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of two leader epochs, with transactions of another producer among them."""
    directory = tmp_path_factory.mktemp("log")
    batches = [batch(offset, epoch=offset // 25) for offset in range(BATCHES)]
    batches[10:13] = aborted_transaction(10)
    batches[30:33] = aborted_transaction(30)
    write_segment(directory, 0, batches)
    return directory / segment_file(0, ".log")


def walked(log: Path, splits: tuple[Split, ...], jobs: int = 1) -> LogFacts:
    with workers(jobs) as pool:
        [(key, facts)] = survey(iter([Task("log", LogJob(0, deep=True), splits)]), pool)
    assert key == "log"
    return facts


def in_one_go(log: Path) -> LogFacts:
    size = log.stat().st_size
    return walked(log, (Split(str(log), 0, size, size),))


def splits_of(log: Path, split_size: int) -> tuple[Split, ...]:
    size = log.stat().st_size
    return cut(str(log), size, sound_offset_index(str(log), size, Guest()).positions, split_size)


@pytest.mark.parametrize("split_size", [1, 1000, 3000, 1 << 20])
@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_answer(log: Path, split_size: int, jobs: int) -> None:
    assert walked(log, splits_of(log, split_size), jobs) == in_one_go(log)


def test_splits_are_cut_at_index_entries_and_cover_everything(log: Path) -> None:
    splits = splits_of(log, 1000)
    assert len(splits) > 5
    assert [split.end for split in splits[:-1]] == [split.start for split in splits[1:]]
    assert (splits[0].start, splits[-1].end) == (0, log.stat().st_size)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_cuts_and_any_damage_give_the_same_answer(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Cuts anywhere, which is what a lying index makes of them, and damage anywhere."""
    raw = bytearray(log.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    raw = raw[: data.draw(st.integers(len(raw) - 300, len(raw)))]
    directory = tmp_path_factory.mktemp("damaged")
    copy = directory / log.name
    copy.write_bytes(raw)
    for extension in (".index", ".timeindex"):
        (directory / segment_file(0, extension)).write_bytes(
            (log.parent / segment_file(0, extension)).read_bytes()
        )
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=6)))
    size = len(raw)
    splits = tuple(Split(str(copy), a, b, size) for a, b in zip([0, *cuts], [*cuts, size], strict=True))
    assert walked(copy, splits) == in_one_go(copy)


def test_the_producers_of_all_stretches_are_joined(log: Path) -> None:
    facts = walked(log, splits_of(log, 1))
    assert [(a.marker_offset, a.transaction and a.transaction.first_offset) for a in facts.aborted] == [
        (12, 10),
        (32, 30),
    ]
    assert facts.producers[7].state(7).last_offset == BATCHES - 1
    assert facts.epochs[-1][:3] == [1, 33, BATCHES - 1]


def test_the_last_batch_of_a_split_may_reach_into_the_next(log: Path) -> None:
    size = log.stat().st_size
    middle = size // 2 + 7
    splits = (Split(str(log), 0, middle, size), Split(str(log), middle, size, size))
    assert walked(log, splits) == in_one_go(log)
