"""An offset map too large for memory: its keys in parts, each built by some worker.

    count       each part: number of new keys in every item of the dirty range; if too many: twice the parts
    stop        where the map of a broker would be full, if at all
    superseded  each part: one bit for every record that the pass will read

A part is all keys whose hashes leave the same remainder. It reads the dirty range into a map of its own, and
returns only numbers and bits. Whether a record is superseded is known to the part of its key; the bits of all
parts together are the map.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.compaction.cleanable_log import CleanableLog
from kafkatool.engine.compaction.dirty_range import DirtyRange
from kafkatool.engine.compaction.offset_map import DirtyKeys, OffsetMap, dirty_keys, joined_keys
from kafkatool.engine.compaction.walking import CleanableStretch, LegacyEntry, walk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.in_order import Steps, results
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.columns import Column, RecordDecoder
from kafkatool.format.java_text import LONG_MAX
from kafkatool.format.kernel import loops
from kafkatool.format.primitives import Buffer

Bits = NDArray[np.uint8]


@dataclass(slots=True)
class MapInParts(OffsetMap):
    """Answer for the records of the pass, in the order in which it asks; holds no keys itself."""

    newer: list[Bits] = field(default_factory=list)
    """One bit per record; one array per item of the walk."""
    sizes: list[int] = field(default_factory=list)
    asked: int = 0

    def last_offsets(self, data: Buffer, starts: Column, sizes: Column, offsets: Column) -> Column:
        """Return an offset after each record that is superseded, and -1 for the others."""
        if self.asked >= len(self.newer) or self.sizes[self.asked] != len(starts):
            raise log_changed()
        is_newer = np.unpackbits(self.newer[self.asked], count=len(starts))
        self.asked += 1
        last: Column = np.where(is_newer == 1, LONG_MAX, -1)
        return last


def log_changed() -> KafkatoolError:
    return KafkatoolError("the log changed while it was read: run it again")


@dataclass(frozen=True, slots=True)
class InParts:
    """The combined result of all parts. `offsets`: None if keys were only counted."""

    dirty: DirtyRange
    dirty_keys: int
    offsets: MapInParts | None


@dataclass(frozen=True, slots=True)
class Parting:
    """A dirty range with more keys than `room`. `capacity`: of a broker's map; None: only count them."""

    log: CleanableLog
    dirty: DirtyRange
    guest: Guest
    room: int
    capacity: int | None

    def steps(self, pool: Workers) -> Steps[InParts]:
        """Yield the work of the parts, then return. Raises CleanerStops if the range cannot be read."""
        counted = yield from self._count(pool)
        new_keys: Column = np.sum([one.new_keys for one in counted], axis=0)
        total = int(new_keys.sum())
        if self.capacity is None:
            return InParts(self.dirty, total, None)
        parts = self._parts(len(counted))
        stop = yield from self._find_stop(pool, parts, new_keys, self.capacity)
        offsets = MapInParts(self.capacity, count=min(total, self.capacity), dirty_keys=total)
        offsets.is_full = stop is not None
        for reach in counted[0].ends if stop is None else [*counted[0].ends[: stop.item], stop.reach]:
            offsets.move_to(reach, self.dirty.first_dirty)
        asked = [pool.submit(_MapPart.superseded, part, stop, offsets.end_offset) for part in parts]
        _put_together(offsets, (yield from results(asked)))
        return InParts(self.dirty, total, offsets)

    def _parts(self, count: int) -> list[_MapPart]:
        return [_MapPart(self, count, number) for number in range(count)]

    def _count(self, pool: Workers) -> Steps[list[_Counted]]:
        """Count with as many parts as it takes."""
        parts = 2
        while True:
            asked = [pool.submit(_MapPart.count_new_keys, part) for part in self._parts(parts)]
            counted = yield from results(asked)
            fitting = [one for one in counted if one is not None]
            if len(fitting) == parts:
                return fitting
            parts *= 2

    def _find_stop(
        self, pool: Workers, parts: list[_MapPart], new_keys: Column, capacity: int
    ) -> Steps[_Stop | None]:
        known = np.cumsum(new_keys)
        full = int(np.searchsorted(known, capacity))
        if full == len(known):
            return None
        rows = yield from results([pool.submit(_MapPart.new_rows, part, full) for part in parts])
        room = capacity - int(known[full] - new_keys[full])
        last_key = sorted(chain.from_iterable(rows))[room - 1]
        [stop] = yield from results([pool.submit(_stop_behind, self, full, last_key)])
        return stop


class _Counted(NamedTuple):
    """For each item of the dirty range: the number of its new keys, and its last offset."""

    new_keys: list[int]
    ends: list[int]


class _Stop(NamedTuple):
    """Where the map is full: before this row of this item of the dirty range, at this offset."""

    item: int
    row: int
    reach: int


