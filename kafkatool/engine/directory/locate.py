"""Where a broker would start to read for an offset or a time, step by step.

    offset   floor segment -> offset index -> walk to the first batch that ends at or above it;
             if the segment has none, the next one is searched
    time     first segment whose greatest time reaches it -> time index -> offset index -> walk to the first
             record at or after it; as in a broker, the next segment is not tried

Timestamps need not be in order, so a broker's answer for a time may differ from that of a full walk. Both are
available.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.in_flight import in_flight
from kafkatool.engine.batches.indexes import OffsetIndex, TimeIndex, read_offset_index, read_time_index
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.extent import segment_extent
from kafkatool.engine.directory.log_dir import FileEntry, Partition, Segment, SegmentState
from kafkatool.engine.files.source import Guest, Source, open_source
from kafkatool.errors import FormatError
from kafkatool.format import kinds
from kafkatool.format.batch import BatchHeader
from kafkatool.format.legacy import LegacyMessage, read_messages
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.record import DEFAULT_MAX_INFLATED, Record, read_records
from kafkatool.format.time_index import TimeEntry


class SearchAction(StrEnum):
    """The kind of one step."""

    SEGMENT = "segment"
    TIME_INDEX = "time_index"
    OFFSET_INDEX = "offset_index"
    WALK = "walk"
    FULL_WALK = "full_walk"


@dataclass(frozen=True, slots=True)
class SearchStep:
    """One step of a search: the file, the result, and the index slots that were visited."""

    action: SearchAction
    file: str
    result: str
    slots: int | None = None
    visited: tuple[int, ...] = ()
    bytes_read: int | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """The batch to read from, and the first matching record in it (None: it no longer holds one)."""

    segment: int
    position: int
    base_offset: int | None
    last_offset: int
    offset: int | None
    timestamp_ms: int | None


@dataclass(slots=True)
class Search:
    """Finds offsets and times in the live segments of one partition; calls `observe` for every step."""

    segments: list[Segment]
    guest: Guest
    log_start: int
    observe: Callable[[SearchStep], object] | None = None
    damage: list[tuple[str, Damage]] = field(default_factory=list)
    """Damage found on the way, each with its file. The answer may be wrong because of it."""

    def offset(self, target: int) -> Located | None:
        """Return the batch that a fetch from `target` starts with; None past the end or below the start."""
        if target < self.log_start:
            self._say(
                SearchAction.SEGMENT, None, f"{target} lies below the start of the log, {self.log_start}"
            )
            return None
        below = sum(segment.base_offset <= target for segment in self.segments)
        for segment in self.segments[below - 1 :] if below else []:
            self._say(
                SearchAction.SEGMENT, segment.log, f"base offset {segment.base_offset}, looking for {target}"
            )
            found = self._walk(segment, self._indexed(segment, target), offset=target)
            if found is not None:
                return found
        return None

    def time(self, target_ms: int) -> Located | None:
        """Return the first record at or after a time, as ListOffsets does."""
        for segment in self.segments:
            greatest, why = self._greatest_time(segment)
            reaches = greatest >= target_ms
            verdict = "take it" if reaches else "go on"
            self._say(SearchAction.SEGMENT, segment.log, f"greatest time {greatest} ({why}): {verdict}")
            if reaches:
                entry = self._timed(segment, target_ms)
                start = self._indexed(segment, max(entry.offset(segment.base_offset), self.log_start))
                return self._walk(segment, start, time_ms=target_ms)
        return None

    def latest(self) -> Located | None:
        """Return the first record with the greatest time of all."""
        times = [segment_extent(segment, self.guest).max_timestamp_ms for segment in self.segments]
        greatest = max((time for time in times if time is not None), default=None)
        return None if greatest is None else self.time(greatest)

    def whole_walk(self, *, offset: int | None = None, time_ms: int | None = None) -> Located | None:
        """Find the same by reading everything from the start; reported as one step."""
        read = 0
        for segment in self.segments:
            with open_source(_log(segment).path, self.guest) as source:
                for batch in (item for item in scan(source) if isinstance(item, Batch)):
                    read += batch.header.size
                    found = self._matching(segment, batch, offset, time_ms)
                    if found is not None and found.offset is not None:
                        self._say(SearchAction.FULL_WALK, segment.log, _place(found), bytes_read=read)
                        return found
        self._say(SearchAction.FULL_WALK, None, "nothing", bytes_read=read)
        return None

    def _walk(
        self,
        segment: Segment,
        start: int,
        *,
        offset: int | None = None,
        time_ms: int | None = None,
    ) -> Located | None:
        end = start
        with open_source(_log(segment).path, self.guest) as source:
            for batch in self._batches(segment, source, start):
                end = batch.position + batch.header.size
                found = self._matching(segment, batch, offset, time_ms)
                if found is not None and (offset is not None or found.offset is not None):
                    self._say(SearchAction.WALK, segment.log, _place(found), bytes_read=end - start)
                    return found
        self._say(SearchAction.WALK, segment.log, "nothing up to the end", bytes_read=end - start)
        return None

    def _batches(self, segment: Segment, source: Source, start: int) -> Iterator[Batch]:
        """Yield the batches from a position on, even with a wrong checksum: a broker does not verify it."""
        path = _log(segment).path
        held: Batch | None = None  # until its damage is known
        for item in scan(source, start):
            if isinstance(item, Damage) and not _is_reserved(item, segment):
                self.damage.append((path, in_flight(item, source)))
            if held is not None:
                yield held
            held = item if isinstance(item, Batch) and not item.is_valid else None
            if isinstance(item, Batch) and item.is_valid:
                yield item
        if held is not None:
            yield held

    def _matching(
        self, segment: Segment, batch: Batch, offset: int | None, time_ms: int | None
    ) -> Located | None:
        header = batch.header
        if offset is not None and header.last_offset < offset:
            return None
        if time_ms is not None and header.max_timestamp < time_ms:
            return None
        least = self.log_start if offset is None else offset
        first = next((r for r in _records(batch) if _is_meant(r, least, time_ms)), None)
        return Located(
            segment=segment.base_offset,
            position=batch.position,
            base_offset=header.base_offset if isinstance(header, BatchHeader) else None,
            last_offset=header.last_offset,
            offset=first.offset if first else None,
            timestamp_ms=first.timestamp_ms if first else None,
        )

    def _indexed(self, segment: Segment, target: int) -> int:
        """Return the position from the offset index; 0 if it has no entry at or below the target."""
        file, visited = segment.file(kinds.OFFSET_INDEX), list[int]()
        index = read_offset_index(_log(segment).path, self.guest) if file else OffsetIndex()
        entry = index.floor(target, visited)
        result = f"no entry <= {target}: from byte 0"
        if entry != OffsetEntry(0, 0):
            result = f"entry offset {entry.offset(segment.base_offset)}: from byte {entry.position}"
        self._say(
            *(SearchAction.OFFSET_INDEX, file, result),
            slots=len(index.offsets),
            visited=tuple(visited),
        )
        return entry.position

    def _timed(self, segment: Segment, target_ms: int) -> TimeEntry:
        file, visited = segment.file(kinds.TIME_INDEX), list[int]()
        index = read_time_index(_log(segment).path, self.guest) if file else TimeIndex()
        entry = index.floor(target_ms, visited)
        result = f"no entry <= {target_ms}: from offset {segment.base_offset}"
        if entry.timestamp_ms >= 0:
            result = f"entry time {entry.timestamp_ms}: from offset {entry.offset(segment.base_offset)}"
        self._say(
            *(SearchAction.TIME_INDEX, file, result),
            slots=len(index.times),
            visited=tuple(visited),
        )
        return entry

    def _greatest_time(self, segment: Segment) -> tuple[int, str]:
        greatest = segment_extent(segment, self.guest).max_timestamp_ms
        if greatest is not None and greatest >= 0:
            return greatest, "from the segment"
        return _log(segment).modified_ms, "no timestamps, so the file's own"

    def _say(
        self,
        action: SearchAction,
        file: FileEntry | None,
        result: str,
        *,
        slots: int | None = None,
        visited: tuple[int, ...] = (),
        bytes_read: int | None = None,
    ) -> None:
        if self.observe is not None:
            path = file.path if file is not None else "-"
            self.observe(SearchStep(action, path, result, slots, visited, bytes_read))


def search_in(partition: Partition, guest: Guest, log_start: int | None = None) -> Search:
    """Return a search of a partition's live segments; it starts at the first, or at a later `log_start`."""
    segments = [segment for segment in partition.live_segments if segment.log is not None]
    first = segments[0].base_offset if segments else 0
    return Search(segments, guest, max(first, log_start or 0))


def _log(segment: Segment) -> FileEntry:
    assert segment.log is not None
    return segment.log


def _is_reserved(damage: Damage, segment: Segment) -> bool:
    """Whether this is the space that a broker preallocates in the active segment."""
    is_tail = damage.kind is FindingClass.ZERO_FILLED and damage.next_good_offset is None
    return is_tail and segment.state is SegmentState.ACTIVE


def _records(batch: Batch) -> Iterator[Record | LegacyMessage]:
    """Yield the readable records of a batch, control records included, as in a broker's search."""
    if batch.data is None:
        return
    try:
        if isinstance(batch.header, BatchHeader):
            yield from read_records(batch.header, batch.data)
        else:
            yield from read_messages(batch.data, max_inflated=DEFAULT_MAX_INFLATED)
    except FormatError:
        return


def _is_meant(record: Record | LegacyMessage, least_offset: int, time_ms: int | None) -> bool:
    return record.offset >= least_offset and (time_ms is None or record.timestamp_ms >= time_ms)


def _place(found: Located) -> str:
    record = "no record left in it" if found.offset is None else f"record {found.offset}"
    return f"batch at byte {found.position}, last offset {found.last_offset}: {record}"
