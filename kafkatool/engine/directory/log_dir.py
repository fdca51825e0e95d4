"""One log directory as facts: its owner, its partitions, their segments and files, and unknown entries.

Only names and sizes are read here, and the small files that say whose a directory is. A broker may rename and
delete files meanwhile: what vanishes is left out, what cannot be read becomes a problem in the result.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from kafkatool.engine.directory.targets import FileTarget
from kafkatool.engine.files.object_storage import absolute_path, exists, scan_directory, status
from kafkatool.engine.files.source import Guest, file_type, read_small_file
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.kinds import FileKind, Group, NamedFile, kind_of
from kafkatool.format.names import (
    METADATA_PARTITION,
    REMOTE_INDEX_CACHE,
    DirectoryState,
    FileState,
    TopicPartition,
    parse_partition_directory,
    split_state,
)
from kafkatool.format.state.checkpoint import PartitionOffset, read_offset_checkpoint
from kafkatool.format.state.partition_metadata import read_partition_metadata
from kafkatool.format.state.properties import MetaProperties, read_meta_properties

_SEGMENT_KINDS = (kinds.LOG, kinds.OFFSET_INDEX, kinds.TIME_INDEX, kinds.TXN_INDEX)
_BLOCK = 512  # the unit of st_blocks, whatever the file system's block size

_Value = TypeVar("_Value")


class PartitionState(StrEnum):
    """The role of a partition directory for the broker."""

    ACTIVE = "active"
    DELETED = "deleted"
    STRAY = "stray"
    FUTURE = "future"
    METADATA = "metadata"


class SegmentState(StrEnum):
    """The role of a segment for the broker; an orphan has indexes but no log.

    A metadata snapshot holds batches and is read like a log; it has its own offsets and no indexes.
    """

    ACTIVE = "active"
    CLOSED = "closed"
    DELETED = "deleted"
    CLEANED = "cleaned"
    SWAP = "swap"
    ORPHAN = "orphan"
    METADATA_SNAPSHOT = "metadata_snapshot"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file, as it was when listed."""

    path: str
    name: str
    kind: FileKind
    state: FileState
    offset: int | None
    size: int
    allocated: int
    modified_ns: int
    identity: tuple[int, int]
    link_count: int

    @property
    def modified_ms(self) -> int:
        return self.modified_ns // 1_000_000

    @property
    def is_leftover(self) -> bool:
        """Whether a broker would delete it or no longer knows it."""
        return self.state is not FileState.LIVE or self.kind is kinds.BACKUP


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that share a base offset and a state."""

    base_offset: int
    state: SegmentState
    files: tuple[FileEntry, ...]

    def file(self, kind: FileKind) -> FileEntry | None:
        return next((entry for entry in self.files if entry.kind is kind), None)

    @property
    def log(self) -> FileEntry | None:
        return self.file(kinds.LOG)

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.files)

    @property
    def allocated(self) -> int:
        return sum(entry.allocated for entry in self.files)

    @property
    def is_live(self) -> bool:
        return self.state in (SegmentState.ACTIVE, SegmentState.CLOSED)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition directory. Topic and partition are None if its name does not give them."""

    path: str
    directory: str
    topic: str | None
    partition: int | None
    state: PartitionState
    topic_id: str | None
    segments: tuple[Segment, ...]
    other_files: tuple[FileEntry, ...]
    unknown_directories: tuple[str, ...] = ()
    topic_may_be_cut: bool = False

    @property
    def key(self) -> TopicPartition:
        """Topic and partition; if the directory name does not give them, a key that no checkpoint has."""
        return self.topic or "", -1 if self.partition is None else self.partition

    @property
    def files(self) -> Iterator[FileEntry]:
        for segment in self.segments:
            yield from segment.files
        yield from self.other_files

    @property
    def live_segments(self) -> list[Segment]:
        return [segment for segment in self.segments if segment.is_live]


@dataclass(frozen=True, slots=True)
class ListingProblem:
    """Something that could not be read. If it `vanished`, a live broker removed it: not a fault."""

    path: str
    message: str
    vanished: bool = False
    is_malformed: bool = False
    """Whether it was read, but is not what its name says."""


