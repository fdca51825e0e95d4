"""The time index, `<base>.timeindex`: the largest timestamp of the segment up to an offset.

    0           8        12
    | timestamp | offset |   one entry, 12 bytes, big-endian
      i64         i32

    timestamp  milliseconds; the largest in the segment up to and including the offset
    offset     last offset of the batch that first reached that timestamp, minus the segment's base offset

Both increase strictly. No header, no checksum; preallocated to 10 485 756 bytes by default, the tail zeros.
The last slot is kept free for the entry that is written when the segment is closed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kafkatool.errors import FormatError, Truncated
from kafkatool.format.batch import wrap_int64
from kafkatool.format.index_search import first_zero
from kafkatool.format.java_text import INT_MAX, LONG_MAX, LONG_MIN
from kafkatool.format.primitives import Buffer

ENTRY = Struct(
    ">q"  # timestamp_ms
    "i"  # relative_offset
)
ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 12

NO_TIMESTAMP = -1


class TimeEntry(NamedTuple):
    timestamp_ms: int
    relative_offset: int

    def offset(self, base_offset: int) -> int:
        return wrap_int64(base_offset + self.relative_offset)


def read_entry(buf: Buffer, at: int) -> TimeEntry:
    """Decode the entry at byte `at`; raise Truncated unless 12 bytes remain."""
    if at < 0 or len(buf) - at < ENTRY_SIZE:
        raise Truncated("time index entry", at, expected=ENTRY_SIZE, found=max(0, len(buf) - at))
    return TimeEntry._make(ENTRY.unpack_from(buf, at))


def read_entries(buf: Buffer) -> Iterator[TimeEntry]:
    """Yield every whole entry, padding included; like Kafka, ignore a partial one at the end."""
    return map(TimeEntry._make, ENTRY.iter_unpack(memoryview(buf)[: len(buf) // ENTRY_SIZE * ENTRY_SIZE]))


def write_entry(entry: TimeEntry) -> bytes:
    """Encode one entry; raise FormatError where the numbers do not fit."""
    if not (LONG_MIN <= entry.timestamp_ms <= LONG_MAX and 0 <= entry.relative_offset <= INT_MAX):
        raise FormatError("time index entry", 0, expected="an i64 and 0 to 2^31-1", found=tuple(entry))
    return ENTRY.pack(*entry)


def write_entries(entries: Iterable[TimeEntry]) -> bytes:
    return b"".join(map(write_entry, entries))


def is_padding(slot: int, entry: TimeEntry) -> bool:
    """Return whether a slot was never written; slot 0 may hold the base offset itself, with a real time."""
    return entry.relative_offset == 0 and (slot > 0 or entry.timestamp_ms == 0)


def entries_end(buf: Buffer) -> int:
    """Return the byte after the last real entry of a file that may still be preallocated."""
    data = bytes(buf)[: len(buf) // ENTRY_SIZE * ENTRY_SIZE]
    if not data or is_padding(0, read_entry(data, 0)):
        return 0
    written = -(-len(data.rstrip(b"\0")) // ENTRY_SIZE)
    # Whether a number is zero does not depend on its byte order.
    return min(written, first_zero(array("i", data)[2::3])) * ENTRY_SIZE


def sanity_problem(
    size: int, first: TimeEntry | None, last: TimeEntry | None, base_offset: int
) -> str | None:
    """Return what Kafka's own check finds wrong with a file's size, first and last slot, or None.

    A zero tail after a real entry fails it.
    """
    if first is not None and last is not None:
        if last.timestamp_ms < first.timestamp_ms:
            return f"its last timestamp {last.timestamp_ms} is below its first, {first.timestamp_ms}"
        if last.offset(base_offset) < base_offset:
            return f"its last offset {last.offset(base_offset)} is below the base offset {base_offset}"
    if size % ENTRY_SIZE:
        return f"its size {size} is not a multiple of {ENTRY_SIZE}"
    return None
