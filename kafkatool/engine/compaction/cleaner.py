"""One pass of the log cleaner over one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kafkatool.engine.broker.index_accounting import IndexFull, InvalidOffset
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.compaction.cleanable_log import CleanableLog, CleanerStops, SourceSegment
from kafkatool.engine.compaction.cleaned_segment import CleanedSegment, Output, TooWide
from kafkatool.engine.compaction.dirty_range import DirtyRange
from kafkatool.engine.compaction.grouping import group_segments
from kafkatool.engine.compaction.key_room import KeyRoom
from kafkatool.engine.compaction.legacy_filter import LegacyFilter
from kafkatool.engine.compaction.offset_map import OffsetMap
from kafkatool.engine.compaction.record_filter import CleanedProducers, CleaningFilter, JudgedBatches
from kafkatool.engine.compaction.rewriting import rewritten_rows
from kafkatool.engine.compaction.transactions import CleanedTransactions
from kafkatool.engine.compaction.walking import CleanableStretch, LegacyEntry, walk
from kafkatool.engine.files.source import Guest
from kafkatool.format.batch import read_header
from kafkatool.format.columns import Column, RecordColumns, RecordDecoder
from kafkatool.format.kernel import loops
from kafkatool.format.kernel.verdicts import Fate, Outcome
from kafkatool.format.rewriting import NotWritable, emptied

_KEPT = int(Fate.KEPT)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """How to run a pass. `capacity`: keys in the offset map; `room`: memory for them."""

    config: TopicConfig
    now_ms: int
    capacity: int
    guest: Guest = field(default_factory=lambda: Guest(cache_keep=True))
    room: KeyRoom = field(default_factory=KeyRoom)

    @property
    def delete_retention_ms(self) -> int:
        return self.config.number("delete.retention.ms")


@dataclass(slots=True)
class Counts:
    """What a pass did."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    removed: dict[Fate, int] = field(default_factory=lambda: {fate: 0 for fate in Fate if fate})
    horizons_set: int = 0
    batches_emptied: int = 0
    batches_rewritten: int = 0
    bytes_kept: int = 0
    """Of keys and values, like those removed."""
    bytes_removed: dict[Fate, int] = field(default_factory=lambda: {fate: 0 for fate in Fate if fate})
    bad_checksums: int = 0
    first_bad_checksum: tuple[str, int] | None = None
    """File and position of the first batch that does not match its checksum."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of a pass: each group of segments, and the one that replaces it."""

    groups: list[tuple[list[SourceSegment], SourceSegment]]
    end_offset: int
    """Where the next pass begins: the new checkpoint."""
    offsets: OffsetMap
    counts: Counts


Watch = Callable[[CleanableStretch, JudgedBatches, SourceSegment], None]


def clean(
    log: CleanableLog, dirty: DirtyRange, how: Cleaning, output: Output, watch: Watch | None = None
) -> Cleaned:
    """Run one pass; raise CleanerStops where a broker's cleaner would give up, and KeysDoNotFit.

    `watch` is called with all records of magic 2 and their fates.
    """
    offsets = how.room.build(log, dirty, how.capacity, how.guest)
    work = _Pass(log, dirty, how, output, offsets)
    work.watch = watch
    wanted = [one for one in log.segments if one.base_offset < offsets.end_offset]
    groups = group_segments(wanted, how.config, dirty.first_uncleanable)
    done = [(group, work.clean_group(group)) for group in groups]
    return Cleaned(done, offsets.end_offset, offsets, work.counts)


def replaced(log: CleanableLog, cleaned: Cleaned) -> CleanableLog:
    """Return the log with the segments that a pass wrote instead of those it read."""
    gone = {one.base_offset for group, _new in cleaned.groups for one in group}
    kept = [one for one in log.segments if one.base_offset not in gone]
    segments = sorted([*(new for _group, new in cleaned.groups), *kept], key=lambda one: one.base_offset)
    return replace(log, segments=tuple(segments))


