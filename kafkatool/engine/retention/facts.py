"""Read from the files what a broker knows about a log when it decides about its segments.

The largest timestamp of a closed segment is that of the last slot of its time index, whatever the records
say; that of the active segment comes from its records. Without one, the file's modification time is used,
which a copy may not have kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.headers import header_at
from kafkatool.engine.batches.records import records_of
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.extent import (
    first_timestamp,
    last_indexed_position,
    last_time_entry,
)
from kafkatool.engine.directory.log_dir import FileEntry, Partition, Segment
from kafkatool.engine.files.source import Guest, Source, open_source
from kafkatool.engine.retention.rules import RetentionFacts, SegmentFacts, TimeSource
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds, time_index
from kafkatool.format.time_index import TimeEntry


@dataclass(frozen=True, slots=True)
class FactsReading:
    """How to read a log. `high_watermark` None: the log end offset is used."""

    now_ms: int
    high_watermark: int | None
    log_start: int | None
    """From the checkpoint."""
    is_tiered: bool = False
    check_times: bool = False
    """Read every batch, and compare the time indexes with them."""


@dataclass(slots=True)
class _TimeWalk:
    """What a walk over batches found."""

    end_position: int = 0
    next_offset: int | None = None
    first_ms: int | None = None
    largest_ms: int = -1
    largest_offset: int | None = None
    """Last offset of the batch, as brokers store it in time indexes."""
    largest_position: int = 0
    damage: str | None = None


def read_log_facts(
    partition: Partition, how: FactsReading, guest: Guest, known: Mapping[int, SegmentFacts] | None = None
) -> RetentionFacts:
    """Read the facts about one log; closed segments that are `known` are not read again.

    Raises KafkatoolError if a file cannot be read.
    """
    segments = [segment for segment in partition.live_segments if segment.log is not None]
    if not segments:
        return RetentionFacts((), 0, 0, how.log_start or 0)
    active, log_end, damage = _active(segments[-1], guest)
    before = known or {}
    closed = [before.get(one.base_offset) or _closed(one, how, guest) for one in segments[:-1]]
    first = segments[0].base_offset
    start = how.log_start or 0
    if not how.is_tiered:
        start = max(start, first)
    high_watermark = log_end if how.high_watermark is None else how.high_watermark
    high_watermark = min(max(high_watermark, start), log_end)
    return RetentionFacts((*closed, active), log_end, high_watermark, start, damage)


def _active(segment: Segment, guest: Guest) -> tuple[SegmentFacts, int, str | None]:
    """Return the active segment, the log end offset, and what puts that in doubt."""
    log = _log(segment)
    timed = last_time_entry(segment, guest)
    with open_source(log.path, guest) as source:
        start = last_indexed_position(source, segment, guest) if timed is not None else 0
        walk = _walk(source, start)
        first_ms = _first_ms(source)
    if timed is not None and timed.timestamp_ms >= walk.largest_ms:
        walk.largest_ms, walk.largest_offset = timed.timestamp_ms, timed.offset(segment.base_offset)
    end = segment.base_offset if walk.next_offset is None else walk.next_offset
    facts = SegmentFacts(
        segment.base_offset,
        walk.end_position,
        walk.largest_ms,
        TimeSource.RECORDS,
        walk.largest_offset,
        first_ms,
    )
    return _or_mtime(facts, log), end, walk.damage


def _closed(segment: Segment, how: FactsReading, guest: Guest) -> SegmentFacts:
    log = _log(segment)
    entry = _last_slot(segment, guest)
    with open_source(log.path, guest) as source:
        first_ms = _first_ms(source)
        facts = SegmentFacts(
            segment.base_offset,
            log.size,
            entry.timestamp_ms,
            TimeSource.TIME_INDEX,
            entry.offset(segment.base_offset) if entry.timestamp_ms >= 0 else None,
            first_ms,
        )
        is_suspect = not 0 <= entry.timestamp_ms <= how.now_ms
        whole = how.check_times or is_suspect
        walk = _walk(source, 0 if whole else last_indexed_position(source, segment, guest))
        if walk.largest_ms > how.now_ms:
            _find_record(source, walk)
            if walk.largest_ms == entry.timestamp_ms:
                facts = replace(facts, largest_offset=walk.largest_offset)
    if walk.largest_ms > entry.timestamp_ms or (whole and walk.largest_ms != entry.timestamp_ms):
        facts = replace(facts, log_largest_ms=walk.largest_ms, log_largest_offset=walk.largest_offset)
    return _or_mtime(facts, log)


def _or_mtime(facts: SegmentFacts, log: FileEntry) -> SegmentFacts:
    if facts.largest_ms >= 0:
        return facts
    return replace(facts, largest_ms=log.modified_ms, largest_from=TimeSource.MTIME, largest_offset=None)


def _last_slot(segment: Segment, guest: Guest) -> TimeEntry:
    """Return the last whole slot of the file, zeros or not: a broker that loads it does the same."""
    entry = segment.file(kinds.TIME_INDEX)
    slots = 0 if entry is None else entry.size // time_index.ENTRY_SIZE
    if entry is None or not slots:
        return TimeEntry(time_index.NO_TIMESTAMP, 0)
    with open_source(entry.path, guest) as source:
        raw = source.read((slots - 1) * time_index.ENTRY_SIZE, time_index.ENTRY_SIZE)
    if len(raw) < time_index.ENTRY_SIZE:
        raise KafkatoolError(f"{entry.path}: is shorter than it was")
    return time_index.read_entry(raw, 0)


def _walk(source: Source, start: int) -> _TimeWalk:
    found = _TimeWalk(start)
    for item in scan(source, start):
        if isinstance(item, Damage):
            is_reserved = item.kind is FindingClass.ZERO_FILLED and item.next_good_offset is None
            found.damage = found.damage or (None if is_reserved else f"{item.kind} at byte {item.position}")
        if isinstance(item, Damage) or not item.is_valid:
            continue
        header = item.header
        found.end_position = item.position + header.size
        found.next_offset = header.last_offset + 1
        if header.max_timestamp > found.largest_ms:
            found.largest_ms, found.largest_offset = header.max_timestamp, header.last_offset
            found.largest_position = item.position
    if source.unreadable:
        position = source.unreadable[0][0]
        raise KafkatoolError(f"{source.name}: unreadable at byte {position}: image the disk first")
    return found


def _find_record(source: Source, walk: _TimeWalk) -> None:
    """Find the record with the largest timestamp, not only its batch: a user has to decide about it."""
    for item in scan(source, walk.largest_position):
        if isinstance(item, Batch) and item.data is not None:
            with suppress(FormatError):
                own = (
                    one.offset
                    for one in records_of(item.header, item.data)
                    if one.timestamp_ms == walk.largest_ms
                )
                walk.largest_offset = next(own, walk.largest_offset)
        return


def _first_ms(source: Source) -> int | None:
    header = header_at(source, 0)
    return None if header is None else first_timestamp(header)


def _log(segment: Segment) -> FileEntry:
    assert segment.log is not None
    return segment.log
