"""Whether a broker holds a log directory: asked of the kernel, never by taking or making the lock."""

from __future__ import annotations

import os
import struct

LOCK_FILE = ".lock"
_LEVELS = 3  # a file, its partition directory, the log directory


def broker_is_alive(path: str) -> bool:
    """Whether some process holds the `.lock` of the log directory that `path` lies in.

    Java takes an fcntl lock, which flock(2) does not see. False where it cannot be told.
    """
    directory = os.path.abspath(path)
    for _ in range(_LEVELS):
        if os.path.lexists(os.path.join(directory, LOCK_FILE)):
            return _is_locked(os.path.join(directory, LOCK_FILE))
        directory = os.path.dirname(directory)
    return False


def _is_locked(path: str) -> bool:
    import fcntl

    # struct flock: type, whence, start, length (0: to the end), pid of the holder
    question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, question)
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)