class _Pass:
    def __init__(
        self, log: CleanableLog, dirty: DirtyRange, how: Cleaning, output: Output, offsets: OffsetMap
    ) -> None:
        self.log = log
        self.how = how
        self.output = output
        self.counts = Counts()
        self.watch: Watch | None = None
        self.transactions = CleanedTransactions()
        self.filter = CleaningFilter(
            offsets,
            self.transactions,
            CleanedProducers(log.active_producers(how.now_ms)),
            dirty.first_uncleanable,
            how.now_ms,
        )
        clean = [one for one in log.segments if one.base_offset < dirty.first_dirty]
        # For messages of magic 0 and 1, which have no horizon of their own.
        horizon_ms = clean[-1].modified_ms - how.delete_retention_ms if clean else 0
        self.legacy = LegacyFilter(offsets, horizon_ms, dirty.first_uncleanable, how.config.release)
        self.decoder = RecordDecoder()

    def clean_group(self, group: Sequence[SourceSegment]) -> SourceSegment:
        """Write what stays of a group; raise CleanerStops where a broker's cleaner would throw."""
        target = CleanedSegment(group[0].base_offset, self.how.config, self.output)
        self.transactions.kept = target.aborted
        try:
            for number, segment in enumerate(group):
                end = group[number + 1].base_offset if number + 1 < len(group) else None
                if end is None:
                    end = segment.next_offset(self.how.guest)
                self.transactions.add(self.log.aborted_from(segment.base_offset, end))
                self._clean_into(segment, target)
        except BaseException:
            target.abandon()
            raise
        return target.close(group[-1].modified_ns)

    def _clean_into(self, segment: SourceSegment, target: CleanedSegment) -> None:
        for item in walk(segment, self.decoder, self.how.guest):
            try:
                if isinstance(item, CleanableStretch):
                    self._stretch(item, segment, target)
                else:
                    self._legacy_entry(item, segment, target)
            except (IndexFull, InvalidOffset) as error:
                raise CleanerStops(segment.path, _position(item), str(error)) from None
            except TooWide:
                reason = f"its offsets are too far from {target.base_offset} for one segment"
                raise CleanerStops(segment.path, _position(item), reason) from None
        self.counts.bytes_read += segment.size

    def _stretch(self, stretch: CleanableStretch, segment: SourceSegment, target: CleanedSegment) -> None:
        judged = self.filter.judge(stretch.columns, segment)
        self._count(judged, stretch.columns)
        if stretch.has_bad_checksum:
            self.counts.bad_checksums += 1
            place = segment.path, int(stretch.columns.batches.position[0])
            self.counts.first_bad_checksum = self.counts.first_bad_checksum or place
        if self.watch is not None:
            self.watch(stretch, judged, segment)
        batches = stretch.columns.batches
        rows = np.flatnonzero(judged.outcome != Outcome.DROP)
        if not len(rows):
            return
        sizes, times = batches.size.copy(), batches.max_timestamp.copy()
        data = self._written(stretch, judged, sizes, times) if stretch.is_plain else None
        if data is None:
            data = self._written_one_by_one(stretch, judged, rows, sizes, times, segment)
        self.counts.bytes_written += len(data)
        target.add(data, sizes[rows], batches.last_offset[rows], times[rows])

    def _written(
        self, stretch: CleanableStretch, judged: JudgedBatches, sizes: Column, times: Column
    ) -> bytes | None:
        """Return the bytes that stay, and set sizes and times; None if some batch needs more care."""
        columns = stretch.columns
        return loops.kept_batches(
            stretch.window,
            columns.batches.position - stretch.shift,
            judged.outcome,
            judged.new_horizon.view(np.uint8),
            self._new_horizon_ms,
            (
                *(columns.batch, columns.offset, columns.timestamp_ms),
                *(columns.key_start, columns.key_size, columns.value_start, columns.value_size),
                columns.headers_count,
            ),
            *(judged.fate, sizes, times),
        )

    @property
    def _new_horizon_ms(self) -> int:
        return self.how.now_ms + self.how.delete_retention_ms

    def _written_one_by_one(
        self,
        stretch: CleanableStretch,
        judged: JudgedBatches,
        rows: Column,
        sizes: Column,
        times: Column,
        segment: SourceSegment,
    ) -> bytes:
        pieces = []
        for piece, at, time in self._pieces(stretch, judged, rows, segment):
            if at is not None:
                sizes[rows[at]], times[rows[at]] = len(piece), time
            pieces.append(piece)
        return b"".join(pieces)

    def _pieces(
        self, stretch: CleanableStretch, judged: JudgedBatches, rows: np.ndarray, segment: SourceSegment
    ) -> Iterator[tuple[bytes | memoryview, int | None, int]]:
        """Yield the bytes that stay, in order; for those not copied, also their place in `rows` and time."""
        batches = stretch.columns.batches
        is_copy = judged.outcome[rows] == Outcome.COPY
        starts = batches.position[rows] - stretch.shift
        ends = starts + batches.size[rows]
        window = memoryview(stretch.window)
        changed = np.flatnonzero(~is_copy).tolist()
        kept = np.flatnonzero(judged.fate == _KEPT)
        bounds = np.searchsorted(stretch.columns.batch[kept], np.arange(len(batches.position) + 1))
        at = 0
        for number in [*changed, len(rows)]:
            yield from _copies(window, starts[at:number], ends[at:number])
            if number < len(rows):
                row = int(rows[number])
                data = self._changed(stretch, judged, row, kept[bounds[row] : bounds[row + 1]], segment)
                yield data, number, int.from_bytes(data[35:43], "big", signed=True)
            at = number + 1

    def _changed(
        self, stretch: CleanableStretch, judged: JudgedBatches, row: int, kept: Column, segment: SourceSegment
    ) -> bytes:
        """Return a rewritten batch with these records."""
        header = read_header(stretch.raw(row))
        if not len(kept):
            return emptied(header)
        horizon_ms = self._new_horizon_ms if judged.new_horizon[row] else header.delete_horizon_ms
        columns = stretch.columns
        try:
            return rewritten_rows(header, columns, kept, horizon_ms)
        except NotWritable as error:
            position = int(columns.batches.position[row])
            raise CleanerStops(segment.path, position, str(error)) from None

    def _count(self, judged: JudgedBatches, columns: RecordColumns) -> None:
        counts, fates = self.counts, np.bincount(judged.fate, minlength=len(Fate)).tolist()
        sizes = np.maximum(columns.key_size, 0) + np.maximum(columns.value_size, 0)
        in_bytes = np.bincount(judged.fate, sizes, len(Fate)).tolist()
        counts.bytes_kept += int(in_bytes[Fate.KEPT])
        counts.records_read += len(judged.fate)
        counts.records_kept += fates[Fate.KEPT]
        for fate in counts.removed:
            counts.removed[fate] += fates[fate]
            counts.bytes_removed[fate] += int(in_bytes[fate])
        counts.horizons_set += int(judged.new_horizon.sum())
        counts.batches_emptied += int((judged.outcome == Outcome.EMPTY).sum())
        counts.batches_rewritten += int((judged.outcome == Outcome.REWRITE).sum())

    def _legacy_entry(self, entry: LegacyEntry, segment: SourceSegment, target: CleanedSegment) -> None:
        counts = self.counts
        kept = self.legacy.judge(entry, segment, self._new_horizon_ms)
        counts.records_read += kept.records_read
        counts.records_kept += kept.records_kept
        counts.bytes_kept += kept.sizes[Fate.KEPT]
        for fate, count in kept.removed.items():
            counts.removed[fate] += count
            counts.bytes_removed[fate] += kept.sizes[fate]
        counts.horizons_set += kept.has_new_horizon
        counts.batches_rewritten += kept.is_rewritten
        if kept.data:
            counts.bytes_written += len(kept.data)
            columns = (np.array([one]) for one in (len(kept.data), kept.last_offset, kept.max_timestamp))
            target.add(kept.data, *columns)


def _position(item: CleanableStretch | LegacyEntry) -> int:
    return item.position if isinstance(item, LegacyEntry) else int(item.columns.batches.position[0])


def _copies(
    window: memoryview, starts: np.ndarray, ends: np.ndarray
) -> Iterator[tuple[memoryview, None, int]]:
    """Yield batches unchanged, adjacent ones in one piece."""
    if not len(starts):
        return
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(starts)) - 1
    for first, last in zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True):
        yield window[first:last], None, 0
