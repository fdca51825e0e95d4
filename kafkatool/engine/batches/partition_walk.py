"""Walk the logs of one partition in order, even while a broker appends, rolls, deletes and truncates.

A walk remembers its place by segment and position and keeps nothing open between two rounds; the next round
yields what a broker has written since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.in_flight import in_flight
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE, Batch, BatchRun, scan_runs
from kafkatool.engine.batches.seek import EVERYWHERE, Range, seek
from kafkatool.engine.files.source import Guest, Source, open_source
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.errors import KafkatoolError
from kafkatool.format.batch import HEADER_SIZE


class SegmentLog(NamedTuple):
    """The .log file of one segment."""

    base_offset: int
    path: str


class Walked(NamedTuple):
    """Something found on the walk, and where."""

    log: SegmentLog
    source: Source
    item: BatchRun | Batch | Damage
    size: int = 0
    """Bytes since the previous item."""


Listing = Callable[[], Sequence[SegmentLog]]
"""Returns the current logs, sorted by base offset."""


class PartitionWalk:
    """Yields what a partition holds, in order; on later rounds, what was added since."""

    def __init__(
        self,
        logs: Listing,
        guest: Guest,
        *,
        wanted: Range = EVERYWHERE,
        is_growing: bool = False,
        max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
    ) -> None:
        """With `is_growing`, an incomplete tail of the last log is not yet damage; it is read again later."""
        self.logs = logs
        self.guest = guest
        self.wanted = wanted
        self.is_growing = is_growing
        self.max_batch_size = max_batch_size
        self._base = -1
        self._position: int | None = None
        self._zeros: tuple[str, int, int] | None = None
        """Log, position and end of a tail that held nothing but zeros."""

    def go_to(self, base_offset: int, position: int) -> None:
        """Continue from here in the next round."""
        self._base, self._position = base_offset, position

    def items(self) -> Iterator[Walked | Note | Caution | Failure]:
        """Yield what lies between the last place and the current end."""
        logs = self.logs()
        while True:
            if self.is_growing:
                # Listed before it is read: a log that has a successor is finished.
                logs = self.logs()
            at = bisect_left(logs, self._base, key=lambda log: log.base_offset)
            if at == len(logs):
                return
            log = logs[at]
            if log.base_offset != self._base:
                self._base, self._position = log.base_offset, None
            is_last = at + 1 == len(logs)
            yield from self._log_items(log, is_last)
            if is_last:
                return
            self._base, self._position = logs[at + 1].base_offset, None

    def _log_items(self, log: SegmentLog, is_last: bool) -> Iterator[Walked | Note | Caution | Failure]:
        try:
            source = open_source(log.path, self.guest)
        except FileNotFoundError:
            yield Note(f"{log.path}: deleted since its directory was listed")
            return
        except KafkatoolError as error:
            yield Failure(str(error))
            return
        with source:
            size = source.size_hint or 0
            if self._position is not None and size < self._position:
                yield Note(f"{log.path}: truncated from {self._position} to {size} bytes")
            start = self._start(log, source)
            self._position = start
            # A preallocated log can end in a gigabyte of zeros: they are not read again in every round.
            place = (log.path, start, size)
            if place == self._zeros and not any(source.read(start, HEADER_SIZE)):
                return
            walk = scan_runs(source, start, max_batch_size=self.max_batch_size)
            yield from self._scanned(log, source, self._finished(walk, log, is_last))
            if source.look_again():
                yield Note(f"{log.path}: {source.changed}")
            if source.unreadable:
                yield Caution(f"{log.path}: the disk fails: image it before doing anything else")

    def _start(self, log: SegmentLog, source: Source) -> int:
        if self._position is None:
            return 0 if self.wanted.is_open else seek(source, log.path, self.wanted, self.guest)
        return min(source.size_hint or 0, self._position)

    def _finished(
        self, walk: Iterator[BatchRun | Batch | Damage], log: SegmentLog, is_last: bool
    ) -> Iterator[BatchRun | Batch | Damage]:
        """Leave out what may still be in flight: in a growing log, bad items without a good batch after."""
        if not (self.is_growing and is_last):
            yield from walk
            return
        held: list[Batch | Damage] = []
        for item in walk:
            if isinstance(item, Damage) or (isinstance(item, Batch) and not item.is_valid):
                held.append(item)
                continue
            yield from held
            held.clear()
            yield item
        match held:
            case [Damage(kind=FindingClass.ZERO_FILLED, position=position, end_position=end)]:
                self._zeros = log.path, position, end

    def _scanned(
        self, log: SegmentLog, source: Source, items: Iterator[BatchRun | Batch | Damage]
    ) -> Iterator[Walked]:
        for item in items:
            if not isinstance(item, Damage) and self._is_beyond(item):
                return
            if isinstance(item, Damage):
                item = in_flight(item, source)
            end = end_of(item)
            before = self._position or 0
            self._position = max(end, before)
            yield Walked(log, source, item, self._position - before)

    def _is_beyond(self, item: BatchRun | Batch) -> bool:
        """Whether this and everything after it lies past the wanted range."""
        if isinstance(item, BatchRun):
            item = next(item.batches())
        return self.wanted.is_behind(item)


def end_of(item: BatchRun | Batch | Damage) -> int:
    """Return its end position (exclusive)."""
    if isinstance(item, BatchRun):
        return item.position + item.end - item.start
    if isinstance(item, Batch):
        return item.position + item.header.size
    return item.end_position
