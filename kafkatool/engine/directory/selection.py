"""What the user named: log directories, each listed once, and the partitions in them.

selection.homes       for plans, by log directory: partitions sorted by name; a file counts as its
                      partition, limited to that segment
selection.places(…)   for streams and checks, one at a time in the order given, the partitions of a
                      log directory by topic and number; files last, as partitions of nothing else
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kafkatool.engine.directory.log_dir import (
    ListingProblem,
    LogDir,
    Partition,
    PartitionState,
    read_files,
    read_log_dir,
    read_partition,
)
from kafkatool.engine.directory.named_file import SEGMENT_FILES
from kafkatool.engine.directory.partition_filter import EVERYTHING, PartitionFilter
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkatool.engine.directory.topic_names import topic_names
from kafkatool.engine.files.object_storage import absolute_path, normal_path
from kafkatool.engine.files.source import Guest
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of
from kafkatool.format.names import METADATA_PARTITION, parse_partition_directory


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition with its entries in the checkpoints of its log directory; None where they have none."""

    partition: Partition
    log_start: int | None
    recovery_point: int | None
    bases: frozenset[int] | None = None
    """The selected segments; None means all."""
    is_alone: bool = False
    """Whether this is a single file without a broker's file name, so without a directory to look into."""

    @property
    def log_bytes(self) -> int:
        return sum(segment.log.size for segment in self.partition.live_segments if segment.log)


