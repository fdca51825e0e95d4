"""Check every batch, and the files of a log directory against each other.

The logs are surveyed on up to the given number of processes; the files are compared when all logs of a
partition have been walked. Findings come partition by partition, in an order that never varies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol
from zlib import crc32

from kafkatool.engine.batches.indexes import sound_offset_index
from kafkatool.engine.directory.log_dir import (
    LogDir,
    Partition,
    PartitionState,
    Segment,
    SegmentState,
    tell_problems,
    with_logs,
)
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkatool.engine.files.lock import broker_is_alive
from kafkatool.engine.files.object_storage import absolute_path, is_directory, real_path
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.survey import SPLIT_SIZE, Split, Task, cut, shrinking_size, survey
from kafkatool.engine.jobs.worker_pool import WORTH_A_WORKER, Workers
from kafkatool.engine.verify.finding import Finding, VerifySummary
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.place import CheckedPlace, place_finding
from kafkatool.engine.verify.walk import LogJob
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import METADATA_PARTITION, TopicPartition

if TYPE_CHECKING:
    from kafkatool.engine.batches.observers import Observer
    from kafkatool.engine.cluster.view import ClusterView
    from kafkatool.engine.verify.state_file import Scrub

SAMPLE_SPLIT_SIZE = 4 << 20
_TOP = (
    *(kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.LOG_STARTS, kinds.CLEANER_OFFSETS),
    kinds.META_PROPERTIES,
)

_Key = tuple[int, int]
"""Number of the place, and number of the segment in it."""


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What to check, and how."""

    deep: bool = False
    sample: float | None = None
    """Share of the data to read, or None for all of it."""
    guest: Guest = field(default_factory=Guest)
    split_size: int | None = None
    """Bytes per split; None: chosen by the number of jobs and the remaining bytes."""
    partitions_only: bool = False
    """Whether to leave out the files at the top of log directories."""


class VerifyPurpose(Protocol):
    """A further purpose of a verification, besides findings."""

    def observers(self, place: CheckedPlace, segment: Segment) -> tuple[Observer, ...]:
        """Return the observers that also see the batches of a log."""

    def recall(self, segment: Segment) -> LogFacts | None:
        """Return the facts of a segment that need not be read again; None: read it."""


class CheckedPartition(NamedTuple):
    """A partition whose logs have been read."""

    place: CheckedPlace
    facts: dict[int, list[LogFacts]]
    """By log number, for the logs that were read in this run."""
    findings: Iterator[Finding]
    """What is wrong; to be consumed once, before the next partition is requested."""


