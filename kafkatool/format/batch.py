"""Record batch, magic 2: the 61-byte header in front of the records.

     0          8       12      16 17      21    23      27         35         43
    +----------+-------+-------+--+-------+-----+-------+----------+----------+
    | base     | batch | leader|m | crc   |attri| last  | base     | max      |
    | offset   | length| epoch |ag| 32C   |butes| offset| timestamp| timestamp|
    |          |       |       |ic|       |     | delta |          |          |
    +----------+-------+-------+--+-------+-----+-------+----------+----------+
    43         51     53      57      61
    +----------+------+-------+-------+---------
    | producer | prod.| base  | record| records, or one
    | id       | epoch| seq.  | count | compressed blob …
    +----------+------+-------+-------+---------

The CRC covers everything from byte 21 on. Offset, length, leader epoch and magic are outside, so that a
broker can stamp them without reading the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from struct import Struct
from typing import NamedTuple

from kafkatool.errors import Truncated
from kafkatool.format.checksum import crc32c
from kafkatool.format.primitives import Buffer

HEADER = Struct(
    ">q"  # base_offset
    "i"  # batch_length: bytes after this field
    "i"  # partition_leader_epoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # last_offset_delta
    "q"  # base_timestamp, or the delete horizon where attribute bit 6 is set
    "q"  # max_timestamp
    "q"  # producer_id
    "h"  # producer_epoch
    "i"  # base_sequence
    "i"  # records_count
)
HEADER_SIZE = 61
assert HEADER.size == HEADER_SIZE

LOG_OVERHEAD = 12  # base offset and length: at the start of every entry of every magic
MAGIC_POSITION = 16
CRC_START = 21

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

NO_TIMESTAMP = -1
NO_SEQUENCE = -1
MAX_INT32 = 0x7FFFFFFF
MAX_INT64 = 0x7FFFFFFFFFFFFFFF


class Codec(IntEnum):
    """Compression codec, by its number in the attributes. 5 to 7 are not assigned."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        return self.name.lower()


CODEC_LABELS: tuple[str | None, ...] = ("none", "gzip", "snappy", "lz4", "zstd", None, None, None)


class TimestampType(Enum):
    """The clock that timestamps come from, by the name Kafka prints."""

    NONE = "NoTimestampType"
    CREATE = "CreateTime"
    LOG_APPEND = "LogAppendTime"


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Size of the whole entry in bytes."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return wrap_int64(self.base_offset + self.last_offset_delta)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec_label(self) -> str | None:
        """`gzip` and so on; None for a number that names no codec."""
        return CODEC_LABELS[self.attributes & CODEC_MASK]

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND if self.attributes & TIMESTAMP_TYPE_MASK else TimestampType.CREATE

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None


def read_header(buf: Buffer, at: int = 0) -> BatchHeader:
    """Decode the header at byte `at`; raise Truncated unless 61 bytes remain."""
    if at < 0 or len(buf) - at < HEADER_SIZE:
        raise Truncated("batch header", at, expected=HEADER_SIZE, found=max(0, len(buf) - at))
    return BatchHeader._make(HEADER.unpack_from(buf, at))


def write_header(header: BatchHeader) -> bytes:
    return HEADER.pack(*header)


def is_valid(data: Buffer) -> bool:
    """Return whether one whole batch matches its checksum; nothing else is checked."""
    if len(data) < HEADER_SIZE:
        return False
    return crc32c(memoryview(data)[CRC_START:]) == int.from_bytes(data[17:21], "big")


def seal(header: BatchHeader, body: bytes) -> bytes:
    """Return the bytes of a batch with this header and body; length and CRC are computed."""
    header = header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(body), crc=0)
    raw = bytearray(write_header(header) + body)
    raw[17:21] = crc32c(memoryview(raw)[CRC_START:]).to_bytes(4, "big")
    return bytes(raw)


def wrap_int32(value: int) -> int:
    """Return what Java's int arithmetic would give."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def wrap_int64(value: int) -> int:
    """Return what Java's long arithmetic would give."""
    return (value + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence number, wrapping around after 2^31 - 1."""
    if sequence > wrap_int32(MAX_INT32 - increment):
        return wrap_int32(increment - (MAX_INT32 - sequence) - 1)
    return wrap_int32(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Subtract from a sequence number, wrapping around below 0."""
    if sequence < decrement:
        return wrap_int32(MAX_INT32 - (decrement - sequence) + 1)
    return wrap_int32(sequence - decrement)


class NewRecord(NamedTuple):
    """A record to write; its batch assigns the offset."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = NO_TIMESTAMP
    headers: Sequence[tuple[bytes, bytes | None]] = ()
