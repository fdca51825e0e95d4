"""Resolve the paths of the command line to what there is to read, always in the same order.

A directory is classified by its content, not by its name alone: `kafka-logs-0` could be a log directory or
partition 0 of a topic `kafka-logs`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafkatool.engine.directory.named_file import READABLE, identify
from kafkatool.engine.files.object_storage import absolute_path, is_remote, real_path, scan_directory, status
from kafkatool.engine.files.source import Guest, file_type, read_small_file
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.errors import FormatError, KafkatoolError, UsageError
from kafkatool.format import kinds
from kafkatool.format.kinds import FileKind, NamedFile, kind_of
from kafkatool.format.names import FileState, parse_partition_directory
from kafkatool.format.state.properties import read_properties

_GLOB_CHARACTERS = frozenset("*?[")
# Kafka's default for log.dir.
_DEFAULT_LOG_DIR = "/tmp/kafka-logs"
# Found only at the top of a log directory.
_TOP_LEVEL = (
    kinds.META_PROPERTIES,
    kinds.RECOVERY_POINTS,
    kinds.HIGH_WATERMARKS,
    kinds.LOG_STARTS,
    kinds.CLEANER_OFFSETS,
    kinds.CLEAN_SHUTDOWN,
    kinds.LOCK,
    kinds.BOOTSTRAP,
)


@dataclass(frozen=True, slots=True)
class FileTarget:
    """One file, or standard input if the path is `-`."""

    path: str
    read_as: NamedFile | None = None
    """What it is read as; None if its name says that."""

    @property
    def kind(self) -> FileKind:
        return (self.read_as or kind_of(os.path.basename(self.path))).kind


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """A directory that holds segments."""

    path: str


@dataclass(frozen=True, slots=True)
class LogDirTarget:
    """A directory that holds partitions: one entry of log.dirs, or metadata.log.dir."""

    path: str


Target = FileTarget | PartitionTarget | LogDirTarget


@dataclass(slots=True)
class Expansion:
    """The targets, and the problems met while resolving them."""

    named: list[str] = field(default_factory=list)
    """The named paths, globs and lists resolved, each once; a server.properties is not resolved here."""
    targets: list[Target] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FileReading:
    """How files that were named directly are read."""

    read_as: FileKind | None = None
    """The kind that the user gave for all of them."""
    readable: Collection[FileKind] = READABLE
    """The kinds that can be read; if empty, the command rejects files itself."""
    allow_pipe: bool = False
    offers_read_as: bool = False
    """Whether the command has --read-as."""


ANY_FILE = FileReading()
NO_FILES = FileReading(readable=())


def expand(
    paths: Sequence[str],
    *,
    files_from: str | None = None,
    nul: bool = False,
    allow_stdin: bool = True,
    files: FileReading = ANY_FILE,
) -> Expansion:
    """Resolve these paths, each once, in the order given; the matches of a glob are sorted by name.

    Raises UsageError for a path that matches nothing, for a file that cannot be identified, and if no path
    is given.
    """
    if STDIN in paths and (not allow_stdin or files_from == STDIN):
        raise UsageError("- (standard input) makes no sense here")
    listed = named_paths([], files_from=files_from, nul=nul) if files_from is not None or not paths else []
    expansion = Expansion(list(_each_once([*_matches(paths), *listed])))
    for path in expansion.named:
        _classify(path, expansion, files)
    if files.read_as is not None and not any(isinstance(one, FileTarget) for one in expansion.targets):
        raise UsageError("--read-as says what a file is: none is named")
    expansion.targets = list(dict.fromkeys(expansion.targets))
    return expansion


def named_paths(paths: Sequence[str], *, files_from: str | None = None, nul: bool = False) -> list[str]:
    """Return the paths as written, and those listed in a file. Raises UsageError if there are none."""
    if not paths and files_from is None:
        raise UsageError("no PATH given: name a file, a partition directory, a log directory or a glob")
    return [*paths, *(_read_list(files_from, nul) if files_from is not None else ())]


def _matches(paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths, globs replaced by their matches; a path that exists is never a glob."""
    for path in paths:
        if path == STDIN or is_remote(path) or os.path.lexists(path) or not _GLOB_CHARACTERS & set(path):
            yield path
            continue
        from glob import glob

        found = sorted(glob(path, recursive=True))
        if not found:
            raise UsageError(f"{path}: nothing matches")
        yield from found


