"""The kernel in plain Python: the definition of what its functions promise.

A window is a piece of a log. A batch in it is *plain* if it is of magic 2, whole, and neither its count nor
its offset delta is negative; a plain batch is *good* if its checksum matches and its offset is above those
before it. Functions that take a stretch `[start, end)` of good batches stop at a batch that is not as they
need it, and return how far they got. A caller's mistake (a start outside the window, columns of two lengths)
is a ValueError; numbers have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any

from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TRANSACTIONAL_MASK,
    BatchHeader,
    NewRecord,
    read_header,
    seal,
    wrap_int64,
)
from kafkatool.format.batch_text import batch_line, record_line
from kafkatool.format.checksum import crc32c
from kafkatool.format.kernel.outcome import EPOCH, INDEX, MORE, ODD, PRODUCER, RECORDS, TIME
from kafkatool.format.kernel.verdicts import (
    IS_CONTROL,
    IS_DISCARDED,
    IS_PAST,
    IS_SUPERSEDED,
    IS_TAKEN,
    Fate,
    Outcome,
)
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import Record, RecordSpan, read_spans, record_of, write_record
from kafkatool.format.rewriting import NotWritable, check_writable, emptied, sealed

BATCH_FIELDS = 14
RECORD_FIELDS = 11
MOST_PRODUCERS = 32
MOST_LINES = 1 << 17
NO_EPOCH = -(1 << 63) + 1
_LAST_OFFSET = (1 << 63) - 1
_MAX_INT32 = (1 << 31) - 1
_OFFSET_ENTRY, _TIME_ENTRY = offset_index.ENTRY, time_index.ENTRY

Table = Any
"""Two-dimensional, 64-bit integers, one row per field: `table[field, row]`."""
ProducerRow = tuple[int, int, int, int, int, int, int, bool]
"""Id, epoch, last sequence, last offset, offset delta, time; first transactional offset or -1; records."""


def good_run(window: Buffer, start: int, stop: int, floor: int) -> tuple[int, int, int]:
    """Follow good batches from `start` for as long as they lie before `stop`, above offset `floor`.

    Returns where they end, how many there are, and the last offset.
    """
    unpack, checksum, header_size, overhead = HEADER.unpack_from, crc32c, HEADER_SIZE, LOG_OVERHEAD
    view, at, count = memoryview(window), start, 0
    stop = _within(window, start, stop)
    while stop - at >= header_size:
        fields = unpack(window, at)
        size = fields[1] + overhead
        if fields[3] != 2 or size < header_size or size > stop - at or fields[0] <= floor:
            break
        if fields[6] < 0 or fields[12] < 0 or fields[0] + fields[6] > _LAST_OFFSET:
            break
        if checksum(view[at + CRC_START : at + size]) != fields[4]:
            break
        floor = fields[0] + fields[6]
        at += size
        count += 1
    return at, count, floor


def _within(window: Buffer, start: int, stop: int) -> int:
    """Return `stop`, limited to the window."""
    if not 0 <= start <= len(window):
        raise ValueError(f"{start} is outside a window of {len(window)} bytes")
    return min(stop, len(window))


def _plain(window: Buffer, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield consecutive plain batches, with where each begins."""
    end = _within(window, start, end)
    while end - start >= HEADER_SIZE:
        header = BatchHeader._make(HEADER.unpack_from(window, start))
        if header.magic != 2 or not HEADER_SIZE <= header.size <= end - start:
            return
        if header.last_offset_delta < 0 or header.records_count < 0:
            return
        if header.base_offset + header.last_offset_delta > _LAST_OFFSET:
            return
        yield start, header
        start += header.size


# --- tables -------------------------------------------------------------------------------------------


