from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.state.producer_snapshot import (
    ENTRY_SIZE,
    ProducerState,
    read_entries,
    read_snapshot,
    write_snapshot,
)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


states = st.builds(ProducerState, *map(signed, (64, 16, 32, 64, 32, 64, 32, 64)))


@given(st.binary(max_size=120))
def test_any_bytes_decode_or_raise_format_error(buf: bytes) -> None:
    for read in (read_entries, read_snapshot):
        with suppress(FormatError):
            read(buf)


@given(st.lists(states, max_size=5))
def test_producers_come_back_as_they_were_written(entries: list[ProducerState]) -> None:
    assert read_snapshot(write_snapshot(entries)) == entries


def test_the_bytes_are_those_a_broker_writes() -> None:
    assert write_snapshot([]).hex() == "000148674bc700000000"
    one = write_snapshot([ProducerState(42, 3, 9, 109, 9, 1_700_000_000_000, -1, -1)])
    assert one.hex() == (
        "0001ed7c3b6a00000001000000000000002a000300000009000000000000006d000000090000018bcfe56800"
        "ffffffffffffffffffffffff"
    )


@given(st.lists(states, min_size=1, max_size=3), st.data())
def test_a_changed_or_missing_byte_is_found(entries: list[ProducerState], data: st.DataObject) -> None:
    raw = write_snapshot(entries)
    at = data.draw(st.integers(0, len(raw) - 1))
    flipped = raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :]
    for broken in (flipped, raw[:at], raw + b"\0"):
        with pytest.raises(FormatError):
            read_snapshot(broken)


def test_a_huge_count_allocates_nothing() -> None:
    raw = bytearray(write_snapshot([]))
    raw[6:10] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(FormatError, match=str((2**31 - 1) * ENTRY_SIZE)):
        read_entries(bytes(raw))


def test_sequences_wrap_around_to_zero() -> None:
    state = ProducerState(1, 0, 2, 10, 5, 0, -1, -1)
    assert state.first_sequence == 2**31 - 3
    assert state._replace(last_sequence=9).first_sequence == 4