def _each_once(paths: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for path in paths:
        identity = path if path == STDIN else real_path(path)
        if identity not in seen:
            seen.add(identity)
            yield path


def _read_list(files_from: str, nul: bool) -> list[str]:
    if files_from == STDIN:
        from kafkatool.engine.files.source import open_stdin

        with open_stdin(Guest()) as source:
            raw = source.read(0, 1 << 30)
    else:
        try:
            raw = read_small_file(files_from, Guest(), limit=1 << 30, allow_pipe=True)
        except FileNotFoundError as error:
            raise UsageError(f"{files_from}: {error.strerror}") from None
    names = raw.split(b"\0" if nul else b"\n")
    paths = [os.fsdecode(name if nul else name.rstrip(b"\r")) for name in names if name.strip()]
    if not paths:
        raise UsageError(f"{files_from}: lists no path")
    return paths


def _classify(path: str, expansion: Expansion, files: FileReading) -> None:
    """Add the targets of one path."""
    if path == STDIN:
        expansion.targets.append(FileTarget(path))
        return
    try:
        mode = status(path).st_mode
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise UsageError(f"{path}: {error.strerror}") from None
        expansion.problems.append(f"{path}: {error.strerror}")
        return
    if stat.S_ISDIR(mode):
        _classify_directory(path, expansion)
    elif files.read_as is None and is_configuration(path):
        _classify_configured(path, expansion)
    elif not files.readable:
        expansion.targets.append(FileTarget(path))
    else:
        _classify_file(path, mode, expansion, files)


def _classify_file(path: str, mode: int, expansion: Expansion, files: FileReading) -> None:
    if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        if not files.allow_pipe:
            raise UsageError(f"{path}: is {file_type(mode)}, expected a file")
        kind = files.read_as or kinds.LOG  # a pipe can be read only once, so it is not inspected first
        expansion.targets.append(FileTarget(path, NamedFile(kind, FileState.LIVE, 0)))
        return
    try:
        named = identify(path, files.read_as, files.readable, offers_read_as=files.offers_read_as)
        expansion.targets.append(FileTarget(path, named))
    except FileNotFoundError:
        raise UsageError(f"{path}: vanished meanwhile") from None
    except UsageError:
        raise
    except KafkatoolError as error:
        expansion.problems.append(str(error))


def is_configuration(path: str) -> bool:
    """Whether this is a broker's configuration, not a file of a log directory."""
    name = os.path.basename(path)
    return name.endswith(".properties") and kind_of(name).kind is kinds.UNKNOWN


def _classify_directory(path: str, expansion: Expansion) -> None:
    try:
        target = directory_target(path)
    except OSError as error:
        expansion.problems.append(f"{path}: {error.strerror}")
        return
    if target is None:
        raise UsageError(f"{path}: neither a log directory nor a partition directory")
    expansion.targets.append(target)


def directory_target(path: str) -> PartitionTarget | LogDirTarget | None:
    """Classify a directory, mostly by its content; None if nothing in it is Kafka's.

    Raises OSError if it cannot be listed.
    """
    named_like_partition = parse_partition_directory(os.path.basename(absolute_path(path))) is not None
    holds_segments = holds_partitions = False
    with scan_directory(path) as entries:
        for entry in entries:
            kind = kind_of(entry.name).kind
            if kind in _TOP_LEVEL:
                return LogDirTarget(path)
            if kind is kinds.UNKNOWN:
                holds_partitions = holds_partitions or _is_partition(entry)
            else:
                holds_segments = True
    if holds_segments:
        return PartitionTarget(path)
    if holds_partitions:
        return LogDirTarget(path)
    return PartitionTarget(path) if named_like_partition else None


def _is_partition(entry: os.DirEntry[str]) -> bool:
    """Whether name and content are those of a partition: other programs use names such as `dbus-1` too."""
    if parse_partition_directory(entry.name) is None or not entry.is_dir():
        return False
    try:
        names = os.listdir(entry.path)
    except OSError:
        return True
    return not names or any(kind_of(name).kind is not kinds.UNKNOWN for name in names)


def _classify_configured(path: str, expansion: Expansion) -> None:
    """Add every log directory that a server.properties names; a missing one is added to the problems."""
    configured = configured_log_dirs(path)
    reached = 0
    for directory in configured:
        try:
            target = directory_target(directory)
        except OSError as error:
            expansion.problems.append(f"{directory} (named in {path}): {error.strerror}")
            continue
        # The configuration says that it is a log directory, even if it is empty.
        expansion.targets.append(target if isinstance(target, LogDirTarget) else LogDirTarget(directory))
        reached += 1
    if not reached:
        raise UsageError(f"{path}: none of its log directories can be read: {', '.join(configured)}")


def configured_log_dirs(path: str) -> list[str]:
    """Return log.dirs, or log.dir, and metadata.log.dir of a broker's configuration, each once."""
    try:
        values = read_properties(read_small_file(path, Guest()))
    except FormatError as error:
        raise KafkatoolError(f"{path}: {error}") from None
    listed = values.get("log.dirs") or values.get("log.dir") or _DEFAULT_LOG_DIR
    directories = [name.strip() for name in listed.split(",")]
    directories.append(values.get("metadata.log.dir", "").strip())
    return list(dict.fromkeys(name for name in directories if name))
