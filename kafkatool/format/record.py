"""Decode the records of one batch, magic 2: the reference decoder.

length           varint   bytes after this varint
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

from kafkatool.errors import FormatError, TooLarge, Truncated
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
MOST_HEADERS = 100_000
"""Per record. A few kilobytes of a compressed batch can hold millions of empty headers, each far larger in
memory and on screen than its two bytes."""


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

    Raises FormatError after the last good record if the bytes do not hold exactly the records that the header
    promises, and TooLarge if they inflate beyond the limit.
    """
    if len(data) < HEADER_SIZE:
        raise Truncated("batch", 0, expected=HEADER_SIZE, found=len(data))
    count = header.records_count
    if count < 0:
        raise FormatError("record count", 57, expected="0 or more", found=count)
    if count == 0:
        return
    failure: FormatError | None = None
    try:
        body = read_body(header, data, max_inflated=max_inflated)
    except CorruptStream as error:
        body, failure = error.partial, error
    try:
        for span in read_spans(header, body, 0, len(body)):
            yield record_of(span, body)
    except FormatError as error:
        raise failure or error from None
    if failure:
        raise failure


def read_body(header: BatchHeader, data: Buffer, *, max_inflated: int = DEFAULT_MAX_INFLATED) -> bytes:
    """Return the records of one whole batch, inflated but not decoded; raise what `decompress` raises."""
    body = memoryview(data)[HEADER_SIZE:]
    if header.attributes & CODEC_MASK:
        return decompress(header.attributes & CODEC_MASK, body, limit=max_inflated)
    return bytes(body)


class RecordSpan(NamedTuple):
    """A record, and where its parts lie; a size of -1 is null."""

    offset: int
    timestamp_ms: int
    sequence: int
    attributes: int
    key_start: int
    key_size: int
    value_start: int
    value_size: int
    headers_start: int
    """After their count."""
    headers_count: int
    end: int
    """The byte after the record."""


def read_spans(
    header: BatchHeader, body: bytes, start: int, stop: int, *, is_whole: bool = True
) -> Iterator[RecordSpan]:
    """Yield the records of a batch that lie, uncompressed, in `body[start:stop]`.

    Raises FormatError after the last good one unless there are as many as the header says, and, if
    `is_whole`, nothing follows them.
    """
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND else None
    at, count = start, header.records_count
    for index in range(count):
        span, at = _read_span(header, body, at, stop, append_time)
        if is_whole and index == count - 1 and at != stop:
            raise FormatError("records", at, expected=f"the end after {count} records", found="more bytes")
        yield span


def record_of(span: RecordSpan, body: bytes) -> Record:
    """Return the record with its bytes copied out."""
    offset, timestamp, sequence, attributes, key_at, key_size, at, size, headers_at, count, _end = span
    key = None if key_size < 0 else body[key_at : key_at + key_size]
    value = None if size < 0 else body[at : at + size]
    headers = read_headers(body, headers_at, count) if count else ()
    return Record(offset, timestamp, sequence, attributes, key, value, headers)


def read_headers(body: Buffer, at: int, count: int) -> tuple[Header, ...]:
    """Return the `count` headers at `at`, of a record that was read before; raise TooLarge if too many."""
    check_header_count(count, at)
    headers = []
    for _ in range(count):
        key_at, size, at = _read_nullable(body, at, len(body))
        value_at, value_size, at = _read_nullable(body, at, len(body))
        value = None if value_size < 0 else bytes(body[value_at : value_at + value_size])
        headers.append((bytes(body[key_at : key_at + size]), value))
    return tuple(headers)


def check_header_count(count: int, at: int) -> None:
    """Raise TooLarge for more headers than we read per record."""
    if count > MOST_HEADERS:
        raise TooLarge("headers of a record", at, expected=f"{MOST_HEADERS} at most", found=count)


def _read_span(
    header: BatchHeader, body: bytes, start: int, stop: int, append_time: int | None
) -> tuple[RecordSpan, int]:
    size, at = _small_varint(body, start, stop)
    end = at + size
    if end > stop or size < 0:
        raise Truncated("record", start, expected=size, found=stop - at)
    if size == 0:
        raise Truncated("record", start, expected=size, found=0)
    attributes = body[at]
    delta, at = read_varlong(body, at + 1)
    timestamp = append_time if append_time is not None else wrap_int64(header.base_timestamp + delta)
    offset_delta, at = _small_varint(body, at, stop)
    key_at, key_size, at = _read_nullable(body, at, stop)
    value_at, value_size, at = _read_nullable(body, at, stop)
    if at >= stop:
        raise Truncated("record", start, expected=size, found=stop - start)
    count, headers_at, at = _skip_headers(body, at, stop) if body[at] else (0, at + 1, at + 1)
    if at != end:
        raise FormatError("record", start, expected=f"{size} bytes", found=f"{size + at - end} bytes")
    base = header.base_sequence
    sequence = increment_sequence(base, offset_delta) if base >= 0 else NO_SEQUENCE
    span = (timestamp, sequence, attributes, key_at, key_size, value_at, value_size, headers_at, count, at)
    return RecordSpan(wrap_int64(header.base_offset + offset_delta), *span), at


def _small_varint(body: Buffer, at: int, stop: int) -> tuple[int, int]:
    """Read a varint, trying first the one-byte case of nearly every record."""
    if at < stop and (byte := body[at]) < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    return read_varint(body, at)


def _read_nullable(body: Buffer, at: int, stop: int) -> tuple[int, int, int]:
    """Return start, size (-1: null) and end of a field after its length."""
    size, at = _small_varint(body, at, stop)
    if size < 0:
        return at, -1, at
    if at + size > stop:
        raise Truncated("record field", at, expected=size, found=stop - at)
    return at, size, at + size


def _skip_headers(body: bytes, start: int, stop: int) -> tuple[int, int, int]:
    """Return the number of headers, where the first begins, and where the last ends."""
    count, at = read_varint(body, start)
    if count < 0 or count > stop - at:
        raise FormatError("header count", start, expected=f"0 to {stop - at}", found=count)
    check_header_count(count, start)
    first = at
    for _ in range(count):
        _key, size, at = _read_nullable(body, at, stop)
        if size < 0:
            raise FormatError("header key", at, expected="a key", found="null")
        _value, _size, at = _read_nullable(body, at, stop)
    return count, first, at


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
