"""The range of offsets and times that a segment covers, found with as few reads as the indexes allow.

    first offset, first time   the first batch's header
    last offset                the batches after the last index entry
    greatest time              the last time index entry, and the batches after the last index entry

An index is used only where the log agrees with it; otherwise the log is walked from its start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.headers import header_at
from kafkatool.engine.batches.indexes import sibling_file
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.log_dir import Partition, Segment
from kafkatool.engine.files.source import Guest, Source, open_source
from kafkatool.errors import KafkatoolError
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import TimestampType
from kafkatool.format.legacy import Header
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.time_index import TimeEntry

_Entry = TypeVar("_Entry", OffsetEntry, TimeEntry)


@dataclass(frozen=True, slots=True)
class Extent:
    """What a segment covers; None means unknown. An empty segment has no offsets and no problem."""

    first_offset: int | None = None
    last_offset: int | None = None
    first_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    problem: str | None = None
    could_be_read: bool = True

    @property
    def is_empty(self) -> bool:
        return self.last_offset is None and self.problem is None


def segment_extent(segment: Segment, guest: Guest) -> Extent:
    """Return what a segment covers. Never raises for damaged or missing files: see `problem`."""
    log = segment.log
    if log is None:
        return Extent(problem="no log file")
    if log.size == 0:
        return Extent()
    try:
        with open_source(log.path, guest) as source:
            extent = _extent(source, segment, guest)
            return _unreadable(extent, source) if source.unreadable else extent
    except FileNotFoundError:
        return Extent(problem="vanished")
    except KafkatoolError as error:
        return Extent(problem=str(error), could_be_read=False)


def _extent(source: Source, segment: Segment, guest: Guest) -> Extent:
    first = header_at(source, 0)
    extent = _tail(source, segment, guest)
    if first is None:
        return replace(extent, problem="no batch at the start")
    return replace(extent, first_offset=first.base_offset, first_timestamp_ms=first_timestamp(first))


def _unreadable(extent: Extent, source: Source) -> Extent:
    position = source.unreadable[0][0]
    problem = f"unreadable at byte {position}: image the disk before doing anything else"
    return replace(extent, problem=problem, could_be_read=False)


def partition_extent(partition: Partition, guest: Guest) -> Extent:
    """Return what a partition covers: its live segments or, if it has none, all its segments.

    Only the first and the last segment are read; for those between, the time indexes are enough.
    """
    segments = partition.live_segments or [s for s in partition.segments if s.log is not None]
    first, rest = _first_filled(segments, guest)
    last, between = _first_filled(rest[::-1], guest)
    if last.is_empty:
        return first
    latest = [first.max_timestamp_ms, last.max_timestamp_ms]
    for segment in between:
        known = closed_max_timestamp(segment, guest)
        latest.append(segment_extent(segment, guest).max_timestamp_ms if known is None else known)
    times = [time for time in latest if time is not None]
    return Extent(
        first_offset=first.first_offset,
        last_offset=last.last_offset,
        first_timestamp_ms=first.first_timestamp_ms,
        max_timestamp_ms=max(times) if len(times) == len(latest) else None,
        problem=first.problem or last.problem,
        could_be_read=first.could_be_read and last.could_be_read,
    )


def _first_filled(segments: list[Segment], guest: Guest) -> tuple[Extent, list[Segment]]:
    """Return the extent of the first segment that is not empty, and the segments after it."""
    for at, segment in enumerate(segments):
        extent = segment_extent(segment, guest)
        if not extent.is_empty:
            return extent, segments[at + 1 :]
    return Extent(), []


def closed_max_timestamp(segment: Segment, guest: Guest) -> int | None:
    """Return the greatest time of a properly closed segment from its time index alone; else None."""
    last = last_time_entry(segment, guest)
    return None if last is None else last.timestamp_ms


def first_timestamp(header: Header) -> int | None:
    """Return the time of the first record of a first batch; None if the header does not say."""
    if header.timestamp_type is TimestampType.LOG_APPEND:
        return _known(header.max_timestamp)
    return None if header.delete_horizon_ms is not None else _known(header.base_timestamp)


def _known(timestamp_ms: int) -> int | None:
    return timestamp_ms if timestamp_ms >= 0 else None


def _tail(source: Source, segment: Segment, guest: Guest) -> Extent:
    """Read the batches from the last index entry on; the time index covers those before it."""
    start = last_indexed_position(source, segment, guest)
    last_offset: int | None = None
    max_timestamp = -1
    problem: str | None = None
    for item in scan(source, start):
        if isinstance(item, Batch) and item.is_valid:
            last_offset = item.header.last_offset
            max_timestamp = max(max_timestamp, item.header.max_timestamp)
        elif isinstance(item, Damage):
            problem = problem or _describe(item)
    timed = last_time_entry(segment, guest) if start else None
    if start and timed is None:
        # Batches before the last index entry may be later in time; only reading them would show it.
        return Extent(last_offset=last_offset, problem=problem)
    if timed is not None:
        max_timestamp = max(max_timestamp, timed.timestamp_ms)
    return Extent(last_offset=last_offset, max_timestamp_ms=_known(max_timestamp), problem=problem)


def _describe(damage: Damage) -> str | None:
    # A preallocated log ends in zeros while it is being written: that is normal.
    if damage.kind is FindingClass.ZERO_FILLED and damage.next_good_offset is None:
        return None
    return f"{damage.kind} at byte {damage.position}"


def last_indexed_position(source: Source, segment: Segment, guest: Guest) -> int:
    """Return where to start a walk to the end: 0 unless index and log agree on a later position."""
    path = sibling_file(segment.log.path, ".index") if segment.log else None
    entry = _last_entry(path, offset_index.ENTRY_SIZE, offset_index.read_entry, guest)
    if entry is None or entry.position <= 0 or entry.relative_offset < 0:
        return 0
    header = header_at(source, entry.position)
    if header is None or header.last_offset > entry.offset(segment.base_offset):
        return 0
    return entry.position


def last_time_entry(segment: Segment, guest: Guest) -> TimeEntry | None:
    """Return the last written entry of the time index; None if there is none or it is not valid."""
    path = sibling_file(segment.log.path, ".timeindex") if segment.log else None
    entry = _last_entry(path, time_index.ENTRY_SIZE, time_index.read_entry, guest)
    return entry if entry is not None and entry.timestamp_ms >= 0 and entry.relative_offset >= 0 else None


def _last_entry(
    path: str | None, size: int, read: Callable[[bytes, int], _Entry], guest: Guest
) -> _Entry | None:
    """Find the last written entry of an index by bisection: everything after it is zero."""
    if path is None:
        return None
    try:
        with open_source(path, guest) as source:
            slots = (source.size_hint or 0) // size
            low, high = 0, slots  # slots before `low` are written, those from `high` on are not
            raw = source.read((slots - 1) * size, size) if slots else b""
            if raw.strip(b"\0"):
                return read(raw, 0)
            while low < high:
                middle = (low + high) // 2
                piece = source.read(middle * size, size)
                if piece.strip(b"\0"):
                    low, raw = middle + 1, piece
                else:
                    high = middle
            return read(raw, 0) if low else None
    except (FileNotFoundError, KafkatoolError):
        return None
