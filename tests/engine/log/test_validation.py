"""What a leader refuses and what it changes; tests/kafka/writing/test_log_parity.py asks brokers the same."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.broker.producer_state import AppendOrigin
from kafkatool.engine.broker.refusals import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    LogRefusal,
    MessageTooLarge,
)
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.log.validation import LeaderValidation, split_batches
from kafkatool.format.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Codec,
    NewRecord,
    is_valid,
    read_header,
    seal,
)
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from kafkatool.format.record import read_records

NOW = 1_700_000_000_000
BOUNDS = {"message.timestamp.before.max.ms": "10", "message.timestamp.after.max.ms": "10"}
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
GOOD = write_batch([NewRecord(b"k%d" % at, b"value", NOW + at) for at in range(3)])


class Stamped(NamedTuple):
    header: BatchHeader
    data: bytes


def stamp(
    data: bytes, settings: dict[str, str] | None = None, origin: AppendOrigin = AppendOrigin.CLIENT
) -> Stamped:
    validation = LeaderValidation(read_config(settings or {}), 7, origin, NOW)
    header, stamped = validation.stamp(list(split_batches(data)), 40)
    assert isinstance(header, BatchHeader)
    return Stamped(header, bytes(stamped))


def changed(data: bytes = GOOD, **fields: int) -> bytes:
    header: BatchHeader = read_header(data)
    return seal(header._replace(**fields), data[HEADER_SIZE:])


def test_offsets_and_epoch_are_written_and_nothing_else() -> None:
    stamped = stamp(GOOD)
    assert (stamped.header.base_offset, stamped.header.partition_leader_epoch) == (40, 7)
    assert bytes(stamped.data[16:]) == GOOD[16:]


@pytest.mark.parametrize(
    ("data", "settings", "reason"),
    [
        (GOOD[:-1] + b"\xff", {}, CorruptMessage),
        (GOOD + GOOD, {}, InvalidRecord),
        (changed(base_offset=1), {}, InvalidRecord),
        (changed(records_count=2), {}, InvalidRecord),
        (changed(records_count=2, last_offset_delta=1), {}, InvalidRecord),
        (changed(last_offset_delta=-1), {}, InvalidRecord),
        (changed(attributes=CONTROL_MASK), {}, InvalidRecord),
        (changed(attributes=int(Codec.GZIP)), {}, InvalidRecord),
        (changed(attributes=6), {}, InvalidRecord),
        (changed(producer_id=4), {}, InvalidRecord),
        (write_batch([NewRecord(None, b"", NOW)]), {"cleanup.policy": "delete,compact"}, InvalidRecord),
        (GOOD, {"max.message.bytes": "60"}, MessageTooLarge),
        (write_batch([NewRecord(b"", b"", NOW - 11)]), BOUNDS, InvalidTimestamp),
        (write_batch([NewRecord(b"", b"", NOW + 11)]), BOUNDS, InvalidTimestamp),
        (changed(attributes=TIMESTAMP_TYPE_MASK), APPEND_TIME, InvalidTimestamp),
    ],
)
def test_what_breaks_a_rule_is_refused(data: bytes, settings: dict[str, str], reason: type) -> None:
    with pytest.raises(reason):
        stamp(data, settings)


def test_a_time_at_the_bound_is_taken() -> None:
    stamp(write_batch([NewRecord(b"", b"", NOW - 10), NewRecord(b"", b"", NOW + 10)]), BOUNDS)


def test_a_wrong_largest_time_is_put_right() -> None:
    stamped = stamp(changed(max_timestamp=1))
    assert stamped.header.max_timestamp == NOW + 2
    assert is_valid(stamped.data)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "lz4", "snappy", "zstd"])
def test_another_codec_keeps_the_records(codec: Codec, target: str) -> None:
    rows = [NewRecord(b"k", b"v" * at, NOW - at, [(b"h", None)]) for at in range(9)]
    stamped = stamp(write_batch(rows, codec=codec), {"compression.type": target})
    assert stamped.header.codec_label == ("none" if target == "uncompressed" else target)
    assert is_valid(stamped.data)
    got = [(row.offset, row.timestamp_ms, row.value) for row in read_records(stamped.header, stamped.data)]
    assert got == [(40 + at, row.timestamp_ms, row.value) for at, row in enumerate(rows)]


@given(st.binary(max_size=200), st.integers(0, len(GOOD)), st.sampled_from(list(AppendOrigin)))
def test_any_bytes_are_taken_or_refused(junk: bytes, at: int, origin: AppendOrigin) -> None:
    for data in (junk, GOOD[:at] + junk, GOOD[:at] + junk + GOOD[at + len(junk) :]):
        with suppress(LogRefusal):
            if list(split_batches(data)):
                stamp(data, origin=origin)


@given(st.sampled_from(list(AppendOrigin)), st.integers(17, len(GOOD) - 1), st.integers(1, 255))
def test_a_resealed_change_is_taken_or_refused(origin: AppendOrigin, at: int, flip: int) -> None:
    mutated = bytearray(GOOD)
    mutated[at] ^= flip
    data = seal(read_header(mutated), bytes(mutated[HEADER_SIZE:]))
    with suppress(LogRefusal):
        stamp(data, origin=origin)


# --- magic 0 and 1 ------------------------------------------------------------------------------------


def old(magic: int, *, key: bytes | None = b"k", time_ms: int = NOW) -> list[bytes]:
    return [write_message(at, key, b"v%d" % at, magic=magic, timestamp_ms=time_ms + at) for at in range(3)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_old_messages_become_one_batch(magic: int, codec: Codec) -> None:
    data = write_wrapper(old(magic), codec, magic=magic) if codec else b"".join(old(magic))
    stamped = stamp(data)
    assert is_valid(stamped.data)
    assert (stamped.header.magic, stamped.header.partition_leader_epoch) == (2, 7)
    assert stamped.header.codec_label == codec.label
    times = [NOW, NOW + 1, NOW + 2] if magic else [-1, -1, -1]
    rows = [(row.offset, row.timestamp_ms, row.value) for row in read_records(*stamped)]
    assert rows == [(40 + at, times[at], b"v%d" % at) for at in range(3)]


@pytest.mark.parametrize(
    ("data", "settings", "reason"),
    [
        (old(1)[0][:-1] + b"?", {}, CorruptMessage),
        (old(1)[0] + old(0)[0], {}, InvalidRecord),
        (old(1)[0] + GOOD, {}, InvalidRecord),
        (write_wrapper(old(1), Codec.GZIP) * 2, {}, InvalidRecord),
        (write_wrapper(old(0), Codec.GZIP), {}, InvalidRecord),
        (write_wrapper([old(1)[0][:-1] + b"?"], Codec.GZIP), {}, CorruptMessage),
        (write_message(0, b"k", b"no gzip", attributes=int(Codec.GZIP)), {}, InvalidRecord),
        (write_message(0, b"k", None, attributes=int(Codec.LZ4)), {}, InvalidRecord),
        (write_message(0, b"k", b"v", attributes=6), {}, InvalidRecord),
        (old(1, key=None)[0], {"cleanup.policy": "compact"}, InvalidRecord),
        (old(1, time_ms=NOW - 100)[0], BOUNDS, InvalidTimestamp),
        (old(1, time_ms=-7)[0], {}, InvalidTimestamp),
        (write_message(0, b"k", b"v", attributes=TIMESTAMP_TYPE_MASK), APPEND_TIME, InvalidTimestamp),
        (old(1)[0], {"max.message.bytes": "30"}, MessageTooLarge),
    ],
)
def test_old_messages_that_break_a_rule_are_refused(
    data: bytes, settings: dict[str, str], reason: type
) -> None:
    with pytest.raises(reason):
        stamp(data, settings)


@given(
    st.sampled_from([b"".join(old(0)), b"".join(old(1)), write_wrapper(old(1), Codec.GZIP)]),
    st.integers(8, 60),
    st.binary(min_size=1, max_size=30),
)
def test_any_old_messages_are_taken_or_refused(data: bytes, at: int, junk: bytes) -> None:
    """With the right checksum, whatever it covers."""
    mutated = data[:at] + junk + data[at + len(junk) :]
    size = int.from_bytes(mutated[8:12], "big")
    crc = zlib.crc32(mutated[16 : 12 + size]).to_bytes(4, "big")
    for each in (mutated, mutated[:12] + crc + mutated[16:]):
        with suppress(LogRefusal):
            if list(split_batches(each)):
                stamp(each)


def test_a_coordinator_is_not_believed_everything_either() -> None:
    for data in (changed(last_offset_delta=-1), changed(attributes=7, records_count=0)):
        with pytest.raises(InvalidRecord):
            stamp(data, origin=AppendOrigin.COORDINATOR)
