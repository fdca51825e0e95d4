"""Statistics of logs per file, partition or topic, and in total.

Every log is surveyed, on up to the given number of processes; the results are combined in an order that never
varies. At any time only one group and the total are held in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from zlib import crc32

from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.batches.indexes import sound_offset_index
from kafkatool.engine.batches.seek import EVERYWHERE, Range, seek
from kafkatool.engine.directory.log_dir import (
    Partition,
    PartitionState,
    Segment,
    SegmentState,
    tell_problems,
)
from kafkatool.engine.directory.log_groups import may_hold
from kafkatool.engine.directory.named_file import LOGS
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import LogDirTarget, Target
from kafkatool.engine.directory.topic_names import restore_topic_names
from kafkatool.engine.files.object_storage import real_path
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.jobs.survey import SPLIT_SIZE, Split, Task, cut, shrinking_size, survey
from kafkatool.engine.jobs.worker_pool import WORTH_A_WORKER, Workers
from kafkatool.engine.stats.facts import Deep, Stats
from kafkatool.engine.stats.grouping import By
from kafkatool.engine.stats.walk import LogStats, StatsJob
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds

_SPREAD = 0x9E3779B97F4A7C15
_LIVE = (SegmentState.ACTIVE, SegmentState.CLOSED)


@dataclass(frozen=True, slots=True)
class StatsRequest:
    """What to count, and how."""

    now_ms: int
    by: By = By.PARTITION
    deep: bool = False
    split_size: int | None = None
    """Bytes per split; None: chosen by the number of jobs and the remaining bytes."""


@dataclass(frozen=True, slots=True)
class CountedLog:
    """One file to read, and where it belongs."""

    partition: Partition
    path: str
    size: int
    is_active: bool
    can_be_cut: bool = False
    """Whether there is an index with positions to cut at."""
    base_offset: int | None = None
    """From the file name; None if that is not a segment's."""

    @property
    def topic_name(self) -> str:
        return self.partition.topic or self.partition.directory

    @property
    def order(self) -> tuple[str, int, str]:
        """The sort key: by topic and partition; the files of a partition keep their order."""
        number = self.partition.partition
        return self.topic_name, -1 if number is None else number, self.partition.path


@dataclass(slots=True)
class StatsGroup:
    """What a row is about, and its numbers. `by` is None for the total."""

    by: By | None
    stats: Stats
    log: CountedLog | None = None
    """The first of its logs."""
    files: int = 0
    partitions: int = 0


@dataclass(slots=True)
class StatsSummary:
    """Problems met during the run."""

    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable_blocks: int = 0
    left_out: int = 0
    """Number of directories awaiting deletion."""
    worst: Severity | None = None
    is_interrupted: bool = False