def batch_rows(
    window: Buffer, start: int, end: int, position: int, table: Table, row: int
) -> tuple[int, int]:
    """Write the headers of a stretch into a table, from `row` on; return where it stopped, and the next row.

    Fields: position, base offset, size, leader epoch, magic, crc, attributes, last offset delta, base
    timestamp, max timestamp, producer id, producer epoch, base sequence, count. `position`: that of `start`.
    """
    at, end, room = start, _within(window, start, end), _room(table, BATCH_FIELDS, row)
    while end - at >= HEADER_SIZE and row < room:
        fields = HEADER.unpack_from(window, at)
        size = fields[1] + LOG_OVERHEAD
        if not HEADER_SIZE <= size <= end - at:
            break
        for field, value in enumerate((position + at - start, fields[0], size, *fields[2:])):
            table[field, row] = value
        at += size
        row += 1
    return at, row


def record_rows(
    window: Buffer, start: int, end: int, table: Table, row: int, batch: int
) -> tuple[int, int, int]:
    """Write the records of uncompressed batches into a table, from `row` on, as long as they fit.

    Stops before a batch that is compressed, or whose records do not decode; returns where it stopped, the
    next row, and the number of the next batch. Fields: offset, timestamp, sequence, attributes, start and
    size of key (-1: null) and value, start of the headers (after their count), their count, batch number.
    """
    room, data, at = _room(table, RECORD_FIELDS, row), bytes(window), start
    for at, header in _plain(data, start, end):
        stop = at + header.size
        if header.attributes & CODEC_MASK or header.records_count > room - row:
            return at, row, batch
        spans = _spans(header, data, at + HEADER_SIZE, stop)
        if spans is None:
            return at, row, batch
        row, batch, at = _put(spans, table, row, batch), batch + 1, stop
    return at, row, batch


def arena_rows(
    window: Buffer, start: int, end: int, arena: Buffer, ends: Sequence[int], table: Table
) -> tuple[int, int, int]:
    """Do the same for batches whose records lie inflated in `arena`, those of the n-th up to `ends[n]`."""
    room, inflated = _room(table, RECORD_FIELDS, 0), bytes(arena)
    at, row, batch, body = start, 0, 0, 0
    for at, header in _plain(window, start, end):
        if batch == len(ends) or not body <= ends[batch] <= len(inflated):
            return at, row, batch
        if header.records_count > room - row:
            return at, row, batch
        spans = _spans(header, inflated, body, ends[batch])
        if spans is None:
            return at, row, batch
        row, body, at = _put(spans, table, row, batch), ends[batch], at + header.size
        batch += 1
    return at, row, batch


def body_rows(
    header: Buffer, body: Buffer, start: int, stop: int, left: int, table: Table, row: int, batch: int
) -> tuple[int, int, int]:
    """Do the same for one batch inflated in `body[start:stop]`: as many of the last `left` records as fit.

    Returns where it stopped, the next row, and how many are left; -1 where the records do not decode.
    """
    fields = _header(header)
    room, stop = _room(table, RECORD_FIELDS, row), _within(body, start, stop)
    if stop < start or row > room or left < 0:
        return start, row, -1
    fitting = min(left, room - row)
    is_last = fitting == left
    part = fields._replace(records_count=fitting)
    spans = _spans(part, bytes(body), start, stop, is_whole=is_last and fields.records_count > 0)
    if spans is None:
        return start, row, -1
    at = spans[-1].end if spans else start
    return at, _put(spans, table, row, batch), left - fitting


def _spans(
    header: BatchHeader, body: bytes, start: int, stop: int, *, is_whole: bool = True
) -> list[RecordSpan] | None:
    try:
        return list(read_spans(header, body, start, stop, is_whole=is_whole))
    except FormatError:
        return None


def _put(spans: list[RecordSpan], table: Table, row: int, batch: int) -> int:
    for span in spans:
        for field, value in enumerate((*span[: RECORD_FIELDS - 1], batch)):
            table[field, row] = value
        row += 1
    return row


def _room(table: Table, fields: int, row: int) -> int:
    if table.shape[0] < fields or row < 0:
        raise ValueError(f"a table of these has {fields} columns, and its rows are counted from 0")
    return int(table.shape[1])


def _header(data: Buffer) -> BatchHeader:
    if len(data) < HEADER_SIZE:
        raise ValueError(f"a header has {HEADER_SIZE} bytes")
    return BatchHeader._make(HEADER.unpack_from(data, 0))


