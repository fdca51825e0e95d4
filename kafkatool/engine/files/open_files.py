"""Find which of Kafka's files a process has open or mapped, from /proc."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of

_DELETED = " (deleted)"


def open_kafka_files(pid: int, proc: str = "/proc") -> tuple[list[str], int]:
    """Return the paths of Kafka's files that a process holds, and how many more of them are deleted."""
    process = f"{proc}/{pid}"
    if not os.path.isdir(process):
        raise UsageError(f"--pid {pid}: there is no such process")
    found: dict[str, None] = {}
    deleted = 0
    try:
        # A broker maps its index files, and some of them no longer have a descriptor.
        links = [f"{process}/{kind}/{name}" for kind in ("fd", "map_files") for name in _names(process, kind)]
    except PermissionError as error:
        raise KafkatoolError(f"--pid {pid}: its open files cannot be listed: {error.strerror}") from None
    for link in links:
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            name = os.readlink(link)
            is_file = stat.S_ISREG(os.stat(link).st_mode)
            if not is_file or kind_of(os.path.basename(name.removesuffix(_DELETED))).kind is kinds.UNKNOWN:
                continue
            if name.endswith(_DELETED):
                deleted += 1
            else:
                found[name] = None
    return sorted(found), deleted


def _names(process: str, kind: str) -> list[str]:
    try:
        return os.listdir(f"{process}/{kind}")
    except FileNotFoundError:
        return []
