"""An offset map that memory has no room for: its keys in parts, one after another.

A part is all keys whose hash leaves the same rest. For each part the dirty range is read into a map of its
own, and every record that the pass will look at is held against it. Of all that only one bit a record is
kept: whether a later one has its key. Where the map of a broker would be full is found by counting the new
keys of all parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batch_records import records_of
from kafkatool.engine.compaction.cleanable_log import CleanableLog
from kafkatool.engine.compaction.dirty_range import DirtyRange
from kafkatool.engine.compaction.offset_map import (
    DirtyKeys,
    OffsetMap,
    build_offset_map,
    dirty_keys,
    joined_keys,
)
from kafkatool.engine.compaction.walking import LegacyEntry, Stretch, walk
from kafkatool.engine.source import Guest
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.columns import Column, RecordDecoder
from kafkatool.format.java_text import LONG_MAX
from kafkatool.format.kernel import loops
from kafkatool.format.primitives import Buffer

BYTES_A_KEY = 40
FEWEST_KEYS = 1000
"""Less memory than these need is not worth the reading."""


def build_within(
    log: CleanableLog, dirty: DirtyRange, capacity: int, guest: Guest, memory: int | None
) -> OffsetMap:
    """A map of so many keys at most, in so much memory: whole if it has room, else in parts."""
    room = capacity if memory is None else _room(memory)
    # A map is full when one key more comes, be it a known one: so it takes one more than there is room for.
    offsets = build_offset_map(log, dirty, min(capacity, room + 1), guest)
    if not offsets.is_full or room >= capacity:
        offsets.capacity = capacity
        return offsets
    del offsets
    return _Parting(log, dirty, capacity, guest, room).build()


def _room(memory: int) -> int:
    return max(FEWEST_KEYS, memory // BYTES_A_KEY)


def count_keys(log: CleanableLog, dirty: DirtyRange, guest: Guest, memory: int) -> int:
    """How many keys the dirty range has, whatever the map of a broker takes; in so much memory."""
    room = _room(memory)
    offsets = build_offset_map(log, dirty, room + 1, guest)
    if not offsets.is_full:
        return offsets.key_count
    del offsets
    return _Parting(log, dirty, LONG_MAX, guest, room).count()


@dataclass(slots=True)
class MapInParts(OffsetMap):
    """Answers for the records of the pass, in the order in which it asks."""

    count: int = 0
    newer: list[NDArray[np.uint8]] = field(default_factory=list)
    """One bit a record; an array an item of the walk."""
    sizes: list[int] = field(default_factory=list)
    asked: int = 0

    @property
    def key_count(self) -> int:
        return self.count

    def last_offsets(self, data: Buffer, starts: Column, sizes: Column, offsets: Column) -> Column:
        """Behind every offset where a later record has the key, else before all."""
        if self.asked >= len(self.newer) or self.sizes[self.asked] != len(starts):
            raise KafkatoolError("the log changed while it was read: run it again")
        is_newer = np.unpackbits(self.newer[self.asked], count=len(starts))
        self.asked += 1
        last: Column = np.where(is_newer == 1, LONG_MAX, -1)
        return last


class _Stop(NamedTuple):
    """Where the map is full: before this row of this item of the dirty range."""

    item: int
    row: int


class _TooLarge(Exception):
    """A part has more keys than there is room for."""


class _Parting:
    def __init__(self, log: CleanableLog, dirty: DirtyRange, capacity: int, guest: Guest, room: int) -> None:
        self.log, self.dirty, self.capacity, self.guest, self.room = log, dirty, capacity, guest, room
        self.parts = 2
        self.stop: _Stop | None = None

    def build(self) -> MapInParts:
        counts = self._count_new_keys()
        offsets = MapInParts(self.capacity, count=min(int(counts.sum()), self.capacity))
        self.stop = self._find_stop(counts)
        offsets.is_full = self.stop is not None
        self._reach(offsets)
        for part in range(self.parts):
            self._hold_against(offsets, self._map_of(part).keys)
        return offsets

    def count(self) -> int:
        return int(self._count_new_keys().sum())

    def _count_new_keys(self) -> Column:
        """Of each item of the dirty range; as many parts are made as it takes."""
        while True:
            try:
                found = [self._map_of(part).new_keys for part in range(self.parts)]
            except _TooLarge:
                self.parts *= 2
                continue
            counts: Column = np.sum(found, axis=0)
            return counts

    def _items(self) -> Iterator[DirtyKeys]:
        """Of the dirty range, up to where the map is full."""
        items = dirty_keys(self.log, self.dirty, self.guest)
        if self.stop is None:
            yield from items
            return
        yield from islice(items, self.stop.item)
        last = next(items)
        sizes = last.sizes.copy()
        sizes[self.stop.row :] = -1
        yield last._replace(sizes=sizes)

    def _map_of(self, part: int) -> _Part:
        found = _Part(self.parts, part)
        for item in self._items():
            found.add(item, self.room)
        return found

    # --- where it is full ---------------------------------------------------------------------------------

    def _find_stop(self, counts: Column) -> _Stop | None:
        known = np.cumsum(counts)
        full = int(np.searchsorted(known, self.capacity))
        if full == len(known):
            return None
        row = self._row_of_last_key(full, self.capacity - int(known[full] - counts[full]))
        for number, item in enumerate(islice(dirty_keys(self.log, self.dirty, self.guest), full, None), full):
            first = row + 1 if number == full else 0
            keyed = np.flatnonzero(item.sizes[first:] >= 0)
            if len(keyed):
                return _Stop(number, first + int(keyed[0]))
        return None

    def _row_of_last_key(self, number: int, room: int) -> int:
        """The row of an item at which the last key comes that has room."""
        rows: list[int] = []
        for part in range(self.parts):
            found = _Part(self.parts, part)
            items = dirty_keys(self.log, self.dirty, self.guest)
            for item in islice(items, number):
                found.add(item, self.room)
            rows += found.new_rows(next(items))
        return sorted(rows)[room - 1]

    def _reach(self, offsets: MapInParts) -> None:
        start = self.dirty.first_dirty
        for number, item in enumerate(dirty_keys(self.log, self.dirty, self.guest)):
            if self.stop is not None and number == self.stop.item:
                offsets.move_to(item.offset_before(self.stop.row), start)
                return
            offsets.move_to(item.last_offset, start)

    # --- what is superseded -------------------------------------------------------------------------------

    def _hold_against(self, offsets: MapInParts, keys: loops.KeyOffsets) -> None:
        """Note which records have a later one in this part."""
        is_first = not offsets.newer
        wanted = [one for one in self.log.segments if one.base_offset < offsets.end_offset]
        number = 0
        for segment in wanted:
            for item in walk(segment, RecordDecoder(), self.guest):
                bits, size = _newer(item, keys)
                if is_first:
                    offsets.newer.append(bits)
                    offsets.sizes.append(size)
                else:
                    offsets.newer[number] |= bits
                number += 1


def _newer(item: Stretch | LegacyEntry, keys: loops.KeyOffsets) -> tuple[NDArray[np.uint8], int]:
    """A bit a record, whether these keys know a later one, and how many there are."""
    fields: tuple[Buffer, Column, Column]
    if isinstance(item, Stretch):
        columns = item.columns
        fields, at = (columns.data, columns.key_start, columns.key_size), columns.offset
    else:
        fields, at = _message_keys(item)
    found = np.empty(len(at), dtype=np.int64)
    keys.get(fields[0], fields[1], fields[2], found)
    return np.packbits(at < found), len(at)


class _Part:
    """The keys of one part, with how many of them were new in each item."""

    def __init__(self, parts: int, part: int) -> None:
        self.keys = loops.KeyOffsets()
        self.new_keys: list[int] = []
        self._parts, self._part = parts, part

    def add(self, item: DirtyKeys, room: int) -> None:
        """Raises _TooLarge."""
        before = len(self.keys)
        self.keys.put(item.data, item.starts, self._sizes(item), item.offsets, room + 1)
        if len(self.keys) > room:
            raise _TooLarge
        self.new_keys.append(len(self.keys) - before)

    def new_rows(self, item: DirtyKeys) -> list[int]:
        """The rows whose keys were not there before them."""
        found, sizes = [], self._sizes(item)
        for row in np.flatnonzero(sizes >= 0).tolist():
            before, one = len(self.keys), slice(row, row + 1)
            self.keys.put(item.data, item.starts[one], sizes[one], item.offsets[one], before + 1)
            if len(self.keys) > before:
                found.append(row)
        return found

    def _sizes(self, item: DirtyKeys) -> Column:
        """Those of other parts are made null."""
        hashes = np.empty(len(item.sizes), dtype=np.uint64)
        starts: Any = item.starts
        sizes: Any = item.sizes
        loops.hashes(item.data, starts, sizes, hashes)
        ours: Column = np.where(hashes % np.uint64(self._parts) == self._part, item.sizes, -1)
        return ours


def _message_keys(entry: LegacyEntry) -> tuple[tuple[bytes, Column, Column], Column]:
    try:
        records = list(records_of(entry.header, entry.data))
    except FormatError:
        # The pass stops here by itself, and says why.
        records = []
    offsets = np.array([one.offset for one in records], dtype=np.int64)
    return joined_keys([one.key for one in records]), offsets