def gather(data: Buffer, starts: Sequence[int], sizes: Sequence[int], ends: Any) -> bytes:
    """Return the bytes of many fields concatenated, nulls as empty; set `ends` to where each one ends."""
    _check_fields(data, starts, sizes, ends)
    pieces, at = [], 0
    for each, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size > 0:
            pieces.append(bytes(data[start : start + size]))
            at += int(size)
        ends[each] = at
    return b"".join(pieces)


def hashes(data: Buffer, starts: Sequence[int], sizes: Sequence[int], into: Any) -> None:
    """Write a 64-bit hash (FNV-1a) of each of many fields; a null hashes like an empty field."""
    _check_fields(data, starts, sizes, into)
    for each, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        value = 14695981039346656037
        for byte in bytes(data[start : start + max(0, size)]):
            value = (value ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
        into[each] = value


def index_columns(data: Buffer, is_time: bool, first: Any, second: Any) -> None:
    """Read entries of an offset index (two int32) or time index (int64, int32), one per row of `first`."""
    entry = Struct(">qi" if is_time else ">ii")
    if len(first) != len(second) or len(first) * entry.size > len(data):
        raise ValueError("columns of one length, and no more of them than there are entries")
    for row in range(len(first)):
        first[row], second[row] = entry.unpack_from(data, row * entry.size)


def rising(values: Sequence[int], least: int) -> int:
    """Return how many values come before the first that does not rise; the first value must reach `least`."""
    for row, value in enumerate(values):
        if value < least:
            return row
        least = value + 1
    return len(values)


def _check_fields(data: Buffer, starts: Sequence[int], sizes: Sequence[int], into: Any) -> None:
    if len(sizes) != len(starts) or len(into) < len(starts):
        raise ValueError("as many sizes as starts, and room for what becomes of them")
    for start, size in zip(starts, sizes, strict=True):
        if size >= 0 and not 0 <= start <= len(data) - size:
            raise ValueError(f"{start} is outside {len(data)} bytes")


class KeyOffsets:
    """The last offset of every key, for as many keys as the caller allows.

    Compiled, a key is stored as its 128-bit hash, and takes at most 40 bytes.
    """

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, data: Buffer, starts: Any, sizes: Any, offsets: Any, most: int) -> int:
        """Store the offsets of all but null keys; once `most` keys are known, return the row of the next key.

        That key may be a known one. Returns the number of rows if none is left.
        """
        _check_fields(data, starts, sizes, offsets)
        if any(size >= 0 and offset < 0 for size, offset in zip(sizes, offsets, strict=False)):
            raise ValueError("offsets are counted from 0")
        for each, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if size < 0:
                continue
            if len(self._offsets) >= most:
                return each
            self._offsets[bytes(data[start : start + size])] = int(offsets[each])
        return len(starts)

    def put_marking(
        self, data: Buffer, starts: Any, sizes: Any, offsets: Any, most: int, first: int, marks: Any
    ) -> int:
        """Do the same for rising offsets, and mark records in `marks`, which begins at offset `first`."""
        _check_fields(data, starts, sizes, offsets)
        if first < 0:
            raise ValueError("offsets are counted from 0")
        for size, offset in zip(sizes, offsets, strict=False):
            if size >= 0 and not first <= offset < first + len(marks):
                raise ValueError(f"no mark for offset {offset}")
        for each, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            if size < 0:
                continue
            if len(self._offsets) >= most:
                return each
            key, offset = bytes(data[start : start + size]), int(offsets[each])
            before, self._offsets[key] = self._offsets.get(key, -1), offset
            marks[offset - first] |= IS_TAKEN
            if first <= before < first + len(marks):
                marks[before - first] |= IS_SUPERSEDED
        return len(starts)

    def get(self, data: Buffer, starts: Any, sizes: Any, into: Any) -> None:
        """Write the offset of each key; -1 for an unknown key, and for null."""
        _check_fields(data, starts, sizes, into)
        for each, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            into[each] = -1 if size < 0 else self._offsets.get(bytes(data[start : start + size]), -1)