def tell_problems(problems: Iterable[ListingProblem], notes: list[str], failures: list[str]) -> None:
    """Add what could not be listed or opened; malformed files are reported elsewhere."""
    for problem in problems:
        if problem.vanished:
            notes.append(f"{problem.path}: vanished meanwhile")
        elif not problem.is_malformed:
            failures.append(f"{problem.path}: {problem.message}")


@dataclass
class LogDir:
    """One log directory: its owner, its checkpoints, and everything in it.

    Each of its directories is listed on first use, and only once.
    """

    path: str
    guest: Guest = field(default_factory=Guest, repr=False)
    meta: MetaProperties | None = None
    was_shut_down_cleanly: bool = False
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    files: list[FileEntry] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)
    """The names of all its directories, of whatever kind, in order."""
    problems: list[ListingProblem] = field(default_factory=list)
    """Problems found so far."""
    listed: dict[str, Partition | None] = field(default_factory=dict, repr=False, compare=False)
    """The partitions listed so far, by directory name."""

    @property
    def partitions(self) -> list[Partition]:
        return self._those(self.names)

    @property
    def metadata(self) -> list[Partition]:
        """The cluster metadata log, if it is here; lists no other partition."""
        return self._those([METADATA_PARTITION])

    def of_topic(self, topic: str) -> list[Partition]:
        """Return the partitions whose directory name has this topic; lists no other partition."""
        return [
            one
            for one in self._those(name for name in self.names if name.startswith(f"{topic}-"))
            if one.topic == topic
        ]

    def partition(self, name: str) -> Partition | None:
        """Return the partition in this directory; None if it is missing or cannot be listed."""
        if name not in self.listed:
            self.listed[name] = self.look_at(name, self.problems)
        return self.listed[name]

    def look_at(self, name: str, problems: list[ListingProblem]) -> Partition | None:
        """List a partition without keeping it; None if it is missing or cannot be listed."""
        if name not in self.names or parse_partition_directory(name) is None:
            return None
        path = os.path.join(self.path, name)
        try:
            files, directories = _list(path, problems)
        except _GoneError:
            return None
        return _partition(path, files, directories, problems, self.guest)

    def _those(self, names: Iterable[str]) -> list[Partition]:
        return [one for name in names if (one := self.partition(name)) is not None]

    @property
    def remote_cache(self) -> list[FileEntry]:
        return self._remote_cache[0]

    @cached_property
    def _remote_cache(self) -> tuple[list[FileEntry], list[str]]:
        if REMOTE_INDEX_CACHE in self.names:
            with suppress(_GoneError):
                return _list(os.path.join(self.path, REMOTE_INDEX_CACHE), self.problems)
        return [], []

    @property
    def unknown_directories(self) -> list[str]:
        """Directories that are neither a partition nor anything else a broker makes."""
        found = []
        for name in self.names:
            if name == REMOTE_INDEX_CACHE:
                found += [os.path.join(self.path, name, inner) for inner in self._remote_cache[1]]
            elif parse_partition_directory(name) is None:
                found.append(os.path.join(self.path, name))
        return found

    @property
    def all_files(self) -> Iterator[FileEntry]:
        yield from self.files
        yield from self.remote_cache
        for partition in self.partitions:
            yield from partition.files


def read_log_dir(path: str, guest: Guest | None = None, *, partitions: bool = True) -> LogDir:
    """List a log directory, or only its top level; the rest is then listed on first use.

    Raises KafkatoolError only if it cannot be listed at all.
    """
    problems: list[ListingProblem] = []
    files, directories = _list(path, problems, must_exist=True)
    found = LogDir(path, guest or Guest(), files=files, names=dict.fromkeys(directories), problems=problems)
    if partitions:
        _ = found.partitions, found.remote_cache
    _read_top_level(found)
    return found


def read_partition(path: str, problems: list[ListingProblem], guest: Guest | None = None) -> Partition:
    """List one partition directory; raises KafkatoolError if that fails."""
    files, directories = _list(path, problems, must_exist=True)
    return _partition(path, files, directories, problems, guest or Guest())