@dataclass(slots=True)
class Home:
    """One log directory and the selected partitions in it."""

    path: str
    log_dir: LogDir
    is_whole: bool = False
    partitions: list[NamedPartition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SelectedPlace:
    """A partition, or some files of one."""

    partition: Partition
    log_dir: LogDir | None = None
    """The named log directory; None if the partition or its files were named."""
    is_partial: bool = False
    """Whether only some of its files were named."""


def most_workers(homes: Iterable[Home]) -> int:
    """Return how many workers are worth starting when each takes whole partitions."""
    from kafkatool.engine.jobs.worker_pool import WORTH_A_WORKER

    sizes = [named.log_bytes for home in homes for named in home.partitions]
    return min(len(sizes), sum(sizes) // WORTH_A_WORKER)


class Selection:
    """What was named, without what the filter excludes. Everything is listed on first use."""

    def __init__(self, targets: Iterable[Target], guest: Guest, only: PartitionFilter = EVERYTHING) -> None:
        self.targets = list(targets)
        self._guest, self._only = guest, only
        self._log_dirs: dict[str, LogDir] = {}
        self._named: dict[str, Partition] = {}
        self._problems: list[ListingProblem] = []

    def anew(self) -> Selection:
        """Return the same selection with nothing listed yet."""
        return Selection(self.targets, self._guest, self._only)

    def without_files(self) -> Selection:
        """Return the same without single files; directories already listed are not listed again."""
        found = self.anew()
        found.targets = [one for one in self.targets if not isinstance(one, FileTarget)]
        found._log_dirs, found._named = self._log_dirs, self._named
        return found

    # --- log directories ----------------------------------------------------------------------------------

    @cached_property
    def log_dirs(self) -> list[LogDir]:
        """The named log directories, with all their partitions. Raises KafkatoolError."""
        named = (one.path for one in self.targets if isinstance(one, LogDirTarget))
        return [self._log_dir(path, is_whole=True) for path in named]

    def log_dir_of(self, partition: str) -> LogDir:
        """Return the log directory of a partition, only its top level listed. Raises KafkatoolError."""
        return self._log_dir(os.path.dirname(absolute_path(partition)))

    def _log_dir(self, path: str, *, is_whole: bool = False) -> LogDir:
        key = absolute_path(path)
        if key not in self._log_dirs:
            self._log_dirs[key] = read_log_dir(path, self._guest, partitions=is_whole)
        return self._log_dirs[key]

    # --- for streams and checks ---------------------------------------------------------------------------

    def places(self, problems: list[ListingProblem]) -> Iterator[SelectedPlace]:
        """Yield everything selected; what could not be listed or read is added to `problems`."""
        for target in self.targets:
            yield from self.places_of(target, problems)
        yield from self.files(problems)

    def places_of(
        self, target: Target, problems: list[ListingProblem], *, by_name: bool = False
    ) -> Iterator[SelectedPlace]:
        """Yield the partitions of one target; those of a log directory are not kept in memory."""
        if isinstance(target, LogDirTarget):
            log_dir = self._log_dir(target.path)
            names = self._names_in(log_dir)
            for name in names if by_name else sorted(names, key=_by_topic):
                one = log_dir.listed[name] if name in log_dir.listed else log_dir.look_at(name, problems)
                if one is not None:
                    yield SelectedPlace(one, log_dir)
        elif isinstance(target, PartitionTarget) and self._takes(target.path):
            found = self.partition_at(target.path, problems)
            if found is not None:
                yield SelectedPlace(found)

    def files(self, problems: list[ListingProblem]) -> Iterator[SelectedPlace]:
        named = [one for one in self.targets if isinstance(one, FileTarget)]
        for partition in read_files(named, problems):
            if self._takes(partition.path):
                yield SelectedPlace(partition, is_partial=True)

    def partition_at(self, path: str, problems: list[ListingProblem]) -> Partition | None:
        """Return a partition that was named itself, or a neighbor of one; None if it cannot be listed."""
        key = normal_path(path)
        if key not in self._named:
            try:
                self._named[key] = read_partition(path, problems, self._guest)
            except KafkatoolError as error:
                gone = isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)
                problems.append(ListingProblem(path, str(error).removeprefix(f"{path}: "), vanished=gone))
                return None
        return self._named[key]

    # --- for plans ----------------------------------------------------------------------------------------

    @cached_property
    def homes(self) -> list[Home]:
        """One home per log directory, its partitions sorted by name.

        A partition that is waiting to be deleted is included only if it was named itself.
        """
        named: dict[str, set[str]] = {}
        files: dict[str, set[int]] = {}
        whole: set[str] = set()
        alone: list[FileTarget] = []
        for target in self.targets:
            path = normal_path(target.path)
            if isinstance(target, LogDirTarget):
                named.setdefault(path, set())
                whole.add(path)
            elif isinstance(target, PartitionTarget):
                named.setdefault(_parent(path), set()).add(path)
            elif target.read_as is not None:
                alone.append(target)
            else:
                directory = os.path.dirname(path) or "."
                named.setdefault(_parent(directory), set()).add(directory)
                files.setdefault(directory, set()).add(_base(path))
        homes = [self._home(path, some, files, is_whole=path in whole) for path, some in named.items()]
        return homes + [home for file in alone for home in self._alone(file)]

    @property
    def problems(self) -> list[str]:
        """What could not be read in the homes, or is malformed there."""
        _ = self.homes
        return [f"{one.path}: {one.message}" for one in self._problems]

    @property
    def unread(self) -> list[str]:
        """What could not be read in the homes."""
        _ = self.homes
        return [f"{one.path}: {one.message}" for one in self._problems if not one.is_malformed]

    def _home(self, path: str, directories: set[str], files: dict[str, set[int]], *, is_whole: bool) -> Home:
        log_dir = self._log_dir(path, is_whole=is_whole and self._only.takes_everything)
        home = Home(path, log_dir, is_whole and self._only.takes_everything)
        partitions: dict[str, Partition] = {}
        for name in self._names_in(log_dir) if is_whole else ():
            one = log_dir.partition(name)
            if one is not None and one.state is not PartitionState.DELETED:
                partitions[normal_path(one.path)] = one
        self._problems += [
            one for one in log_dir.problems if not one.vanished and (is_whole or _is_at_top(one, log_dir))
        ]
        for directory in sorted(filter(self._takes, directories - partitions.keys())):
            if (one := self._partition_in(log_dir, directory)) is not None:
                partitions[directory] = one
        for directory, partition in sorted(partitions.items()):
            bases = frozenset(files.get(directory, ())) or None
            home.partitions.append(_named(partition, log_dir, bases))
        return home

    def _partition_in(self, log_dir: LogDir, directory: str) -> Partition | None:
        """Return a named partition, from its log directory's listing if possible."""
        found = self._named.get(directory) or log_dir.partition(os.path.basename(directory))
        if found is None or normal_path(found.path) != directory:
            problems: list[ListingProblem] = []
            found = self.partition_at(directory, problems)
            self._problems += problems if found is None else ()
        return found

    def _alone(self, file: FileTarget) -> Iterator[Home]:
        """Treat a log without a broker's file name as a partition of its own, unrelated to its neighbors."""
        for partition in read_files([file], self._problems):
            named = NamedPartition(partition, None, None, is_alone=True)
            yield Home(partition.path, LogDir(partition.path), partitions=[named])

    # --- the filter ---------------------------------------------------------------------------------------

    def _names_in(self, log_dir: LogDir) -> list[str]:
        """Return the names of the selected partition directories, in order."""
        names = (name for name in log_dir.names if parse_partition_directory(name) is not None)
        return [name for name in names if self._takes(os.path.join(log_dir.path, name))]

    def _takes(self, directory: str) -> bool:
        if self._only.takes_everything:
            return True
        name = os.path.basename(absolute_path(directory))
        known = parse_partition_directory(name)
        if known is None:
            return self._only.takes(None, None)
        topic = self._whole_name(directory) if known.may_be_cut(name) else None
        return self._only.takes(topic or known.topic, known.partition)

    def _whole_name(self, directory: str) -> str | None:
        """Return the topic of a directory with a truncated name, if the metadata at hand has it."""
        found = self.partition_at(directory, [])
        if found is None or found.topic_id is None:
            return None
        homes = [os.path.dirname(absolute_path(directory)), *(one.path for one in self.targets)]
        beside = [os.path.join(home, METADATA_PARTITION) for home in homes]
        return topic_names(beside, {found.topic_id}, self._guest).get(found.topic_id)


def _is_at_top(problem: ListingProblem, log_dir: LogDir) -> bool:
    """Whether a problem is at the top of the log directory, not in a partition."""
    parent, name = os.path.split(problem.path)
    return parent == log_dir.path and parse_partition_directory(name) is None


def _by_topic(name: str) -> tuple[str, int, str]:
    known = parse_partition_directory(name)
    return ("", 0, name) if known is None else (known.topic, known.partition, name)


def _parent(path: str) -> str:
    """Return the parent of a directory, spelled as given if possible."""
    if os.path.basename(path) in ("", ".", ".."):
        return os.path.dirname(absolute_path(path))
    return os.path.dirname(path) or "."


def _base(path: str) -> int:
    named = kind_of(os.path.basename(path))
    if named.offset is None or named.kind not in (*SEGMENT_FILES, kinds.PRODUCER_SNAPSHOT):
        raise UsageError(f"{path}: not a file of a segment")
    return named.offset


def _named(partition: Partition, log_dir: LogDir, bases: frozenset[int] | None) -> NamedPartition:
    key = partition.key
    return NamedPartition(partition, log_dir.log_starts.get(key), log_dir.recovery_points.get(key), bases)
