from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.batches.indexes import OffsetIndex, TimeIndex
from kafkatool.format.index_search import lower_bound
from kafkatool.format.offset_index import ENTRY_SIZE, OffsetEntry, read_entries, write_entries
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.time_index import write_entries as write_times

NO_END = 1 << 40
NUMBERS = st.integers(1, 2**31 - 1)
rows = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40)
GOOD = [OffsetEntry(9, 100), OffsetEntry(19, 200), OffsetEntry(29, 300)]


def rising(pairs: list[tuple[int, int]]) -> list[OffsetEntry]:
    offsets, positions = (sorted({pair[at] for pair in pairs}) for at in (0, 1))
    return list(map(OffsetEntry, offsets, positions))


@given(rows, st.integers(0, 2**31 - 1), st.integers(0, 2**40))
def test_a_search_finds_what_a_bisection_finds(pairs: list[tuple[int, int]], target: int, base: int) -> None:
    entries = rising(pairs)
    slot = bisect_right([entry.relative_offset for entry in entries], target)
    expected = entries[slot - 1] if slot else OffsetEntry(0, 0)
    index = OffsetIndex.written(write_entries(entries) + bytes(40), base)
    assert index.floor(base + target) == expected
    assert index.sound(NO_END).floor(base + target) == expected
    assert index.packed().floor(base + target) == expected


@given(st.binary(max_size=400), st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**63 - 1))
def test_any_slots_are_searched_as_kafka_searches_them(data: bytes, base: int, target: int) -> None:
    entries = list(read_entries(data))
    ways: list[list[int]] = [[], []]
    slot = lower_bound(len(entries), lambda at: entries[at].offset(base), target, ENTRY_SIZE, ways[0])
    index = OffsetIndex.whole(data, base)
    assert index.floor(target, ways[1]) == (entries[slot] if slot >= 0 else OffsetEntry(0, 0))
    assert ways[0] == ways[1]
    TimeIndex.whole(data, base).floor(target)


def test_an_index_is_sound_as_far_as_it_rises_and_leads_into_its_log() -> None:
    index = OffsetIndex.whole(write_entries(GOOD) + bytes(80), 1000).sound(NO_END)
    found = [index.floor(1000 + offset) for offset in (8, 9, 25, 1000)]
    assert found == [OffsetEntry(0, 0), *GOOD]
    assert index.offset_behind(201) == 1029
    assert index.offset_behind(301) is None
    assert len(OffsetIndex.whole(write_entries(GOOD), 0).sound(300).offsets) == 2
    assert not OffsetIndex.whole(bytes(64), 0).sound(NO_END).offsets
    assert not OffsetIndex.whole(b"", 0).sound(NO_END).offsets


def test_padding_takes_part_in_a_search_of_the_whole_file_alone() -> None:
    data = write_entries(GOOD) + bytes(8 * 97)
    assert OffsetIndex.written(data, 0).floor(25) == GOOD[1]
    assert OffsetIndex.whole(data, 0).floor(25) == OffsetEntry(0, 0)


def test_a_packed_index_takes_half_of_the_memory() -> None:
    index = OffsetIndex.whole(write_entries(GOOD), 7)
    packed = index.packed()
    assert packed.size * 2 == index.size
    assert [packed.entry(slot) for slot in range(3)] == GOOD
    assert packed.base_offset == 7


def test_a_time_is_found_by_the_greatest_entry_at_or_below() -> None:
    index = TimeIndex.written(
        write_times([TimeEntry(10, 1), TimeEntry(20, 2), TimeEntry(30, 3)]) + bytes(24), 0
    )
    assert [index.floor(target).relative_offset for target in (9, 10, 25, 99)] == [0, 1, 2, 3]
    assert index.floor(9).timestamp_ms == -1
