"""Numbers equal those of a plain count, for any splits, any number of workers and any damage."""

from __future__ import annotations

import itertools
import pickle
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.commands.rows.stats import stats_row
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.survey import Split, Task, survey
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.stats.facts import Deep, Stats
from kafkatool.engine.stats.grouping import By
from kafkatool.engine.stats.statistics import Statistics, StatsGroup, StatsRequest
from kafkatool.engine.stats.walk import LogStats, StatsJob
from kafkatool.format.batch import CONTROL_MASK, TIMESTAMP_TYPE_MASK, TRANSACTIONAL_MASK, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from tests.engine.partitions_to_verify import batch, random_segment, with_something_done_to_it, write_segment
from tests.engine.stats_reference import NOW, check_counts, fingerprint, logs_of, read_plainly, starts_of
from tests.logs import TIME, batches, write_log
from tests.places import FIXTURES


def groups(*paths: Path, by: By = By.PARTITION, deep: bool = True, jobs: int = 1) -> list[StatsGroup]:
    run = Statistics(expand([str(path) for path in paths]).targets, Guest())
    with workers(jobs) as pool:
        return list(run.groups(StatsRequest(NOW, by, deep), pool))


@pytest.mark.parametrize("deep", [False, True])
def test_every_fixture_counts_as_a_plain_count_does(deep: bool) -> None:
    checked = 0
    for directory in sorted({path.parent for path in FIXTURES.rglob("*.log")}):
        found = groups(directory, deep=deep)
        check_counts(found[0], [read_plainly(path) for path in logs_of(directory)])
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_told_with_its_ratio(tmp_path: Path, codec: Codec) -> None:
    rows = [NewRecord(b"k%d" % n, b"value " * 50, TIME, [(b"h", b"x")]) for n in range(20)]
    data = b"".join(write_batch(rows, base_offset=20 * n, codec=codec) for n in range(30))
    write_log(tmp_path / "t-0", data)
    [group, _total] = groups(tmp_path / "t-0")
    ratio = stats_row(group)["codecs"][codec.label]["ratio"]
    assert ratio == 1 if codec is Codec.NONE else ratio > 5
    check_counts(group, [read_plainly(path) for path in logs_of(tmp_path / "t-0")])


def test_codecs_that_take_turns_are_told_apart(tmp_path: Path) -> None:
    data = b"".join(
        write_batch(
            [NewRecord(None, bytes(100 * (n % 7)), TIME, [(b"h", None)] * (n % 3))] * (n % 5),
            base_offset=10 * n,
            codec=list(Codec)[n * n % 5],
        )
        for n in range(200)
    )
    log = write_log(tmp_path / "t-0", data)
    [group, _total] = groups(tmp_path / "t-0")
    check_counts(group, [read_plainly(log)])


def test_a_batch_of_more_records_than_fit_at_once_is_counted_once(tmp_path: Path) -> None:
    rows = [NewRecord(b"k%d" % (n % 1000), b"", TIME) for n in range(70_000)]
    for codec in (Codec.NONE, Codec.LZ4):
        log = write_log(tmp_path / f"{codec.label}-0", write_batch(rows, codec=codec))
        [group, _total] = groups(log.parent)
        row = stats_row(group)
        assert (row["data_records"], row["keys"], row["batches"]) == (70_000, 1000, 1)
        check_counts(group, [read_plainly(log)])


def test_segments_of_a_partition_follow_each_other(tmp_path: Path) -> None:
    later, earlier = TIME + 10_000, TIME
    write_log(tmp_path / "t-0", write_batch([NewRecord(b"a", b"", later)]))
    write_log(
        tmp_path / "t-0",
        write_batch([NewRecord(b"a", b"", earlier)], base_offset=5),
        "00000000000000000005.log",
    )
    [partition, total] = groups(tmp_path / "t-0")
    row = stats_row(partition)
    assert (row["gaps"], row["missing_offsets"], row["out_of_order_batches"]) == (1, 4, 1)
    assert row["greatest_step_back_ms"] == 10_000
    assert (row["first_offset"], row["last_offset"]) == (0, 5)
    assert stats_row(total)["gaps"] == 1
    files = groups(tmp_path / "t-0", by=By.FILE)
    assert [stats_row(group)["gaps"] for group in files] == [0, 0, 1]


