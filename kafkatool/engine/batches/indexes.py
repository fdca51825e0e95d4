"""Hold the indexes of a segment in memory, trusted as far as the reader needs.

    whole     every slot of the file, as a broker maps it: preallocated zeros take part in a search
    written   without those zeros, as a broker leaves the file when it closes the segment
    sound     the entries before the first one that contradicts another, or the size of the log

A search visits the slots in Kafka's order, so a damaged index gives the answer that a broker would give.
Readers that do not imitate a broker verify a position before they use it: `checked_position` in seek.py.
"""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TypeAlias

from kafkatool.engine.batches.index_file import index_limit
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.errors import KafkatoolError
from kafkatool.format import offset_index, time_index
from kafkatool.format.index_search import lower_bound
from kafkatool.format.kernel import loops
from kafkatool.format.names import base_offset, split_state
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.time_index import NO_TIMESTAMP, TimeEntry

Column: TypeAlias = "array[int]"
"""64-bit integers; 32-bit in a packed index."""

MOST_READ = 408 * 80_000
"""Most bytes of an index to check against the log, 32 MB: a multiple of every entry size."""
_MOST_READ_WHOLE = 64 << 20


def _nothing() -> Column:
    return array("q")


@dataclass(slots=True)
class OffsetIndex:
    """Slots of an `.index`: last offsets of batches, relative to the base, and their positions."""

    base_offset: int = 0
    offsets: Column = field(default_factory=_nothing)
    positions: Column = field(default_factory=_nothing)
    is_sound: bool = False

    @classmethod
    def whole(cls, data: bytes, base_offset: int) -> OffsetIndex:
        return cls(base_offset, *_columns(data, offset_index.ENTRY_SIZE))

    @classmethod
    def written(cls, data: bytes, base_offset: int) -> OffsetIndex:
        return cls.whole(data[: offset_index.entries_end(data)], base_offset)

    def sound_count(self, log_size: int) -> int:
        """Count the entries before the first that contradicts another, or the size of the log."""
        count = self.rising_count()
        while count and self.positions[count - 1] >= log_size:
            count -= 1
        return count

    def rising_count(self) -> int:
        return min(loops.rising(self.offsets, 0), loops.rising(self.positions, 1))

    def sound(self, log_size: int) -> OffsetIndex:
        """Truncate it in place to the plausible entries, without a copy."""
        count = self.sound_count(log_size)
        del self.offsets[count:], self.positions[count:]
        self.is_sound = True
        return self

    def packed(self) -> OffsetIndex:
        """Return the same index in half the memory, for keeping many."""
        return OffsetIndex(self.base_offset, _packed(self.offsets), _packed(self.positions), self.is_sound)

    @property
    def size(self) -> int:
        """Its size in memory, in bytes."""
        return 2 * self.offsets.itemsize * len(self.offsets)

    def entry(self, slot: int) -> OffsetEntry:
        return OffsetEntry(self.offsets[slot], self.positions[slot])

    def floor(self, offset: int, visited: list[int] | None = None) -> OffsetEntry:
        """Return the entry to start reading from for an offset: the greatest at or below it, else (0, 0).

        The slots that Kafka's search looks at are appended to `visited`.
        """
        if self.is_sound and visited is None:  # any bisection gives Kafka's answer
            slot = bisect_right(self.offsets, offset - self.base_offset) - 1
        else:
            base = self.base_offset
            slot = lower_bound(
                len(self.offsets),
                lambda at: self.entry(at).offset(base),
                offset,
                offset_index.ENTRY_SIZE,
                visited,
            )
        return OffsetEntry(0, 0) if slot < 0 else self.entry(slot)

    def offset_behind(self, position: int) -> int | None:
        """Return the offset of the first entry at or after a position."""
        slot = bisect_left(self.positions, position)
        return self.base_offset + self.offsets[slot] if slot < len(self.offsets) else None


