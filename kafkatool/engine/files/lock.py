"""The lock of a log directory: ask the kernel whether a broker holds it, or hold it ourselves.

Java takes an fcntl lock, which flock(2) does not see. Such a lock belongs to the process, and closing any
descriptor of the file releases it: while we hold it, no code of this process may probe it.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from kafkatool.engine.files.disk import NEW_FILE_MODE, Files
from kafkatool.engine.files.object_storage import is_remote
from kafkatool.errors import Refused

LOCK_FILE = ".lock"
CLEAN_MARKER = ".kafka_cleanshutdown"
HIGH_WATERMARKS = "replication-offset-checkpoint"
# A running broker writes its high watermarks every five seconds.
ALIVE_MS = 60_000
_LEVELS = 3  # a file, its partition directory, the log directory
# Lock files that we create have a mode bit that has no meaning on a file: so one left by a killed run can be
# recognized, from the moment it is created.
_OUR_MODE = NEW_FILE_MODE | stat.S_ISVTX


def broker_is_alive(path: str) -> bool:
    """Whether some process holds the `.lock` of the log directory that contains `path`.

    Neither takes nor creates the lock. False if it cannot be determined.
    """
    if is_remote(path):
        return False
    # A partition may be a link into another log directory.
    return any(_is_held_above(one) for one in {os.path.abspath(path), os.path.realpath(path)})


def _is_held_above(directory: str) -> bool:
    for _ in range(_LEVELS):
        if os.path.lexists(os.path.join(directory, LOCK_FILE)):
            return lock_holder(directory) is not None
        directory = os.path.dirname(directory)
    return False


def lock_holder(log_dir: str) -> int | None:
    """Return the pid that holds the lock of a log directory, 0 if it is unknown; None if not locked."""
    import fcntl

    # struct flock: type, whence, start, length (0: to the end), pid of the holder
    question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fd = _open_lock(os.path.join(log_dir, LOCK_FILE), os.O_RDONLY)
    except OSError:
        return None
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, question)
    except OSError:
        return None
    finally:
        os.close(fd)
    kind, *_, pid = struct.unpack("hhqqi4x", answer)
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def _open_lock(path: str, flags: int) -> int:
    """Open a lock file without blocking; raise OSError for a pipe, a device or a directory."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a device can have side effects
        raise OSError(errno.EINVAL, "is not a regular file", path)
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    return fd


def refuse_if_in_use(log_dir: str, *, offline: bool, now_ms: int) -> None:
    """Raise Refused if a broker uses this log directory, or may do so from another host.

    `offline`: the user confirms that none does; a lock that is held still counts.
    """
    if broker_is_alive(log_dir):
        raise Refused(f"{log_dir}: a broker is running on it ({LOCK_FILE} is held); stop it first")
    if offline or os.path.lexists(os.path.join(log_dir, CLEAN_MARKER)):
        return
    try:
        written_ms = os.stat(os.path.join(log_dir, HIGH_WATERMARKS)).st_mtime_ns // 1_000_000
    except OSError:
        return
    if now_ms - written_ms < ALIVE_MS:
        raise Refused(
            f"{log_dir}: {HIGH_WATERMARKS} was written within a minute and there is no mark of a clean "
            "shutdown: a broker on another host may be using it; --offline if you know that none does"
        )


@contextmanager
def hold_lock(log_dir: str, files: Files) -> Iterator[None]:
    """Keep brokers out while the block runs, with the lock that they take themselves.

    A missing `.lock` is created, and removed at the end, as is one that a killed run of ours left. Raises
    Refused if another process holds it.
    """
    import fcntl

    path = os.path.join(log_dir, LOCK_FILE)
    if not os.path.lexists(path):
        files.create(path, mode=_OUR_MODE).close()
    try:
        fd = _open_lock(path, os.O_RDWR)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}: whether a broker uses the directory is unknown") from None
    is_ours = bool(os.fstat(fd).st_mode & stat.S_ISVTX)
    try:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            is_ours = False
            raise Refused(f"{log_dir}: a broker has just been started on it ({LOCK_FILE} is held)") from None
        yield
    finally:
        try:
            if is_ours:
                with suppress(FileNotFoundError):
                    files.unlink(path)
        finally:
            os.close(fd)


@contextmanager
def hold_locks(log_dirs: Iterable[str], files: Files) -> Iterator[None]:
    """Hold the locks of all these log directories, or of none."""
    with ExitStack() as held:
        for log_dir in log_dirs:
            held.enter_context(hold_lock(log_dir, files))
        yield
