"""Files that are there whole or not at all, and the directories that they are in."""

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
    """The new content of a file, written beside it from front to back.

    Under the name of the file stands the old content or, after `commit`, the new, on the disk: never a
    mixture, whatever ends the run. Libraries that write to files in Python can write to it.
    """

    def __init__(
        self, files: Files, path: str, temporary: str | None = None, *, mode: int = NEW_FILE_MODE
    ) -> None:
        """Write to `temporary`, by default a name that no other process writes to.

        Raises OSError where nothing can be written, or what would be replaced is a directory or a device.
        """
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        self.path = path
        self._files = files
        self._directory, name = os.path.split(path)
        self._temporary = temporary or os.path.join(self._directory, f".{name}.{uuid.uuid4().hex}.tmp")
        self._file: File | None = files.create(self._temporary, mode=mode)
        self._file.lock()  # so that nobody takes it for a leftover
        self._at = 0
        self.closed = False  # what writers of files ask for

    def write(self, data: Buffer) -> int:
        view = memoryview(data).cast("B")
        if self._file is not None:  # else it was given up, and its writer does not know yet
            self._file.write_at(self._at, view)
            self._at += len(view)
        return len(view)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Everything is handed over at once."""

    def close(self) -> None:
        """Whoever writes may close it; it is finished by `commit` alone."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def commit(self) -> None:
        """Put it in the place of the old content; on the disk on return."""
        assert self._file is not None
        self._file.sync()
        self._files.rename(self._temporary, self.path)
        self._files.sync_directory(self._directory or ".")
        self._file.close()
        self._file = None

    def abandon(self) -> None:
        """Leave the old content where it is; nothing happens after `commit`."""
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
    """Remove what killed runs left of replacements of files; `names` is a pattern of the names of those."""
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
    """Make a new file with this content, and sync it; its name is not yet safe."""
    file = files.create(path, mode=mode)
    try:
        file.write_at(0, data)
        if mtime_ns is not None:
            files.set_mtime(path, mtime_ns)
        file.sync()
    finally:
        file.close()


def replace_file(files: Files, path: str, data: Buffer) -> None:
    """Replace a file in a log directory as the broker does, who uses `<path>.tmp`.

    Takes over what a crash left there.
    """
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):
        files.unlink(temporary)
    with Replacement(files, path, temporary) as new:
        new.write(data)
        new.commit()


def make_directories(files: Files, path: str) -> None:
    """Make a directory and those above it that are missing; their names are on the disk on return."""
    if not path or os.path.isdir(path):
        return
    if os.path.lexists(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    parent = os.path.dirname(path)
    make_directories(files, parent)
    with suppress(FileExistsError):  # somebody else was faster
        files.make_directory(path)
    files.sync_directory(parent or ".")


def remove_tree(files: Files, path: str) -> None:
    """Remove whatever has this name, and all that is in it; links are not followed."""
    if os.path.islink(path) or not os.path.isdir(path):
        files.unlink(path)
        return
    for name in os.listdir(path):
        remove_tree(files, os.path.join(path, name))
    files.remove_directory(path)
