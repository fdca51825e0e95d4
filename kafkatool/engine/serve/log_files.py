"""The log files that are open, and their offset indexes: not too many, not too large, closed behind us."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kafkatool.engine.batches.seek import sibling_file
from kafkatool.engine.files.source import FileSource, Guest, Mending, open_source, read_small_file
from kafkatool.errors import KafkatoolError

MOST_FILES = 512
MOST_INDEX_BYTES = 128 << 20
# Pages that clients are sent shall stay: the next client asks for the same.
_GUEST = Guest(cache_keep=True)
_NO_INDEX = b""

# Looked into one entry at a time, where numpy takes twenty times as long.
Int32s: TypeAlias = "array[int]"


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """Offsets, relative to the base, and positions, both rising."""

    offsets: Int32s
    positions: Int32s

    @property
    def size(self) -> int:
        return 2 * self.offsets.itemsize * len(self.offsets)

    def floor(self, relative_offset: int) -> tuple[int, int] | None:
        """The last entry at or below an offset: (relative offset, position)."""
        slot = bisect_right(self.offsets, relative_offset) - 1
        return None if slot < 0 else (self.offsets[slot], self.positions[slot])

    def offset_behind(self, position: int) -> int | None:
        """The relative offset of the first entry at or behind a byte."""
        slot = bisect_left(self.positions, position)
        return self.offsets[slot] if slot < len(self.offsets) else None


def read_index(raw: bytes) -> OffsetIndex:
    """The entries as far as they rise; behind that they are preallocated, or wrong."""
    pairs = np.frombuffer(raw, dtype=">i4", count=len(raw) // 8 * 2).reshape(-1, 2)
    offsets, positions = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)
    rises = (offsets[1:] > offsets[:-1]) & (positions[1:] > positions[:-1])
    end = len(offsets) if rises.all() else int(np.argmin(rises)) + 1
    if end and (offsets[0] < 0 or positions[0] < 0 or (end == 1 and positions[0] == 0)):
        end = 0
    return OffsetIndex(array("i", offsets[:end].tobytes()), array("i", positions[:end].tobytes()))


class LogFile:
    """An open log. Whoever holds it may read from it: it is closed when nobody does any more."""

    def __init__(self, path: str, guest: Guest = _GUEST) -> None:
        source = open_source(path, guest)
        assert isinstance(source, FileSource)
        self.path = path
        self.source = source
        self.fd = source.fileno()
        self.index: OffsetIndex | None = None

    def load_index(self) -> OffsetIndex:
        """What the .index beside it says, unproven; empty where there is none that can be read."""
        if self.index is None:
            self.index = read_index(_read_index_file(self.path))
        return self.index

    def patches_in(self, position: int, size: int) -> dict[int, int]:
        """The bytes of a stretch that are not to be sent as they are on the disk."""
        patches = self.source.patches
        return {at: patches[at] for at in patches if position <= at < position + size}

    def __del__(self) -> None:
        if hasattr(self, "source"):
            self.source.close()


def _read_index_file(path: str) -> bytes:
    beside = sibling_file(path, ".index")
    try:
        return _NO_INDEX if beside is None else read_small_file(beside, _GUEST)
    except (FileNotFoundError, KafkatoolError):
        return _NO_INDEX


class LogFiles:
    """Those used last. Threads share them."""

    def __init__(
        self,
        most_files: int = MOST_FILES,
        most_index_bytes: int = MOST_INDEX_BYTES,
        mending: Mending | None = None,
    ) -> None:
        self._guest = replace(_GUEST, mending=mending)
        self._most_files = most_files
        self._most_index_bytes = most_index_bytes
        self._open: OrderedDict[str, LogFile] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: str) -> LogFile:
        """Raises FileNotFoundError or another KafkatoolError where it cannot be opened."""
        with self._lock:
            found = self._open.get(path)
            if found is not None:
                self._open.move_to_end(path)
                return found
        opened = LogFile(path, self._guest)
        opened.load_index()
        with self._lock:
            found = self._open.setdefault(path, opened)
            self._make_room(path)
        return found

    def forget(self, path: str) -> None:
        """It has changed: open it anew the next time."""
        with self._lock:
            self._open.pop(path, None)

    def _make_room(self, newest: str) -> None:
        held = sum(one.index.size for one in self._open.values() if one.index is not None)
        while len(self._open) > self._most_files or (held > self._most_index_bytes and len(self._open) > 1):
            path, oldest = next(iter(self._open.items()))
            if path == newest:
                return
            held -= oldest.index.size if oldest.index is not None else 0
            del self._open[path]
