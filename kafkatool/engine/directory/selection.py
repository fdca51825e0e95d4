"""The partitions behind what was named, by the log directory they are in: that is what a plan is made for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

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
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from kafkatool.engine.files.object_storage import absolute_path, normal_path
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.worker_pool import WORTH_A_WORKER
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of
from kafkatool.format.names import parse_partition_directory


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """A partition, with what the checkpoints of its log directory say of it; None where they say nothing."""

    partition: Partition
    log_start: int | None
    recovery_point: int | None
    bases: frozenset[int] | None = None
    """Only these segments are meant; None: all."""
    is_alone: bool = False
    """Whether this is one file under a name of its own, with no directory to look into."""

    @property
    def log_bytes(self) -> int:
        return sum(segment.log.size for segment in self.partition.live_segments if segment.log)


@dataclass(slots=True)
class Home:
    """One log directory and those of its partitions that are meant."""

    path: str
    log_dir: LogDir
    is_whole: bool = False
    partitions: list[NamedPartition] = field(default_factory=list)


@dataclass(slots=True)
class FoundPartitions:
    homes: list[Home] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What could not be read, or is malformed."""
    unread: list[str] = field(default_factory=list)
    """The first of the two only."""


def most_workers(homes: Iterable[Home]) -> int:
    """More are not worth their start where a partition goes to one: a little is soon done."""
    sizes = [named.log_bytes for home in homes for named in home.partitions]
    return min(len(sizes), sum(sizes) // WORTH_A_WORKER)


def find_partitions(targets: Iterable[Target], guest: Guest) -> FoundPartitions:
    """What is meant, a home for every log directory, partitions in the order of their names.

    A partition that waits to be deleted is meant only where it is named itself.
    """
    named: dict[str, set[str]] = {}
    files: dict[str, set[int]] = {}
    whole: list[str] = []
    alone: list[FileTarget] = []
    for target in targets:
        path = normal_path(target.path)
        if isinstance(target, LogDirTarget):
            named.setdefault(path, set())
            whole.append(path)
        elif isinstance(target, PartitionTarget):
            named.setdefault(_parent(path), set()).add(path)
        elif isinstance(target, FileTarget) and target.read_as is not None:
            alone.append(target)
        elif isinstance(target, FileTarget):
            directory = os.path.dirname(path) or "."
            named.setdefault(_parent(directory), set()).add(directory)
            files.setdefault(directory, set()).add(_base(path))
    found = FoundPartitions()
    for home, directories in named.items():
        _read_home(found, home, directories, files, guest, is_whole=home in whole)
    for file in alone:
        _read_alone(found, file)
    return found


def _read_alone(found: FoundPartitions, file: FileTarget) -> None:
    """Take a log under a name of its own for all there is: nothing around it belongs to it."""
    problems: list[ListingProblem] = []
    for partition in read_files([file], problems):
        home = Home(partition.path, LogDir(partition.path))
        home.partitions.append(NamedPartition(partition, None, None, is_alone=True))
        found.homes.append(home)
    messages = [f"{one.path}: {one.message}" for one in problems]
    found.problems += messages
    found.unread += messages


def _parent(path: str) -> str:
    """The directory that a directory lies in, as it was spelled where that is possible."""
    if os.path.basename(path) in ("", ".", ".."):
        return os.path.dirname(absolute_path(path))
    return os.path.dirname(path) or "."


def _base(path: str) -> int:
    named = kind_of(os.path.basename(path))
    if named.offset is None or named.kind not in (*SEGMENT_FILES, kinds.PRODUCER_SNAPSHOT):
        raise UsageError(f"{path}: not a file of a segment")
    return named.offset


def _read_home(
    found: FoundPartitions,
    path: str,
    directories: set[str],
    files: dict[str, set[int]],
    guest: Guest,
    *,
    is_whole: bool,
) -> None:
    log_dir = read_log_dir(path, guest, partitions=is_whole)
    problems = [
        one
        for one in log_dir.problems
        if not one.vanished and (is_whole or parse_partition_directory(os.path.basename(one.path)) is None)
    ]
    found.problems += [f"{one.path}: {one.message}" for one in problems]
    found.unread += [f"{one.path}: {one.message}" for one in problems if not one.is_malformed]
    home = Home(path, log_dir, is_whole)
    partitions = {normal_path(one.path): one for one in log_dir.partitions} if is_whole else {}
    for directory in sorted(directories - partitions.keys()):
        one = log_dir.partition(os.path.basename(directory))
        if one is not None and normal_path(one.path) == directory:
            partitions[directory] = one
            continue
        try:
            partitions[directory] = read_partition(directory, [], guest)
        except KafkatoolError as error:
            found.problems.append(str(error))
            found.unread.append(str(error))
    for directory, partition in sorted(partitions.items()):
        if directory not in directories and (not is_whole or partition.state is PartitionState.DELETED):
            continue
        bases = files.get(directory) if directory in files else None
        home.partitions.append(_named(partition, log_dir, frozenset(bases) if bases else None))
    found.homes.append(home)


def _named(partition: Partition, log_dir: LogDir, bases: frozenset[int] | None) -> NamedPartition:
    key = partition.key
    return NamedPartition(partition, log_dir.log_starts.get(key), log_dir.recovery_points.get(key), bases)
