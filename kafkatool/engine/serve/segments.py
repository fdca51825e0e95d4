"""One log file as it is served: find the byte where the batch of an offset begins, and work around damage.

A trusted log is not read: only the headers from an index entry to the wanted batch are looked at. If they do
not match the index, or if the log cannot be trusted, all of it is walked once, with checksums; what fails is
a gap from then on, and the index made by that walk is used.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.headers import FoundBatch, header_at
from kafkatool.engine.batches.indexes import OffsetIndex
from kafkatool.engine.batches.scan import NO_END
from kafkatool.engine.broker.derived_files import DEFAULT_INTERVAL, index_segment
from kafkatool.engine.directory.log_dir import Segment
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.serve.log_files import LogFile, LogFiles
from kafkatool.errors import KafkatoolError
from kafkatool.format.batch import MAX_INT32

_LONGEST_WALK = 1024  # headers from an index entry on; beyond that the index is no help


class ServedGap(NamedTuple):
    """Bytes that are no good batches, reported once to the operator."""

    position: int
    end_position: int
    damage: Damage


class DamagedError(KafkatoolError):
    """The requested offset is at damage, or after it."""

    def __init__(self, path: str, gap: ServedGap) -> None:
        super().__init__(f"{path}: {gap.damage.message} at byte {gap.position}")
        self.path = path
        self.gap = gap


class _Astray(Exception):
    """The log does not match its index, or its batch lengths are wrong."""


class ServedSegment:
    """The log of one segment; `end` is the byte up to which it is served."""

    def __init__(self, segment: Segment, files: LogFiles, guest: Guest, *, skips_damage: bool) -> None:
        assert segment.log is not None
        self.segment = segment
        self.base_offset = segment.base_offset
        self.path = segment.log.path
        self.end = segment.log.size
        self.gaps: list[ServedGap] = []
        self.is_doubtful = False
        """It cannot be trusted: it is walked before anything of it is served."""
        self.is_checked = False
        self.next_offset = segment.base_offset
        """The offset after the last good batch; known once it is checked."""
        self._files = files
        self._guest = guest
        self._skips_damage = skips_damage
        self._own_index: OffsetIndex | None = None
        self._lock = threading.Lock()

    def file(self) -> LogFile:
        return self._files.get(self.path)

    def index(self) -> OffsetIndex:
        return self._own_index or self.file().load_index()

    def find(self, offset: int) -> FoundBatch | None:
        """Return the first batch that ends at or after an offset; None if there is none.

        Raises DamagedError if there is damage before it that is not to be skipped.
        """
        if self.is_doubtful:
            self.check()
        try:
            return self._find(offset)
        except _Astray:
            self.check()
            return self._find(offset)

    def end_of_slice(self, position: int) -> int:
        """Return the byte up to which good batches follow each other from a position on."""
        at = bisect_right(self.gaps, position, key=lambda gap: gap.position)
        return min(self.end, self.gaps[at].position) if at < len(self.gaps) else self.end

    def check(self) -> None:
        """Walk the whole log with checksums, once; its damage is in `gaps` afterwards."""
        with self._lock:
            if self.is_checked:
                return
            with open_source(self.path, self._guest) as source:
                found = index_segment(source, self.base_offset, DEFAULT_INTERVAL)
            self._own_index = OffsetIndex.whole(bytes(found.offset_entries), self.base_offset).sound(NO_END)
            self.gaps = list(_gaps(found.damage, self.end))
            indexed = self._own_index.offsets
            highest = indexed[-1] + self.base_offset + 1 if indexed else 0
            self.next_offset = max(found.next_offset, highest)
            self.is_checked = True

    def finish(self) -> int:
        """Cut an unfinished tail off the last segment of a log, once it is checked; return the log end.

        A complete batch at the end with a bad checksum was finished: it is damage, unless damage is skipped.
        """
        last = self.gaps[-1] if self.gaps else None
        if last is None or last.end_position < self.end:
            return self.next_offset
        header = header_at(self.file().source, last.position)
        is_whole = header is not None and header.size == last.end_position - last.position
        if not is_whole or header is None or self._skips_damage or header.last_offset < self.next_offset:
            self.end = self.gaps.pop().position
            return self.next_offset
        return header.last_offset + 1

    def _find(self, offset: int) -> FoundBatch | None:
        file = self.file()
        start, most = self._start(file, offset)
        passed: ServedGap | None = None
        for steps, found in enumerate(self._chain(file, start)):
            if isinstance(found, ServedGap):
                passed = found
                continue
            reached = found.header.last_offset
            if not steps and reached > most and not self.is_checked:
                raise _Astray
            if reached >= offset:
                if passed is not None and offset < found.header.base_offset:
                    raise DamagedError(self.path, passed)
                return found
            passed = None
            if steps > _LONGEST_WALK and not self.is_checked:
                raise _Astray
        if passed is not None:
            raise DamagedError(self.path, passed)
        return None

    def _start(self, file: LogFile, offset: int) -> tuple[int, int]:
        """Return the position that the index gives, and the offset that the batch there ends at or below."""
        entry = (self._own_index or file.load_index()).floor(offset)
        if not 0 < entry.position < self.end:
            return 0, self.base_offset + MAX_INT32
        return entry.position, entry.offset(self.base_offset)

    def _chain(self, file: LogFile, position: int) -> Iterator[FoundBatch | ServedGap]:
        """Yield header after header, and the damage between them, unless it is to be skipped."""
        while position < self.end:
            gap = self._gap_at(position)
            if gap is not None:
                position = gap.end_position
                if not self._skips_damage:
                    yield gap
                continue
            header = header_at(file.source, position)
            if header is None or header.size > self.end - position:
                if not self.is_checked:
                    raise _Astray
                return
            yield FoundBatch(position, header.size, header)
            position += header.size

    def _gap_at(self, position: int) -> ServedGap | None:
        if not self.gaps:
            return None
        at = bisect_right(self.gaps, position, key=lambda gap: gap.position) - 1
        return self.gaps[at] if at >= 0 and position < self.gaps[at].end_position else None


def _gaps(damages: list[Damage], end: int) -> Iterator[ServedGap]:
    """Yield the damage in order, without overlaps."""
    reached = 0
    for damage in sorted(damages, key=lambda one: one.position):
        start, stop = max(damage.position, reached), min(damage.end_position, end)
        if not _is_whole(damage) and start < stop:
            yield ServedGap(start, stop, damage)
            reached = stop


def _is_whole(damage: Damage) -> bool:
    """Check whether a damaged batch can be read all the same: only its offset or a record is wrong."""
    if damage.kind is FindingClass.BAD_OFFSET:
        return damage.severity is Severity.DEGRADED
    return damage.kind is FindingClass.BAD_RECORD
