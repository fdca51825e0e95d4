"""Decide which index entries the batches of a segment get: the broker's accounting, without its files.

    position  0        300      600      900      1200
    batch     | first  | second | third  | fourth |      interval 500
    entry                        ^                       after more than 500 bytes, for the third

An entry is due once more than `index.interval.bytes` were appended since the last one, the current batch not
counted; so a segment's first batch never gets one. It has the *last* offset of the batch and its position.
The time index gets an entry at the same moments, if the largest timestamp has grown, and once more when the
segment is closed. Since 3.9.1 and 4.0.1 this is checked per batch; before, per append.

Appending and a broker's recovery give the same entries, because both begin at the segment's start.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkatool.errors import KafkatoolError
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import MAX_INT32
from kafkatool.format.kernel import loops
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.time_index import TimeEntry


class InvalidOffset(KafkatoolError):
    """An entry would not be above the one before it: the offsets in the log do not rise."""


class IndexFull(KafkatoolError):
    """An entry is due, but there is no room."""


class NewEntries(NamedTuple):
    """The entries added for one batch; None for no entry."""

    offset: OffsetEntry | None
    time: TimeEntry | None


NO_ENTRIES = NewEntries(None, None)


class IndexAccounting(loops.IndexCounts):
    """The accounting of one segment's two indexes while batches are added.

    `max_timestamp` is the largest in the segment, `max_timestamp_offset` the last offset of the first batch
    with it; `last_time` and `last_time_offset` are those of the last time entry.
    """

    def __init__(
        self, base_offset: int, interval_bytes: int, max_index_bytes: int, *, skips_when_full: bool = False
    ) -> None:
        super().__init__(
            base_offset,
            interval_bytes,
            max_index_bytes // offset_index.ENTRY_SIZE,
            max_index_bytes // time_index.ENTRY_SIZE,
        )
        # A broker fails there; an index with fewer entries works as well.
        self.skips_when_full = skips_when_full

    @property
    def offset_index_is_full(self) -> bool:
        return self.offset_entries >= self.max_offset_entries

    @property
    def time_index_is_full(self) -> bool:
        """Whether only one slot is free: it is kept for the entry that closes the segment."""
        return self.time_entries >= self.max_time_entries - 1

    @property
    def is_full(self) -> bool:
        return self.offset_index_is_full or self.time_index_is_full

    def has_room_for(self, count: int, last_offset: int) -> bool:
        """Return whether so many batches fit for certain, even if each gets entries."""
        room = min(
            self.max_offset_entries - self.offset_entries, self.max_time_entries - 1 - self.time_entries
        )
        return count < room and self.can_hold(last_offset)

    def can_hold(self, offset: int) -> bool:
        """Return whether an offset can be stored relative to the base offset."""
        return 0 <= offset - self.base_offset <= MAX_INT32

    def is_due(self) -> bool:
        """Return whether the next batch gets an entry."""
        return self.bytes_since_entry > self.interval_bytes

    def add(self, position: int, size: int, last_offset: int, max_timestamp: int) -> NewEntries:
        """Count one batch; raise IndexFull or InvalidOffset, changing nothing, where a broker would."""
        added = NO_ENTRIES
        if max_timestamp > self.max_timestamp:
            latest = (max_timestamp, last_offset)
        else:
            latest = (self.max_timestamp, self.max_timestamp_offset)
        if self.is_due() and not (self.skips_when_full and self.is_full):
            added = self._entries(position, last_offset, latest)
            self.bytes_since_entry = 0
        self.max_timestamp, self.max_timestamp_offset = latest
        self.bytes_since_entry += size
        return added

    def close(self) -> TimeEntry | None:
        """Return the final time entry, unless it already exists."""
        return self._time_entry((self.max_timestamp, self.max_timestamp_offset))

    def _entries(self, position: int, last_offset: int, latest: tuple[int, int]) -> NewEntries:
        if self.is_full:
            raise IndexFull(f"an index of segment {self.base_offset} has no room for offset {last_offset}")
        if self.offset_entries and last_offset <= self.last_indexed_offset:
            raise InvalidOffset(
                f"offset {last_offset} behind {self.last_indexed_offset} in segment {self.base_offset}"
            )
        self.offset_entries += 1
        self.last_indexed_offset = last_offset
        entry = OffsetEntry(last_offset - self.base_offset, position)
        return NewEntries(entry, self._time_entry(latest))

    def _time_entry(self, latest: tuple[int, int]) -> TimeEntry | None:
        timestamp, offset = latest
        if self.time_entries and offset < self.last_time_offset:
            raise InvalidOffset(
                f"offset {offset} behind {self.last_time_offset} in the time index of {self.base_offset}"
            )
        if timestamp <= self.last_time:
            return None
        self.time_entries += 1
        self.last_time, self.last_time_offset = latest
        return TimeEntry(timestamp, offset - self.base_offset)
