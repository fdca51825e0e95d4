"""The log by examples: rolls, refusals, flush policies, committed reads. The proofs are in test_log_*.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkatool.engine.broker.producer_state import AppendOrigin
from kafkatool.engine.broker.refusals import (
    CorruptMessage,
    InvalidRecord,
    InvalidTxnState,
    OffsetOutOfRange,
    OffsetsOutOfOrder,
    RecordListTooLarge,
)
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.log.leftovers import Unfinished
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.log.reading import Isolation, read, records
from kafkatool.engine.log.segment_split import NotSplittable
from kafkatool.format.batch import (
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    Codec,
    NewRecord,
    TimestampType,
    read_header,
)
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message
from kafkatool.format.release import Release
from kafkatool.format.schema.control import write_end_marker
from tests.engine.crash_disk import CrashDisk, nothing

NOW = 1_700_000_000_000
Make = Callable[..., Log]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def open_with(left: LeftLog | None = None, **settings: object) -> Log:
        texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = read_config(texts, Release.V3_9)
        return open_log(Disk(), str(tmp_path / "t-0"), config, now_ms=NOW, left=left)

    return open_with


def one(value: bytes = b"v", *, time_ms: int = NOW, offset: int = 0, epoch: int = 0, **options: int) -> bytes:
    row = NewRecord(b"k", value, time_ms)
    return write_batch([row], base_offset=offset, partition_leader_epoch=epoch, **options)  # type: ignore[arg-type]


def lead(log: Log, data: bytes, now_ms: int = NOW) -> int:
    done = log.append_as_leader(data, leader_epoch=0, now_ms=now_ms)
    assert done is not None
    return done.first_offset


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# --- rolls ----------------------------------------------------------------------------------------------


def test_a_segment_may_be_filled_to_the_last_byte(make: Make) -> None:
    size = len(one())
    log = make(segment_bytes=3 * size)
    for _ in range(4):
        lead(log, one())
    assert bases(log) == [0, 3]


def test_the_records_clock_rolls_a_segment_and_the_wall_clock_only_where_they_have_none(make: Make) -> None:
    log = make(segment_ms=100)
    lead(log, one(time_ms=NOW), now_ms=NOW)
    lead(log, one(time_ms=NOW + 100), now_ms=NOW + 9000)
    assert bases(log) == [0]
    lead(log, one(time_ms=NOW + 101), now_ms=NOW)
    assert bases(log) == [0, 2]
    log.roll(NOW)
    lead(log, one(time_ms=-1), now_ms=NOW)
    lead(log, one(time_ms=-1), now_ms=NOW + 100)
    lead(log, one(time_ms=-1), now_ms=NOW + 101)
    assert bases(log) == [0, 2, 3, 5]


def test_an_offset_too_far_from_the_base_begins_a_segment_there(make: Make) -> None:
    log = make()
    log.append_as_follower(one(offset=5), now_ms=NOW)
    log.append_as_follower(one(offset=(1 << 31) - 1), now_ms=NOW)
    log.append_as_follower(one(offset=1 << 31), now_ms=NOW)
    assert bases(log) == [0, 1 << 31]
    far = one(offset=1 << 33) + one(offset=1 << 34) + one(offset=1 << 35)
    log.append_as_follower(far, now_ms=NOW)
    assert bases(log)[-3:] == [1 << 33, 1 << 34, 1 << 35]


def test_one_append_of_very_many_batches_does_not_overrun_a_tiny_index(make: Make) -> None:
    log = make(segment_index_bytes=40, index_interval_bytes=0)
    log.append_as_follower(b"".join(one(offset=at) for at in range(50)), now_ms=NOW)
    assert bases(log) == list(range(0, 50, 6))
    assert [record.offset for record in records(log, 0)] == list(range(50))
    assert all(len(segment.offset_entries()) <= 5 for segment in log.segments)


def test_a_log_reopened_over_and_over_can_still_be_recovered(make: Make) -> None:
    """Every opening delays the next index entry, so more batches come in than a rebuilt index could hold."""
    settings = {"segment_index_bytes": 40, "index_interval_bytes": 100}
    for _ in range(20):
        log = make(LeftLog(is_clean=True), **settings)
        lead(log, one())
        log.close()
    again = make(LeftLog(), **settings)
    assert [record.offset for record in records(again, 0)] == list(range(20))
    assert len(again.segments[0].offset_entries()) == 5


# --- refusals -------------------------------------------------------------------------------------------


def test_a_refused_follower_append_leaves_no_segment_above_the_end(make: Make) -> None:
    log = make(segment_bytes=150)
    open_txn = one(producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_MASK)
    log.append_as_follower(open_txn, now_ms=NOW)
    with pytest.raises(InvalidTxnState):
        log.append_as_follower(one(offset=70, producer_id=1, producer_epoch=0, base_sequence=1), now_ms=NOW)
    assert bases(log) == [0]
    assert log.log_end_offset == 1
    assert log.epochs.entries == [(0, 0)]


def test_a_follower_takes_all_of_an_append_or_nothing(make: Make) -> None:
    log = make(segment_bytes=250)
    broken = bytearray(one(offset=1))
    broken[-1] ^= 1
    with pytest.raises(CorruptMessage):
        log.append_as_follower(one() + bytes(broken), now_ms=NOW)
    with pytest.raises(OffsetsOutOfOrder):
        log.append_as_follower(one(offset=1) + one(offset=1), now_ms=NOW)
    with pytest.raises(RecordListTooLarge):
        log.append_as_follower(b"".join(one(offset=at) for at in range(9)), now_ms=NOW)
    assert log.log_end_offset == 0
    assert log.append_as_follower(one()[:-1], now_ms=NOW) is None


def test_a_follower_leaves_out_what_a_later_leader_wrote(make: Make) -> None:
    log = make()
    log.append_as_follower(one() + one(offset=1, epoch=7), now_ms=NOW, leader_epoch=3)
    assert log.log_end_offset == 1


def test_a_leader_does_not_go_back_to_an_older_epoch(make: Make) -> None:
    log = make()
    log.become_leader(4)
    with pytest.raises(InvalidRecord):
        lead(log, one())


# --- what a leader writes into a batch --------------------------------------------------------------------


def test_append_time_replaces_the_producers_clock(make: Make) -> None:
    log = make(message_timestamp_type="LogAppendTime")
    lead(log, one(time_ms=5), now_ms=NOW)
    header = read_header(log.segments[0].read(0, 61))
    assert (header.timestamp_type, header.base_timestamp, header.max_timestamp) == (
        TimestampType.LOG_APPEND,
        5,
        NOW,
    )
    assert [record.timestamp_ms for record in records(log, 0)] == [NOW]


def test_the_topics_codec_replaces_the_producers(make: Make) -> None:
    log = make(compression_type="zstd")
    rows = [NewRecord(b"k", b"v" * 50, NOW + at) for at in range(5)]
    lead(log, write_batch(rows, codec=Codec.GZIP))
    assert read_header(log.segments[0].read(0, 61)).codec_label == "zstd"
    assert [record.timestamp_ms for record in records(log, 0)] == [row.timestamp_ms for row in rows]


# --- flushing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "survivors"),
    [
        ({}, [0] * 6),
        ({"flush.messages": "1"}, [1, 2, 3, 4, 5, 6]),
        ({"flush.messages": "3"}, [0, 0, 3, 3, 3, 6]),
        ({"flush.ms": "200"}, [0, 2, 2, 4, 4, 6]),
    ],
)
def test_what_survives_a_power_cut_is_what_the_flush_policy_says(
    tmp_path: Path, settings: dict[str, str], survivors: list[int]
) -> None:
    (tmp_path / "disk").mkdir()
    disk = CrashDisk(tmp_path / "disk")
    config = read_config(settings)
    log = open_log(disk, f"{disk.root}/t-0", config, now_ms=NOW)
    counts = []
    for at in range(1, 7):
        log.append_as_leader(one(), leader_epoch=0, now_ms=NOW + 100 * at)
        assert log.recovery_point == survivors[at - 1]
        left = disk.survivors(tmp_path / str(at), keep=nothing) / "t-0"
        counts.append(open_log(Disk(), str(left), config, now_ms=NOW).log_end_offset)
    assert counts == survivors


def test_an_idle_log_is_flushed_when_its_time_has_come(make: Make) -> None:
    log = make(flush_ms=200)
    lead(log, one(), now_ms=NOW)
    log.flush_if_due(NOW + 199)
    assert log.recovery_point == 0
    log.flush_if_due(NOW + 200)
    assert log.recovery_point == 1


# --- reading --------------------------------------------------------------------------------------------


def test_readers_see_what_is_decided(make: Make) -> None:
    log = make(segment_bytes=300)

    def send(value: bytes, producer: int, sequence: int) -> None:
        lead(
            log,
            one(
                value,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                attributes=TRANSACTIONAL_MASK,
            ),
        )

    def finish(producer: int, *, committed: bool) -> None:
        key, value = write_end_marker(committed, 0)
        flags = TRANSACTIONAL_MASK | CONTROL_MASK
        data = write_batch(
            [NewRecord(key, value, NOW)], producer_id=producer, producer_epoch=0, attributes=flags
        )
        log.append_as_leader(data, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)

    def values(isolation: Isolation) -> list[bytes | None]:
        return [record.value for record in records(log, 0, isolation, max_bytes=1)]

    log.high_watermark = 0
    send(b"a1", 1, 0)
    send(b"b1", 2, 0)
    lead(log, one(b"plain"))
    send(b"a2", 1, 1)
    finish(1, committed=False)
    finish(2, committed=True)
    send(b"a3", 1, 2)
    finish(1, committed=True)
    send(b"b2", 2, 1)
    assert values(Isolation.LOG_END) == [b"a1", b"b1", b"plain", b"a2", b"a3", b"b2"]
    log.high_watermark = 5
    assert values(Isolation.HIGH_WATERMARK) == [b"a1", b"b1", b"plain", b"a2"]
    assert (log.last_stable_offset, values(Isolation.COMMITTED)) == (1, [])
    log.high_watermark = 6
    assert values(Isolation.COMMITTED) == [b"b1", b"plain"]
    log.high_watermark = 9
    assert log.last_stable_offset == 8
    assert values(Isolation.COMMITTED) == [b"b1", b"plain", b"a3"]


def test_a_transaction_that_began_before_the_start_of_the_log_is_unstable_from_there_on(make: Make) -> None:
    log = make()
    lead(log, one(producer_id=1, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL_MASK))
    for _ in range(3):
        lead(log, one(b"plain"))
    assert log.last_stable_offset == 0
    log.advance_start(2)
    assert log.last_stable_offset == 2
    assert list(records(log, 2, Isolation.COMMITTED)) == []


def test_the_first_batch_is_given_whole_if_asked_for(make: Make) -> None:
    log = make()
    lead(log, one())
    lead(log, one())
    size = len(one())
    assert len(read(log, 0, max_bytes=1).data) == size
    cut = read(log, 0, max_bytes=size - 1, at_least_one=False)
    assert (len(cut.data), cut.first_batch_is_cut) == (size - 1, True)
    assert len(read(log, 0, max_bytes=size + 5).data) == size + 5
    assert read(log, 2, max_bytes=99).data == b""
    log.advance_start(1)
    with pytest.raises(OffsetOutOfRange):
        read(log, 0, max_bytes=99)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_far_apart_get_segments_of_their_own(make: Make, magic: int) -> None:
    offsets = [3, 4, 1 << 33, (1 << 33) + 1, 1 << 35]
    log = make()
    log.append_as_follower(
        b"".join(write_message(at, b"k", b"%d" % at, magic=magic) for at in offsets), now_ms=NOW
    )
    assert [row.offset for row in records(log, 0)] == offsets
    assert len(log.segments) == 3
    log.abandon()
    assert [row.offset for row in records(make(), 0)] == offsets


# --- opening --------------------------------------------------------------------------------------------


def test_a_log_below_its_start_begins_anew_there(make: Make) -> None:
    log = make()
    lead(log, one())
    log.close()
    again = make(left=LeftLog(log_start_offset=9, is_clean=True))
    assert (again.log_start_offset, again.log_end_offset, bases(again)) == (9, 9, [9])
    assert again.epochs.entries == []


def test_a_swap_that_counts_is_finished_and_one_that_does_not_is_undone(make: Make, tmp_path: Path) -> None:
    log = make()
    for _ in range(3):
        lead(log, one())
    log.close()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    swap, cleaned = path.with_suffix(".log.swap"), path.with_suffix(".index.cleaned")
    for beside, expected in ((cleaned, 3), (None, 1)):
        swap.write_bytes(one())
        if beside is not None:
            beside.write_bytes(b"")
        again = make(LeftLog())
        assert again.log_end_offset == expected
        again.close()
        assert not swap.exists()
        assert not cleaned.exists()


def test_a_leftover_without_an_offset_stops_us_as_it_stops_a_broker(make: Make, tmp_path: Path) -> None:
    make().close()
    (tmp_path / "t-0" / "strange.swap").write_bytes(b"")
    with pytest.raises(Unfinished, match="no offset in the name"):
        make()


def overflowing(first: int = 0) -> list[bytes]:
    """Batches that no single segment can hold."""
    starts = (first, first + 1, first + (1 << 31) + 5, first + (1 << 31) + 9, first + (1 << 33))
    return [one(b"%d" % start, offset=start) for start in starts]


@pytest.mark.parametrize("first", [0, 7])
def test_a_segment_that_spans_too_many_offsets_is_split(make: Make, tmp_path: Path, first: int) -> None:
    make().close()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(b"".join(overflowing(first)))
    os.utime(path, ns=(1_000_000_000, 1_000_000_000))
    log = make(LeftLog())
    assert bases(log) == [first, first + (1 << 31) + 5, first + (1 << 33)]
    assert [row.value for row in records(log, first)] == [
        b"%d" % read_header(data).base_offset for data in overflowing(first)
    ]
    assert {os.stat(name).st_mtime_ns for name in (tmp_path / "t-0").glob("*.log")} == {1_000_000_000}
    assert log.log_end_offset == first + (1 << 33) + 1
    log.close()


@pytest.mark.parametrize(
    "batches",
    [
        [one(offset=1 << 33), one(offset=3)],
        [*overflowing(), b"torn in the middle of a batch"],
        [one(offset=1 << 33), one(offset=1 << 30), one(offset=1 << 33)],
    ],
    ids=["it does not end too far", "torn", "the same base twice"],
)
def test_what_a_broker_cannot_split_is_refused(make: Make, tmp_path: Path, batches: list[bytes]) -> None:
    make().close()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(b"".join(batches))
    with pytest.raises(NotSplittable):
        make(LeftLog())
    assert path.read_bytes() == b"".join(batches)


def test_a_lost_time_index_comes_back_empty_and_a_lost_index_is_built_anew(
    make: Make, tmp_path: Path
) -> None:
    log = make(segment_bytes=300, index_interval_bytes=50)
    for at in range(9):
        lead(log, one(time_ms=NOW + at))
    log.close()
    first, second = sorted((tmp_path / "t-0").glob("*.index"))[:2]
    before = first.read_bytes()
    assert before
    first.unlink()
    second.with_suffix(".timeindex").unlink()
    (tmp_path / "t-0" / "00000000000000000099.index").write_bytes(b"orphan")
    make(LeftLog(is_clean=True), segment_bytes=300, index_interval_bytes=50).close()
    assert first.read_bytes() == before
    assert second.with_suffix(".timeindex").read_bytes() == b""
    assert not (tmp_path / "t-0" / "00000000000000000099.index").exists()