def record_bytes(data: Buffer, rows: Any, base_offset: int, base_timestamp: int) -> bytes:
    """Encode records without headers whose bytes lie in `data`.

    `rows` has one column per record: offset, timestamp, start and size of key (-1: null) and of value.
    """
    if len(rows) != 6:
        raise ValueError("offset, timestamp, start and size of key and of value")
    for each in (2, 4):
        _check_fields(data, rows[each], rows[each + 1], rows[each])
    return b"".join(_record_bytes(data, record, base_offset, base_timestamp) for record in rows.T.tolist())


def encode_batches(
    data: Buffer, rows: Any, ends: Sequence[int], base_offset: int, leader_epoch: int
) -> bytes:
    """Encode uncompressed batches without a producer, one after another, at consecutive offsets.

    `rows` has one row per record: timestamp, start and size of key (-1: null) and of value. `ends` has, for
    each batch, the row after its last.
    """
    count, start, pieces = len(rows), 0, []
    if rows.shape[1] != 5:
        raise ValueError("timestamp, start and size of key and of value")
    if not 0 <= base_offset <= _LAST_OFFSET - count:
        raise ValueError(f"{count} offsets from {base_offset} on do not exist")
    for each in (1, 3):
        _check_fields(data, rows.T[each], rows.T[each + 1], rows)
    for end in map(int, ends):
        if not start < end <= count:
            raise ValueError(f"a batch of rows {start} to {end}")
        pieces.append(_encoded(data, rows[start:end].tolist(), base_offset + start, leader_epoch))
        start = end
    return b"".join(pieces)


def _encoded(data: Buffer, records: list[list[int]], base_offset: int, leader_epoch: int) -> bytes:
    first, latest = records[0][0], max(record[0] for record in records)
    body = b"".join(
        _record_bytes(data, [base_offset + delta, *record], base_offset, first)
        for delta, record in enumerate(records)
    )
    if len(body) > _MAX_INT32 - HEADER_SIZE:
        raise ValueError("a batch is larger than its length can tell")
    count = len(records)
    header = BatchHeader(base_offset, 0, leader_epoch, 2, 0, 0, count - 1, first, latest, -1, -1, -1, count)
    return seal(header, body)


def judge_records(
    offsets: Any,
    key_sizes: Any,
    value_sizes: Any,
    batch: Any,
    found: Any,
    latest: int,
    flags: Any,
    fates: Any,
    kept: Any,
    tombstones: Any,
) -> None:
    """Set the cleaner's Fate of each record, and how many records and tombstones of each batch stay.

    `found`: the key's last offset; records after `latest` stay; `flags` per batch: see verdicts.py.
    """
    if not len(key_sizes) == len(value_sizes) == len(batch) == len(found) == len(fates) == len(offsets):
        raise ValueError("columns of one length")
    if not len(kept) == len(tombstones) == len(flags):
        raise ValueError("as many counts as batches")
    for number in batch:
        if not 0 <= number < len(flags):
            raise ValueError(f"there is no batch {number}")
    for number in range(len(flags)):
        kept[number] = tombstones[number] = 0
    for row, number in enumerate(batch):
        fate = _fate(flags[number], offsets[row], latest, found[row], key_sizes[row], value_sizes[row])
        fates[row] = fate
        if fate == Fate.KEPT:
            kept[number] += 1
            tombstones[number] += value_sizes[row] < 0


def _fate(about: int, offset: int, latest: int, found: int, key_size: int, value_size: int) -> Fate:
    if about & IS_DISCARDED:
        return Fate.MARKER if about & IS_CONTROL else Fate.ABORTED
    if offset > latest or about & IS_CONTROL:
        return Fate.KEPT
    if key_size < 0:
        return Fate.UNKEYED
    if offset < found:
        return Fate.SUPERSEDED
    return Fate.TOMBSTONE if value_size < 0 and about & IS_PAST else Fate.KEPT


