"""The only way to write to the disk: every write goes through `Files`, which a test can replace.

Callers must assume that a power failure leaves the worst that POSIX allows:

    data      is safe after `File.sync`
    names     (made, renamed, linked, removed) are safe after `sync_directory` of the directory they are in;
              the name of a new directory is in its parent
    order     is not guaranteed for anything not yet synced

What was written can be read back at once, synced or not. Reading does not need `Files`, except in code that
changes files: `stat` and `open_to_read` never follow a link, so the file that is checked is the one changed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from kafkatool.format.primitives import Buffer

NEW_FILE_MODE = 0o644
NEW_DIRECTORY_MODE = 0o755


class File(Protocol):
    """An open file. Positions are bytes from its start."""

    path: str

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data`; a gap before it reads as zeros."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate, or extend with zeros."""
        ...

    def sync(self) -> None:
        """Return when the content, size and attributes have reached the disk."""
        ...

    def lock(self) -> bool:
        """Lock the file until it is closed; return False if it is locked already, or cannot be."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """Operations on files and directories; every method raises OSError as os does."""

    def stat(self, path: str) -> os.stat_result:
        """Return the status of a name, without following links; FileNotFoundError if there is none."""
        ...

    def open(self, path: str) -> File:
        """Open an existing file to read and write."""
        ...

    def open_to_read(self, path: str) -> ReadOnlyFile:
        """Open an existing regular file, without following links; OSError otherwise."""
        ...

    def create(self, path: str, *, mode: int = NEW_FILE_MODE) -> File:
        """Create a new file; FileExistsError if the name is taken."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file atomically, replacing the target if it exists."""
        ...

    def link(self, source: str, target: str) -> None:
        """Make a hard link; FileExistsError if the name is taken."""
        ...

    def symlink(self, target: str, path: str) -> None:
        """Make a symbolic link; FileExistsError if the name is taken."""
        ...

    def unlink(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory have reached the disk."""
        ...

    def set_mtime(self, path: str, mtime_ns: int) -> None: ...

    def set_mode(self, path: str, mode: int) -> None: ...

    def set_owner(self, path: str, uid: int, gid: int) -> None: ...

    def set_attribute(self, path: str, name: str, value: bytes) -> None:
        """Set one extended attribute."""
        ...

    def free_space(self, path: str) -> int:
        """Return how many bytes this user can still write to the volume of an existing path."""
        ...


class DiskFile:
    """A `File` of the operating system."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, size: int) -> bytes:
        return read_fully(self._fd, position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        while written < len(data):
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def lock(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the file; closing twice is allowed, for example explicitly and by `with`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_fully(fd: int, position: int, size: int) -> bytes:
    """Read up to `size` bytes at a position; fewer only at the end of the file."""
    parts = []
    while size > 0 and (part := os.pread(fd, size, position)):
        parts.append(part)
        position += len(part)
        size -= len(part)
    return b"".join(parts)


class ReadOnlyFile:
    """A regular file that was opened without following a link."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "is not a regular file", path)

    def stat(self) -> os.stat_result:
        return os.fstat(self._fd)

    def read_at(self, position: int, size: int) -> bytes:
        return read_fully(self._fd, position, size)

    def data_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of [start, end) that hold data; between them are holes, which read as zeros."""
        while start < end:
            try:
                data = os.lseek(self._fd, start, os.SEEK_DATA)
                hole = os.lseek(self._fd, data, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # a hole up to the end of the file
                    return
                data, hole = start, end  # not supported by this file system
            if data < end:
                yield data, min(hole, end)
            start = hole

    def attributes(self) -> dict[str, bytes]:
        """Return the extended attributes; empty if the file system has none."""
        found = {}
        with suppress(OSError):
            for name in os.listxattr(self._fd):
                with suppress(OSError):
                    found[name] = os.getxattr(self._fd, name)
        return found

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> ReadOnlyFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Disk:
    """The `Files` of the operating system, by plain path names.

    `_at` gives the place to look up a name: an open directory, or None for the working directory.
    """

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[int | None, str]]:
        yield None, path

    def _open(self, path: str, flags: int, mode: int = 0) -> int:
        with self._at(path) as (directory, name):
            return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=directory)

    def stat(self, path: str) -> os.stat_result:
        with self._at(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def open(self, path: str) -> File:
        return DiskFile(path, self._open(path, os.O_RDWR))

    def open_to_read(self, path: str) -> ReadOnlyFile:
        # Non-blocking: the name may be a pipe by now.
        return ReadOnlyFile(path, self._open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))

    def create(self, path: str, *, mode: int = NEW_FILE_MODE) -> File:
        return DiskFile(path, self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))

    def rename(self, source: str, target: str) -> None:
        with self._at(source) as (from_dir, old), self._at(target) as (to_dir, new):
            os.rename(old, new, src_dir_fd=from_dir, dst_dir_fd=to_dir)

    def link(self, source: str, target: str) -> None:
        with self._at(source) as (from_dir, old), self._at(target) as (to_dir, new):
            os.link(old, new, src_dir_fd=from_dir, dst_dir_fd=to_dir, follow_symlinks=False)

    def symlink(self, target: str, path: str) -> None:
        with self._at(path) as (directory, name):
            os.symlink(target, name, dir_fd=directory)

    def unlink(self, path: str) -> None:
        with self._at(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def make_directory(self, path: str) -> None:
        with self._at(path) as (directory, name):
            os.mkdir(name, NEW_DIRECTORY_MODE, dir_fd=directory)

    def remove_directory(self, path: str) -> None:
        with self._at(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)

    def sync_directory(self, path: str) -> None:
        fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        with self._opened(path) as fd:
            os.utime(fd, ns=(os.fstat(fd).st_atime_ns, mtime_ns))

    def set_mode(self, path: str, mode: int) -> None:
        with self._opened(path) as fd:
            os.fchmod(fd, mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        with self._opened(path) as fd:
            os.fchown(fd, uid, gid)

    def set_attribute(self, path: str, name: str, value: bytes) -> None:
        with self._opened(path) as fd:
            os.setxattr(fd, name, value)

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """Open a file to change its metadata, without following links."""
        fd = self._open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            yield fd
        finally:
            os.close(fd)

    def free_space(self, path: str) -> int:
        volume = os.statvfs(path)
        return volume.f_bavail * volume.f_frsize
