"""Write files atomically, so that they exist complete or not at all, and make and remove directories."""

from __future__ import annotations

import errno
import os
import re
import uuid
from contextlib import suppress
from typing import Self

from kafkatool.engine.files.disk import NEW_FILE_MODE, File, Files
from kafkatool.format.primitives import Buffer


class Replacement:
    """The new content of a file, written from start to end to a temporary file beside it.

    The file has the old content or, after `commit`, the new, on the disk: never a mixture, even after a
    crash. Libraries that write to Python file objects can write to it.
    """

    def __init__(
        self, files: Files, path: str, temporary: str | None = None, *, mode: int = NEW_FILE_MODE
    ) -> None:
        """Write to `temporary`, by default a unique name.

        Raises OSError if nothing can be written, or if `path` is a directory or a device.
        """
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        self.path = path
        self._files = files
        self._directory, name = os.path.split(path)
        self._temporary = temporary or os.path.join(self._directory, f".{name}.{uuid.uuid4().hex}.tmp")
        self._file: File | None = files.create(self._temporary, mode=mode)
        self._file.lock()  # so that it is not taken for a leftover
        self._at = 0
        self.closed = False  # part of the file object interface

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        if self._file is not None:  # else it was abandoned, and the writer does not know yet
            self._file.write_at(self._at, view)
            self._at += len(view)
        return len(view)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Do nothing: `write` does not buffer."""

    def close(self) -> None:
        """Do nothing: the writer may close it, but only `commit` finishes it."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def commit(self) -> None:
        """Replace the old content; the new one is on the disk on return."""
        assert self._file is not None
        self._file.sync()
        self._files.rename(self._temporary, self.path)
        self._files.sync_directory(self._directory or ".")
        self._file.close()
        self._file = None

    def abandon(self) -> None:
        """Discard the new content; no effect after `commit`."""
        if self._file is not None:
            self._file.close()
            self._file = None
            with suppress(OSError):
                self._files.unlink(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.abandon()


def remove_leftovers(files: Files, directory: str, names: str) -> None:
    """Remove temporary files of killed runs; `names` is a pattern for the names of the files they replace."""
    left = re.compile(rf"\.(?:{names})(?:\.[0-9a-f]{{32}})?\.tmp")
    for name in os.listdir(directory or "."):
        if left.fullmatch(name):
            path = os.path.join(directory, name)
            with suppress(OSError):
                file = files.open(path)
                try:
                    if file.lock():
                        files.unlink(path)
                finally:
                    file.close()


def write_file(
    files: Files, path: str, data: Buffer, *, mode: int = NEW_FILE_MODE, mtime_ns: int | None = None
) -> None:
    """Create a file with this content, and sync it; its name is not yet safe."""
    file = files.create(path, mode=mode)
    try:
        file.write_at(0, data)
        if mtime_ns is not None:
            files.set_mtime(path, mtime_ns)
        file.sync()
    finally:
        file.close()


def replace_file(files: Files, path: str, data: Buffer) -> None:
    """Replace a file in a log directory as the broker does, with `<path>.tmp`.

    One that a crash left is removed first.
    """
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):
        files.unlink(temporary)
    with Replacement(files, path, temporary) as new:
        new.write(data)
        new.commit()


def make_directories(files: Files, path: str) -> None:
    """Make a directory and its missing parents; their names are on the disk on return."""
    if not path or os.path.isdir(path):
        return
    if os.path.lexists(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    parent = os.path.dirname(path)
    make_directories(files, parent)
    with suppress(FileExistsError):  # another process made it first
        files.make_directory(path)
    files.sync_directory(parent or ".")


def remove_tree(files: Files, path: str) -> None:
    """Remove a file or a whole directory; links are not followed."""
    if os.path.islink(path) or not os.path.isdir(path):
        files.unlink(path)
        return
    for name in os.listdir(path):
        remove_tree(files, os.path.join(path, name))
    files.remove_directory(path)
