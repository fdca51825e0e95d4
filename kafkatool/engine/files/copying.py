"""Copy files with content, holes, owner, mode, times and extended attributes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from kafkatool.engine.files.disk import File, Files, ReadOnlyFile
from kafkatool.engine.files.source import patched
from kafkatool.format.checksum import crc32c

CHUNK = 1 << 20
_ZEROS = bytes(CHUNK)
# Errors of link() where a hard link is not possible.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)


def pieces(source: ReadOnlyFile, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield [start, end) as (size, bytes), holes as (size, None); raise OSError if the file is shorter."""
    if source.stat().st_size < end:
        raise OSError(errno.EIO, "is shorter than it was", source.path)
    at = start
    for first, last in (*source.data_ranges(start, end), (end, end)):
        while at < first:
            size = min(CHUNK, first - at)
            yield size, None
            at += size
        while at < last:
            data = source.read_at(at, min(CHUNK, last - at))
            if not data:
                raise OSError(errno.EIO, "is shorter than it was", source.path)
            yield len(data), data
            at += len(data)


def copy_content(
    source: ReadOnlyFile, start: int, end: int, target: File, patches: Mapping[int, int] | None = None
) -> Iterator[tuple[int, int]]:
    """Write [start, end) to a new file, holes as holes; yield each size with the CRC-32C so far.

    `patches` are replacement bytes, by their position in the source.
    """
    position = crc = 0
    for size, data in pieces(source, start, end):
        at = start + position
        if patches and any(at <= patch < at + size for patch in patches):
            data = patched(bytes(size) if data is None else data, at, patches)
        if data is not None:
            target.write_at(position, data)
        crc = crc32c(data if data is not None else _ZEROS[:size], crc)
        position += size
        yield size, crc
    if target.size() < position:
        target.truncate(position)


def content_of(path: str, files: Files) -> tuple[int, int]:
    """Return size and CRC-32C of a file; raise OSError if it cannot be read."""
    with files.open_to_read(path) as file:
        size, crc = file.stat().st_size, 0
        for count, data in pieces(file, 0, size):
            crc = crc32c(data if data is not None else _ZEROS[:count], crc)
    return size, crc


def are_same(one: str, other: str, files: Files) -> bool:
    """Whether two names have the same content: they are one file, or two equal ones."""
    if os.path.samestat(files.stat(one), files.stat(other)):
        return True
    with files.open_to_read(one) as first, files.open_to_read(other) as second:
        size = first.stat().st_size
        if size != second.stat().st_size:
            return False
        return all(first.read_at(at, CHUNK) == second.read_at(at, CHUNK) for at in range(0, size, CHUNK))


class Looks(NamedTuple):
    """Mode, owner and time for a copy, if the volume of the source file cannot store them."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int


def keep_copy(path: str, copy: str, files: Files, looks: Looks | None = None) -> None:
    """Make a hard link to a file or, if the volume does not support that, a synced copy."""
    try:
        files.link(path, copy)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copy_file(path, copy, files, looks)


def copy_file(path: str, copy: str, files: Files, looks: Looks | None = None) -> None:
    """Make a synced copy with all metadata of the file."""
    with files.open_to_read(path) as source:
        found = source.stat()
        looks = looks or Looks(found.st_mode & 0o7777, found.st_uid, found.st_gid, found.st_mtime_ns)
        file = files.create(copy)
        try:
            for _size, _crc in copy_content(source, 0, found.st_size, file):
                pass
            # Not every account may set owners and attributes, and not every volume stores them.
            with suppress(PermissionError):
                files.set_owner(copy, looks.uid, looks.gid)
            for name, value in source.attributes().items():
                with suppress(OSError):
                    files.set_attribute(copy, name, value)
            files.set_mode(copy, looks.mode)
            files.set_mtime(copy, looks.mtime_ns)
            file.sync()
        finally:
            file.close()
