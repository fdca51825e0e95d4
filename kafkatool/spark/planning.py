"""Plan a read of `kafkalog`: stretches of logs, packed into tasks of about the same size.

A log is cut where its index says that a batch begins, but only if that is true: a whole batch with a correct
checksum is there, at the offset in the index, and the batches since the entry before lead to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkatool.engine.batches.indexes import OffsetIndex, sound_offset_index, sound_time_index
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.log_dir import Segment, SegmentState
from kafkatool.engine.directory.roots import read_roots
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.files.source import Guest, Source, open_source
from kafkatool.engine.jobs.survey import SPLIT_SIZE
from kafkatool.engine.records.subject import Subject, logs_of, subjects_of
from kafkatool.engine.records.visibility import LOG_END
from kafkatool.errors import KafkatoolError, UsageError

MOST_IN_A_TASK = 512
_UNBOUNDED = 1 << 63


@dataclass(frozen=True, slots=True)
class LogStretch:
    """A part of one log, and its context."""

    root: str
    topic: str | None
    partition: int | None
    directory: str
    segment: int
    path: str
    size: int
    start: int
    end: int
    state: str
    index_size: int
    modified_ms: int
    high_watermark: int = LOG_END
    log_start: int = 0
    from_offset: int | None = None
    """Only records from here on, and only those before `to_offset`."""
    to_offset: int | None = None


@dataclass(slots=True)
class Wanted:
    """What filters ask for, as far as names, offsets and times of segments can decide."""

    topics: set[str] | None = None
    partitions: set[int] | None = None
    roots: set[str] | None = None
    first_offset: int = 0
    last_offset: int = _UNBOUNDED
    first_ms: int = -_UNBOUNDED
    last_ms: int = _UNBOUNDED

    def has_partition(self, root: str, topic: str | None, partition: int | None) -> bool:
        return (
            (self.roots is None or root in self.roots)
            and (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
        )


@dataclass(slots=True)
class FoundSubjects:
    subjects: list[tuple[str, Subject]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What could not be read, or is malformed."""
    unread: list[str] = field(default_factory=list)
    """Only what could not be read."""


def find_subjects(paths: Iterable[str], guest: Guest, high_watermark: int | None = None) -> FoundSubjects:
    """Return every partition under these roots, with its root's name. Raises UsageError."""
    found = FoundSubjects()
    roots = read_roots(paths, found.unread)
    found.problems += found.unread
    for root in roots:
        there = Selection(root.targets, guest)
        found.problems += there.problems
        found.unread += there.unread
        found.subjects += [(root.label, subject) for subject in subjects_of(there.homes, high_watermark)]
    if not found.subjects and found.problems:
        raise UsageError("; ".join(found.problems))
    return found


def segments_of(subject: Subject) -> list[Segment]:
    """Return the selected segments that have a log, in order."""
    meant = {log.path for log in logs_of(subject.named)}
    return [one for one in subject.partition.segments if one.log is not None and one.log.path in meant]


def plan(
    subjects: Iterable[tuple[str, Subject]], wanted: Wanted, guest: Guest, split_size: int = SPLIT_SIZE
) -> list[list[LogStretch]]:
    """Return the tasks of a read."""
    stretches: list[LogStretch] = []
    for root, subject in subjects:
        partition = subject.partition
        if wanted.has_partition(root, partition.topic, partition.partition):
            stretches += _of_partition(root, subject, wanted, guest, split_size)
    return list(packed(stretches, split_size))


def _of_partition(
    root: str, subject: Subject, wanted: Wanted, guest: Guest, split_size: int
) -> Iterator[LogStretch]:
    segments = segments_of(subject)
    ends = [*(segment.base_offset for segment in segments[1:]), _UNBOUNDED]
    for segment, end in zip(segments, ends, strict=True):
        if segment.base_offset > wanted.last_offset or end <= wanted.first_offset:
            continue
        yield from _of_segment(root, subject, segment, wanted, guest, split_size)


def _of_segment(
    root: str, subject: Subject, segment: Segment, wanted: Wanted, guest: Guest, split_size: int
) -> Iterator[LogStretch]:
    log, partition = segment.log, subject.partition
    assert log is not None
    for start, end in _cuts(segment, wanted, guest, split_size):
        yield LogStretch(
            root,
            partition.topic,
            partition.partition,
            partition.path,
            segment.base_offset,
            log.path,
            log.size,
            start,
            end,
            str(segment.state),
            segment.size - log.size,
            log.modified_ms,
            subject.high_watermark,
            subject.log_start,
        )