class Verification:
    """One run: `findings` yields what is wrong, `summary` shows what was done."""

    def __init__(
        self,
        targets: list[Target],
        request: VerifyRequest,
        scrub: Scrub | None = None,
        purpose: VerifyPurpose | None = None,
    ) -> None:
        """List what there is to check. Raises KafkatoolError if a target cannot be listed."""
        self.summary = VerifySummary(sample=request.sample)
        self._request = request
        self._scrub = scrub
        self._purpose = purpose
        self._known: dict[_Key, LogFacts] = {}
        files = [one for one in targets if isinstance(one, FileTarget)]
        directories = (one for one in targets if not isinstance(one, FileTarget))
        self.selection = Selection([*directories, *with_logs(files)], request.guest)
        self.log_dirs = self.selection.log_dirs
        self.places = list(self._find_places())
        self.size = sum(s.log.size for place in self.places for s in place.logs if s.log is not None)
        if scrub is not None:
            scrub.choose(segment for place in self.places for segment in place.logs)
        self.summary.partitions = len(self.places)
        self.summary.total_size = self.size

    @property
    def most_workers(self) -> int:
        """More do not pay off: a log without an index goes to one worker, and little data is done quickly."""
        parts = 0
        for segment in (segment for place in self.places for segment in place.logs):
            assert segment.log is not None
            can_be_cut = segment.file(kinds.OFFSET_INDEX) is not None
            parts += 1 + segment.log.size // SPLIT_SIZE if can_be_cut else 1
        return min(parts, self.size // WORTH_A_WORKER)

    # --- what there is ------------------------------------------------------------------------------------

    def _find_places(self) -> Iterator[CheckedPlace]:
        from kafkatool.engine.verify.log_dir import read_checkpoint

        guest, selection = self._request.guest, self.selection
        problems = [problem for log_dir in self.log_dirs for problem in log_dir.problems]
        view = self._cluster_view()
        cleaners: dict[str, dict[TopicPartition, int]] = {}
        for target in sorted(selection.targets, key=lambda one: not isinstance(one, LogDirTarget)):
            for found in selection.places_of(target, problems):
                partition, log_dir = found.partition, found.log_dir or self._top_of(found.partition)
                if found.log_dir is not None and partition.state is PartitionState.DELETED:
                    self._leave_out(partition)
                    continue
                if log_dir is not None and log_dir.path not in cleaners:
                    cleaners[log_dir.path] = read_checkpoint(log_dir.files, kinds.CLEANER_OFFSETS, guest)
                cleaner = {} if log_dir is None else cleaners[log_dir.path]
                is_live = broker_is_alive(partition.path)
                yield CheckedPlace(partition, log_dir, view, cleaner, is_live=is_live)
        for found in selection.files(problems):
            place = CheckedPlace(found.partition, is_partial=True)
            self.summary.side_files += len(place.side_files)
            yield place
        tell_problems(problems, self.summary.notes, self.summary.failures)

    def _leave_out(self, partition: Partition) -> None:
        """Count a directory that a broker is about to delete as left out, unless it was named itself."""
        named = (real_path(t.path) for t in self.selection.targets if isinstance(t, PartitionTarget))
        if real_path(partition.path) not in named:
            self.summary.deleted_partitions += 1
            self.summary.deleted_size += sum(s.log.size for s in partition.segments if s.log is not None)

    def _top_of(self, partition: Partition) -> LogDir | None:
        """Return the log directory that holds a partition; None if the parent directory is not one."""
        try:
            found = self.selection.log_dir_of(partition.path)
        except KafkatoolError:
            return None
        return found if any(entry.kind in _TOP for entry in found.files) else None

    def _cluster_view(self) -> ClusterView | None:
        found = [one for log_dir in self.log_dirs for one in log_dir.metadata]
        for target in self.selection.targets:
            if isinstance(target, PartitionTarget) and not found:
                beside = os.path.join(os.path.dirname(absolute_path(target.path)), METADATA_PARTITION)
                one = self.selection.partition_at(beside, []) if is_directory(beside) else None
                found += () if one is None else (one,)
        if not found:
            return None
        from kafkatool.engine.cluster.view import read_cluster_view

        return read_cluster_view(found, self._request.guest)

    # --- the survey ---------------------------------------------------------------------------------------

    def findings(
        self, pool: Workers, advance: Callable[[int], None] = lambda size: None
    ) -> Iterator[Finding]:
        """Yield everything that is wrong, partition by partition; the summary is complete at the end."""
        is_complete = False
        try:
            yield from self._all_findings(pool, advance)
            is_complete = True
        finally:
            if self._scrub is not None:
                self._scrub.save(is_complete=is_complete)
                self.summary.notes += self._scrub.notes
                self.summary.rechecked_segments = self._scrub.rechecked
                if self._scrub.failure is not None:
                    self.summary.failures.append(self._scrub.failure)

    def _all_findings(self, pool: Workers, advance: Callable[[int], None]) -> Iterator[Finding]:
        if not self._request.partitions_only:
            yield from self.of_directories()
        for checked in self.partitions(pool, advance):
            yield from checked.findings

    def partitions(self, pool: Workers, advance: Callable[[int], None]) -> Iterator[CheckedPartition]:
        """Yield every partition, in order."""
        results = survey(self._tasks(pool, advance), pool, advance)
        pending = next(results, None)
        for number, place in enumerate(self.places):
            facts: dict[int, list[LogFacts]] = {}
            while pending is not None and pending[0][0] == number:
                (_, segment), found = pending
                facts.setdefault(segment, []).append(found)
                self._remember(number, place, segment, found)
                pending = next(results, None)
            yield CheckedPartition(place, facts, self.counted(self._judge(number, place, facts)))

    def counted(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Yield the same findings, and count them in the summary."""
        for finding in findings:
            self.summary.findings[finding.damage.severity] += 1
            yield finding

    def of_directories(self) -> Iterator[Finding]:
        """Yield what is wrong at the top of log directories, and between them."""
        from kafkatool.engine.verify.log_dir import between_dirs, dir_problems

        problems = [
            problem for log_dir in self.log_dirs for problem in dir_problems(log_dir, self._request.guest)
        ]
        problems += between_dirs(self.log_dirs)
        yield from self.counted(place_finding(None, one.path, one.damage) for one in problems)

    def _tasks(self, pool: Workers, advance: Callable[[int], None]) -> Iterator[Task[_Key, LogFacts]]:
        guest, left = self._request.guest.one_of(pool.count), self.size
        for number, place in enumerate(self.places):
            for at, segment in enumerate(place.logs):
                log = segment.log
                assert log is not None
                split_size = self._split_size(left, pool.count)
                left -= log.size
                known = self._recall(segment)
                if known is not None:
                    self._known[number, at] = known
                    self.summary.skipped_segments += 1
                    advance(log.size)
                    continue
                job = self._job(place, segment, guest)
                for splits in self._splits(log.path, log.size, split_size, place, advance):
                    yield Task((number, at), job, splits)
                    import kafkatool.engine.verify.partition  # noqa: F401  # workers are busy now

    def _job(self, place: CheckedPlace, segment: Segment, guest: Guest) -> LogJob:
        return LogJob(
            None if segment.state is SegmentState.METADATA_SNAPSHOT else segment.base_offset,
            is_active=segment.state is SegmentState.ACTIVE,
            deep=self._request.deep,
            guest=guest,
            observers=() if self._purpose is None else self._purpose.observers(place, segment),
        )

    def _recall(self, segment: Segment) -> LogFacts | None:
        if self._purpose is not None:
            return self._purpose.recall(segment)
        if self._scrub is None or segment.state is SegmentState.ACTIVE or self._request.sample is not None:
            return None
        return self._scrub.recall(segment)

    def _split_size(self, left: int, jobs: int) -> int:
        """Return the bytes per split of the next log; a single process does a log in one go."""
        if self._request.sample is not None:
            return SAMPLE_SPLIT_SIZE
        if jobs == 1:
            return self.size + 1
        return self._request.split_size or shrinking_size(left, jobs)

    def _splits(
        self, path: str, size: int, split_size: int, place: CheckedPlace, advance: Callable[[int], None]
    ) -> Iterator[tuple[Split, ...]]:
        """Yield the splits of one log: all as one task, or each split of the sample as its own task."""
        share = self._request.sample
        positions: Sequence[int] = ()
        if size > split_size:
            positions = sound_offset_index(path, size, self._request.guest).positions
        splits = cut(path, size, positions, split_size)
        if share is None:
            yield splits
            return
        for split in splits:
            name = f"{place.partition.directory}/{os.path.basename(path)}@{split.start}"
            if crc32(os.fsencode(name)) < share * 2**32:
                yield (split,)
            else:
                advance(split.end - split.start)

    # --- judging the facts --------------------------------------------------------------------------------

    def _judge(self, number: int, place: CheckedPlace, found: dict[int, list[LogFacts]]) -> Iterator[Finding]:
        from kafkatool.engine.verify.partition import partition_findings

        logs: dict[int, LogFacts] = {}
        sampled: dict[int, list[LogFacts]] = {}
        for at, segment in enumerate(place.logs):
            parts = found.get(at, [])
            if self._request.sample is not None:
                sampled[at] = parts
            else:
                logs[at] = parts[0] if parts else self._known[number, at]
            for facts in parts:
                self._count(segment, facts)
            if self._request.sample is None or parts:
                self.summary.segments += 1
        for faulty, finding in partition_findings(place, logs, sampled, self._request.guest):
            if faulty is not None:
                place.faulty.add(faulty)
            yield finding
        if self._scrub is not None:
            for at in place.faulty:
                self._scrub.forget(place.logs[at])

    def _count(self, segment: Segment, facts: LogFacts) -> None:
        summary = self.summary
        summary.batches += facts.batches
        summary.records += facts.records
        summary.size += facts.stop - facts.start
        summary.unreadable_blocks += facts.unreadable_blocks
        assert segment.log is not None
        if facts.failure:
            summary.failures.append(facts.failure)
        if facts.vanished:
            summary.notes.append(f"{segment.log.path}: deleted since its directory was listed")
        if facts.changed:
            summary.notes.append(f"{segment.log.path}: {facts.changed}")
        limit = self._request.guest.max_errors
        if limit is not None and summary.unreadable_blocks > limit:
            raise KafkatoolError(
                f"{segment.log.path}: more than {limit} bad blocks, stopped; image the disk before reading on"
            )

    def verified_logs(self) -> Iterator[tuple[Partition, Segment, int | None]]:
        """Yield every log and the time at which all of it was last found good, if the state file has one."""
        for place in self.places:
            for segment in place.logs:
                assert segment.log is not None
                at_ms = None if self._scrub is None else self._scrub.verified_at_ms(segment.log.path)
                yield place.partition, segment, at_ms

    def _remember(self, number: int, place: CheckedPlace, at: int, facts: LogFacts) -> None:
        """Remember a good segment at once, in case the run is interrupted; a later finding removes it."""
        if self._scrub is None or self._request.sample is not None:
            return
        segment = place.logs[at]
        is_good = not (facts.failure or facts.vanished or facts.changed or facts.damages)
        if is_good and segment.state is SegmentState.CLOSED:
            self._scrub.remember(segment, facts)
        else:
            self._scrub.forget(segment)
