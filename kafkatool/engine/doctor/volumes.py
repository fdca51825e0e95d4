"""Check the volumes of a broker's log directories: free space for a start, and how they are mounted.

A start writes checkpoints, and the indexes of what it scans. Indexes of the newest segments are preallocated
sparsely: if the volume is full when they are written, the broker fails later, at work.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.broker.owner_checks import holds_metadata
from kafkatool.engine.directory.log_dir import LogDir, SegmentState
from kafkatool.engine.directory.space import find_mount, mount_point
from kafkatool.engine.doctor.loading import Scans
from kafkatool.engine.doctor.symptoms import Symptom, host_finding

_BLOCK = 4096


class VolumeRoom(NamedTuple):
    """What a start writes at once, and what sparse files may still take."""

    at_once: int
    reserved: int


def space_symptoms(log_dirs: Sequence[LogDir], scans: Iterable[Scans], *, is_root: bool) -> Iterator[Symptom]:
    """Yield volumes that are full, or would be if everything preallocated were written."""
    by_dir = {one.log_dir: one for one in scans}
    volumes: dict[int, list[LogDir]] = {}
    for log_dir in log_dirs:
        volumes.setdefault(os.stat(log_dir.path).st_dev, []).append(log_dir)
    for together in volumes.values():
        volume = os.statvfs(together[0].path)
        free = (volume.f_bfree if is_root else volume.f_bavail) * volume.f_frsize
        rooms = [_room(one, by_dir.get(one.path)) for one in together]
        at_once, reserved = sum(room.at_once for room in rooms), sum(room.reserved for room in rooms)
        if free < at_once or (volume.f_files and not volume.f_favail):
            yield from (_full(one, at_once, free) for one in together)
        elif free < reserved:
            yield _nearly_full(together[0], reserved, free)


def _room(log_dir: LogDir, scans: Scans | None) -> VolumeRoom:
    """Estimate what a start writes: checkpoints, epochs, snapshots, and the indexes of what it scans."""
    at_once = 2 * _BLOCK * (1 + len(log_dir.partitions))
    for _path, size in scans.segments if scans is not None else ():
        at_once += 2 * _BLOCK + size // _BLOCK * 20
    reserved = sum(
        max(0, entry.size - entry.allocated)
        for partition in log_dir.partitions
        for segment in partition.segments
        if segment.state is SegmentState.ACTIVE
        for entry in segment.files
    )
    return VolumeRoom(at_once, reserved)


def _full(log_dir: LogDir, needed: int, free: int) -> Symptom:
    message = f"{free} bytes are free, a start needs about {needed}: a broker takes the log directory offline"
    finding = host_finding(
        log_dir.path,
        FindingClass.NO_SPACE,
        Severity.NO_START,
        message,
        Advice.FREE_SPACE(where=log_dir.path),
        f"{needed} bytes free",
        free,
    )
    return Symptom(finding, Effect.REFUSE if holds_metadata(log_dir) else Effect.OFFLINE, log_dir.path)


def _nearly_full(log_dir: LogDir, reserved: int, free: int) -> Symptom:
    message = (
        f"{free} bytes are free, and preallocated files may still take {reserved}: "
        "a broker ends when one of its maps finds no room"
    )
    finding = host_finding(
        log_dir.path,
        FindingClass.NO_SPACE,
        Severity.DEGRADED,
        message,
        Advice.LIST_SPACE(where=log_dir.path),
        f"{reserved} bytes free",
        free,
    )
    return Symptom(finding)


# --- mounts -------------------------------------------------------------------------------------------


class _Hurts(NamedTuple):
    pattern: str
    """Matches the file system's type, or one mount option."""
    severity: Severity
    why: str
    option: str | None = None
    """Option to remount with."""


_FILE_SYSTEMS = (
    _Hurts(r"nfs\d?", Severity.DEGRADED, "deleted files that are open come back as .nfs files"),
    _Hurts(r"cifs|smb\d?|9p|fuse\..*|fuse", Severity.DEGRADED, "brokers are not made for it"),
    _Hurts(r"tmpfs|ramfs", Severity.DEGRADED, "it is memory: gone when the host is"),
    _Hurts(r"overlay|aufs", Severity.DEGRADED, "it is a container's own layer: gone with the container"),
)
_OPTIONS = (
    _Hurts(
        r"nobarrier|barrier=0", Severity.DEGRADED, "what was flushed may be lost with the power", "barrier"
    ),
    _Hurts(r"sync|dirsync", Severity.DEGRADED, "every write waits for the disk", "async"),
    _Hurts(r"data=writeback", Severity.NOTE, "after a crash logs may end in old bytes of other files"),
    _Hurts(r"data=journal", Severity.DEGRADED, "every record is written twice"),
    _Hurts(r"strictatime", Severity.DEGRADED, "every read is a write", "noatime"),
)


def mount_symptoms(log_dirs: Iterable[LogDir]) -> Iterator[Symptom]:
    """Yield file systems and mount options that are bad for logs."""
    for log_dir in log_dirs:
        mounted = find_mount(mount_point(log_dir.path))
        if mounted is None:
            continue
        if os.statvfs(log_dir.path).f_flag & os.ST_RDONLY:
            yield _read_only(log_dir, mounted.directory)
        for hurts in _FILE_SYSTEMS:
            if re.fullmatch(hurts.pattern, mounted.file_system):
                yield _hurting(log_dir, f"on {mounted.file_system}: {hurts.why}", hurts, mounted.directory)
        for option in mounted.options.split(","):
            for hurts in _OPTIONS:
                if re.fullmatch(hurts.pattern, option):
                    yield _hurting(log_dir, f"mounted with {option}: {hurts.why}", hurts, mounted.directory)


def _hurting(log_dir: LogDir, message: str, hurts: _Hurts, mount: str) -> Symptom:
    advice = None if hurts.option is None else Advice.REMOUNT(option=hurts.option, where=mount)
    return Symptom(host_finding(log_dir.path, FindingClass.BAD_MOUNT, hurts.severity, message, advice))


def _read_only(log_dir: LogDir, mount: str) -> Symptom:
    finding = host_finding(
        log_dir.path,
        FindingClass.BAD_MOUNT,
        Severity.NO_START,
        "mounted read-only: a broker cannot lock it, and leaves it out",
        Advice.REMOUNT_WRITABLE(where=mount),
        "rw",
        "ro",
    )
    return Symptom(finding, Effect.REFUSE if holds_metadata(log_dir) else Effect.OFFLINE, log_dir.path)