def _cuts(segment: Segment, wanted: Wanted, guest: Guest, split_size: int) -> list[tuple[int, int]]:
    """Return where the stretches of a segment begin and end; none if no record in it can match."""
    log = segment.log
    assert log is not None
    asks = wanted.first_offset > segment.base_offset or wanted.last_offset < _UNBOUNDED
    asks_for_time = wanted.first_ms > -_UNBOUNDED
    if log.size <= split_size and not asks and not asks_for_time:
        return [(0, log.size)]
    index = sound_offset_index(log.path, log.size, guest)
    if asks_for_time and _ends_before(segment, index, wanted.first_ms, guest):
        return []
    try:
        with open_source(log.path, guest) as source:
            starts = [0]
            positions = index.positions
            while (at := bisect_left(positions, starts[-1] + max(1, split_size))) < len(positions):
                while at < len(positions) and not is_sound(source, index, at):
                    at += 1
                if at == len(positions) or log.size - positions[at] < split_size // 2:
                    break
                starts.append(positions[at])
            starts = _behind(source, starts, index, wanted)
            stop = _stop(source, index, wanted, log.size)
    except (FileNotFoundError, KafkatoolError):
        return [(0, log.size)]  # the task that reads it reports it
    ends = [*starts[1:], log.size]
    return [(start, min(end, stop)) for start, end in zip(starts, ends, strict=True) if start < stop]


def _behind(source: Source, starts: list[int], index: OffsetIndex, wanted: Wanted) -> list[int]:
    """Drop the stretches that end before the first wanted offset."""
    # An entry has its batch's last offset: everything before the batch is below it.
    at = bisect_left(index.offsets, wanted.first_offset - index.base_offset) - 1
    if at < 0:
        return starts
    reached = index.positions[at]
    first = reached if is_sound(source, index, at) else max(start for start in starts if start <= reached)
    return [first, *(start for start in starts if start > reached)]


def _stop(source: Source, index: OffsetIndex, wanted: Wanted, size: int) -> int:
    """Return the position of a batch after the last wanted offset, if the index has one."""
    at = bisect_left(index.offsets, wanted.last_offset - index.base_offset) + 1
    if wanted.last_offset == _UNBOUNDED or at >= len(index.positions):
        return size
    return index.positions[at] if is_sound(source, index, at - 1) and is_sound(source, index, at) else size


def _ends_before(segment: Segment, index: OffsetIndex, first_ms: int, guest: Guest) -> bool:
    """Return whether all records of a closed segment are older, by the last entry of its time index.

    Only if the log confirms it: the batches after the last index entry are checked.
    """
    log = segment.log
    assert log is not None
    if segment.state is SegmentState.ACTIVE:
        return False
    times = sound_time_index(log.path, log.size, guest).times
    if not times or times[-1] >= first_ms:
        return False
    start = index.positions[-1] if index.positions else 0
    try:
        with open_source(log.path, guest) as source:
            for item in scan(source, start):
                if not isinstance(item, Batch) or not item.is_valid or item.header.max_timestamp >= first_ms:
                    return False
    except (FileNotFoundError, KafkatoolError):
        return False
    return True


def is_sound(source: Source, index: OffsetIndex, at: int) -> bool:
    """Return whether an entry points to a batch, by that batch and those since the entry before."""
    position = index.positions[at]
    before = index.positions[at - 1] if at else 0
    last = None
    for item in scan(source, before):
        if not isinstance(item, Batch) or not item.is_valid:
            return False
        if item.position >= position:
            last = item
            break
    return (
        last is not None
        and last.position == position
        # An entry may be for a group of batches: it has the last offset of the last one.
        and last.header.base_offset <= index.base_offset + index.offsets[at]
    )


def packed(stretches: Iterable[LogStretch], split_size: int) -> Iterator[list[LogStretch]]:
    """Pack neighbouring stretches, as many as make a task."""
    pack: list[LogStretch] = []
    size = 0
    for stretch in stretches:
        length = stretch.end - stretch.start
        if pack and (size + length > split_size or len(pack) == MOST_IN_A_TASK):
            yield pack
            pack, size = [], 0
        pack.append(stretch)
        size += length
    if pack:
        yield pack