def kept_batches(
    window: Buffer,
    starts: Any,
    outcomes: Any,
    new_horizons: Any,
    horizon_ms: int,
    records: Sequence[Any],
    fates: Any,
    sizes: Any,
    times: Any,
) -> bytes | None:
    """Return what the cleaner writes of uncompressed batches; set the size and latest time of each.

    `records`: columns of batch, offset, timestamp, start and size of key and value, number of headers.
    Returns None where a broker could not write a batch, or one needs more care: a codec, or headers.
    """
    if any(len(column) != len(fates) for column in records):
        raise ValueError("columns of one length")
    batch, offsets, stamps, *fields, headers = records
    for each in (0, 2):
        _check_fields(window, fields[each], fields[each + 1], fates)
    if not len(outcomes) == len(new_horizons) == len(sizes) == len(times) == len(starts):
        raise ValueError("as many outcomes as batches")
    found = [_whole_batch(window, int(start)) for start in starts]
    pieces, row = [], 0
    for number, (header, raw) in enumerate(found):
        rows = []
        while row < len(fates) and batch[row] == number:
            rows += [row] if fates[row] == Fate.KEPT else []
            row += 1
        piece = b""
        if outcomes[number] == Outcome.COPY:
            piece = bytes(raw)
        elif outcomes[number] == Outcome.EMPTY:
            piece = emptied(header)
        elif outcomes[number] == Outcome.REWRITE:
            if not rows or header.attributes & CODEC_MASK or any(headers[each] for each in rows):
                return None
            horizon = horizon_ms if new_horizons[number] else header.delete_horizon_ms
            columns = [[int(column[each]) for each in rows] for column in (offsets, stamps, *fields)]
            try:
                piece = _rewritten(header, window, columns, horizon)
            except (NotWritable, ValueError):
                return None
        sizes[number] = len(piece)
        times[number] = read_header(piece).max_timestamp if piece else header.max_timestamp
        pieces.append(piece)
    return b"".join(pieces)


def _whole_batch(window: Buffer, start: int) -> tuple[BatchHeader, memoryview]:
    if not 0 <= start <= len(window) - HEADER_SIZE:
        raise ValueError(f"no batch at {start}")
    header = read_header(window, start)
    is_whole = HEADER_SIZE <= header.size <= len(window) - start
    if not is_whole or not 0 <= header.base_offset <= _LAST_OFFSET - _MAX_INT32:
        raise ValueError(f"no whole batch at {start}")
    return header, memoryview(window)[start : start + header.size]


def _rewritten(header: BatchHeader, data: Buffer, columns: list[list[int]], horizon_ms: int | None) -> bytes:
    offsets, times = columns[:2]
    check_writable(header, [header.base_offset - 1, *offsets], times)
    base = times[0] if horizon_ms is None else horizon_ms
    pieces = [_record_bytes(data, record, header.base_offset, base) for record in zip(*columns, strict=True)]
    return sealed(header, b"".join(pieces), times, horizon_ms)


def _record_bytes(data: Buffer, record: Sequence[int], base_offset: int, base_timestamp: int) -> bytes:
    offset, timestamp, key_at, key_size, at, size = record
    if not -(1 << 31) <= offset - base_offset < 1 << 31:
        raise ValueError(f"offset {offset} is too far from {base_offset}")
    key = None if key_size < 0 else bytes(data[key_at : key_at + key_size])
    value = None if size < 0 else bytes(data[at : at + size])
    delta = wrap_int64(timestamp - base_timestamp)
    return write_record(NewRecord(key, value, delta), offset - base_offset, 0)


def records_hold(header: Buffer, body: Buffer) -> bool:
    """Return whether `body` holds exactly the batch's records, at rising offsets, none later than its max."""
    return _in_order(_header(header), bytes(body), 0, len(body))


def _in_order(header: BatchHeader, body: bytes, start: int, stop: int) -> bool:
    last = header.base_offset + header.last_offset_delta
    if not 0 <= header.base_offset <= last <= _LAST_OFFSET or header.records_count < 0:
        return False
    before = header.base_offset - 1
    try:
        for span in read_spans(header, body, start, stop):
            if not before < span.offset <= last or span.timestamp_ms > header.max_timestamp:
                return False
            before = span.offset
    except FormatError:
        return False
    return True


