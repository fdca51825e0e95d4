"""The transaction index, `<base>.txnindex`: the aborted transactions whose marker is in this segment.

    0         2            10            18           26                   34
    | version | producerId | firstOffset | lastOffset | lastStableOffset |   34 bytes, big-endian
      i16       i64          i64           i64          i64

    firstOffset       first offset of the transaction's data; may lie in an earlier segment
    lastOffset        offset of the ABORT marker; increases strictly
    lastStableOffset  the last stable offset when the marker was written

Offsets are absolute. Append-only, never preallocated, absent until needed. Kafka checks only the high byte
of the version, and accepts a negative one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from kafkatool.errors import FormatError, Truncated
from kafkatool.format.primitives import Buffer

ENTRY = Struct(
    ">h"  # version
    "q"  # producer_id
    "q"  # first_offset
    "q"  # last_offset
    "q"  # last_stable_offset
)
ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 34

CURRENT_VERSION = 0


class AbortedTxn(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def version_kafka_sees(self) -> int:
        """The signed high byte: all that Kafka up to 4.3 reads of the version."""
        return self.version >> 8


def read_entry(buf: Buffer, at: int) -> AbortedTxn:
    """Decode the entry at byte `at`; raise Truncated unless 34 bytes remain."""
    if at < 0 or len(buf) - at < ENTRY_SIZE:
        raise Truncated("transaction index entry", at, expected=ENTRY_SIZE, found=max(0, len(buf) - at))
    return AbortedTxn._make(ENTRY.unpack_from(buf, at))


def read_entries(buf: Buffer) -> Iterator[AbortedTxn]:
    """Yield every whole entry, of any version; like Kafka, ignore a partial one at the end."""
    return map(AbortedTxn._make, ENTRY.iter_unpack(memoryview(buf)[: len(buf) // ENTRY_SIZE * ENTRY_SIZE]))


def write_entry(entry: AbortedTxn) -> bytes:
    """Encode one entry of the current version."""
    if entry.version != CURRENT_VERSION:
        raise FormatError(
            "transaction index entry", 0, expected=f"version {CURRENT_VERSION}", found=entry.version
        )
    return ENTRY.pack(*entry)


def write_entries(entries: Iterable[AbortedTxn]) -> bytes:
    return b"".join(map(write_entry, entries))


def version_problem(entry: AbortedTxn) -> str | None:
    """Return why Kafka refuses an entry by its version, or None."""
    if entry.version_kafka_sees > CURRENT_VERSION:
        return f"version {entry.version_kafka_sees} is above {CURRENT_VERSION}"
    return None


def sanity_problem(entries: Iterable[AbortedTxn], base_offset: int) -> str | None:
    """Return the first problem that Kafka finds in the entries when it loads a segment, or None."""
    for slot, entry in enumerate(entries):
        problem = version_problem(entry)
        if problem is not None:
            return f"entry {slot}: {problem}"
        if entry.last_offset < base_offset:
            return f"entry {slot}: its last offset {entry.last_offset} is below the base offset {base_offset}"
    return None
