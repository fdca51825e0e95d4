"""What a plan was made from, so that nothing is done by a plan that is out of date.

Between planning and the moment when the lock is ours a broker may have started, repaired the log, taken new
records and stopped again. So every file that was listed is compared once more under the lock: its inode, size
and time of change, and of small files the content too, as a file system's clock ticks only every few
milliseconds.
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
# The mark of a clean shutdown goes with the first change of ours, the lock is taken by us.
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
    """The files that a plan was made from, and the directories whose lists of names it relies on."""

    traces: dict[str, Trace]
    directories: frozenset[str]

    def instead(self, path: str) -> Evidence:
        """Return the same with one file looked at anew, now: a plan of ours has changed it meanwhile."""
        others = {name: trace for name, trace in self.traces.items() if name != path}
        try:
            now = {path: _trace(file_entry(path, os.stat(path)))}
        except FileNotFoundError:
            now = {}
        return replace(self, traces=others | now)

    def refuse_if_changed(self) -> None:
        """Raise Refused unless everything is as it was."""
        for path, before in sorted(self.traces.items()):
            if _look_again(path, before) != before:
                raise Refused(f"{path}: changed since it was planned: run the same command again")
        for directory in sorted(self.directories):
            for name in _names(directory):
                path = os.path.join(directory, name)
                if path not in self.traces:
                    raise Refused(f"{path}: is new since it was planned: run the same command again")


def gather_evidence(log_dir: LogDir, partitions: Iterable[Partition], *, with_content: bool) -> Evidence:
    """Remember the partitions that a plan is about, and what in their log directory decides about them.

    To be called before the plan reads anything, and with content where the plan may be applied.
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
    """What a broker keeps at the top; a partition that stands alone may lie among anybody's files."""
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
    """The checksum of a small file; None where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return crc32c(file.read(SMALL + 1))
    except OSError:
        return None


def _names(directory: str) -> Iterator[str]:
    """The regular files that are there now, without those that we keep."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            kind = kinds.kind_of(entry.name).kind
            if kind not in _NOT_COMPARED and entry.is_file():
                yield entry.name