@dataclass(slots=True)
class TimeIndex:
    """Slots of a `.timeindex`: greatest times so far, and the last offsets of their batches."""

    base_offset: int = 0
    times: Column = field(default_factory=_nothing)
    offsets: Column = field(default_factory=_nothing)

    @classmethod
    def whole(cls, data: bytes, base_offset: int) -> TimeIndex:
        return cls(base_offset, *_columns(data, time_index.ENTRY_SIZE))

    @classmethod
    def written(cls, data: bytes, base_offset: int) -> TimeIndex:
        return cls.whole(data[: time_index.entries_end(data)], base_offset)

    def sound_count(self) -> int:
        return min(loops.rising(self.times, 0), loops.rising(self.offsets, 0))

    def sound(self) -> TimeIndex:
        """Truncate it in place to the plausible entries."""
        count = self.sound_count()
        del self.times[count:], self.offsets[count:]
        return self

    def entry(self, slot: int) -> TimeEntry:
        return TimeEntry(self.times[slot], self.offsets[slot])

    def floor(self, time_ms: int, visited: list[int] | None = None) -> TimeEntry:
        """Return the greatest entry at or below a time, else (-1, 0)."""
        slot = lower_bound(len(self.times), self.times.__getitem__, time_ms, time_index.ENTRY_SIZE, visited)
        return TimeEntry(NO_TIMESTAMP, 0) if slot < 0 else self.entry(slot)


def read_offset_index(log_path: str, guest: Guest) -> OffsetIndex:
    """Read the written entries of the `.index` of a log; empty if it is missing or unreadable."""
    return OffsetIndex.written(_read(log_path, ".index", guest), _base(log_path))


def read_time_index(log_path: str, guest: Guest) -> TimeIndex:
    """Read the written entries of the `.timeindex` of a log; empty if it is missing or unreadable."""
    return TimeIndex.written(_read(log_path, ".timeindex", guest), _base(log_path))


def sound_offset_index(log_path: str, log_size: int, guest: Guest) -> OffsetIndex:
    """Read the plausible entries of the `.index` of a log of this size."""
    data = _read(log_path, ".index", guest, min(MOST_READ, index_limit(log_size)))
    return OffsetIndex.whole(without_zeros(data, offset_index.ENTRY_SIZE), _base(log_path)).sound(log_size)


def sound_time_index(log_path: str, log_size: int, guest: Guest) -> TimeIndex:
    """Read the plausible entries of the `.timeindex` of a log of this size."""
    data = _read(log_path, ".timeindex", guest, min(MOST_READ, index_limit(log_size)))
    return TimeIndex.whole(without_zeros(data, time_index.ENTRY_SIZE), _base(log_path)).sound()


def without_zeros(data: bytes, entry_size: int) -> bytes:
    """Cut off the zeros at the end of an index."""
    return data[: -(-len(data.rstrip(b"\0")) // entry_size) * entry_size]


def sibling_file(path: str, extension: str) -> str | None:
    """Return `x.index.deleted` for `x.log.deleted` and `.index`; None if the path is not a log."""
    directory, name = os.path.split(path)
    live, _state = split_state(name)
    if not live.endswith(".log"):
        return None
    return os.path.join(directory, live.removesuffix(".log") + extension + name[len(live) :])


def _read(log_path: str, extension: str, guest: Guest, limit: int = _MOST_READ_WHOLE) -> bytes:
    path = sibling_file(log_path, extension)
    if path is None:
        return b""
    try:
        return read_small_file(path, guest, limit)
    except (OSError, KafkatoolError):
        return b""


def _base(log_path: str) -> int:
    return base_offset(os.path.basename(log_path)) or 0


def _columns(data: bytes, entry_size: int) -> tuple[Column, Column]:
    count = len(data) // entry_size
    first, second = array("q", [0]) * count, array("q", [0]) * count
    loops.index_columns(data, entry_size == time_index.ENTRY_SIZE, first, second)
    return first, second


def _packed(column: Column) -> Column:
    halves = memoryview(column).cast("B").cast("i")
    return array("i", halves[sys.byteorder == "big" :: 2].tobytes())
