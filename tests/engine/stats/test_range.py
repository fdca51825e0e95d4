"""Numbers of a range equal those of a plain count over decoded records, for any splits and any damage."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.batches.seek import EVERYWHERE, Range
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.files.source import FileSource, Guest
from kafkatool.engine.jobs.survey import Split, Task, survey
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.stats.grouping import By
from kafkatool.engine.stats.statistics import Statistics, StatsGroup, StatsRequest
from kafkatool.engine.stats.walk import LogStats, StatsJob
from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from tests.engine.disk import START_MS, write_partition
from tests.engine.stats_reference import (
    NOW,
    check_counts,
    fingerprint,
    logs_of,
    plain_range,
    read_plainly,
    starts_of,
)
from tests.logs import LOG, TIME, batches, write_log
from tests.places import FIXTURES

QUICK = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
offsets = st.none() | st.integers(-1, 620)
times = st.none() | st.integers(TIME - 1, TIME + 52_000)
ranges = st.builds(Range, offsets, offsets, times, times)


def groups(
    directory: Path,
    wanted: Range,
    *,
    deep: bool,
    jobs: int = 1,
    by: By = By.PARTITION,
    split_size: int | None = None,
) -> list[StatsGroup]:
    run = Statistics(expand([str(directory)]).targets, Guest(), wanted)
    with workers(jobs) as pool:
        return list(run.groups(StatsRequest(NOW, by, deep, split_size), pool))


def check_range(directory: Path, wanted: Range, *, deep: bool) -> None:
    """What is told of a partition is what a plain count says; it is not told of if there is nothing."""
    logs = plain_range([read_plainly(path) for path in logs_of(directory)], wanted, deep=deep)
    *found, total = groups(directory, wanted, deep=deep)
    if found:
        check_counts(found[0], logs)
    else:
        assert not any(log.batches for log in logs)
    assert total.stats.records == sum(batch.count for log in logs for batch in log.batches)


@pytest.mark.parametrize("deep", [False, True])
@QUICK
@given(wanted=ranges)
def test_a_range_counts_as_a_plain_count_does(log: Path, deep: bool, wanted: Range) -> None:
    check_range(log.parent, wanted, deep=deep)


@pytest.mark.parametrize("deep", [False, True])
def test_ranges_of_every_fixture_count_as_a_plain_count_does(deep: bool) -> None:
    checked = 0
    for directory in sorted({path.parent for path in FIXTURES.rglob("*.log")})[::3]:
        plain = [batch for path in logs_of(directory) for batch in read_plainly(path).batches]
        if not plain:
            continue
        middle, last = plain[len(plain) // 2], plain[-1]
        moments = sorted(batch.greatest_ms for batch in plain)
        for wanted in (
            Range(from_offset=middle.first + 1),
            Range(to_offset=middle.last),
            Range(middle.first, last.last),
            Range(from_ms=moments[len(moments) // 3], to_ms=moments[-1]),
        ):
            check_range(directory, wanted, deep=deep)
            checked += 1
    assert checked > 80


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("wanted", [Range(0), Range(to_offset=10**18), Range(0, 10**19, -1, 10**18)])
def test_a_range_that_holds_everything_leaves_nothing_out(log: Path, deep: bool, wanted: Range) -> None:
    every, some = (groups(log.parent, one, deep=deep) for one in (EVERYWHERE, wanted))
    assert [fingerprint(one) for one in some] == [fingerprint(one) for one in every]


# --- what is counted how ----------------------------------------------------------------------------------


def test_by_headers_a_batch_counts_as_a_whole_and_by_records_exactly(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"".join(batches(10, per_batch=10)))
    wanted = Range(15, 42)
    whole, exact = (groups(tmp_path / "t-0", wanted, deep=deep)[0].stats for deep in (False, True))
    assert (whole.batches, whole.records, whole.offsets.first, whole.offsets.last) == (4, 40, 10, 49)
    assert (exact.batches, exact.records, exact.offsets.first, exact.offsets.last) == (4, 27, 15, 41)
    assert exact.offsets.missing == 0
    assert exact.deep is not None
    assert exact.deep.records == 27


def test_by_headers_the_greatest_time_decides_so_that_ranges_come_to_the_whole(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"".join(batches(10, per_batch=10)))  # a second a record
    cuts = [None, TIME + 5_000, TIME + 39_000, TIME + 39_001, None]
    for deep in (False, True):
        parts = [Range(from_ms=a, to_ms=b) for a, b in itertools.pairwise(cuts)]
        counts = [groups(tmp_path / "t-0", one, deep=deep)[-1].stats.records for one in parts]
        assert counts == ([5, 34, 1, 60] if deep else [0, 30, 10, 60])


def test_batches_left_out_for_their_times_are_no_gap(tmp_path: Path) -> None:
    order = [0, 90, 1, 91, 2, 92]
    data = [write_batch([NewRecord(b"k", b"", TIME + t)], base_offset=n) for n, t in enumerate(order)]
    data.append(write_batch([NewRecord(b"k", b"", TIME + 3)], base_offset=8))  # 6 and 7 are missing
    data.append(write_batch([NewRecord(b"k", b"", TIME + 4)], base_offset=10))  # and 9
    write_log(tmp_path / "t-0", b"".join(data))
    for deep in (False, True):
        found = groups(tmp_path / "t-0", Range(to_ms=TIME + 50), deep=deep)[0].stats
        assert (found.batches, found.offsets.gaps, found.offsets.missing) == (5, 1, 1)


@pytest.mark.long
def test_a_batch_in_many_pieces_is_asked_record_by_record(tmp_path: Path) -> None:
    rows = [NewRecord(b"k%d" % (n % 1000), b"", TIME + n) for n in range(70_000)]
    for codec in (Codec.NONE, Codec.LZ4):
        log = write_log(tmp_path / f"{codec.label}-0", write_batch(rows, codec=codec))
        check_range(log.parent, Range(30_000, 60_000), deep=True)
        check_range(log.parent, Range(from_ms=TIME + 65_000), deep=True)
    check_range(log.parent, Range(from_ms=TIME + 70_000), deep=True)


def test_more_batches_than_fit_into_a_table(tmp_path: Path) -> None:
    """Their records are read before the table is added up."""
    data = b"".join(write_batch([NewRecord(None, None, TIME + n)], base_offset=n) for n in range(20_000))
    log = write_log(tmp_path / "t-0", data)
    for wanted in (Range(100, 19_000), Range(from_ms=TIME + 17_000)):
        check_range(log.parent, wanted, deep=True)


# --- any splits, any workers, any damage ------------------------------------------------------------------


def walked(log: Path, cuts: list[int], wanted: Range, *, deep: bool) -> LogStats:
    size = log.stat().st_size
    splits = tuple(Split(str(log), a, b, size) for a, b in zip([0, *cuts], [*cuts, size], strict=True))
    job = StatsJob(NOW, deep, seed=7, wanted=wanted)
    with workers(1) as pool:
        [(_key, found)] = survey(iter([Task(0, job, splits)]), pool)
    return found


@QUICK
@given(data=st.data(), wanted=ranges, deep=st.booleans())
def test_any_cuts_and_any_damage_give_the_same_answer(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, wanted: Range, deep: bool
) -> None:
    raw = bytearray(log.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    copy = write_log(tmp_path_factory.mktemp("damaged"), bytes(raw))
    cuts = data.draw(st.sets(st.sampled_from(starts_of(log)[1:]) | st.integers(1, len(raw) - 1), max_size=8))
    some, whole = walked(copy, sorted(cuts), wanted, deep=deep), walked(copy, [], wanted, deep=deep)
    assert fingerprint(some.stats) == fingerprint(whole.stats)
    assert (some.failure, some.unreadable_blocks) == (None, 0)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments of 60 records, a batch of two a second."""
    return write_partition(tmp_path_factory.mktemp("logs"), "orders-0", segments=4)


