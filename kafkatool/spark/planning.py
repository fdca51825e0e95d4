"""Plan a read of `kafkalog`: stretches of logs, packed into tasks of about the same size.

A log is cut where its index says that a batch begins, but only if that is true: a whole batch with a correct
checksum is there, at the offset in the index, and the batches since the entry before lead to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkatool.engine.batches.index_claims import IndexClaims, read_claims
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.log_dir import Segment, SegmentState
from kafkatool.engine.directory.roots import read_roots
from kafkatool.engine.directory.selection import find_partitions
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
        there = find_partitions(root.targets, guest)
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
    claims = read_claims(log.path, log.size, guest)
    if asks_for_time and _ends_before(segment, claims, wanted.first_ms, guest):
        return []
    try:
        with open_source(log.path, guest) as source:
            starts = [0]
            positions = claims.positions
            while (at := bisect_left(positions, starts[-1] + max(1, split_size))) < len(positions):
                while at < len(positions) and not is_sound(source, claims, at, segment.base_offset):
                    at += 1
                if at == len(positions) or log.size - positions[at] < split_size // 2:
                    break
                starts.append(positions[at])
            starts = _behind(source, starts, claims, wanted, segment.base_offset)
            stop = _stop(source, claims, wanted, segment.base_offset, log.size)
    except (FileNotFoundError, KafkatoolError):
        return [(0, log.size)]  # the task that reads it reports it
    ends = [*starts[1:], log.size]
    return [(start, min(end, stop)) for start, end in zip(starts, ends, strict=True) if start < stop]


def _behind(source: Source, starts: list[int], claims: IndexClaims, wanted: Wanted, base: int) -> list[int]:
    """Drop the stretches that end before the first wanted offset."""
    relative = wanted.first_offset - base
    if relative <= 0:
        return starts
    # An entry has its batch's last offset: everything before the batch is below it.
    at = bisect_left(claims.offsets, relative)
    if at == 0:
        return starts
    reached = claims.positions[at - 1]
    kept = [start for start in starts if start > reached]
    before = [start for start in starts if start <= reached]
    if is_sound(source, claims, at - 1, base):
        before = [*before, reached]
    return [max(before), *kept]


def _stop(source: Source, claims: IndexClaims, wanted: Wanted, base: int, size: int) -> int:
    """Return the position of a batch after the last wanted offset, if the index has one."""
    at = bisect_left(claims.offsets, wanted.last_offset - base) + 1
    if wanted.last_offset == _UNBOUNDED or at >= len(claims.positions):
        return size
    is_known = is_sound(source, claims, at - 1, base) and is_sound(source, claims, at, base)
    return claims.positions[at] if is_known else size


def _ends_before(segment: Segment, claims: IndexClaims, first_ms: int, guest: Guest) -> bool:
    """Return whether all records of a closed segment are older, by the last entry of its time index.

    Only if the log confirms it: the batches after the last index entry are checked.
    """
    if segment.state is SegmentState.ACTIVE or not len(claims.times) or claims.times[-1] >= first_ms:
        return False
    log = segment.log
    assert log is not None
    start = claims.positions[-1] if len(claims.positions) else 0
    try:
        with open_source(log.path, guest) as source:
            for item in scan(source, start):
                if not isinstance(item, Batch) or not item.is_valid or item.header.max_timestamp >= first_ms:
                    return False
    except (FileNotFoundError, KafkatoolError):
        return False
    return True


def is_sound(source: Source, claims: IndexClaims, at: int, base_offset: int) -> bool:
    """Return whether an entry points to a batch, by that batch and those since the entry before."""
    position = claims.positions[at]
    before = claims.positions[at - 1] if at else 0
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
        and last.header.base_offset <= base_offset + claims.offsets[at]
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
