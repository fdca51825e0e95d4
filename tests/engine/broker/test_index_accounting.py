"""Which batches get index entries."""

from __future__ import annotations

import pytest

from kafkatool.engine.broker.index_accounting import (
    NO_ENTRIES,
    IndexAccounting,
    IndexFull,
    InvalidOffset,
    NewEntries,
)


def add_all(accounting: IndexAccounting, batches: list[tuple[int, int, int]]) -> list[NewEntries]:
    """Add (size, last offset, timestamp) one behind the other."""
    position, added = 0, []
    for size, last_offset, timestamp in batches:
        added.append(accounting.add(position, size, last_offset, timestamp))
        position += size
    return added


def test_an_entry_is_due_behind_more_than_the_interval() -> None:
    added = add_all(IndexAccounting(100, 500, 1000), [(300, 100 + at, 7) for at in range(5)])
    assert added == [NO_ENTRIES, NO_ENTRIES, ((2, 600), (7, 0)), NO_ENTRIES, ((4, 1200), None)]


def test_exactly_the_interval_is_not_enough_and_zero_means_every_batch_but_the_first() -> None:
    assert add_all(IndexAccounting(0, 500, 1000), [(500, 0, 1), (1, 1, 1)])[1] == NO_ENTRIES
    added = add_all(IndexAccounting(0, 0, 1000), [(10, 0, 1), (10, 1, 2), (10, 2, 3)])
    assert [entries.offset for entries in added] == [None, (1, 10), (2, 20)]


def test_the_time_entry_names_the_batch_that_first_had_the_largest_time() -> None:
    accounting = IndexAccounting(0, 0, 1000)
    added = add_all(accounting, [(10, 0, 5), (10, 1, 9), (10, 2, 9), (10, 3, 1)])
    assert [entries.time for entries in added] == [None, (9, 1), None, None]
    assert accounting.close() is None
    accounting.add(40, 10, 4, 11)
    assert accounting.time_entries == 2
    assert IndexAccounting(0, 0, 1000).close() is None


def test_closing_adds_the_largest_time_once() -> None:
    accounting = IndexAccounting(0, 1000, 1000)
    add_all(accounting, [(10, 0, 5)])
    assert accounting.close() == (5, 0)
    assert accounting.close() is None


def test_the_time_index_keeps_a_slot_for_closing() -> None:
    accounting = IndexAccounting(0, 0, 24)
    assert not accounting.is_full
    add_all(accounting, [(10, 0, 1), (10, 1, 2)])
    assert accounting.is_full
    with pytest.raises(IndexFull):
        accounting.add(20, 10, 2, 3)
    assert accounting.close() is None


def test_a_full_index_may_be_left_as_it_is() -> None:
    accounting = IndexAccounting(0, 0, 24, skips_when_full=True)
    added = add_all(accounting, [(10, at, at) for at in range(4)])
    assert added == [NO_ENTRIES, ((1, 10), (1, 1)), NO_ENTRIES, NO_ENTRIES]
    assert accounting.close() == (3, 3)


def test_offsets_that_do_not_rise_are_refused() -> None:
    accounting = IndexAccounting(0, 0, 1000)
    add_all(accounting, [(10, 0, 1), (10, 1, 2)])
    with pytest.raises(InvalidOffset):
        accounting.add(20, 10, 1, 3)


def test_an_offset_fits_up_to_two_to_the_31_minus_one_above_the_base() -> None:
    accounting = IndexAccounting(10, 0, 1000)
    assert [accounting.can_hold(at) for at in (9, 10, 10 + 0x7FFFFFFF, 11 + 0x7FFFFFFF)] == [
        False,
        True,
        True,
        False,
    ]
