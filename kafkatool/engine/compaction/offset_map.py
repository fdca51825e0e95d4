"""Map every key of the dirty range to its last offset, or as much of the range as fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.compaction.cleanable_log import CleanableLog, CleanerStops, SourceSegment
from kafkatool.engine.compaction.dirty_range import DirtyRange
from kafkatool.engine.compaction.transactions import CleanedTransactions
from kafkatool.engine.compaction.walking import CleanableStretch, LegacyEntry, walk
from kafkatool.engine.files.source import Guest
from kafkatool.errors import FormatError
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK
from kafkatool.format.columns import Column, RecordColumns, RecordDecoder
from kafkatool.format.java_text import INT_MAX, LONG_MAX
from kafkatool.format.kernel import loops
from kafkatool.format.kernel.verdicts import IS_SUPERSEDED, IS_TAKEN
from kafkatool.format.primitives import Buffer
from kafkatool.format.schema.control import read_control_type

DEFAULT_DEDUPE_BUFFER = 128 << 20
DEFAULT_LOAD_FACTOR = 0.9
SLOT_SIZE = 24  # a broker's: an MD5 sum and an offset
_MOST_MARKS = 64 << 20
"""One byte each; a range of more offsets goes without marks."""


def map_capacity(
    dedupe_buffer: int = DEFAULT_DEDUPE_BUFFER, threads: int = 1, load_factor: float = DEFAULT_LOAD_FACTOR
) -> int:
    """Return how many keys the map of one cleaner thread takes."""
    return int(min(dedupe_buffer // threads, INT_MAX) // SLOT_SIZE * load_factor)


def needed_buffer(keys: int, threads: int = 1, load_factor: float = DEFAULT_LOAD_FACTOR) -> int | None:
    """Return the least log.cleaner.dedupe.buffer.size for so many keys in one pass; None if none is.

    A map is full when a record comes and there is no room for one more key, even if its key is known.
    """
    low, high = 0, INT_MAX * threads
    if map_capacity(high, threads, load_factor) <= keys:
        return None
    while low < high:
        middle = (low + high) // 2
        if map_capacity(middle, threads, load_factor) > keys:
            high = middle
        else:
            low = middle + 1
    return high


@dataclass(slots=True)
class OffsetMap:
    """`latest`: the last offset read; records after it stay whatever their key."""

    capacity: int
    keys: loops.KeyOffsets = field(default_factory=loops.KeyOffsets)
    latest: int = -1
    is_full: bool = False
    first: int = 0
    marks: NDArray[np.uint8] | None = None
    """For every record from offset `first` on: whether it was read, and whether it is superseded."""
    dirty_keys: int | None = None
    """All keys of the dirty range, even those that did not fit; None if they were not counted."""
    count: int | None = None
    """How many keys there are, if the keys themselves are elsewhere."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the keys."""
        facts = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "keys"}
        return partial(type(self), **facts), ()

    @property
    def end_offset(self) -> int:
        """Where the next cleaning begins."""
        return self.latest + 1

    @property
    def key_count(self) -> int:
        return len(self.keys) if self.count is None else self.count

    def without_keys(self) -> OffsetMap:
        """What there is to tell of it when the pass is over."""
        return OffsetMap(
            self.capacity,
            latest=self.latest,
            is_full=self.is_full,
            first=self.first,
            dirty_keys=self.dirty_keys,
            count=self.key_count,
        )

    def take(self, some: DirtyKeys) -> int:
        """Add keys while there is room; return the row of the first that has none."""
        if self.marks is not None and not _is_rising(some, self.latest, self.first + len(self.marks)):
            self.marks = None  # marks do not work for offsets that do not rise
        if self.marks is None:
            return self.keys.put(some.data, some.starts, some.sizes, some.offsets, self.capacity)
        fields = (some.data, some.starts, some.sizes, some.offsets)
        return self.keys.put_marking(*fields, self.capacity, self.first, self.marks)

    def last_offsets(self, data: Buffer, starts: Column, sizes: Column, offsets: Column) -> Column:
        """Return the last offset of each key, or LONG_MAX if superseded; -1 for null and unknown keys.

        Records whose offset has a mark need no look-up.
        """
        if self.marks is not None:
            marks = self._marks_at(self.marks, offsets)
            found: Column = np.where(marks & IS_SUPERSEDED, LONG_MAX, offsets)
            if (marks & IS_TAKEN).all():
                return found
            sizes = np.where(marks & IS_TAKEN, -1, sizes)
            if (sizes >= 0).any():
                looked_up = np.empty(len(starts), dtype=np.int64)
                self.keys.get(data, starts, sizes, looked_up)
                found = np.where(marks & IS_TAKEN, found, looked_up)
            return found
        found = np.empty(len(starts), dtype=np.int64)
        self.keys.get(data, starts, sizes, found)
        return found

    def _marks_at(self, marks: NDArray[np.uint8], offsets: Column) -> NDArray[np.uint8]:
        """Return the mark of each of these records, 0 if there is none."""
        at = offsets - self.first
        begin, end = (int(at[0]), int(at[-1]) + 1) if len(at) else (0, 0)
        if begin >= 0 and end <= len(marks) and end - begin == len(at) and (np.diff(at) == 1).all():
            return marks[begin:end]  # without gaps, as in a log that was never cleaned
        is_marked = (at >= 0) & (at < len(marks))
        found: NDArray[np.uint8] = marks[np.where(is_marked, at, 0)] * is_marked
        return found

    def move_to(self, offset: int, start: int) -> None:
        if offset >= start:
            self.latest = max(self.latest, offset)


