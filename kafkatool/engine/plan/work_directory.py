"""A work directory beside a log directory, recognizable as abandoned once its run was killed.

.kafkatool-compact-RUN/
    in-use        names the log directory it is for; locked as long as the run lives
    …             what the run writes
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

PREFIX = ".kafkatool-compact-"
_IN_USE = "in-use"


@contextmanager
def work_directory(log_dir: str, run: str) -> Iterator[str]:
    """Create a directory beside the log directory; remove it with everything in it at the end."""
    import fcntl

    log_dir = os.path.realpath(log_dir)
    path = os.path.join(os.path.dirname(log_dir), f"{PREFIX}{run}")
    os.mkdir(path, 0o700)
    try:
        with open(os.path.join(path, _IN_USE), "xb") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mark.write(os.fsencode(log_dir))
            mark.flush()
            yield path
    finally:
        remove_work_directory(path)


def left_work_directories(log_dir: str) -> Iterator[tuple[str, bool]]:
    """Yield those beside a log directory that no run holds, and whether they were surely made for it."""
    log_dir = os.path.realpath(log_dir)
    beside = os.path.dirname(log_dir)
    try:
        names = sorted(name for name in os.listdir(beside) if name.startswith(PREFIX))
    except OSError:
        return
    for name in names:
        path = os.path.join(beside, name)
        made_for = _made_for(path)
        if made_for in (None, log_dir):
            yield path, made_for is not None


def remove_work_directory(path: str) -> None:
    """Remove it; links in it are not followed."""
    shutil.rmtree(path, ignore_errors=True)


def _made_for(path: str) -> str | None:
    """Return the log directory it was made for; None without a mark, an empty string if a run holds it."""
    import fcntl

    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(os.path.join(path, _IN_USE), flags)
    except OSError:
        return None
    with open(fd, "r+b") as mark:
        try:
            # A lock of the open file, not of the process: this run may hold one, too.
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return ""
        return os.fsdecode(mark.read(1 << 16))
