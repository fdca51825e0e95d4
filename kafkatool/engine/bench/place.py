"""Choose where a benchmark may write: a directory of its own, on a volume with room and no broker."""

from __future__ import annotations

import json
import os
import platform
import re
from contextlib import suppress
from dataclasses import dataclass

from kafkatool.engine.directory.space import find_mount, mount_point
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.whole_files import Replacement, make_directories, remove_tree
from kafkatool.errors import Refused

MARKER = ".kafkatool-bench"
KEPT_FREE = 0.1
"""Share of the volume that always stays free."""


@dataclass(slots=True)
class BenchPlace:
    """A directory that is ours. `made`: we created it."""

    path: str
    made: bool

    def room(self) -> int:
        """Return the bytes that may still be written."""
        volume = os.statvfs(self.path)
        return int((volume.f_bavail - volume.f_blocks * KEPT_FREE) * volume.f_frsize)

    def clean_partitions(self) -> None:
        """Remove what an earlier run left."""
        for name in os.listdir(self.path):
            if name.startswith("bench-"):
                path = os.path.join(self.path, name)
                remove_tree(Disk(), path)

    def clean(self) -> None:
        """Remove what was written, and the directory if we created it."""
        self.clean_partitions()
        with suppress(FileNotFoundError):
            Disk().unlink(os.path.join(self.path, MARKER))
        if self.made:
            with suppress(OSError):
                Disk().remove_directory(self.path)


def take(path: str, needed: int, *, on_live_volume: bool) -> BenchPlace:
    """Claim the directory to write to; raise Refused if it holds anything else, or the volume is unfit."""
    path = os.path.abspath(path)
    made = not os.path.isdir(path)
    names = [] if made else os.listdir(path)
    if names and MARKER not in names:
        raise Refused(f"{path}: holds other data ({min(names)}); name an empty directory, or one to be made")
    if made:
        make_directories(Disk(), path)
    place = BenchPlace(path, made)
    try:
        if not on_live_volume and (holder := live_log_dir(os.stat(path).st_dev)):
            raise Refused(
                f"{path}: a broker uses {holder} on this volume; --on-live-volume if that may suffer"
            )
        if needed > place.room():
            raise Refused(
                f"{path}: {needed} bytes are to be written, {max(0, place.room())} may be: a tenth of the "
                "volume stays free"
            )
    except Refused:
        if made:
            Disk().remove_directory(path)
        raise
    with Replacement(Disk(), os.path.join(path, MARKER)) as new:
        new.write(b"written by a benchmark of kafkatool; everything here may be deleted\n")
        new.commit()
    return place


def live_log_dir(device: int, proc: str = "/proc") -> str | None:
    """Return a visible log directory on this device whose lock a process holds, or None."""
    try:
        with open(f"{proc}/locks", encoding="ascii") as file:
            locks = re.findall(r"POSIX +\S+ +WRITE (\d+) ([0-9a-f]+):([0-9a-f]+):(\d+)", file.read())
    except OSError:
        return None
    for pid, major, minor, inode in locks:
        if os.makedev(int(major, 16), int(minor, 16)) != device:
            continue
        with suppress(OSError):
            for name in os.listdir(f"{proc}/{pid}/fd"):
                link = os.readlink(f"{proc}/{pid}/fd/{name}")
                if link.endswith("/.lock") and os.stat(link).st_ino == int(inode):
                    return os.path.dirname(link)
    return None


def machine(path: str) -> dict[str, object]:
    """Return the facts about the machine without which a result means nothing."""
    import psutil

    from kafkatool import __version__
    from kafkatool.format import kernel

    mount = mount_point(path)
    mounted = find_mount(mount)
    volume = os.statvfs(path)
    return {
        "kafkatool": __version__,
        "kernel": kernel.name(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "mount": mount,
        "device": mounted.device if mounted else None,
        "file_system": mounted.file_system if mounted else None,
        "mount_options": mounted.options if mounted else None,
        "volume_size": volume.f_blocks * volume.f_frsize,
        "volume_free": volume.f_bavail * volume.f_frsize,
        "dirty_ratio": _number("/proc/sys/vm/dirty_ratio"),
        "dirty_background_ratio": _number("/proc/sys/vm/dirty_background_ratio"),
    }


def _cpu() -> str:
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _number(path: str) -> int | None:
    with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        return int(file.read())
    return None


def device_written(device: int) -> int | None:
    """Return the bytes written to a block device so far, by all processes; None if not counted."""
    path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat"
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
        return int(file.read().split()[6]) * 512
    return None


def dirty_memory() -> tuple[int, int]:
    """Return the machine's bytes of dirty page cache, and of pages being written."""
    found = {"Dirty": 0, "Writeback": 0}
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            name, _colon, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) * 1024
    return found["Dirty"], found["Writeback"]


def write_result(path: str, result: dict[str, object]) -> None:
    with Replacement(Disk(), os.path.realpath(path)) as new:
        new.write(f"{json.dumps(result, indent=1)}\n".encode())
        new.commit()
