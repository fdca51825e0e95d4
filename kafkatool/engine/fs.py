"""The one door to the disk: every write of the program passes `Files`, so that a test can close it.

What a power cut leaves is the worst that POSIX allows, and callers write for that:

    data      is safe after `File.sync`
    names     (made, renamed, linked, removed) are safe after `sync_directory` of the directory they are in;
              the name of a new directory is in its parent
    order     of anything not yet synced is nobody's promise

Reading needs no door: what was written can be read back at once, synced or not.
"""

from __future__ import annotations

import os
from typing import Protocol

from kafkatool.format.primitives import Buffer

NEW_FILE_MODE = 0o644
NEW_DIRECTORY_MODE = 0o755


class File(Protocol):
    """An open file. Positions are bytes from its start."""

    path: str

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of it; a hole in front reads as zeros."""
        ...

    def truncate(self, size: int) -> None:
        """Cut, or lengthen with zeros."""
        ...

    def sync(self) -> None:
        """Return when the content, size and attributes have reached the disk."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """What may be done to files and directories; every method raises OSError as os does."""

    def open(self, path: str) -> File:
        """An existing file, to read and write."""
        ...

    def create(self, path: str, *, mode: int = NEW_FILE_MODE) -> File:
        """A new file; FileExistsError if the name is taken."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give the file another name at once; a file of that name is replaced."""
        ...

    def link(self, source: str, target: str) -> None:
        """A second name for the same file; FileExistsError if the name is taken."""
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

    def free_space(self, path: str) -> int:
        """Bytes that this user may still write to the volume of an existing path."""
        ...


class DiskFile:
    """A File of the operating system."""

    def __init__(self, path: str, flags: int, mode: int = NEW_FILE_MODE) -> None:
        self.path = path
        self._fd = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, mode)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, size: int) -> bytes:
        parts = []
        while size > 0 and (part := os.pread(self._fd, size, position)):
            parts.append(part)
            position += len(part)
            size -= len(part)
        return b"".join(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        while written < len(data):
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        """Closing twice is allowed: `with` and an explicit close may meet."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Disk:
    """The Files of the operating system."""

    def open(self, path: str) -> File:
        return DiskFile(path, 0)

    def create(self, path: str, *, mode: int = NEW_FILE_MODE) -> File:
        return DiskFile(path, os.O_CREAT | os.O_EXCL, mode)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, NEW_DIRECTORY_MODE)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def set_mtime(self, path: str, mtime_ns: int) -> None:
        os.utime(path, ns=(os.stat(path).st_atime_ns, mtime_ns))

    def set_mode(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        os.chown(path, uid, gid)

    def free_space(self, path: str) -> int:
        volume = os.statvfs(path)
        return volume.f_bavail * volume.f_frsize


def write_file(files: Files, path: str, data: Buffer, *, mode: int = NEW_FILE_MODE) -> None:
    """Make a new file with this content, and sync it; its name is not yet safe."""
    file = files.create(path, mode=mode)
    try:
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()


def replace_file(files: Files, path: str, data: Buffer) -> None:
    """Put this content under a name as the broker writes its checkpoints: old or new, never a mixture.

    Uses `<path>.tmp`, and takes over what a crash left there.
    """
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):
        files.unlink(temporary)
    write_file(files, temporary, data)
    files.rename(temporary, path)
    files.sync_directory(os.path.dirname(path) or ".")
