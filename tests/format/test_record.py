from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError, TooLarge
from kafkatool.format import batch as b
from kafkatool.format.batch import BatchHeader, Codec, NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.record import read_records
from tests.logs import TIME, records

TWO_RECORDS = bytes.fromhex(
    "0000000000000064 00000044 00000000 02 534caa82 0000 00000001 0000018bcfe56800 0000018bcfe56805"
    "ffffffffffffffff ffff ffffffff 00000002 160000 00026b0276020268 01 0c000a02010000".replace(" ", "")
)
EMPTIED = bytes.fromhex(
    "0000000000000067 00000031 00000000 02 ac273757 0000 00000004 ffffffffffffffff 0000018bcfe568c8"
    "000000000000002a 0003 00000000 00000000".replace(" ", "")
)


def test_a_known_batch_decodes() -> None:
    header = read_header(TWO_RECORDS)
    first, second = read_records(header, TWO_RECORDS)
    assert b.is_valid(TWO_RECORDS)
    assert (header.base_offset, header.last_offset, header.records_count) == (100, 101, 2)
    assert (first.offset, first.timestamp_ms, first.key, first.value) == (100, TIME, b"k", b"v")
    assert first.headers == ((b"h", None),)
    assert (second.key, second.value, second.timestamp_ms) == (None, b"", TIME + 5)


def test_an_emptied_batch_has_no_records_but_keeps_its_offsets() -> None:
    header = read_header(EMPTIED)
    assert b.is_valid(EMPTIED)
    assert list(read_records(header, EMPTIED)) == []
    assert header.last_offset == 107
    assert header.last_sequence == 4


@given(st.lists(records, max_size=8), st.sampled_from(Codec), st.integers(0, 1 << 40))
def test_records_come_back_from_every_codec(rows: list[NewRecord], codec: Codec, base: int) -> None:
    data = write_batch(rows, base_offset=base, codec=codec, producer_id=5, base_sequence=2**31 - 2)
    found = list(read_records(read_header(data), data))
    assert b.is_valid(data)
    assert [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in found] == [
        (r.key, r.value, r.timestamp_ms, list(r.headers)) for r in rows
    ]
    assert [r.offset for r in found] == list(range(base, base + len(rows)))
    assert [r.sequence for r in found][:3] == [2**31 - 2, 2**31 - 1, 0][: len(rows)]


def test_append_time_stands_for_every_record() -> None:
    rows = [NewRecord(b"k", b"v", TIME), NewRecord(b"k", b"v", TIME + 9)]
    data = write_batch(rows, attributes=b.TIMESTAMP_TYPE_MASK)
    assert {r.timestamp_ms for r in read_records(read_header(data), data)} == {TIME + 9}


@given(st.binary(max_size=200))
def test_any_bytes_give_records_or_a_format_error(body: bytes) -> None:
    with suppress(FormatError):
        list(read_records(read_header(body), body))


@given(st.binary(max_size=120), st.integers(-1, 9), st.integers(0, 7))
def test_any_body_gives_records_or_a_format_error(body: bytes, count: int, codec: int) -> None:
    header = read_header(write_batch([]))._replace(records_count=count, attributes=codec)
    data = b.seal(header, body)
    with suppress(FormatError):
        list(read_records(read_header(data), data))


def test_fewer_records_than_promised_end_in_an_error_behind_the_good_ones() -> None:
    data = write_batch([NewRecord(b"k", b"v", TIME)])
    header: BatchHeader = read_header(data)._replace(records_count=2)
    walk = read_records(header, data)
    assert next(walk).key == b"k"
    with pytest.raises(FormatError):
        next(walk)


def test_bytes_behind_the_last_record_are_an_error() -> None:
    data = write_batch([NewRecord(b"k", b"v", TIME), NewRecord(b"l", b"w", TIME)])
    with pytest.raises(FormatError, match="more bytes"):
        list(read_records(read_header(data)._replace(records_count=1), data))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_inflates_beyond_the_limit_is_too_large_and_not_an_out_of_memory(codec: Codec) -> None:
    data = write_batch([NewRecord(None, bytes(40 << 20), TIME)], codec=codec)
    assert len(data) < 3 << 20
    with pytest.raises(TooLarge):
        list(read_records(read_header(data), data, max_inflated=1 << 20))


@given(st.integers(0, b.MAX_INT32), st.integers(0, b.MAX_INT32))
def test_sequences_go_round_in_a_circle(sequence: int, step: int) -> None:
    there = b.increment_sequence(sequence, step)
    assert 0 <= there <= b.MAX_INT32
    assert b.decrement_sequence(there, step) == sequence
