from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.time_index import (
    ENTRY_SIZE,
    TimeEntry,
    entries_end,
    read_entries,
    read_entry,
    sanity_problem,
    write_entries,
)

rows = st.lists(st.tuples(st.integers(1, 2**63 - 1), st.integers(1, 2**31 - 1)), max_size=40)


@given(st.binary(max_size=64), st.integers(-8, 64))
def test_any_bytes_decode_or_raise_format_error(buf: bytes, at: int) -> None:
    with suppress(FormatError):
        read_entry(buf, at)
    assert len(list(read_entries(buf))) == len(buf) // ENTRY_SIZE
    assert entries_end(buf) <= len(buf)


@given(rows, st.integers(0, 100))
def test_entries_come_back_and_end_where_the_zeros_begin(pairs: list[tuple[int, int]], zeros: int) -> None:
    entries = [TimeEntry(*pair) for pair in pairs]
    written = write_entries(entries)
    assert list(read_entries(written)) == entries
    assert entries_end(written + bytes(zeros)) == len(written)


def test_the_first_slot_may_hold_the_base_offset() -> None:
    assert entries_end(write_entries([TimeEntry(1_700_000_000_000, 0)]) + bytes(24)) == ENTRY_SIZE
    assert entries_end(bytes(24)) == 0


@pytest.mark.parametrize(
    ("size", "first", "last", "problem"),
    [
        (0, None, None, None),
        (24, TimeEntry(5, 1), TimeEntry(6, 2), None),
        (24, TimeEntry(5, 1), TimeEntry(0, 0), "timestamp"),
        (24, TimeEntry(5, 1), TimeEntry(6, -1), "offset"),
        (25, TimeEntry(5, 1), TimeEntry(6, 2), "multiple"),
    ],
)
def test_kafkas_sanity_check_is_repeated(
    size: int, first: TimeEntry | None, last: TimeEntry | None, problem: str | None
) -> None:
    found = sanity_problem(size, first, last, 100)
    assert (found is None) == (problem is None)
    assert problem is None or problem in str(found)