def test_partitions_stand_beside_each_other(tmp_path: Path) -> None:
    for number, first in enumerate((0, 100)):
        data = write_batch([NewRecord(b"k", b"", TIME - first)], base_offset=first)
        write_log(tmp_path / f"t-{number}", data)
    [topic, total] = groups(tmp_path / "t-0", tmp_path / "t-1", by=By.TOPIC)
    for row in (stats_row(topic), stats_row(total)):
        assert (row["gaps"], row["out_of_order_batches"], row["first_offset"]) == (0, 0, None)
        assert (row["partitions"], row["records"], row["keys"]) == (2, 2, 1)


def test_producers_transactions_and_markers_are_counted(tmp_path: Path) -> None:
    rows = [NewRecord(b"k", b"v", TIME)]
    data = (
        write_batch(rows, producer_id=1, producer_epoch=0, base_sequence=0)
        + write_batch(rows, base_offset=1, producer_id=2, producer_epoch=0, attributes=TRANSACTIONAL_MASK)
        + write_batch(
            [NewRecord(b"\0\0\0\1", b"\0" * 6, TIME + 10_000_000)],
            base_offset=2,
            producer_id=2,
            producer_epoch=0,
            attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
        )
        + write_batch(rows, base_offset=3)
    )
    log = write_log(tmp_path / "t-0", data)
    [group, _total] = groups(tmp_path / "t-0")
    row = stats_row(group)
    assert (row["producers"], row["idempotent_batches"]) == (2, 3)
    assert (row["transactional_batches"], row["control_batches"]) == (2, 1)
    assert row["data_records"] == 3
    assert row["future_batches"] == 0, "a marker's time is the broker's"
    check_counts(group, [read_plainly(log)])


def test_with_the_brokers_clock_the_base_timestamp_is_nobodys(tmp_path: Path) -> None:
    rows = [NewRecord(b"k", b"v", TIME - 1_000_000), NewRecord(b"k", b"v", TIME)]
    write_log(tmp_path / "t-0", write_batch(rows, attributes=TIMESTAMP_TYPE_MASK))
    row = stats_row(groups(tmp_path / "t-0", deep=False)[0])
    assert row["timestamp_types"] == {"LogAppendTime": 1}
    assert row["min_timestamp_ms"] == row["max_timestamp_ms"] == TIME


def test_old_formats_are_read_through_their_wrappers(tmp_path: Path) -> None:
    inner = [
        write_message(offset, b"k%d" % offset, b"v" * 100, timestamp_ms=TIME + offset)
        for offset in range(1, 9)
    ]
    data = (
        write_message(0, None, b"alone", magic=0)
        + write_wrapper(inner, Codec.GZIP, timestamp_ms=TIME + 8)
        + write_batch([NewRecord(b"k1", None, TIME + 9)], base_offset=9)
    )
    log = write_log(tmp_path / "t-0", data)
    for deep in (False, True):
        [group, _total] = groups(tmp_path / "t-0", deep=deep)
        row = stats_row(group)
        assert {magic: found["records"] for magic, found in row["magics"].items()} == {"0": 1, "1": 8, "2": 1}
        assert (row["gaps"], row["no_timestamp_batches"]) == (0, 1)
        check_counts(group, [read_plainly(log)])


def test_damage_is_left_out_and_counted(tmp_path: Path) -> None:
    pieces = batches(9)
    pieces[3] = pieces[3][:-1] + bytes([pieces[3][-1] ^ 1])
    log = write_log(tmp_path / "t-0", b"".join(pieces)[:-10])
    [group, total] = groups(tmp_path / "t-0")
    row = stats_row(group)
    assert row["damage_classes"] == {"bad_crc": 1, "torn_tail": 1}
    assert (row["batches"], row["damaged"]) == (7, 2)
    assert row["damaged_size"] + row["size"] == log.stat().st_size
    assert row["gaps"] == 1
    assert stats_row(total)["damage_classes"] == row["damage_classes"]
    check_counts(group, [read_plainly(log)])