class Statistics:
    """One run: `groups` yields the requested groups, and the total at the end.

    With a range only data in it counts: logs, partitions and topics without any are left out.
    """

    def __init__(self, targets: list[Target], guest: Guest, wanted: Range = EVERYWHERE) -> None:
        """List what there is to read. Raises KafkatoolError if a target cannot be listed."""
        self.wanted = wanted
        self.summary = StatsSummary()
        self._total = StatsGroup(None, Stats())
        self._open: StatsGroup | None = None
        self.guest = guest
        found = {real_path(log.path): log for log in self._find(targets)}
        self.has_logs = bool(found)
        """Whether there are any logs, in the range or not."""
        logs = sorted(found.values(), key=lambda log: log.order)
        self.logs = logs if wanted.is_open else list(_logs_in(wanted, logs))
        self.size = sum(log.size for log in self.logs)

    @property
    def most_workers(self) -> int:
        """More do not pay off: a log that cannot be cut goes to one, and little data is done quickly."""
        parts = sum(1 + log.size // SPLIT_SIZE if log.can_be_cut else 1 for log in self.logs)
        return min(parts, self.size // WORTH_A_WORKER)

    @property
    def is_nothing_there(self) -> bool:
        """Whether a range was given, and there is nothing in it."""
        return not self.wanted.is_open and not self._total.stats.batches

    def group_count(self, by: By) -> int:
        """Return the number of groups, without the total."""
        if by is By.FILE:
            return len(self.logs)
        return len({log.topic_name if by is By.TOPIC else log.order for log in self.logs})

    # --- what there is ------------------------------------------------------------------------------------

    def _find(self, targets: list[Target]) -> Iterator[CountedLog]:
        selection = Selection(sorted(targets, key=lambda one: not isinstance(one, LogDirTarget)), self.guest)
        restore_topic_names(selection.log_dirs, self.guest)
        problems = [problem for log_dir in selection.log_dirs for problem in log_dir.problems]
        for place in selection.places(problems):
            if place.is_partial:
                yield from _named_logs(place.partition)
            elif place.log_dir is not None and place.partition.state is PartitionState.DELETED:
                self.summary.left_out += 1
            else:
                yield from _live_logs(place.partition)
        tell_problems(problems, self.summary.notes, self.summary.failures)

    # --- the survey ---------------------------------------------------------------------------------------

    def groups(
        self, request: StatsRequest, pool: Workers, advance: Callable[[int], None] = lambda size: None
    ) -> Iterator[StatsGroup]:
        """Yield the requested groups in order, then the total; the summary is complete at the end."""
        results = self._counted(survey(self._tasks(request, pool, advance), pool, advance))
        total = self._total = StatsGroup(None, _empty(request))
        for _topic, of_topic in groupby(results, lambda found: found[0].topic_name):
            topic = StatsGroup(By.TOPIC, _empty(request))
            for _partition, of_partition in groupby(of_topic, lambda found: found[0].order):
                partition = self._open = StatsGroup(By.PARTITION, _empty(request), partitions=1)
                for log, found in of_partition:
                    files = int(self._counts(found.stats))
                    if request.by is By.FILE and files:
                        yield StatsGroup(By.FILE, found.stats, log, files=1, partitions=1)
                    _put(partition, log, found.stats, files=files, follows=True)
                partition.partitions = min(1, partition.files)
                if request.by is By.PARTITION and partition.files:
                    yield partition
                self._open = None
                for group in (topic, total):
                    _put(
                        group,
                        partition.log,
                        partition.stats,
                        files=partition.files,
                        partitions=partition.partitions,
                    )
            if request.by is By.TOPIC and topic.files:
                yield topic
        yield total

    def _counts(self, stats: Stats) -> bool:
        """Return whether a log is reported: with a range, only if it has batches or damage in it."""
        return self.wanted.is_open or bool(stats.batches or stats.damages.classes)

    def so_far(self) -> StatsGroup:
        """Return the total of everything that was read before `groups` was interrupted."""
        if self._open is not None:
            _put(self._total, self._open.log, self._open.stats, files=self._open.files, partitions=1)
        return self._total

    def _tasks(
        self, request: StatsRequest, pool: Workers, advance: Callable[[int], None] = lambda size: None
    ) -> Iterator[Task[int, LogStats]]:
        guest, left = self.guest.one_of(pool.count), self.size
        for number, log in enumerate(self.logs):
            split_size = request.split_size or shrinking_size(left, pool.count)
            left -= log.size
            seed = crc32(os.fsencode(log.partition.directory)) * _SPREAD & (1 << 64) - 1
            job = StatsJob(
                request.now_ms,
                request.deep,
                seed,
                number,
                self.wanted,
                is_active=log.is_active,
                guest=guest,
            )
            start = self._start(log)
            advance(start)
            yield Task(number, job, self._splits(log, split_size, pool.count, start))

    def _start(self, log: CountedLog) -> int:
        """Return a position before which nothing is wanted, as far as the indexes help."""
        if self.wanted.from_offset is None and self.wanted.from_ms is None:
            return 0
        try:
            with open_source(log.path, self.guest) as source:
                return seek(source, log.path, self.wanted, self.guest)
        except (FileNotFoundError, KafkatoolError):
            return 0  # the walk meets the same error and reports it

    def _splits(self, log: CountedLog, split_size: int, jobs: int, start: int) -> tuple[Split, ...]:
        positions: Sequence[int] = ()
        if log.size - start > split_size and jobs > 1:
            positions = sound_offset_index(log.path, log.size, self.guest).positions
        return cut(log.path, log.size, positions, split_size, start)

    def _counted(self, results: Iterator[tuple[int, LogStats]]) -> Iterator[tuple[CountedLog, LogStats]]:
        summary = self.summary
        for number, found in results:
            log = self.logs[number]
            if found.failure:
                summary.failures.append(found.failure)
            if found.vanished:
                summary.notes.append(f"{log.path}: deleted since its directory was listed")
            if found.changed:
                summary.notes.append(f"{log.path}: {found.changed}")
            summary.unreadable_blocks += found.unreadable_blocks
            worst = found.stats.damages.worst
            if worst is not None:
                summary.worst = max(summary.worst or worst, worst)
            yield log, found

    def sample_of(self, group: StatsGroup) -> list[tuple[str, int, int]]:
        """Return path, position and size of the batches in the sample of a group."""
        group.stats.settle()
        rows = [] if not group.stats.sample.columns else group.stats.sample.columns[0].tolist()
        return [(self.logs[number].path, position, size) for number, position, size in rows]


def _empty(request: StatsRequest) -> Stats:
    return Stats(Deep() if request.deep else None)


def _put(
    group: StatsGroup,
    log: CountedLog | None,
    stats: Stats,
    *,
    files: int,
    partitions: int = 0,
    follows: bool = False,
) -> None:
    group.stats.join(stats, follows=follows)
    group.log = group.log or log
    group.files += files
    group.partitions += partitions


def _logs_in(wanted: Range, logs: list[CountedLog]) -> Iterator[CountedLog]:
    """Yield the logs that may hold wanted offsets, by the names of each partition's segments."""
    for _order, of_partition in groupby(logs, lambda log: log.order):
        some = list(of_partition)
        bases = sorted(log.base_offset for log in some if log.base_offset is not None)
        for log in some:
            if log.base_offset is None or may_hold(wanted, log.base_offset, bases):
                yield log


def _named_logs(partition: Partition) -> Iterator[CountedLog]:
    """Yield the logs among files that were named themselves, in any state."""
    for segment in partition.segments:
        if segment.log is not None:
            yield _log(partition, segment)
    for entry in partition.other_files:
        if entry.kind in LOGS:
            yield CountedLog(partition, entry.path, entry.size, is_active=False)


def _live_logs(partition: Partition) -> Iterator[CountedLog]:
    for segment in partition.segments:
        if segment.log is not None and segment.state in _LIVE:
            yield _log(partition, segment)


def _log(partition: Partition, segment: Segment) -> CountedLog:
    assert segment.log is not None
    is_active, has_index = segment.state is SegmentState.ACTIVE, segment.file(kinds.OFFSET_INDEX) is not None
    log, base = segment.log, segment.base_offset
    return CountedLog(partition, log.path, log.size, is_active, has_index, base)
