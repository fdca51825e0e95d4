"""Account for the space of a file system: what the log directories use, deleted open files, and the rest.

used by the file system = logs + indexes + state + leftovers + unknown files   (in the log directories)
                        + deleted files that a process still holds open
                        + unexplained: other directories, the file system's own needs
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState, data_group, unique_files

GROUPS = ("log", "index", "state", "leftover", "unknown")
_BLOCK = 512
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class OpenDeleted:
    """A deleted file that still takes space because a process has it open."""

    pid: int
    command: str
    path: str
    size: int
    allocated: int
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Space:
    """The space account of one file system. Sizes are allocated bytes."""

    mount: str
    device: int
    capacity: int
    used: int
    available: int
    inodes: int
    inodes_used: int
    directories: tuple[str, ...]
    groups: dict[str, int]
    file_counts: dict[str, int]
    open_deleted: tuple[OpenDeleted, ...]
    all_processes_seen: bool

    @property
    def open_deleted_size(self) -> int:
        """Allocated bytes; each file counts once, however many processes hold it open."""
        return sum({entry.inode: entry.allocated for entry in self.open_deleted}.values())

    @property
    def explained(self) -> int:
        return sum(self.groups.values()) + self.open_deleted_size

    @property
    def unexplained(self) -> int:
        """Used bytes that nothing explains; below zero only while files are being deleted."""
        return self.used - self.explained

    @property
    def unexplained_inodes(self) -> int:
        held = len({entry.inode for entry in self.open_deleted})
        return self.inodes_used - sum(self.file_counts.values()) - held


def account(log_dirs: Iterable[LogDir]) -> list[Space]:
    """Return one account for each file system that these log directories are on, in their order.

    Raises OSError if a directory is gone.
    """
    by_device: dict[int, list[LogDir]] = {}
    for log_dir in log_dirs:
        by_device.setdefault(os.stat(log_dir.path).st_dev, []).append(log_dir)
    if not by_device:
        return []
    held, all_seen = open_deleted_files(set(by_device))
    return [_account(device, found, held, all_seen) for device, found in by_device.items()]


def _account(device: int, log_dirs: list[LogDir], held: list[OpenDeleted], all_seen: bool) -> Space:
    room = os.statvfs(log_dirs[0].path)
    groups, counts = _by_group(log_dirs, device)
    return Space(
        mount=mount_point(log_dirs[0].path),
        device=device,
        capacity=room.f_blocks * room.f_frsize,
        used=(room.f_blocks - room.f_bfree) * room.f_frsize,
        available=room.f_bavail * room.f_frsize,
        inodes=room.f_files,
        inodes_used=room.f_files - room.f_ffree,
        directories=tuple(log_dir.path for log_dir in log_dirs),
        groups={group: groups[group] for group in GROUPS},
        file_counts={group: counts[group] for group in GROUPS},
        open_deleted=tuple(entry for entry in held if entry.device == device),
        all_processes_seen=all_seen,
    )


def _by_group(log_dirs: list[LogDir], device: int) -> tuple[Counter[str], Counter[str]]:
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    doomed = {
        entry.identity
        for log_dir in log_dirs
        for partition in log_dir.partitions
        if is_doomed(partition)
        for entry in partition.files
    }
    for entry in unique_files(entry for log_dir in log_dirs for entry in log_dir.all_files):
        if entry.identity[0] != device:  # a partition that is a link to another disk
            continue
        group = "leftover" if entry.identity in doomed else data_group(entry)
        sizes[group] += entry.allocated
        counts[group] += 1
    return sizes, counts


def is_doomed(partition: Partition) -> bool:
    """Whether the whole directory is only waiting to be removed, or has no owner in the cluster."""
    return partition.state in (PartitionState.DELETED, PartitionState.STRAY)


def mount_point(path: str) -> str:
    """Return the mount point of the file system that holds `path`."""
    path = os.path.realpath(path)
    while not os.path.ismount(path):
        path = os.path.dirname(path)
    return path


class Mount(NamedTuple):
    """How a file system is mounted."""

    device: str
    directory: str
    file_system: str
    options: str


def find_mount(directory: str, proc: str = "/proc") -> Mount | None:
    """Return the mount at a mount point; None if unknown."""
    with suppress(OSError), open(f"{proc}/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        found = [Mount(*line.split()[:4]) for line in file if _unescaped(line.split()[1]) == directory]
        if found:
            return found[-1]._replace(directory=directory)
    return None


def _unescaped(text: str) -> str:
    """Decode spaces and similar characters, which the kernel writes as octal escapes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def open_deleted_files(devices: set[int], proc: str = "/proc") -> tuple[list[OpenDeleted], bool]:
    """Return deleted files on these devices that processes hold open, and whether all processes were seen."""
    found: list[OpenDeleted] = []
    all_seen = os.path.isdir(proc)
    for pid in sorted(int(name) for name in _names(proc) if name.isdigit()):
        try:
            found += _deleted_of(pid, f"{proc}/{pid}", devices)
        except PermissionError:
            all_seen = False
        except OSError:  # it ended meanwhile
            continue
    return found, all_seen


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _deleted_of(pid: int, process: str, devices: set[int]) -> Iterator[OpenDeleted]:
    command = ""
    seen: set[int] = set()
    # A broker maps its index files, and some of them no longer have a descriptor.
    for link in [*_links(f"{process}/fd"), *_links(f"{process}/map_files")]:
        with suppress(FileNotFoundError, ProcessLookupError):
            name = os.readlink(link)
            if not name.endswith(_DELETED):
                continue
            held = os.stat(link)
            if held.st_nlink or held.st_dev not in devices or held.st_ino in seen:
                continue
            seen.add(held.st_ino)
            command = command or _command(process)
            yield OpenDeleted(
                pid=pid,
                command=command,
                path=name.removesuffix(_DELETED),
                size=held.st_size,
                allocated=held.st_blocks * _BLOCK,
                device=held.st_dev,
                inode=held.st_ino,
            )


def _links(directory: str) -> list[str]:
    return [f"{directory}/{name}" for name in os.listdir(directory)]


def _command(process: str) -> str:
    with suppress(OSError), open(f"{process}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return "?"