# --- any splits, any workers --------------------------------------------------------------------------


def walked(log: Path, cuts: list[int], jobs: int = 1) -> LogStats:
    size = log.stat().st_size
    splits = tuple(Split(str(log), a, b, size) for a, b in zip([0, *cuts], [*cuts, size], strict=True))
    with workers(jobs) as pool:
        [(_key, found)] = survey(iter([Task(0, StatsJob(NOW, deep=True, seed=7), splits)]), pool)
    return found


@pytest.mark.parametrize("jobs", [1, 2, 3])
@pytest.mark.parametrize("every", [1, 7, 40])
def test_any_number_of_workers_gives_the_same_answer(log: Path, jobs: int, every: int) -> None:
    cuts = starts_of(log)[every::every]
    assert fingerprint(walked(log, cuts, jobs)) == fingerprint(walked(log, []))


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_cuts_and_any_damage_give_the_same_answer(
    log: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = bytearray(log.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    raw = raw[: data.draw(st.integers(len(raw) - 300, len(raw)))]
    copy = write_log(tmp_path_factory.mktemp("damaged"), bytes(raw))
    starts = [start for start in starts_of(log)[1:] if start < len(raw)]
    cuts = data.draw(st.sets(st.sampled_from(starts) | st.integers(1, len(raw) - 1), max_size=8))
    assert fingerprint(walked(copy, sorted(cuts))) == fingerprint(walked(copy, []))


@settings(max_examples=40)
@given(st.lists(st.integers(0, 59), max_size=6), st.data())
def test_joining_is_associative(log: Path, cuts: list[int], data: st.DataObject) -> None:
    starts = [*starts_of(log), log.stat().st_size]
    at = sorted({0, 60, *cuts})
    job, size = StatsJob(NOW, deep=True, seed=7), log.stat().st_size
    parts = [
        job.map(Split(str(log), starts[a], starts[b], size), None).stats for a, b in itertools.pairwise(at)
    ]
    follows = data.draw(st.booleans())
    forwards = joined(parts, follows)
    while len(parts) > 1:
        where = data.draw(st.integers(0, len(parts) - 2))
        parts[where : where + 2] = [joined(parts[where : where + 2], follows)]
    assert fingerprint(joined(parts, follows)) == fingerprint(forwards)


def joined(parts: list[Stats], follows: bool) -> Stats:
    whole = Stats(Deep())
    for part in parts:
        whole.join(pickle.loads(pickle.dumps(part)), follows=follows)
    return whole


@pytest.mark.parametrize("jobs", [2, 3])
def test_logs_are_cut_where_their_indexes_say(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 0, [batch(offset) for offset in range(40)])
    run = Statistics(expand([str(tmp_path / "t-0")]).targets, Guest())
    request = StatsRequest(NOW, deep=True, split_size=1000)
    with workers(jobs) as pool:
        assert len(next(run._tasks(request, pool)).splits) > 5
        [group, _total] = run.groups(request, pool)
    assert fingerprint(group.stats) == fingerprint(groups(tmp_path / "t-0")[0].stats)


def test_files_that_are_gone_or_grow_are_noted(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t-0", b"".join(batches(3)))
    run = Statistics(expand([str(tmp_path / "t-0")]).targets, Guest())
    log.unlink()
    with workers(1) as pool:
        [group, _total] = run.groups(StatsRequest(NOW), pool)
    assert group.stats.batches == 0
    assert run.summary.notes == [f"{log}: deleted since its directory was listed"]
    assert run.summary.failures == []


@pytest.mark.parametrize("start", [0, 1000])
def test_no_mutation_crashes_and_what_is_left_is_counted_plainly(tmp_path: Path, start: int) -> None:
    for number in range(start, start + 60):
        seed = random.Random(number)
        log = write_log(tmp_path / "t-0", with_something_done_to_it(seed, random_segment(seed)))
        [group, _total] = groups(log.parent)
        check_counts(group, [read_plainly(log)])
