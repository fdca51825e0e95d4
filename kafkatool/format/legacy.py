"""Messages of magic 0 and 1, and the compressed wrappers around sets of them.

     0         8      12     16 17 18            18 or 26
    +---------+------+------+--+--+-------------+----------+-----+------------+-------+
    | offset  | size | crc  |m |at| timestamp   | key size | key | value size | value |
    |         |      | 32   |ag|tr| (magic 1)   |          |     |            |       |
    +---------+------+------+--+--+-------------+----------+-----+------------+-------+

The CRC (zlib's CRC-32, not CRC-32C) covers everything from byte 16 on. Where the attributes name a codec,
the value is a compressed run of whole entries, and the entry's offset is that of the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kafkatool.errors import FormatError, Truncated
from kafkatool.format.batch import (
    CODEC_LABELS,
    CODEC_MASK,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Codec,
    TimestampType,
    wrap_int64,
)
from kafkatool.format.checksum import crc32
from kafkatool.format.compression import CorruptStream, compress, decompress
from kafkatool.format.primitives import Buffer, read_int32, read_int64

ENTRY = Struct(
    ">q"  # offset
    "i"  # size: bytes after this field
    "I"  # crc
    "b"  # magic
    "b"  # attributes
)
MIN_SIZE = 14  # of the size field; Kafka requires it of every magic
CRC_START = 16
_TIMESTAMP_POSITION = 18


class LegacyHeader(NamedTuple):
    """Header of one entry, with the same properties as BatchHeader.

    What magic 0 and 1 lack, such as a producer or leader epoch, has the value for none.
    """

    offset: int
    entry_size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int

    @property
    def size(self) -> int:
        """Size of the whole entry in bytes."""
        return LOG_OVERHEAD + self.entry_size

    @property
    def batch_length(self) -> int:
        return self.entry_size

    @property
    def base_offset(self) -> int:
        """The last offset, for a wrapper: its first is known only inside."""
        return self.offset

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def last_offset_delta(self) -> int:
        return 0

    @property
    def base_timestamp(self) -> int:
        return self.timestamp

    @property
    def max_timestamp(self) -> int:
        return self.timestamp

    @property
    def delete_horizon_ms(self) -> None:
        return None

    @property
    def partition_leader_epoch(self) -> int:
        return -1

    @property
    def producer_id(self) -> int:
        return -1

    @property
    def producer_epoch(self) -> int:
        return -1

    @property
    def base_sequence(self) -> int:
        return NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return NO_SEQUENCE

    @property
    def records_count(self) -> int:
        """Always 1: how many messages a wrapper holds is known only inside."""
        return 1

    @property
    def is_transactional(self) -> bool:
        return False

    @property
    def is_control(self) -> bool:
        return False

    @property
    def codec_label(self) -> str | None:
        return CODEC_LABELS[self.attributes & CODEC_MASK]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NONE
        return TimestampType.LOG_APPEND if self.attributes & TIMESTAMP_TYPE_MASK else TimestampType.CREATE


Header = BatchHeader | LegacyHeader


class LegacyMessage(NamedTuple):
    """One message as a consumer sees it. Sizes are those on disk, even below -1.

    A key or value that does not fit into its message raises FormatError only when it is read, as in Kafka:
    the rest of the message stays readable.
    """

    offset: int
    timestamp_ms: int
    crc: int
    is_valid: bool
    magic: int
    attributes: int
    key_size: int
    value_size: int
    raw: bytes

    @property
    def key(self) -> bytes | None:
        return _sized(self.raw, _key_size_position(self.raw))

    @property
    def value(self) -> bytes | None:
        return _sized(self.raw, _value_size_position(self.raw))


def read_legacy_header(buf: Buffer, at: int = 0) -> LegacyHeader:
    """Decode the header of the entry at byte `at`; raise Truncated where it is incomplete."""
    wanted = _TIMESTAMP_POSITION if _magic_at(buf, at) == 0 else _TIMESTAMP_POSITION + 8
    if at < 0 or len(buf) - at < wanted:
        raise Truncated("message header", at, expected=wanted, found=max(0, len(buf) - at))
    offset, size, crc, magic, attributes = ENTRY.unpack_from(buf, at)
    timestamp = NO_TIMESTAMP if magic == 0 else read_int64(buf, at + _TIMESTAMP_POSITION)[0]
    return LegacyHeader(offset, size, crc, magic, attributes, timestamp)


def _magic_at(buf: Buffer, at: int) -> int:
    return buf[at + 16] if at >= 0 and at + 16 < len(buf) else -1


def is_valid(data: Buffer) -> bool:
    """Return whether the bytes of one whole entry match their checksum."""
    if len(data) < LOG_OVERHEAD + MIN_SIZE:
        return False
    return crc32(memoryview(data)[CRC_START:]) == int.from_bytes(data[12:16], "big")


def read_messages(data: Buffer, *, max_inflated: int) -> Iterator[LegacyMessage]:
    """Yield the messages of one whole entry, those inside a wrapper with their absolute offsets.

    Raises FormatError after the last good message if the bytes do not hold what they promise.
    """
    raw = bytes(data)
    header = read_legacy_header(raw)
    if not header.attributes & CODEC_MASK:
        yield _read_message(raw, header.offset, header.timestamp)
        return
    if header.magic not in (0, 1):
        raise FormatError("wrapper magic", 16, expected="0 or 1", found=header.magic)
    inner, failure = _inner_entries(raw, header, max_inflated)
    base = _absolute_base(header, inner)
    for entry in inner:
        message = _read_inner(entry, header, base)
        if message.attributes & CODEC_MASK:
            raise FormatError("inner message", 17, expected="no compression", found="a compressed message")
        yield message
    if failure:
        raise failure
    if not inner:
        raise FormatError("wrapper", 0, expected="messages inside", found="none")


def _inner_entries(
    raw: bytes, header: LegacyHeader, max_inflated: int
) -> tuple[list[bytes], FormatError | None]:
    codec = header.attributes & CODEC_MASK
    if codec == Codec.ZSTD:
        raise FormatError("wrapper codec", 17, expected="gzip, snappy or lz4", found="zstd")
    value = _sized(raw, _value_size_position(raw))
    if value is None:
        raise FormatError("wrapper value", 0, expected="compressed messages", found="null")
    failure: FormatError | None = None
    try:
        body = decompress(codec, value, limit=max_inflated, magic=header.magic)
    except CorruptStream as error:
        body, failure = error.partial, error
    try:
        return list(_split_entries(body)), failure
    except FormatError as error:
        return [], failure or error


def _split_entries(body: bytes) -> Iterator[bytes]:
    at = 0
    while len(body) - at >= LOG_OVERHEAD:
        size, _ = read_int32(body, at + 8)
        if size < MIN_SIZE:
            raise FormatError("inner message size", at + 8, expected=f"{MIN_SIZE} or more", found=size)
        if size > len(body) - at - LOG_OVERHEAD:
            return  # a partial message at the end is dropped silently
        yield body[at : at + LOG_OVERHEAD + size]
        at += LOG_OVERHEAD + size


def _absolute_base(header: LegacyHeader, inner: list[bytes]) -> int | None:
    """Return what to add to inner offsets; None where they are absolute already."""
    if header.magic == 0 or not inner:
        return None
    if header.offset == 0:
        return 0  # some clients leave the wrapper's offset at 0
    last, _ = read_int64(inner[-1], 0)
    if header.offset < last:
        raise FormatError("wrapper offset", 0, expected=f"{last} or more", found=header.offset)
    return header.offset - last


def _read_inner(entry: bytes, wrapper: LegacyHeader, base: int | None) -> LegacyMessage:
    header = read_legacy_header(entry)
    offset = header.offset if base is None else wrap_int64(base + header.offset)
    timestamp = header.timestamp
    if header.magic == 1 and wrapper.timestamp_type is TimestampType.LOG_APPEND:
        timestamp = wrapper.timestamp
    return _read_message(entry, offset, timestamp)


def _read_message(raw: bytes, offset: int, timestamp: int) -> LegacyMessage:
    header = read_legacy_header(raw)
    return LegacyMessage(
        offset=offset,
        timestamp_ms=timestamp,
        crc=header.crc,
        is_valid=is_valid(raw),
        magic=header.magic,
        attributes=header.attributes,
        key_size=read_int32(raw, _key_size_position(raw))[0],
        value_size=read_int32(raw, _value_size_position(raw))[0],
        raw=raw,
    )


def _key_size_position(raw: bytes) -> int:
    return _TIMESTAMP_POSITION if raw[16] == 0 else _TIMESTAMP_POSITION + 8


def _value_size_position(raw: bytes) -> int:
    key_at = _key_size_position(raw)
    return key_at + 4 + max(0, read_int32(raw, key_at)[0])


def _sized(raw: bytes, at: int) -> bytes | None:
    size, at = read_int32(raw, at)
    if size < 0:
        return None
    if size > len(raw) - at:
        raise Truncated("message field", at, expected=size, found=len(raw) - at)
    return raw[at : at + size]


def write_message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp_ms: int = NO_TIMESTAMP,
) -> bytes:
    """Encode one entry of magic 0 or 1."""
    body = bytes((magic, attributes))
    if magic == 1:
        body += timestamp_ms.to_bytes(8, "big", signed=True)
    body += _write_sized(key) + _write_sized(value)
    size = len(body) + 4
    return (
        offset.to_bytes(8, "big", signed=True)
        + size.to_bytes(4, "big")
        + crc32(body).to_bytes(4, "big")
        + body
    )


def _write_sized(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value


def write_wrapper(entries: list[bytes], codec: Codec, *, magic: int = 1, timestamp_ms: int = -1) -> bytes:
    """Compress entries with absolute offsets into one wrapper, with relative offsets for magic 1."""
    last, _ = read_int64(entries[-1], 0)
    if magic == 1:
        first, _ = read_int64(entries[0], 0)
        entries = [(read_int64(e, 0)[0] - first).to_bytes(8, "big") + e[8:] for e in entries]
    value = compress(codec, b"".join(entries), magic=magic)
    return write_message(last, None, value, magic=magic, attributes=codec, timestamp_ms=timestamp_ms)