def _is_rising(some: DirtyKeys, after: int, end: int) -> bool:
    """Return whether offsets rise, all within these bounds."""
    offsets = some.offsets
    return not len(offsets) or bool(after < offsets[0] and offsets[-1] < end and (np.diff(offsets) > 0).all())


class DirtyKeys(NamedTuple):
    """Some records of the dirty range; keys with size -1 do not count."""

    data: Buffer
    starts: Column
    sizes: Column
    offsets: Column
    batch: Column
    """The row in `batch_ends` of the record's batch."""
    batch_ends: Column

    @property
    def last_offset(self) -> int:
        return int(self.batch_ends[-1])

    def offset_before(self, row: int) -> int:
        """Return how far a map that is full at this row reaches: the last key, or the batch before."""
        ends: list[int] = self.batch_ends[: int(self.batch[row])][-1:].tolist()
        taken: list[int] = self.offsets[:row][self.sizes[:row] >= 0][-1:].tolist()
        return max([*ends, *taken], default=-1)


def build_offset_map(log: CleanableLog, dirty: DirtyRange, capacity: int, guest: Guest) -> OffsetMap:
    """Read the dirty range; raise CleanerStops if it cannot be read."""
    offsets = OffsetMap(capacity, first=dirty.first_dirty)
    span = dirty.first_uncleanable - dirty.first_dirty
    if 0 < span <= _MOST_MARKS:
        offsets.marks = np.zeros(span, dtype=np.uint8)
    for some in dirty_keys(log, dirty, guest):
        taken = offsets.take(some)
        if taken < len(some.sizes):
            offsets.is_full = True
            offsets.move_to(some.offset_before(taken), dirty.first_dirty)
            break
        offsets.move_to(some.last_offset, dirty.first_dirty)
    return offsets


def dirty_keys(log: CleanableLog, dirty: DirtyRange, guest: Guest) -> Iterator[DirtyKeys]:
    """Yield all keys of the dirty range, in order; raise CleanerStops if it cannot be read."""
    return _Reading(log, dirty, guest).keys()


class _Reading:
    def __init__(self, log: CleanableLog, dirty: DirtyRange, guest: Guest) -> None:
        self.log = log
        self.start = dirty.first_dirty
        self.end = dirty.first_uncleanable
        self.guest = guest
        self.transactions = CleanedTransactions()

    def keys(self) -> Iterator[DirtyKeys]:
        self.transactions.add(self.log.aborted_from(self.start, self.end))
        segments = self.log.from_floor(self.start, self.end)
        ends = [*(one.base_offset for one in segments[1:]), self.end]
        decoder = RecordDecoder()
        for segment, end in zip(segments, ends, strict=False):
            for item in walk(segment, decoder, self.guest, segment.position_of(self.start, self.guest)):
                if isinstance(item, CleanableStretch):
                    yield self._of_batches(item.columns, segment)
                else:
                    yield self._of_messages(item, segment)
            nothing = np.empty(0, dtype=np.int64)
            # Step over offsets without records.
            yield DirtyKeys(b"", nothing, nothing, nothing, nothing, np.array([end - 1]))

    def _of_batches(self, columns: RecordColumns, segment: SourceSegment) -> DirtyKeys:
        """Return the keys of batches; those of aborted transactions and markers do not count."""
        batches = columns.batches
        has_keys = np.ones(len(batches.position), dtype=bool)
        for row, is_control, can_go in judge_transactions(columns, self.transactions, segment):
            has_keys[row] = not (is_control or can_go)
        sizes = columns.key_size
        is_dirty = columns.offset >= self.start
        if not (has_keys.all() and is_dirty.all()):
            sizes = np.where(has_keys[columns.batch] & is_dirty, sizes, -1)
        return DirtyKeys(
            columns.data, columns.key_start, sizes, columns.offset, columns.batch, batches.last_offset
        )

    def _of_messages(self, entry: LegacyEntry, segment: SourceSegment) -> DirtyKeys:
        try:
            records = list(records_of(entry.header, entry.data))
        except FormatError as error:
            raise CleanerStops(segment.path, entry.position, str(error)) from None
        data, starts, sizes = joined_keys([one.key if one.offset >= self.start else None for one in records])
        offsets = np.array([one.offset for one in records], dtype=np.int64)
        last = np.array([entry.header.last_offset], dtype=np.int64)
        return DirtyKeys(data, starts, sizes, offsets, np.zeros_like(offsets), last)


def joined_keys(keys: Sequence[bytes | None]) -> tuple[bytes, Column, Column]:
    """Return the joined keys, where each begins, and its size."""
    sizes = np.array([-1 if key is None else len(key) for key in keys], dtype=np.int64)
    ends = np.cumsum(np.maximum(sizes, 0))
    return b"".join(key or b"" for key in keys), ends - np.maximum(sizes, 0), sizes


def judge_transactions(
    columns: RecordColumns, transactions: CleanedTransactions, segment: SourceSegment
) -> list[tuple[int, bool, bool]]:
    """Return, for each control or transactional batch: its row, whether it is control, whether it can go."""
    batches, judged = columns.batches, []
    for row in np.flatnonzero(batches.attributes & (CONTROL_MASK | TRANSACTIONAL_MASK)).tolist():
        producer_id, last = int(batches.producer_id[row]), int(batches.last_offset[row])
        if not batches.attributes[row] & CONTROL_MASK:
            judged.append((row, False, transactions.data(producer_id, last)))
            continue
        kind = None
        if batches.records_count[row]:
            record = int(np.searchsorted(columns.batch, row))
            try:
                kind = read_control_type(columns.key(record))
            except FormatError as error:
                raise CleanerStops(segment.path, int(batches.position[row]), str(error)) from None
        judged.append((row, True, transactions.control(producer_id, last, kind)))
    return judged
