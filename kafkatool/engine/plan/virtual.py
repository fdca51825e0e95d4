"""A partition directory as it will be: changed in memory only, then turned into the steps of a plan.

A file is either bytes to be written, or a range of an existing file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from kafkatool.engine.directory.log_dir import Partition
from kafkatool.engine.files.source import ByteRange, Guest, Source, open_source, without_hole
from kafkatool.engine.plan.steps import Content, FileStretch, Step, remove, rename, write
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds

SMALL_FILE = 64 << 20


class Window:
    """A range of a source as a source of its own."""

    def __init__(self, inner: Source, start: int, end: int) -> None:
        self.name = inner.name
        self.size_hint: int | None = end - start
        self.unreadable: list[ByteRange] = []
        self.changed: str | None = None
        self._inner = inner
        self._start = start
        self._end = end

    def read(self, position: int, size: int) -> bytes:
        position += self._start
        data = self._inner.read(position, max(0, min(size, self._end - position)))
        self.unreadable = [(a - self._start, b - self._start) for a, b in self._inner.unreadable]
        return data

    def next_data(self, position: int) -> int:
        return min(self._end, self._inner.next_data(position + self._start)) - self._start

    def close(self) -> None: ...

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *exc: object) -> None: ...


class Held:
    """Bytes that are not on disk yet, as a source."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.size_hint: int | None = len(data)
        self.unreadable: list[ByteRange] = []
        self.changed: str | None = None
        self._data = data

    def read(self, position: int, size: int) -> bytes:
        return self._data[position : position + max(0, size)]

    def next_data(self, position: int) -> int:
        return position

    def close(self) -> None: ...

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *exc: object) -> None: ...


class UnreadableFile(KafkatoolError):
    """The disk cannot read the bytes of a file."""


class VirtualDirectory:
    """The files of a partition by name, without those that kafkatool keeps itself."""

    def __init__(self, partition: Partition, guest: Guest) -> None:
        self.path = partition.path
        self.files: dict[str, Content] = {
            entry.name: FileStretch(entry.path, 0, entry.size)
            for entry in partition.files
            if entry.kind is not kinds.BACKUP
        }
        self._before = dict(self.files)
        self._guest = guest
        self._reasons: dict[str, str] = {}
        self.unreadable: set[str] = set()
        """Existing files that the disk could not read in full."""

    def __contains__(self, name: str) -> bool:
        return name in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.files))

    def size(self, name: str) -> int:
        content = self.files[name]
        return len(content) if isinstance(content, bytes) else content.end - content.start

    def read(self, name: str) -> bytes:
        """Return a whole side file. Raises UnreadableFile if the disk cannot read it."""
        content = self.files[name]
        return content if isinstance(content, bytes) else self._read(content)

    def _read(self, content: FileStretch) -> bytes:
        with open_source(content.path, self._guest) as source:
            # A broker searches a whole offset index, including its preallocated part.
            is_searched = content.path.endswith(".index")
            data = source.read(0, SMALL_FILE if is_searched else without_hole(source, SMALL_FILE))
            if source.unreadable:
                self.unreadable.add(content.path)
                start, end = source.unreadable[0]
                name = os.path.basename(content.path)
                raise UnreadableFile(f"{name}: the disk does not give bytes {start} to {end - 1}")
        return data[content.start : content.end]

    @contextmanager
    def open(self, name: str) -> Iterator[Source]:
        """Open a log, to be walked."""
        content = self.files[name]
        if isinstance(content, bytes):
            yield Held(name, content)
            return
        with open_source(content.path, self._guest) as source:
            yield Window(source, content.start, content.end)
            if source.unreadable:
                self.unreadable.add(content.path)

    def write(self, name: str, content: bytes, why: str) -> None:
        self.files[name] = content
        self._reasons[name] = why

    def path_of(self, name: str) -> str:
        """Return the present path of a file that exists already."""
        content = self.files[name]
        assert isinstance(content, FileStretch)
        return content.path

    def mend(self, name: str, patches: Mapping[int, int], why: str) -> None:
        """Have a file written with some bytes changed; the guest must apply the same to what is read."""
        content = self.files[name]
        assert isinstance(content, FileStretch)
        self.files[name] = replace(content, patches=tuple(sorted(patches.items())))
        self._reasons[name] = why

    def cut(self, name: str, size: int, why: str) -> None:
        content = self.files[name]
        if isinstance(content, bytes):
            self.files[name] = content[:size]
        else:
            self.files[name] = content.part(0, size)
            if content.patches:
                why = f"{self._why(name)}; {why}"
        self._reasons[name] = why

    def remove(self, name: str, why: str) -> None:
        if self.files.pop(name, None) is not None:
            self._reasons[name] = why

    def rename(self, name: str, target: str, why: str) -> None:
        self.files[target] = self.files.pop(name)
        self._reasons[name] = self._reasons[target] = why

    def stages(self) -> list[tuple[Step, ...]]:
        """Return the steps from the directory as it is to this one: removals, renames, writes.

        An incomplete swap is removed first: without the `.cleaned` files beside it, it would pass for a
        complete one. Renames go offset by offset: a broker deletes everything between two that still have to
        be swapped.
        """
        moved = self._moved()
        gone = [name for name in sorted(self._before) if name not in self.files and name not in moved]
        removals = [remove(self._at(name), self._why(name)) for name in gone]
        renames: dict[str, list[Step]] = {}
        writes = []
        for source, target in moved.items():
            if target in self._before:
                removals.append(remove(self._at(target), self._why(target)))
            step = rename(self._at(source), self._at(target), self._why(source))
            renames.setdefault(target.partition(".")[0], []).append(step)
        for name in sorted(self.files):
            content = self.files[name]
            if name not in moved.values() and not self._is_as_before(name, content):
                writes.append(write(self._at(name), content, self._why(name)))
        swaps = [step for step in removals if step.path.endswith(".swap")]
        removals = [step for step in removals if step not in swaps]
        return [tuple(stage) for stage in (swaps, removals, *renames.values(), writes) if stage]

    def _moved(self) -> dict[str, str]:
        """Return old name -> new name of the files that only move."""
        found = {}
        for name, content in sorted(self.files.items()):
            if not isinstance(content, FileStretch):
                continue
            source = os.path.basename(content.path)
            if source != name and source not in self.files and self._before.get(source) == content:
                found[source] = name
        return found

    def _is_as_before(self, name: str, content: Content) -> bool:
        before = self._before.get(name)
        if before == content:
            return True
        if before is None or isinstance(content, FileStretch) or not isinstance(before, FileStretch):
            return False
        try:
            there = self._read(before)
        except UnreadableFile:
            return False
        # Zeros after the entries are what a broker preallocates, and its own recovery leaves them too.
        is_index = name.endswith(("index", ".log"))
        return there == (content.ljust(len(there), b"\0") if is_index else content)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _why(self, name: str) -> str:
        return self._reasons.get(name, "")
