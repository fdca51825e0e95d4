"""The offset index, `<base>.index`: where in the `.log` to start reading for an offset.

    0        4        8
    | offset | pos    |   one entry, 8 bytes, big-endian
      i32      i32

    offset  last offset of the indexed batch, minus the base offset in the file's name
    pos     byte where that batch begins in the .log

Entries increase strictly. There is no header and no checksum; an active segment's file is preallocated and
its tail is zeros. Brokers before KAFKA-806 wrote, on followers and when cleaning, the last offset of a
*group* of batches with the position of the first one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kafkatool.errors import FormatError, Truncated
from kafkatool.format.batch import wrap_int64
from kafkatool.format.index_search import first_zero
from kafkatool.format.java_text import INT_MAX
from kafkatool.format.primitives import Buffer

ENTRY = Struct(
    ">i"  # relative_offset
    "i"  # position
)
ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 8


class OffsetEntry(NamedTuple):
    relative_offset: int
    position: int

    def offset(self, base_offset: int) -> int:
        return wrap_int64(base_offset + self.relative_offset)


def read_entry(buf: Buffer, at: int) -> OffsetEntry:
    """Decode the entry at byte `at`; raise Truncated unless 8 bytes remain."""
    if at < 0 or len(buf) - at < ENTRY_SIZE:
        raise Truncated("offset index entry", at, expected=ENTRY_SIZE, found=max(0, len(buf) - at))
    return OffsetEntry._make(ENTRY.unpack_from(buf, at))


def read_entries(buf: Buffer) -> Iterator[OffsetEntry]:
    """Yield every whole entry, padding included; like Kafka, ignore a partial one at the end."""
    return map(OffsetEntry._make, ENTRY.iter_unpack(memoryview(buf)[: len(buf) // ENTRY_SIZE * ENTRY_SIZE]))


def write_entry(entry: OffsetEntry) -> bytes:
    """Encode one entry; raise FormatError where a broker would refuse it."""
    if not (0 <= entry.relative_offset <= INT_MAX and 0 <= entry.position <= INT_MAX):
        raise FormatError("offset index entry", 0, expected=f"0 to {INT_MAX}", found=tuple(entry))
    return ENTRY.pack(*entry)


def write_entries(entries: Iterable[OffsetEntry]) -> bytes:
    return b"".join(map(write_entry, entries))


def is_padding(slot: int, entry: OffsetEntry) -> bool:
    """Return whether a slot was never written: offsets increase, and position 0 is never indexed."""
    return entry.relative_offset == 0 and (slot > 0 or entry.position == 0)


def entries_end(buf: Buffer) -> int:
    """Return the byte after the last real entry of a file that may still be preallocated."""
    data = bytes(buf)[: len(buf) // ENTRY_SIZE * ENTRY_SIZE]
    if not data or is_padding(0, read_entry(data, 0)):
        return 0
    written = -(-len(data.rstrip(b"\0")) // ENTRY_SIZE)
    # Whether a number is zero does not depend on its byte order.
    return min(written, first_zero(array("i", data)[0::2])) * ENTRY_SIZE


def sanity_problem(size: int, last: OffsetEntry | None, base_offset: int) -> str | None:
    """Return what Kafka's own check finds wrong with a file's size and last slot, or None.

    A zero tail passes.
    """
    if last is not None and last.offset(base_offset) < base_offset:
        return f"its last offset {last.offset(base_offset)} is below the base offset {base_offset}"
    if size % ENTRY_SIZE:
        return f"its size {size} is not a multiple of {ENTRY_SIZE}"
    return None