def read_files(files: Iterable[FileTarget], problems: list[ListingProblem]) -> list[Partition]:
    """Return individually named files as partitions that hold nothing else.

    A file without a broker's file name gets a partition of its own: its name does not say where it belongs.
    """
    named: dict[tuple[str, str], list[FileEntry]] = defaultdict(list)
    for file in files:
        try:
            entry = file_entry(file.path, status(file.path), file.read_as)
        except OSError as error:
            problems.append(_problem(file.path, error))
        else:
            alone = "" if file.read_as is None else entry.name
            named[os.path.dirname(file.path), alone].append(entry)
    return [
        _partition(parent, sorted(entries, key=lambda entry: entry.name), [], problems, Guest())
        for (parent, _alone), entries in named.items()
    ]


def with_logs(files: Sequence[FileTarget]) -> list[FileTarget]:
    """Return these files, plus the logs that the indexes among them belong to."""
    logs = []
    for file in files:
        if file.read_as is None and file.kind in _SEGMENT_KINDS and file.kind is not kinds.LOG:
            name, _state = split_state(file.path)
            log = f"{os.path.splitext(name)[0]}.log{file.path[len(name) :]}"
            if exists(log):
                logs.append(FileTarget(log))
    return list(dict.fromkeys([*files, *logs]))


def unique_files(files: Iterable[FileEntry]) -> Iterator[FileEntry]:
    """Yield each file once, however many hard links it has."""
    seen: set[tuple[int, int]] = set()
    for entry in files:
        if entry.link_count > 1:
            if entry.identity in seen:
                continue
            seen.add(entry.identity)
        yield entry


def _partition(
    path: str, files: list[FileEntry], directories: list[str], problems: list[ListingProblem], guest: Guest
) -> Partition:
    directory = os.path.basename(absolute_path(path))
    named = parse_partition_directory(directory)
    state = _partition_state(directory, named.state if named else DirectoryState.LIVE)
    metadata = _read_small(
        path, kinds.PARTITION_METADATA.name, read_partition_metadata, files, problems, guest
    )
    return Partition(
        path=path,
        directory=directory,
        topic=named.topic if named else None,
        partition=named.partition if named else None,
        state=state,
        topic_id=metadata.topic_id if metadata else None,
        segments=_segments(files, is_written_to=state is not PartitionState.DELETED),
        other_files=tuple(entry for entry in files if entry.kind not in _SEGMENT_KINDS),
        unknown_directories=tuple(os.path.join(path, name) for name in directories),
        topic_may_be_cut=named.may_be_cut(directory) if named else False,
    )


def _partition_state(directory: str, state: DirectoryState) -> PartitionState:
    if directory == METADATA_PARTITION:
        return PartitionState.METADATA
    return {
        DirectoryState.LIVE: PartitionState.ACTIVE,
        DirectoryState.DELETE: PartitionState.DELETED,
        DirectoryState.STRAY: PartitionState.STRAY,
        DirectoryState.FUTURE: PartitionState.FUTURE,
    }[state]


def _segments(files: list[FileEntry], *, is_written_to: bool) -> tuple[Segment, ...]:
    """Group segment files by base offset and state, in offset order."""
    groups: dict[tuple[int, FileState], list[FileEntry]] = defaultdict(list)
    for entry in files:
        if entry.kind in _SEGMENT_KINDS and entry.offset is not None:
            groups[entry.offset, entry.state].append(entry)
    segments = [
        Segment(base, _segment_state(state, group), tuple(group))
        for (base, state), group in sorted(groups.items())
    ]
    live = [at for at, segment in enumerate(segments) if segment.state is SegmentState.CLOSED]
    if live and is_written_to:
        segments[live[-1]] = replace(segments[live[-1]], state=SegmentState.ACTIVE)
    return tuple(segments)


def _segment_state(state: FileState, files: list[FileEntry]) -> SegmentState:
    if state is FileState.LIVE:
        has_log = any(entry.kind is kinds.LOG for entry in files)
        return SegmentState.CLOSED if has_log else SegmentState.ORPHAN
    if state in (FileState.CLEANED, FileState.SWAP):
        return SegmentState(state.value)
    return SegmentState.DELETED


