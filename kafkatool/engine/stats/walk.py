"""Walk a log and sum up its batches, and on request its records: the job of `stats`.

Whole good batches in order are the common case: the kernel puts their headers into a table, which is summed
up in blocks. At the first thing that is not plainly good the walk stops, and `scan` walks the rest of the
log, finds out what is wrong and continues after it. Damaged batches are left out.

With a range of offsets nothing after its end is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.range_columns import Mask, Numbers
from kafkatool.engine.batches.scan import Batch, BatchRun
from kafkatool.engine.batches.seek import EVERYWHERE, Range
from kafkatool.engine.batches.segment_job import SegmentJob, WalkedStretch
from kafkatool.engine.batches.segment_walk import SegmentItem, SegmentWalk, in_place
from kafkatool.engine.stats.facts import CODECS, Deep, Records, Stats
from kafkatool.engine.stats.range import RangeChoice
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
)
from kafkatool.format.columns import BadRecords, BatchColumns, RecordColumns, RecordDecoder
from kafkatool.format.kernel import loops
from kafkatool.format.legacy import Header, LegacyHeader, LegacyMessage, read_messages
from kafkatool.format.primitives import read_varint

ROWS = 1 << 14
_FIELDS = len(BatchColumns._fields)
_POSITION, _BASE_OFFSET, _SIZE, _LAST_DELTA = 0, 1, 2, 7
_LAST_OFFSET = (1 << 63) - 1


@dataclass(slots=True)
class LogStats(WalkedStretch):
    """The statistics of a stretch of one log."""

    stats: Stats = field(default_factory=Stats)


@dataclass(frozen=True, slots=True)
class StatsJob(SegmentJob[LogStats]):
    """How to sum up one log. In samples, `seed` stands for its partition and `number` for the log."""

    now_ms: int
    deep: bool = False
    seed: int = 0
    number: int = 0
    wanted: Range = EVERYWHERE

    def begin(self, position: int) -> LogStats:
        return LogStats(position, position, stats=Stats(Deep() if self.deep else None))

    def walk(self, walk: SegmentWalk, found: LogStats, *, is_fresh: bool) -> LogStats:
        try:
            _StatsWalk(self, walk, found, is_fresh=is_fresh).run()
        finally:
            found.stats.settle()
        return found

    def join(self, a: LogStats, b: LogStats) -> LogStats:
        a.stats.join(b.stats, follows=True)
        if b.first_offset is not None:
            a.first_offset = b.first_offset if a.first_offset is None else a.first_offset
            a.last_position, a.last_offset = b.last_position, b.last_offset
        a.stop, a.done, a.is_behind = b.stop, b.done, b.is_behind
        a.changed, a.vanished, a.failure = b.changed, b.vanished, b.failure
        return a


class _StatsWalk:
    def __init__(self, job: StatsJob, walk: SegmentWalk, found: LogStats, *, is_fresh: bool) -> None:
        self.job = job
        self.walk = walk
        self.found = found
        self.stats = found.stats
        self.is_fresh = is_fresh
        self.table = np.empty((_FIELDS, ROWS), dtype=np.int64)
        self.rows = 0
        self.choice = None if job.wanted.is_open else RangeChoice(job.wanted, ROWS, is_deep=job.deep)
        self.decoder = RecordDecoder(job.max_batch_size) if job.deep else None
        self.piece_of = self.piece_end = -1

    def run(self) -> None:
        found = self.found
        found.done = self._good_batches()
        if not found.done and not self.is_fresh:
            self._odd_batches()
            found.done = True
        if found.is_behind:
            found.stop = max(found.stop, self.walk.end)
        self._add_up()

    # --- plainly good batches -----------------------------------------------------------------------------

    def _good_batches(self) -> bool:
        """Count the common case; return False at the first thing that is not plainly good."""
        found, walk = self.found, self.walk
        for window in walk.windows():
            end, count, _last = loops.good_run(window, 0, len(window), found.last_offset)
            if count:
                self._run(BatchRun(walk.position, window, 0, end, count).before(walk.end))
                walk.position = found.stop
            if found.is_behind:
                return True
        return walk.position >= walk.end

    def _run(self, run: BatchRun) -> None:
        """Add good batches that begin before the end of the range."""
        window, at, end, shift = run.window, run.start, run.end, run.position - run.start
        while at < end and not self.found.is_behind:
            if self.rows == ROWS:
                self._add_up()
            begin, row = at, self.rows
            at, self.rows = loops.batch_rows(window, at, end, begin + shift, self.table, row)
            self._drop_beyond_the_range(row)
            if self.rows > row:
                self._remember(row)
                self._decode(window, begin, self.found.stop - shift, begin + shift)

    def _drop_beyond_the_range(self, row: int) -> None:
        """Drop batches from this row on that begin after the end of the range."""
        if self.choice is not None:
            kept = row + self.choice.before_the_end(self.table[_BASE_OFFSET, row : self.rows])
            self.found.is_behind = kept < self.rows
            self.rows = kept

    def _decode(self, window: bytes, start: int, end: int, position: int) -> None:
        if self.decoder is not None:
            for piece in self.decoder.decode(window, start, end, position):
                self._records(piece)

    def _remember(self, row: int) -> None:
        """Set the walk's place to the end of the last batch in the table; `row` is the first new one."""
        fields = [_POSITION, _BASE_OFFSET, _SIZE, _LAST_DELTA]
        position, base, size, delta = self.table[fields, self.rows - 1].tolist()
        found = self.found
        if found.first_offset is None:
            found.first_offset = int(self.table[_BASE_OFFSET, row])
        found.last_position, found.last_offset, found.stop = position, base + delta, position + size

    def _add_up(self) -> None:
        job, columns = self.job, BatchColumns(*self.table[:, : self.rows])
        if self.choice is None:
            self.stats.add(columns, job.now_ms, job.seed, job.number)
        else:
            self.choice.count(self.stats, columns, job.now_ms, job.seed, job.number)
        self.rows = 0

    def _row_at(self, position: int) -> int:
        """Return the table row of the batch that begins at a position."""
        return int(np.searchsorted(self.table[_POSITION, : self.rows], position))

    # --- records ------------------------------------------------------------------------------------------

    def _records(self, piece: RecordColumns | BadRecords) -> None:
        if isinstance(piece, BadRecords):
            if self.choice is not None:
                self.choice.cannot_read(self._row_at(piece.position))
            self._bad_records(piece.position, piece.header, piece.error)
            return
        deep, job = self.stats.deep, self.job
        assert deep is not None
        self._inflated(deep, piece)
        which = self._which(piece)
        records = Records(
            piece.data,
            piece.offset[which],
            piece.timestamp_ms[which],
            piece.key_start[which],
            piece.key_size[which],
            piece.value_size[which],
            piece.headers_count[which],
        )
        deep.add(records, job.now_ms, job.seed)

    def _which(self, piece: RecordColumns) -> Mask | slice:
        """Return which records of a piece count."""
        is_control = (piece.batches.attributes & CONTROL_MASK) != 0
        is_data = ~is_control[piece.batch] if is_control.any() else None
        if self.choice is None:
            return slice(None) if is_data is None else is_data
        batches = piece.batches.position
        row, count = self._row_at(int(batches[0])), len(batches)
        held = self.choice.records(row, count, piece.batch, piece.offset, piece.timestamp_ms)
        return held if is_data is None else held & is_data

    def _inflated(self, deep: Deep, piece: RecordColumns) -> None:
        """Add the stored and the decompressed size of the batches of a piece."""
        batches = piece.batches
        position = int(batches.position[-1])
        # A batch whose records do not fit into one piece appears again in the next.
        is_more = len(batches.position) == 1 and position == self.piece_of
        begin = self.piece_end if is_more else 0
        codecs = batches.attributes & CODEC_MASK
        self.piece_of = position
        if self.choice is not None:
            sizes = np.zeros_like(codecs) if is_more else np.where(codecs, HEADER_SIZE, batches.size)
            if codecs[0]:
                sizes += self._bodies(piece, np.arange(len(codecs)), begin)
            self.choice.inflated(self._row_at(int(batches.position[0])), sizes)
            return
        if not is_more:
            stored = np.bincount(codecs, weights=batches.size, minlength=CODECS).astype(np.int64)
            headers = np.bincount(codecs, minlength=CODECS) * HEADER_SIZE
            deep.inflated[:, 0] += stored
            deep.inflated[:, 1] += headers if codecs[0] else stored
        if codecs[0]:
            # Bodies are contiguous: the last batch of a codec ends where all of its batches end.
            last_of_each = np.flatnonzero(np.append(codecs[1:] != codecs[:-1], True))
            np.add.at(deep.inflated[:, 1], codecs[last_of_each], self._bodies(piece, last_of_each, begin))

    def _bodies(self, piece: RecordColumns, stops: Numbers, begin: int) -> Numbers:
        """Return the decompressed bytes up to the end of each of these batches, counted from the previous."""
        last_records = np.searchsorted(piece.batch, stops, side="right") - 1
        ends = [_end_of(piece, row) for row in last_records.tolist()]
        self.piece_end = ends[-1]
        return np.diff(np.array([begin, *ends]))

    def _bad_records(self, position: int, header: Header, error: FormatError) -> None:
        if self.choice is not None and not self.choice.takes_header(header):
            return
        kind = FindingClass.TOO_LARGE if isinstance(error, TooLarge) else FindingClass.BAD_RECORD
        severity = Severity.DEGRADED if isinstance(error, TooLarge) else Severity.LOSS
        expected, found = str(error.expected), str(error.found)
        damage = Damage(kind, position, position + header.size, expected, found, str(error), severity)
        self.stats.damages.add(damage)

    # --- everything that is not plainly good --------------------------------------------------------------

    def _odd_batches(self) -> None:
        """Walk the rest of the log, and count what is wrong in it."""
        found = self.found
        skip = found.first_offset is not None
        start = found.last_position if skip else found.start
        for item in in_place(self._up_to_the_range(self.walk.rest(start, skip=skip))):
            if isinstance(item, BatchRun):
                self._run(item)
            elif isinstance(item, Damage):
                self._damage(item)
            else:
                self._one(item)
        found.stop = max(found.stop, self.walk.end)
        found.unreadable_blocks = self.walk.unreadable_blocks

    def _up_to_the_range(self, items: Iterator[SegmentItem]) -> Iterator[SegmentItem]:
        """Yield items up to the end of the wanted range."""
        for item in items:
            if isinstance(item, Batch) and self.job.wanted.is_behind(item):
                self.found.is_behind = True
            if self.found.is_behind:
                return
            yield item

    def _one(self, batch: Batch) -> None:
        """Add a single good batch: of an old format, or right after damage."""
        header, data = batch.header, batch.data
        if isinstance(header, LegacyHeader):
            self._legacy(batch.position, header, data)
        elif header.magic == 2 and min(header.records_count, header.last_offset_delta) >= 0:
            fields = (batch.position, header.base_offset, header.size, *header[2:])
            self._row(fields)
            if data is not None:
                self._decode(bytes(data), 0, header.size, batch.position)
            elif self.decoder is not None:
                self._bad_records(batch.position, header, _too_large(header.size))
        else:
            error = FormatError("batch header", 0, expected="counts of 0 or more", found="less")
            self._bad_records(batch.position, header, error)

    def _row(self, fields: tuple[int, ...]) -> None:
        if self.rows == ROWS:
            self._add_up()
        self.table[:, self.rows] = fields
        self.rows += 1
        self._remember(self.rows - 1)

    def _legacy(self, position: int, header: LegacyHeader, data: memoryview | None) -> None:
        """Add a message of magic 0 or 1, or a wrapper message, with the reference reader."""
        messages: list[LegacyMessage] = []
        try:
            if data is None:
                raise _too_large(header.size)
            messages = list(read_messages(data, max_inflated=self.job.max_batch_size))
            pairs = [(message.key, message.value) for message in messages]
        except FormatError as error:
            self._bad_records(position, header, error)
            messages, pairs = [], []
        times = [message.timestamp_ms for message in messages]
        first = min((message.offset for message in messages), default=header.offset)
        first = first if 0 <= header.offset - first < _LAST_OFFSET else header.offset
        attributes = header.attributes & (CODEC_MASK | TIMESTAMP_TYPE_MASK)
        least = min((time for time in times if time >= 0), default=-1)
        self._row(
            (
                *(position, first, header.size, -1, header.magic, header.crc, attributes),
                *(header.offset - first, least, max(times, default=-1), -1, -1, -1, len(messages)),
            )
        )
        if self.stats.deep is not None and messages:
            self._legacy_records(self.stats.deep, header, messages, pairs)

    def _legacy_records(
        self,
        deep: Deep,
        header: LegacyHeader,
        messages: list[LegacyMessage],
        pairs: list[tuple[bytes | None, bytes | None]],
    ) -> None:
        inflated = sum(len(message.raw) for message in messages)
        key_sizes, value_sizes = (
            np.array([-1 if one is None else len(one) for one in column])
            for column in zip(*pairs, strict=True)
        )
        filled = np.maximum(key_sizes, 0)
        records = Records(
            memoryview(b"".join(key or b"" for key, _value in pairs)),
            np.array([message.offset for message in messages]),
            np.array([message.timestamp_ms for message in messages]),
            np.cumsum(filled) - filled,
            key_sizes,
            value_sizes,
            np.zeros_like(filled),
        )
        if self.choice is None:
            deep.inflated[header.attributes & CODEC_MASK] += (header.size, inflated)
        else:
            row, batch = self.rows - 1, np.zeros_like(records.offsets)
            self.choice.inflated(row, np.array([inflated]))
            held = self.choice.records(row, 1, batch, records.offsets, records.times)
            records = Records(records.data, *(column[held] for column in records[1:]))
        deep.add(records, self.job.now_ms, self.job.seed)

    def _damage(self, damage: Damage) -> None:
        if self.choice is not None and not self.choice.takes_damage(damage):
            return
        self.stats.damages.add(damage)


def _too_large(size: int) -> TooLarge:
    return TooLarge("batch", 0, expected="a batch that fits into memory", found=size)


def _end_of(piece: RecordColumns, row: int) -> int:
    """Return where a record ends: after its headers, which have to be read if there are any."""
    if row < 0:
        return 0
    at, count = int(piece.headers_start[row]), int(piece.headers_count[row])
    return at if not count else _behind_headers(piece.data, at, count)


def _behind_headers(data: memoryview, at: int, count: int) -> int:
    for _ in range(2 * count):
        size, at = read_varint(data, at)
        at += max(0, size)
    return at
