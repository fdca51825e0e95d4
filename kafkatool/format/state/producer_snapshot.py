"""The producer state, `<offset>.snapshot`: every producer's last batch below that offset.

    0         2     6       10
    | version | crc | count | count entries |   big-endian
      i16 = 1   u32   i32

    crc  CRC-32C of every byte from 6 to the end of the file

    0            8       10        14           22            26          34           38             46
    | producerId | epoch | lastSeq | lastOffset | offsetDelta | timestamp | coordEpoch | txnFirst   |
      i64          i16     i32       i64          i32           i64         i32          i64

    lastOffset   last data offset, -1 when the producer only wrote markers
    offsetDelta  last sequence minus first sequence of that batch
    txnFirst     first offset of the open transaction, -1 when none is open

The file is written without truncation: a shorter state over a longer file leaves a tail that breaks the CRC.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from kafkatool.errors import FormatError, Truncated
from kafkatool.format.batch import decrement_sequence
from kafkatool.format.checksum import crc32c
from kafkatool.format.primitives import Buffer

HEADER = Struct(
    ">h"  # version
    "I"  # crc
    "i"  # count
)
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 10

ENTRY = Struct(
    ">q"  # producer_id
    "h"  # producer_epoch
    "i"  # last_sequence
    "q"  # last_offset
    "i"  # offset_delta
    "q"  # timestamp_ms
    "i"  # coordinator_epoch
    "q"  # current_txn_first_offset
)
ENTRY_SIZE = ENTRY.size
assert ENTRY_SIZE == 46

CURRENT_VERSION = 1
CRC_FROM = 6


class SnapshotHeader(NamedTuple):
    version: int
    crc: int
    entry_count: int


class ProducerState(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def first_sequence(self) -> int:
        """First sequence of the last batch; sequences wrap to 0 after 2^31-1."""
        return decrement_sequence(self.last_sequence, self.offset_delta)


def read_header(buf: Buffer) -> SnapshotHeader:
    """Decode the first 10 bytes, of any version."""
    if len(buf) < HEADER_SIZE:
        raise Truncated("producer snapshot", 0, expected=HEADER_SIZE, found=len(buf))
    return SnapshotHeader._make(HEADER.unpack_from(buf))


def computed_crc(buf: Buffer) -> int:
    return crc32c(memoryview(buf)[CRC_FROM:])


def read_entries(buf: Buffer) -> list[ProducerState]:
    """Decode as many entries as the count promises, whatever the version and CRC say."""
    count = read_header(buf).entry_count
    if count < 0:
        raise FormatError("producer count", CRC_FROM, expected="0 or more", found=count)
    end = HEADER_SIZE + count * ENTRY_SIZE
    if end > len(buf):
        raise Truncated(
            "producer entries", HEADER_SIZE, expected=count * ENTRY_SIZE, found=len(buf) - HEADER_SIZE
        )
    return list(map(ProducerState._make, ENTRY.iter_unpack(memoryview(buf)[HEADER_SIZE:end])))


def read_snapshot(buf: Buffer) -> list[ProducerState]:
    """Decode a whole file; raise FormatError unless version, length and CRC are right."""
    header = read_header(buf)
    if header.version != CURRENT_VERSION:
        raise FormatError("producer snapshot version", 0, expected=CURRENT_VERSION, found=header.version)
    entries = read_entries(buf)
    if header.crc != (computed := computed_crc(buf)):
        raise FormatError("producer snapshot CRC", 2, expected=computed, found=header.crc)
    return entries


def write_snapshot(entries: Sequence[ProducerState]) -> bytes:
    """Encode a whole file, CRC included."""
    body = b"".join(ENTRY.pack(*entry) for entry in entries)
    unsigned = HEADER.pack(CURRENT_VERSION, 0, len(entries)) + body
    return HEADER.pack(CURRENT_VERSION, computed_crc(unsigned), len(entries)) + body
