"""Decode many batches at once into numpy columns.

    BatchColumns    one row per batch: the fields of its header, and its position
    RecordColumns   one row per record: offset, time and so on; where key, value and headers lie in `data`

Bytes are not copied: a column holds starts and sizes (-1: null). Records of compressed batches are inflated
into an arena that is reused, so columns are valid only until the next ones are asked for. Memory does not
grow with the log: a batch with more records than there are rows comes in several pieces.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    read_header,
)
from kafkatool.format.compression import decompress
from kafkatool.format.kernel import loops
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import (
    DEFAULT_MAX_INFLATED,
    MOST_HEADERS,
    check_header_count,
    read_body,
    read_headers,
    read_records,
)

Column = NDArray[np.int64]

# Small enough to stay in the CPU's cache between writing and reading. Columns must not lie a whole number of
# pages apart, or they all compete for the same few cache lines.
RECORDS_AT_ONCE = 34 * 512 + 40
ARENA_SIZE = 4 << 20
_PIECE = RECORDS_AT_ONCE * HEADER_SIZE  # cannot hold more batches than there are rows
_BRIEF = Struct(">8xi9xh34xi")  # length, attributes and count of a batch
assert _BRIEF.size == HEADER_SIZE
_BATCH_FIELDS = 14
_RECORD_FIELDS = 11
_HEADERS_COUNT, _BATCH = 9, 10
_MOST_HEADERS_AT_ONCE = 2 << 20


class BatchColumns(NamedTuple):
    position: Column
    base_offset: Column
    size: Column
    partition_leader_epoch: Column
    magic: Column
    crc: Column
    attributes: Column
    last_offset_delta: Column
    base_timestamp: Column
    """Or the delete horizon, where attribute bit 6 is set."""
    max_timestamp: Column
    producer_id: Column
    producer_epoch: Column
    base_sequence: Column
    records_count: Column

    @property
    def last_offset(self) -> Column:
        return self.base_offset + self.last_offset_delta


class RecordColumns(NamedTuple):
    data: memoryview
    """The bytes that the start columns point into."""
    batches: BatchColumns
    offset: Column
    timestamp_ms: Column
    sequence: Column
    attributes: Column
    key_start: Column
    key_size: Column
    value_start: Column
    value_size: Column
    headers_start: Column
    """After their count."""
    headers_count: Column
    batch: Column
    """The row in `batches` of the record's batch."""

    def __len__(self) -> int:
        return len(self.offset)

    def key(self, row: int) -> bytes | None:
        return self._bytes(int(self.key_start[row]), int(self.key_size[row]))

    def value(self, row: int) -> bytes | None:
        return self._bytes(int(self.value_start[row]), int(self.value_size[row]))

    def headers(self, row: int) -> tuple[tuple[bytes, bytes | None], ...]:
        count = int(self.headers_count[row])
        return read_headers(self.data, int(self.headers_start[row]), count) if count else ()

    def _bytes(self, start: int, size: int) -> bytes | None:
        return None if size < 0 else bytes(self.data[start : start + size])


class BadRecords(NamedTuple):
    """A good batch whose records cannot be decoded: left out, at least those after the damage."""

    position: int
    header: BatchHeader
    error: FormatError


def read_batch_columns(window: Buffer, start: int, end: int, count: int, position: int) -> BatchColumns:
    """Return the headers of the `count` good batches in `window[start:end]`, the first at `position`."""
    table = np.empty((_BATCH_FIELDS, count), dtype=np.int64)
    _at, rows = loops.batch_rows(window, start, end, position, table, 0)
    return BatchColumns(*table[:, :rows])


_Memory = tuple[NDArray[np.int64], NDArray[np.int64], memoryview]


def _new_memory() -> _Memory:
    """Allocate rows for records, rows for batches, and the arena for inflated bytes."""
    records, batches = (
        np.empty((fields, RECORDS_AT_ONCE), dtype=np.int64) for fields in (_RECORD_FIELDS, _BATCH_FIELDS)
    )
    return records, batches, memoryview(bytearray(ARENA_SIZE))  # bytes put into a bytearray are copied twice


