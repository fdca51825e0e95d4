"""Files whose presence in memory is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.files.page_cache import Residency


def evict(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def resident_pages(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        residency = Residency.of(fd, path.stat().st_size)
        assert residency is not None
        with residency:
            return residency.pages(0, residency.page_count) or b""
    finally:
        os.close(fd)


def evict_or_skip(path: Path) -> None:
    """Nothing of it is in memory then; what lies in memory only cannot be evicted."""
    evict(path)
    if any(resident_pages(path)):
        pytest.skip("this file system does not evict (tmpfs?)")


def make_cold_file(directory: Path, size: int) -> Path:
    """A file on a disk, none of it in memory; skips where that cannot be had."""
    path = directory / "cold"
    path.write_bytes(os.urandom(size))
    evict_or_skip(path)
    return path