class _Superseded(NamedTuple):
    """For each item of the walk: the bits of its records, and their number."""

    bits: list[Bits]
    sizes: list[int]


def _put_together(offsets: MapInParts, found: list[_Superseded]) -> None:
    first, *others = found
    if any(one.sizes != first.sizes for one in others):
        raise log_changed()
    offsets.newer = [np.bitwise_or.reduce(bits) for bits in zip(*(one.bits for one in found), strict=True)]
    offsets.sizes = first.sizes


def _stop_behind(keys: Parting, number: int, last_key: int) -> _Stop | None:
    """Return the first record with a key after this row of this item; None if there is none."""
    for item in islice(dirty_keys(keys.log, keys.dirty, keys.guest), number, None):
        keyed = np.flatnonzero(item.sizes[last_key + 1 :] >= 0)
        if len(keyed):
            row = last_key + 1 + int(keyed[0])
            return _Stop(number, row, item.offset_before(row))
        number, last_key = number + 1, -1
    return None


@dataclass(frozen=True, slots=True)
class _MapPart:
    """One part of the keys."""

    whole: Parting
    parts: int
    number: int

    @property
    def path(self) -> str:
        """What the work is about, for error messages."""
        return os.path.dirname(self.whole.log.active.path)

    @property
    def bytes_to_read(self) -> int:
        return self.whole.dirty.cleanable_bytes

    def count_new_keys(self) -> _Counted | None:
        """Count new keys; None if there are more than fit."""
        keys, counted = loops.KeyOffsets(), _Counted([], [])
        for item in self._items():
            before = len(keys)
            self._put(item, keys)
            if len(keys) > self.whole.room:
                return None
            counted.new_keys.append(len(keys) - before)
            counted.ends.append(item.last_offset)
        return counted

    def new_rows(self, number: int) -> list[int]:
        """Return the rows of an item whose keys are new."""
        keys, items, found = loops.KeyOffsets(), self._items(), []
        for item in islice(items, number):
            self._put(item, keys)
        item = next(items)
        sizes = self._sizes(item)
        for row in np.flatnonzero(sizes >= 0).tolist():
            before, one = len(keys), slice(row, row + 1)
            keys.put(item.data, item.starts[one], sizes[one], item.offsets[one], before + 1)
            if len(keys) > before:
                found.append(row)
        return found

    def superseded(self, stop: _Stop | None, end_offset: int) -> _Superseded:
        """Return which records of the pass have a later one in this part."""
        keys, found = loops.KeyOffsets(), _Superseded([], [])
        for item in self._items(stop):
            self._put(item, keys)
        for segment in self.whole.log.segments:
            if segment.base_offset >= end_offset:
                break
            for read in walk(segment, RecordDecoder(), self.whole.guest):
                bits, size = _newer(read, keys)
                found.bits.append(bits)
                found.sizes.append(size)
        return found

    def _items(self, stop: _Stop | None = None) -> Iterator[DirtyKeys]:
        """Yield the dirty range, up to where the map is full."""
        items = dirty_keys(self.whole.log, self.whole.dirty, self.whole.guest)
        if stop is None:
            yield from items
            return
        yield from islice(items, stop.item)
        last = next(items)
        sizes = last.sizes.copy()
        sizes[stop.row :] = -1
        yield last._replace(sizes=sizes)

    def _put(self, item: DirtyKeys, keys: loops.KeyOffsets) -> None:
        keys.put(item.data, item.starts, self._sizes(item), item.offsets, self.whole.room + 1)

    def _sizes(self, item: DirtyKeys) -> Column:
        """Return the key sizes, with keys of other parts as null."""
        hashes = np.empty(len(item.sizes), dtype=np.uint64)
        starts: Any = item.starts
        sizes: Any = item.sizes
        loops.hashes(item.data, starts, sizes, hashes)
        ours: Column = np.where(hashes % np.uint64(self.parts) == self.number, item.sizes, -1)
        return ours


def _newer(item: CleanableStretch | LegacyEntry, keys: loops.KeyOffsets) -> tuple[Bits, int]:
    """Return one bit per record, whether these keys have a later one, and the number of records."""
    fields: tuple[Buffer, Column, Column]
    if isinstance(item, CleanableStretch):
        columns = item.columns
        fields, at = (columns.data, columns.key_start, columns.key_size), columns.offset
    else:
        fields, at = _message_keys(item)
    found = np.empty(len(at), dtype=np.int64)
    keys.get(fields[0], fields[1], fields[2], found)
    return np.packbits(at < found), len(at)


def _message_keys(entry: LegacyEntry) -> tuple[tuple[bytes, Column, Column], Column]:
    try:
        records = list(records_of(entry.header, entry.data))
    except FormatError:
        # The pass itself stops here, and reports why.
        records = []
    offsets = np.array([one.offset for one in records], dtype=np.int64)
    return joined_keys([one.key for one in records]), offsets