def _read_top_level(found: LogDir) -> None:
    def read(kind: FileKind, decode: Callable[[bytes], _Value]) -> _Value | None:
        return _read_small(found.path, kind.name, decode, found.files, found.problems, found.guest)

    def offsets(kind: FileKind) -> dict[TopicPartition, int]:
        entries: list[PartitionOffset] = read(kind, read_offset_checkpoint) or []
        return {(entry.topic, entry.partition): entry.offset for entry in entries}

    found.meta = read(kinds.META_PROPERTIES, read_meta_properties)
    found.high_watermarks = offsets(kinds.HIGH_WATERMARKS)
    found.log_starts = offsets(kinds.LOG_STARTS)
    found.recovery_points = offsets(kinds.RECOVERY_POINTS)
    found.was_shut_down_cleanly = any(
        entry.kind is kinds.CLEAN_SHUTDOWN and not entry.is_leftover for entry in found.files
    )


def _read_small(
    directory: str,
    name: str,
    decode: Callable[[bytes], _Value],
    files: list[FileEntry],
    problems: list[ListingProblem],
    guest: Guest,
) -> _Value | None:
    """Read and decode a small listed file; None if it is not there or, with a problem added, not readable."""
    if not any(entry.name == name for entry in files):
        return None
    path = os.path.join(directory, name)
    try:
        return decode(read_small_file(path, guest))
    except FileNotFoundError:
        problems.append(ListingProblem(path, "vanished", vanished=True))
    except FormatError as error:
        problems.append(ListingProblem(path, str(error), is_malformed=True))
    except KafkatoolError as error:
        problems.append(ListingProblem(path, str(error).removeprefix(f"{path}: ")))
    return None


class _GoneError(Exception):
    """A directory cannot be listed; the problem is already recorded."""


def _list(
    path: str, problems: list[ListingProblem], *, must_exist: bool = False
) -> tuple[list[FileEntry], list[str]]:
    """Return the files in a directory and the names of its subdirectories, sorted by name."""
    files, directories = [], []
    try:
        with scan_directory(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                found = _entry(entry, problems)
                if isinstance(found, FileEntry):
                    files.append(found)
                elif found is not None:
                    directories.append(found)
    except OSError as error:
        if must_exist:
            raise KafkatoolError(f"{path}: {error.strerror}") from error
        problems.append(_problem(path, error))
        raise _GoneError from error
    return files, directories


def _entry(entry: os.DirEntry[str], problems: list[ListingProblem]) -> FileEntry | str | None:
    """Return a file, or the name of a directory; None if it is neither or its status cannot be read."""
    try:
        found = entry.stat()
    except OSError as error:
        problems.append(_problem(entry.path, error))
        return None
    if stat.S_ISREG(found.st_mode):
        return file_entry(entry.path, found)
    if kind_of(entry.name).kind is not kinds.UNKNOWN:
        problems.append(ListingProblem(entry.path, f"is {file_type(found.st_mode)}, expected a file"))
    return entry.name if stat.S_ISDIR(found.st_mode) else None


def file_entry(path: str, found: os.stat_result, read_as: NamedFile | None = None) -> FileEntry:
    """Describe a file by its name and stat; `read_as` overrides what the name says."""
    name = os.path.basename(path)
    kind, state, offset = read_as or kind_of(name)
    return FileEntry(
        path=path,
        name=name,
        kind=kind,
        state=state,
        offset=offset,
        size=found.st_size,
        allocated=found.st_blocks * _BLOCK,
        modified_ns=found.st_mtime_ns,
        identity=(found.st_dev, found.st_ino),
        link_count=found.st_nlink,
    )


def _problem(path: str, error: OSError) -> ListingProblem:
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    return ListingProblem(path, "vanished" if gone else str(error.strerror), vanished=gone)


def data_group(entry: FileEntry) -> str:
    """Return the group that a file's space counts in: log, index, state, leftover or unknown."""
    if entry.is_leftover:
        return "leftover"
    return str(entry.kind.group) if entry.kind.group is not Group.UNKNOWN else "unknown"