# --- text ---------------------------------------------------------------------------------------------


def batch_lines(window: Buffer, start: int, end: int, position: int) -> bytes:
    """Return the lines that kafka-dump-log prints for good batches; `position` is that of `start`."""
    shift = position - start
    lines = [batch_line(header, at + shift, True) for at, header in _plain(window, start, end)]
    return "\n".join([*lines, ""]).encode()


def deep_lines(
    window: Buffer,
    start: int,
    end: int,
    position: int,
    last: int,
    with_data: bool,
    body: Buffer | None = None,
) -> tuple[bytes, int, int, list[tuple[int, int]]]:
    """Return the lines of good batches and of their records, with keys and values if asked for.

    With `body`, only those of one batch, whose records lie there. Stops before a batch that is compressed, a
    control batch, or too large to hold its text in memory; whose records do not decode; or whose text is not
    UTF-8. Returns the text, where it stopped, the offset of the last record, and pairs of offsets that do not
    follow each other; `last` is the offset of the record before.
    """
    lines: list[bytes] = []
    gaps: list[tuple[int, int]] = []
    for at, header in _plain(window, start, end):
        is_packed = header.attributes & CODEC_MASK and body is None
        if is_packed or header.is_control or header.records_count > MOST_LINES:
            return b"".join(lines), at, last, gaps
        stop = at + header.size
        data = bytes(window[at + HEADER_SIZE : stop]) if body is None else bytes(body)
        try:
            records = [record_of(span, data) for span in read_spans(header, data, 0, len(data))]
            text = [_record_text(header, record, with_data) for record in records]
        except (FormatError, UnicodeDecodeError):
            return b"".join(lines), at, last, gaps
        lines += (batch_line(header, position + at - start, True).encode(), b"\n", *text)
        for record in records:
            if record.offset != wrap_int64(last + 1):
                gaps.append((last, record.offset))
            last = record.offset
        if body is not None:
            return b"".join(lines), stop, last, gaps
        start, position = stop, position + header.size
    return b"".join(lines), start, last, gaps


def _record_text(header: BatchHeader, record: Record, with_data: bool) -> bytes:
    texts = [key for key, _ in record.headers]
    line = record_line(header, record).encode()
    if with_data and record.key is not None:
        line += b" key: " + record.key
        texts.append(record.key)
    if with_data and record.value is not None:
        line += b" payload: " + record.value
        texts.append(record.value)
    for text in texts:
        text.decode()
    return line + b"\n"


# --- what a walk counts -------------------------------------------------------------------------------


