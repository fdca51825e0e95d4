from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError, TooLarge
from kafkatool.format import legacy
from kafkatool.format.batch import Codec, TimestampType
from kafkatool.format.legacy import read_legacy_header, read_messages, write_message, write_wrapper
from tests.logs import TIME, keys

LIMIT = 1 << 20
V0 = bytes.fromhex("0000000000000007000000101fecd70a0000000000016b0000000176")
V1 = bytes.fromhex("00000000000000080000001b8ee30bba01000000018bcfe56800ffffffff0000000568656c6c6f")


def test_known_messages_decode_and_encode() -> None:
    (first,) = read_messages(V0, max_inflated=LIMIT)
    (second,) = read_messages(V1, max_inflated=LIMIT)
    assert (first.offset, first.key, first.value, first.timestamp_ms) == (7, b"k", b"v", -1)
    assert (second.offset, second.key, second.value, second.timestamp_ms) == (8, None, b"hello", TIME)
    assert legacy.is_valid(V0)
    assert legacy.is_valid(V1)
    assert write_message(7, b"k", b"v", magic=0) == V0
    assert write_message(8, None, b"hello", magic=1, timestamp_ms=TIME) == V1


@given(keys, keys, st.integers(0, 1), st.integers(0, 1 << 40))
def test_messages_come_back(key: bytes | None, value: bytes | None, magic: int, offset: int) -> None:
    (message,) = read_messages(write_message(offset, key, value, magic=magic), max_inflated=LIMIT)
    assert (message.offset, message.key, message.value, message.is_valid) == (offset, key, value, True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_wrapped_messages_have_absolute_offsets(codec: Codec, magic: int) -> None:
    entries = [write_message(40 + at, b"k", b"v", magic=magic, timestamp_ms=TIME + at) for at in range(3)]
    data = write_wrapper(entries, codec, magic=magic, timestamp_ms=TIME + 2)
    assert read_legacy_header(data).last_offset == 42
    assert [m.offset for m in read_messages(data, max_inflated=LIMIT)] == [40, 41, 42]


def test_a_wrapper_with_append_time_gives_its_time_to_all() -> None:
    entries = [write_message(at, None, b"v", magic=1, timestamp_ms=at) for at in range(2)]
    inner = write_wrapper(entries, Codec.GZIP, timestamp_ms=TIME)
    (wrapped,) = read_messages(inner[:17] + b"\0" + inner[18:], max_inflated=LIMIT)
    data = write_message(1, None, wrapped.value, attributes=Codec.GZIP | 0x08, timestamp_ms=TIME)
    assert read_legacy_header(data).timestamp_type is TimestampType.LOG_APPEND
    assert [m.timestamp_ms for m in read_messages(data, max_inflated=LIMIT)] == [TIME, TIME]


def test_a_wrapper_at_offset_0_counts_from_0() -> None:
    entries = [write_message(at, None, b"v") for at in range(3)]
    data = bytes(8) + write_wrapper(entries, Codec.GZIP)[8:]
    assert [m.offset for m in read_messages(data, max_inflated=LIMIT)] == [0, 1, 2]


def test_a_wrapper_below_its_last_message_is_refused() -> None:
    entries = [write_message(at, None, b"v") for at in range(3)]
    data = (1).to_bytes(8, "big") + write_wrapper(entries, Codec.GZIP)[8:]
    with pytest.raises(FormatError, match="wrapper offset"):
        list(read_messages(data, max_inflated=LIMIT))


def test_a_compressed_message_inside_a_wrapper_is_refused() -> None:
    nested = write_wrapper([write_message(0, None, b"v")], Codec.GZIP)
    with pytest.raises(FormatError, match="inner message"):
        list(read_messages(write_wrapper([nested], Codec.GZIP), max_inflated=LIMIT))


def test_zstd_is_refused_in_a_wrapper() -> None:
    with pytest.raises(FormatError, match="zstd"):
        list(read_messages(write_message(0, None, b"v", attributes=Codec.ZSTD), max_inflated=LIMIT))


def test_a_wrapper_that_inflates_beyond_the_limit_is_too_large() -> None:
    data = write_wrapper([write_message(0, None, bytes(8 << 20))], Codec.GZIP)
    with pytest.raises(TooLarge):
        list(read_messages(data, max_inflated=LIMIT))


def test_a_value_that_does_not_fit_is_an_error_only_when_asked_for() -> None:
    data = V1[:30] + (99).to_bytes(4, "big") + V1[34:]
    (message,) = read_messages(data, max_inflated=LIMIT)
    assert message.value_size == 99
    with pytest.raises(FormatError):
        _ = message.value


@given(st.binary(max_size=120))
def test_any_bytes_give_messages_or_a_format_error(data: bytes) -> None:
    with suppress(FormatError):
        for message in read_messages(data, max_inflated=LIMIT):
            _ = message.key, message.value
