"""The records of one batch, magic 2: the reference decoder.

length           varint   bytes behind this varint
attributes       int8     unused
timestamp delta  varlong
offset delta     varint
key              varint length (negative: null), bytes
value            varint length (negative: null), bytes
headers          varint count, then for each: varint length, key; varint length (negative: null), value
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkatool.errors import FormatError, Truncated
from kafkatool.format.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    NO_SEQUENCE,
    BatchHeader,
    NewRecord,
    TimestampType,
    increment_sequence,
    wrap_int64,
)
from kafkatool.format.compression import CorruptStream, decompress
from kafkatool.format.primitives import Buffer, read_varint, read_varlong, write_varint, write_varlong

Header = tuple[bytes, bytes | None]

DEFAULT_MAX_INFLATED = 64 << 20


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    sequence: int
    attributes: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]

    @property
    def key_size(self) -> int:
        return -1 if self.key is None else len(self.key)

    @property
    def value_size(self) -> int:
        return -1 if self.value is None else len(self.value)


def read_records(
    header: BatchHeader, data: Buffer, *, max_inflated: int = DEFAULT_MAX_INFLATED
) -> Iterator[Record]:
    """Yield the records of one whole batch, `data`, as far as they can be decoded.

    Raises FormatError behind the last good record if the bytes do not hold exactly the records that the
    header promises, and TooLarge if they inflate beyond the limit.
    """
    if len(data) < HEADER_SIZE:
        raise Truncated("batch", 0, expected=HEADER_SIZE, found=len(data))
    count = header.records_count
    if count < 0:
        raise FormatError("record count", 57, expected="0 or more", found=count)
    if count == 0:
        return
    failure: FormatError | None = None
    body: Buffer = memoryview(data)[HEADER_SIZE:]
    if header.attributes & CODEC_MASK:
        try:
            body = decompress(header.attributes & CODEC_MASK, body, limit=max_inflated)
        except CorruptStream as error:
            body, failure = error.partial, error
    else:
        body = bytes(body)
    try:
        yield from _read_body(header, body, count)
    except FormatError as error:
        raise failure or error from None
    if failure:
        raise failure


def _read_body(header: BatchHeader, body: bytes, count: int) -> Iterator[Record]:
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND else None
    at = 0
    for index in range(count):
        record, at = _read_record(header, body, at, append_time)
        if index == count - 1 and at != len(body):
            raise FormatError("records", at, expected=f"the end after {count} records", found="more bytes")
        yield record


def _read_record(header: BatchHeader, body: bytes, start: int, append_time: int | None) -> tuple[Record, int]:
    size, at = _small_varint(body, start)
    end = at + size
    if end > len(body) or size < 0:
        raise Truncated("record", start, expected=size, found=len(body) - at)
    try:
        attributes = body[at]
        delta, at = read_varlong(body, at + 1)
        timestamp = append_time if append_time is not None else wrap_int64(header.base_timestamp + delta)
        offset_delta, at = _small_varint(body, at)
        key, at = _read_nullable(body, at)
        value, at = _read_nullable(body, at)
        headers: tuple[Header, ...] = ()
        if body[at]:
            headers, at = _read_headers(body, at)
        else:
            at += 1
    except IndexError:
        raise Truncated("record", start, expected=size, found=len(body) - start) from None
    if at != end:
        raise FormatError("record", start, expected=f"{size} bytes", found=f"{size + at - end} bytes")
    base = header.base_sequence
    sequence = increment_sequence(base, offset_delta) if base >= 0 else NO_SEQUENCE
    offset = wrap_int64(header.base_offset + offset_delta)
    return Record(offset, timestamp, sequence, attributes, key, value, headers), at


def _small_varint(body: bytes, at: int) -> tuple[int, int]:
    """read_varint, with the one-byte case that nearly every record has in front."""
    if at < len(body) and (byte := body[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    return read_varint(body, at)


def _read_nullable(body: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _small_varint(body, at)
    if size < 0:
        return None, at
    if at + size > len(body):
        raise Truncated("record field", at, expected=size, found=len(body) - at)
    return body[at : at + size], at + size


def _read_headers(body: bytes, start: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_varint(body, start)
    if count < 0 or count > len(body) - at:
        raise FormatError("header count", start, expected=f"0 to {len(body) - at}", found=count)
    headers = []
    for _ in range(count):
        key, at = _read_nullable(body, at)
        if key is None:
            raise FormatError("header key", at, expected="a key", found="null")
        value, at = _read_nullable(body, at)
        headers.append((key, value))
    return tuple(headers), at


def write_record(record: NewRecord, offset_delta: int, base_timestamp: int) -> bytes:
    """Encode one record of a batch."""
    parts = [
        b"\0",
        write_varlong(record.timestamp_ms - base_timestamp),
        write_varint(offset_delta),
        _write_nullable(record.key),
        _write_nullable(record.value),
        write_varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += (_write_nullable(key), _write_nullable(value))
    body = b"".join(parts)
    return write_varint(len(body)) + body


def _write_nullable(value: bytes | None) -> bytes:
    return write_varint(-1) if value is None else write_varint(len(value)) + value