class Tally:
    """Count the good batches of a log, and compare them with what its indexes claim.

    `run` counts batches as long as everything agrees, and stops at the first batch where something does not.
    The caller handles it, says so by advancing `indexed` or `timed`, setting `epoch`, or storing the batch's
    position in `settled_producer` or `settled_records`, and runs on from the same batch. No good batch lies
    below offset `base`.
    """

    def __init__(self, base: int, highest: int, claims: tuple[Sequence[int], ...], deep: bool) -> None:
        """Start; `claims`: offsets and positions of one index, times and offsets of the other, relative."""
        if base < 0:
            raise ValueError("offsets are counted from 0")
        self.base, self.highest, self.deep = base, highest, deep
        self.offsets, self.positions, self.times, self.time_offsets = claims
        if len(self.offsets) != len(self.positions) or len(self.times) != len(self.time_offsets):
            raise ValueError("an index has as many offsets as positions or times")
        self.batches = self.records = self.thinned = self.holes = 0
        self.first_offset = self.last_base = self.last_position = 0
        self.last_offset = base - 1
        self.previous_offset = self.max_timestamp = self.max_filled_timestamp = -1
        self.epoch = NO_EPOCH
        self.indexed = self.timed = 0
        self.settled_producer = self.settled_records = -1
        self._producers: dict[int, ProducerRow] = {}

    def run(self, window: Buffer, start: int, stop: int, position: int, end: int) -> tuple[int, int]:
        """Count the batches from `start` on that begin before position `end`; return where it stops, and why.

        MORE: the window or the stretch ends here. ODD: no good batch. INDEX, TIME: an entry disagrees.
        EPOCH: not that of the batch before. PRODUCER: a marker, or `drain` is due. RECORDS: compressed, or
        not in order; only if deep.
        """
        at, stop = start, _within(window, start, stop)
        if self.indexed < 0 or self.timed < 0:
            raise ValueError("entries are counted from 0")
        while position < end:
            why, header = self._look_at(window, at, stop, position)
            if why is not None:
                return at, why
            self._count(header, position)
            at += header.size
            position += header.size
        return at, MORE

    def _look_at(self, window: Buffer, at: int, stop: int, position: int) -> tuple[int | None, BatchHeader]:
        if stop - at < HEADER_SIZE:
            return MORE, _NO_HEADER
        header = BatchHeader._make(HEADER.unpack_from(window, at))
        size = header.size
        if size > stop - at:
            return MORE, header
        if good_run(window, at, at + max(size, 0), max(self.last_offset, self.base - 1))[1] != 1:
            return ODD, header
        reach = header.base_offset + header.last_offset_delta
        if reach > self.highest:
            return ODD, header
        if not self._index_agrees(header.base_offset, position):
            return INDEX, header
        if not self._times_agree(header.max_timestamp, reach):
            return TIME, header
        if header.partition_leader_epoch != self.epoch:
            return EPOCH, header
        if header.producer_id >= 0 and self.settled_producer != position and not self._take_producer(header):
            return PRODUCER, header
        if self.deep and self.settled_records != position:
            body = bytes(window[at + HEADER_SIZE : at + size])
            if header.attributes & CODEC_MASK or not _in_order(header, body, 0, len(body)):
                return RECORDS, header
        return None, header

    def _index_agrees(self, base_offset: int, position: int) -> bool:
        if self.indexed >= len(self.positions) or self.positions[self.indexed] > position:
            return True
        if self.positions[self.indexed] < position or self.base + self.offsets[self.indexed] < base_offset:
            return False
        self.indexed += 1
        return True

    def _times_agree(self, max_timestamp: int, reach: int) -> bool:
        newest = max(max_timestamp, self.max_timestamp)
        while self.timed < len(self.times) and self.base + self.time_offsets[self.timed] <= reach:
            if not self.max_filled_timestamp <= self.times[self.timed] <= newest:
                return False
            self.timed += 1
        return True

    def _take_producer(self, header: BatchHeader) -> bool:
        seen = self._producers.get(header.producer_id)
        if header.is_control or (seen is None and len(self._producers) == MOST_PRODUCERS):
            return False
        if seen is not None and seen[1] != header.producer_epoch:
            return False
        first, has_records = (-1, False) if seen is None else seen[6:]
        if header.attributes & TRANSACTIONAL_MASK:
            first = header.base_offset if first < 0 else first
            has_records = has_records or header.records_count > 0
        last = header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
        self._producers[header.producer_id] = (
            header.producer_id,
            header.producer_epoch,
            *last,
            first,
            has_records,
        )
        return True

    def _count(self, header: BatchHeader, position: int) -> None:
        if self.batches == 0:
            self.first_offset = header.base_offset
        elif header.base_offset != self.last_offset + 1:
            self.holes += 1
        self.thinned += header.records_count != header.last_offset_delta + 1
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        if header.records_count:
            self.max_filled_timestamp = max(self.max_filled_timestamp, header.max_timestamp)
        self.batches += 1
        self.records += header.records_count
        self.previous_offset, self.last_offset = self.last_offset, header.last_offset
        self.last_base, self.last_position = header.base_offset, position

    def drain(self) -> list[ProducerRow]:
        """Return and forget the producers seen so far, each with its last batch, in order of appearance."""
        rows = list(self._producers.values())
        self._producers.clear()
        return rows


