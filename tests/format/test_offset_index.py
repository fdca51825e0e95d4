from __future__ import annotations

from array import array
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.index_search import first_zero, lower_bound
from kafkatool.format.offset_index import (
    ENTRY_SIZE,
    OffsetEntry,
    entries_end,
    read_entries,
    read_entry,
    sanity_problem,
    write_entries,
)

rows = st.lists(st.tuples(st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1)), max_size=40)


def sorted_entries(pairs: list[tuple[int, int]]) -> list[OffsetEntry]:
    offsets = sorted({offset for offset, _ in pairs})
    positions = sorted({position for _, position in pairs})
    return [OffsetEntry(offset, position) for offset, position in zip(offsets, positions, strict=False)]


@given(st.binary(max_size=64), st.integers(-8, 64))
def test_any_bytes_decode_or_raise_format_error(buf: bytes, at: int) -> None:
    with suppress(FormatError):
        read_entry(buf, at)
    assert len(list(read_entries(buf))) == len(buf) // ENTRY_SIZE
    assert entries_end(buf) <= len(buf)


@given(rows)
def test_entries_come_back_as_they_were_written(pairs: list[tuple[int, int]]) -> None:
    entries = [OffsetEntry(*pair) for pair in pairs]
    assert list(read_entries(write_entries(entries))) == entries


@given(rows, st.integers(0, 100))
def test_the_end_of_a_preallocated_file_is_where_its_zeros_begin(
    pairs: list[tuple[int, int]], zeros: int
) -> None:
    written = write_entries(sorted_entries(pairs))
    assert entries_end(written + bytes(zeros)) == len(written)


def test_a_zero_entry_in_the_middle_ends_the_entries() -> None:
    buf = write_entries([OffsetEntry(5, 100), OffsetEntry(0, 0), OffsetEntry(9, 300)])
    assert entries_end(buf) == ENTRY_SIZE


@given(st.lists(st.sampled_from([0, 1, 1 << 8, 1 << 16, 1 << 24, 255, -1]), max_size=12))
def test_the_first_zero_is_a_whole_number_behind_slot_0(numbers: list[int]) -> None:
    expected = numbers.index(0, 1) if 0 in numbers[1:] else len(numbers)
    assert first_zero(array("i", numbers)) == expected


@given(st.integers(1, 5000), st.integers(-5, 10010))
def test_the_warm_section_changes_the_way_but_not_the_answer(count: int, target: int) -> None:
    visited: list[int] = []
    slot = lower_bound(count, lambda number: number * 2, target, ENTRY_SIZE, visited)
    assert slot == min(count - 1, max(-1, target // 2))
    assert len(visited) <= 16
    if target >= 2 * (count - 1):
        assert min(visited) >= count - 1 - 1024


@pytest.mark.parametrize(
    ("size", "last", "sane"), [(0, None, True), (8, 3, True), (8, -1, False), (9, 3, False)]
)
def test_kafkas_sanity_check_is_repeated(size: int, last: int | None, sane: bool) -> None:
    entry = None if last is None else OffsetEntry(last, 0)
    assert (sanity_problem(size, entry, 100) is None) == sane


def test_an_entry_no_broker_would_write_is_refused() -> None:
    for entry in (OffsetEntry(-1, 0), OffsetEntry(0, -1), OffsetEntry(2**31, 0)):
        with pytest.raises(FormatError):
            write_entries([entry])
