"""Walk a part of one log once, for any caller that needs its batches.

for window in walk.windows():       the common case, good batches in order: the caller checks and counts
    walk.position += ...            them, up to the first one that is not plainly good
for item in walk.rest(position):    everything from there on, damage included
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.in_flight import in_flight
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE, WINDOW, Batch, BatchRun, scan_runs
from kafkatool.engine.files.source import AnySource
from kafkatool.engine.jobs.survey import Split
from kafkatool.format.batch import HEADER_SIZE, read_header

SegmentItem = BatchRun | Batch | Damage


class SegmentWalk:
    """One walk over the batches that begin in a split, from `position` on."""

    def __init__(
        self,
        source: AnySource,
        split: Split,
        max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
        *,
        is_active: bool = False,
    ) -> None:
        self.source = source
        self.split = split
        self.position = split.start
        self.size = source.size_hint or 0
        self.end = min(split.end, self.size)
        self._is_active = is_active
        self.max_batch_size = max_batch_size

    @property
    def unreadable_blocks(self) -> int:
        return sum(-(-(end - at) // 4096) for at, end in self.source.unreadable)

    def windows(self) -> Iterator[bytes]:
        """Yield the bytes at `position`, as long as the caller advances it or a larger window may help."""
        want = WINDOW
        while want and self.position < self.end:
            before = self.position
            window = self.source.read(before, want)
            yield window
            want = WINDOW if self.position > before else self._larger(window, want)

    def _larger(self, window: bytes, want: int) -> int:
        """Return the size of a larger window that holds the batch at `position`; 0 if none can."""
        size = read_header(window).size if len(window) >= HEADER_SIZE else 0
        return size if want < size <= min(self.size - self.position, self.max_batch_size) else 0

    def rest(self, start: int, *, skip: bool = False) -> Iterator[SegmentItem]:
        """Yield everything from `start` to the end of the split; with `skip`, without the good batch there.

        The scan still reads that batch, to know the offset it is at.
        """
        for item in scan_runs(self.source, start, max_batch_size=self.max_batch_size):
            if item.position >= self.end:
                return
            if isinstance(item, Damage):
                yield self._judged(item)
            elif isinstance(item, BatchRun):
                run = (item.after_first() if skip else item).before(self.end)
                if run.batch_count:
                    yield run
            elif not skip:
                yield item
            skip = False

    def _judged(self, damage: Damage) -> Damage:
        """Return the damage, or a note if it is the end of a log that is in use."""
        damage = in_flight(damage, self.source)
        is_rest = damage.kind is FindingClass.ZERO_FILLED and damage.end_position == self.size
        if not (is_rest and self._is_active):
            return damage
        return replace(damage, severity=Severity.NOTE, message="the preallocated rest of the active segment")


def in_place(items: Iterable[SegmentItem]) -> Iterator[SegmentItem]:
    """Leave out batches that do not count: damaged ones, and intact ones that do not belong there."""
    held: Batch | None = None
    for item in items:
        if held is not None and not (isinstance(item, Damage) and item.position == held.position):
            yield held
        held = None
        if not isinstance(item, Batch):
            yield item
        elif item.is_valid:
            held = item
    if held is not None:
        yield held