_NO_HEADER = BatchHeader(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


# --- what an append adds to the indexes ---------------------------------------------------------------


class IndexCounts:
    """How full the two indexes of a segment are, and a fast path for one more batch.

    Which batch gets an entry, and why: engine/broker/index_accounting.py, which keeps its numbers here.
    """

    def __init__(
        self, base_offset: int, interval_bytes: int, max_offset_entries: int, max_time_entries: int
    ) -> None:
        self.base_offset, self.interval_bytes = base_offset, interval_bytes
        self.max_offset_entries, self.max_time_entries = max_offset_entries, max_time_entries
        self.bytes_since_entry = self.offset_entries = self.time_entries = 0
        self.last_indexed_offset = self.last_time_offset = self.max_timestamp_offset = base_offset
        self.last_time = self.max_timestamp = -1

    def append_plain(
        self,
        write: Callable[[int, Buffer], None],
        data: Buffer,
        position: int,
        next_offset: int,
        leader_epoch: int,
        latest_ms: int,
        offset_entries: bytearray,
        time_entries: bytearray,
    ) -> int:
        """Write the one batch in `data`, append its index entries, and return its last offset.

        Returns -1 and writes nothing unless it is good and plain, begins at `next_offset`, has this epoch, is
        no later than `latest_ms`, has no producer, transaction or marker, and surely fits in both indexes.
        """
        found = next(_plain(data, 0, len(data)), None)
        if found is None or found[1].size != len(data):
            return -1
        header = found[1]
        last = header.last_offset
        takes = (
            header.base_offset == next_offset
            and header.partition_leader_epoch == leader_epoch
            and header.producer_id < 0
            and not header.attributes & (CONTROL_MASK | TRANSACTIONAL_MASK)
            and header.max_timestamp <= latest_ms
            and self._has_room(last, position)
            and crc32c(memoryview(data)[CRC_START:]) == header.crc
        )
        if not takes:
            return -1
        write(position, data)
        self._count(header, last, position, offset_entries, time_entries)
        return last

    def append_each(
        self,
        write: Callable[[int, Buffer], None],
        clock: Callable[[], int],
        appends: list[Buffer],
        position: int,
        end: int,
        next_offset: int,
        enough: int,
        leader_epoch: int,
        latest_ms: int,
        offset_entries: bytearray,
        time_entries: bytearray,
    ) -> tuple[list[int], int, int]:
        """Do the same for consecutive batches, up to `end`, until offset `enough` is reached.

        Returns what the clock said after each, and the position and offset to go on from.
        """
        times: list[int] = []
        for data in appends:
            if position > end - len(data) or next_offset >= enough:
                break
            entries = offset_entries, time_entries
            last = self.append_plain(write, data, position, next_offset, leader_epoch, latest_ms, *entries)
            if last < 0:
                break
            position += len(data)
            next_offset = last + 1
            times.append(clock())
        return times, position, next_offset

    def _has_room(self, last: int, position: int) -> bool:
        """Return whether both indexes could take an entry for this offset."""
        return (
            self.offset_entries + 1 < self.max_offset_entries
            and self.time_entries + 2 < self.max_time_entries
            and 0 <= position <= _MAX_INT32
            and 0 <= self.base_offset <= last <= self.base_offset + _MAX_INT32
            and (not self.offset_entries or last > self.last_indexed_offset)
            and self.base_offset <= self.last_time_offset <= self.max_timestamp_offset <= last
        )

    def _count(
        self,
        header: BatchHeader,
        last: int,
        position: int,
        offset_entries: bytearray,
        time_entries: bytearray,
    ) -> None:
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = header.max_timestamp, last
        if self.bytes_since_entry > self.interval_bytes:
            offset_entries += _OFFSET_ENTRY.pack(last - self.base_offset, position)
            self.offset_entries += 1
            self.last_indexed_offset = last
            self.bytes_since_entry = 0
            if self.max_timestamp > self.last_time:
                time_entries += _TIME_ENTRY.pack(
                    self.max_timestamp, self.max_timestamp_offset - self.base_offset
                )
                self.time_entries += 1
                self.last_time, self.last_time_offset = self.max_timestamp, self.max_timestamp_offset
        self.bytes_since_entry += header.size