@pytest.mark.long
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        Range(61, 200),
        Range(from_offset=239),
        Range(to_offset=60),
        Range(from_ms=START_MS + 50_000),
        Range(from_ms=START_MS + 29_001, to_ms=START_MS + 60_000),
        Range(from_offset=100, to_ms=START_MS + 100_001),
    ],
)
def test_any_number_of_workers_gives_the_same_answer(indexed: Path, wanted: Range, deep: bool) -> None:
    check_range(indexed, wanted, deep=deep)
    for by in By:
        alone = groups(indexed, wanted, deep=deep, by=by)
        for jobs in (2, 3):
            several = groups(indexed, wanted, deep=deep, by=by, jobs=jobs, split_size=5000)
            assert [fingerprint(one) for one in several] == [fingerprint(one) for one in alone]


@pytest.mark.parametrize(
    ("wanted", "segments"),
    [
        (Range(from_offset=230), [180]),
        (Range(from_offset=1000), [180]),
        (Range(to_offset=8), [0]),
        (Range(70, 121), [60, 120]),
        (Range(to_offset=0), []),
    ],
)
def test_segments_outside_of_the_range_are_not_read(
    indexed: Path, wanted: Range, segments: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reads(monkeypatch)
    groups(indexed, wanted, deep=True)
    assert {name for name, _position in read} == {segment_file(base, ".log") for base in segments}


@pytest.mark.parametrize("wanted", [Range(from_offset=230), Range(from_ms=START_MS + 118_000)])
def test_a_segment_is_read_from_where_its_indexes_lead(
    indexed: Path, wanted: Range, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reads(monkeypatch)
    groups(indexed, wanted, deep=True)
    size = (indexed / LOG).stat().st_size
    assert min(position for _name, position in read) > size // 2


def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Name and position of what is read from now on of logs."""
    found: list[tuple[str, int]] = []
    was = FileSource.read

    def noted(source: FileSource, position: int, size: int) -> bytes:
        if source.name.endswith(".log"):
            found.append((Path(source.name).name, position))
        return was(source, position, size)

    monkeypatch.setattr(FileSource, "read", noted)
    return found


def test_damage_counts_where_it_may_have_cost_something_in_the_range(tmp_path: Path) -> None:
    parts = batches(10)  # three records each
    bad = bytearray(parts[5])
    bad[-1] ^= 1
    write_log(tmp_path / "t-0", b"".join([*parts[:5], bytes(bad), *parts[6:]])[:-5])
    for wanted, classes in {
        Range(to_offset=15): {},
        Range(to_offset=16): {"bad_crc"},
        Range(17, 20): {"bad_crc"},
        Range(18, 20): {},
        Range(18, 27): {},
        Range(18, 28): {"torn_tail"},
        Range(from_offset=1000): {"torn_tail"},
        Range(from_ms=TIME): {"bad_crc", "torn_tail"},
    }.items():
        for deep in (False, True):
            total = groups(tmp_path / "t-0", wanted, deep=deep)[-1]
            assert set(total.stats.damages.classes) == set(classes), wanted
