"""What a plan was made from, so that an outdated plan is never applied.

Between planning and taking the lock, a broker may have started, repaired the log, written new records and
stopped again. So every listed file is compared once more under the lock: its inode, size and mtime, and for
small files the content too, because file system clocks tick only every few milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkatool.engine.directory.log_dir import FileEntry, LogDir, Partition, file_entry
from kafkatool.errors import Refused
from kafkatool.format import kinds
from kafkatool.format.checksum import crc32c

SMALL = 16 << 10
# The clean shutdown marker is removed by kafkatool's own first change; the lock is taken by kafkatool.
_NOT_COMPARED = (kinds.BACKUP, kinds.LOCK, kinds.CLEAN_SHUTDOWN)


class Trace(NamedTuple):
    """One file as it was found."""

    identity: tuple[int, int]
    size: int
    modified_ns: int
    crc: int | None
    """CRC-32C of a small file."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The files that a plan was made from, and the directories whose listings it relies on."""

    traces: dict[str, Trace]
    directories: frozenset[str]

    def instead(self, path: str) -> Evidence:
        """Return a copy with one file looked at again, because another plan of this run has changed it."""
        others = {name: trace for name, trace in self.traces.items() if name != path}
        try:
            now = {path: _trace(file_entry(path, os.stat(path)))}
        except FileNotFoundError:
            now = {}
        return replace(self, traces=others | now)

    def refuse_if_changed(self) -> None:
        """Raise Refused unless everything is unchanged."""
        for path, before in sorted(self.traces.items()):
            if _look_again(path, before) != before:
                raise Refused(f"{path}: changed since it was planned: run the same command again")
        for directory in sorted(self.directories):
            for name in _names(directory):
                path = os.path.join(directory, name)
                if path not in self.traces:
                    raise Refused(f"{path}: is new since it was planned: run the same command again")


def gather_evidence(log_dir: LogDir, partitions: Iterable[Partition], *, with_content: bool) -> Evidence:
    """Record the partitions that a plan is about, and what in their log directory decides about them.

    Call it before the plan reads anything, and with content if the plan may be applied.
    """
    meant = list(partitions)
    known = {one.path for one in meant}
    # Settings come from the metadata log.
    meant += [one for one in log_dir.metadata if one.path not in known]
    entries = [*_known_kinds(log_dir.files), *(entry for one in meant for entry in one.files)]
    small = SMALL if with_content else -1
    traces = {entry.path: _trace(entry, small) for entry in entries if entry.kind not in _NOT_COMPARED}
    return Evidence(traces, frozenset(one.path for one in meant))


def _known_kinds(files: Iterable[FileEntry]) -> Iterator[FileEntry]:
    """Yield the files a broker keeps at the top; a stand-alone partition may lie among unrelated files."""
    return (entry for entry in files if entry.kind is not kinds.UNKNOWN)


def _trace(entry: FileEntry, small: int = SMALL) -> Trace:
    crc = _small_crc(entry.path) if entry.size <= small else None
    return Trace(entry.identity, entry.size, entry.modified_ns, crc)


def _look_again(path: str, before: Trace) -> Trace | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    crc = _small_crc(path) if before.crc is not None else None
    return Trace((found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns, crc)


def _small_crc(path: str) -> int | None:
    """Return the checksum of a small file; None if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return crc32c(file.read(SMALL + 1))
    except OSError:
        return None


def _names(directory: str) -> Iterator[str]:
    """Yield the names of the regular files present, without those that kafkatool keeps."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            kind = kinds.kind_of(entry.name).kind
            if kind not in _NOT_COMPARED and entry.is_file():
                yield entry.name
