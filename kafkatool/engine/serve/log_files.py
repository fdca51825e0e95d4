"""The open log files and their offset indexes: limited in number and size, closed when no longer used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

from kafkatool.engine.batches.indexes import OffsetIndex, sound_offset_index
from kafkatool.engine.files.source import FileSource, Guest, Mending, open_source

MOST_FILES = 512
MOST_INDEX_BYTES = 128 << 20
# Keep the pages that clients are sent in the cache: the next client asks for the same.
_GUEST = Guest(cache_keep=True)


class LogFile:
    """An open log. Holders may read from it: it is closed when nobody holds it any more."""

    def __init__(self, path: str, guest: Guest = _GUEST) -> None:
        source = open_source(path, guest)
        assert isinstance(source, FileSource)
        self.path = path
        self.source = source
        self.fd = source.fileno()
        self.index: OffsetIndex | None = None

    def load_index(self) -> OffsetIndex:
        """Return the entries of the .index beside it, unverified; empty if there is no readable one."""
        if self.index is None:
            self.index = sound_offset_index(self.path, self.source.size_hint or 0, _GUEST).packed()
        return self.index

    def patches_in(self, position: int, size: int) -> dict[int, int]:
        """Return the bytes of a range that are sent differently from those on disk, by position."""
        patches = self.source.patches
        return {at: patches[at] for at in patches if position <= at < position + size}

    def __del__(self) -> None:
        if hasattr(self, "source"):
            self.source.close()


class LogFiles:
    """The most recently used log files. Threads share them."""

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
        """Return the open file; raise FileNotFoundError or another KafkatoolError if it cannot be opened."""
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
        """Reopen the file next time, because it has changed."""
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