class RecordDecoder:
    """Decode stretches of good batches, one after another, into the same memory."""

    def __init__(self, max_inflated: int = DEFAULT_MAX_INFLATED) -> None:
        self._max_inflated = max_inflated
        self._spare: _Memory | None = None
        self._records, self._batches, self._arena = _new_memory()

    def turn(self) -> None:
        """Keep what was decoded last: the next call uses other memory, the one after it reuses this."""
        spare, self._spare = self._spare, (self._records, self._batches, self._arena)
        self._records, self._batches, self._arena = spare or _new_memory()

    def decode(
        self, window: bytes, start: int, end: int, position: int
    ) -> Iterator[RecordColumns | BadRecords]:
        """Yield the records of the good batches in `window[start:end]`, the first batch at `position`."""
        shift = position - start
        while start < end:
            stop = min(end, start + _PIECE)
            at, rows, _batches = loops.record_rows(window, start, stop, self._records, 0, 0)
            data = memoryview(window)
            if at == start:
                at, rows = self._inflate(window, start, stop)
                data = self._arena
            if at > start:
                at, rows = self._before_too_many_headers(window, start, at, rows)
            if at > start:
                yield self._columns(data, window, start, at, start + shift, rows)
            else:
                header = read_header(window, start)
                at = start + header.size
                yield from self._one_batch(window, start, header, start + shift)
            start = at

    def _before_too_many_headers(self, window: bytes, start: int, end: int, rows: int) -> tuple[int, int]:
        """Return where the first batch with too many headers in a record begins, and the rows before it."""
        too_many = np.flatnonzero(self._records[_HEADERS_COUNT, :rows] > MOST_HEADERS)
        if not len(too_many):
            return end, rows
        number = int(self._records[_BATCH, too_many[0]])
        for _ in range(number):
            start += read_header(window, start).size
        return start, int(np.searchsorted(self._records[_BATCH, :rows], number))

    def _columns(
        self, data: memoryview, window: bytes, start: int, end: int, position: int, rows: int
    ) -> RecordColumns:
        _at, batches = loops.batch_rows(window, start, end, position, self._batches, 0)
        return RecordColumns(data, BatchColumns(*self._batches[:, :batches]), *self._records[:, :rows])

    def _inflate(self, window: bytes, start: int, end: int) -> tuple[int, int]:
        """Inflate batches into the arena while they fit and decode; return where it ended and the next."""
        arena, limit, brief = self._arena, self._max_inflated, _BRIEF.unpack_from
        at, used, rows, ends = start, 0, 0, array("q")
        while end - at >= HEADER_SIZE:
            length, attributes, count = brief(window, at)
            codec, stop, rows = attributes & CODEC_MASK, at + length + LOG_OVERHEAD, rows + count
            if not codec or stop > end or rows > RECORDS_AT_ONCE:
                break
            try:
                body = decompress(codec, window[at + HEADER_SIZE : stop], limit=limit) if count else b""
            except FormatError:
                break
            if len(body) > len(arena) - used:
                break
            arena[used : used + len(body)] = body
            used += len(body)
            ends.append(used)
            at = stop
        at, row, _batch = loops.arena_rows(window, start, at, arena, ends, self._records)
        return at, row

    def _one_batch(
        self, window: bytes, start: int, header: BatchHeader, position: int
    ) -> Iterator[RecordColumns | BadRecords]:
        """Yield a batch that is too large to be decoded among others, or whose records are damaged."""
        raw, body = memoryview(window)[start : start + header.size], b""
        try:
            if header.records_count:
                body = read_body(header, raw, max_inflated=self._max_inflated)
        except FormatError as error:
            yield BadRecords(position, header, error)
            return
        at, left = 0, header.records_count
        if not left:
            yield self._columns(memoryview(body), window, start, start + header.size, position, 0)
        while left > 0:
            at, rows, left = loops.body_rows(raw, body, at, len(body), left, self._records, 0, 0)
            if left < 0:
                yield BadRecords(position, header, _what_is_wrong(header, raw, self._max_inflated))
                return
            try:
                self._check_headers(rows)
            except TooLarge as error:
                yield BadRecords(position, header, error)
                return
            yield self._columns(memoryview(body), window, start, start + header.size, position, rows)

    def _check_headers(self, rows: int) -> None:
        counts = self._records[_HEADERS_COUNT, :rows]
        check_header_count(int(counts.max(initial=0)), 0)
        if (total := int(counts.sum())) > _MOST_HEADERS_AT_ONCE:
            expected = f"{_MOST_HEADERS_AT_ONCE} in {rows} records"
            raise TooLarge("headers of a batch", 0, expected=expected, found=total)


def _what_is_wrong(header: BatchHeader, raw: memoryview, max_inflated: int) -> FormatError:
    """Return the reference decoder's error for damaged records."""
    try:
        for _record in read_records(header, raw, max_inflated=max_inflated):
            pass
    except FormatError as error:
        return error
    raise AssertionError("the reference decodes what the kernel does not")
