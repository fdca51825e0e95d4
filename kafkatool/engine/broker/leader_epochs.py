"""The start offset of every leader epoch of a log, in memory.

Epochs and offsets both rise. The log itself writes the file beside it, `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkatool.format.state.checkpoint import EpochStart

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last record."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one log. Methods that change them return whether they did."""

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._starts = {entry.epoch: entry.start_offset for entry in entries}
        self.latest_epoch = max(self._starts, default=None)

    @property
    def entries(self) -> list[EpochStart]:
        return [EpochStart(epoch, self._starts[epoch]) for epoch in sorted(self._starts)]

    @property
    def latest(self) -> EpochStart | None:
        return None if (epoch := self.latest_epoch) is None else EpochStart(epoch, self._starts[epoch])

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin an epoch; entries at the end that contradict it are removed."""
        latest = self.latest
        if latest is not None and latest.epoch == epoch and start_offset >= latest.start_offset:
            return False
        self._drop_from_end(lambda entry: entry.epoch >= epoch or entry.start_offset >= start_offset)
        self._starts[epoch] = start_offset
        self.latest_epoch = epoch
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove the epochs that begin at or after the end of the log."""
        return self._drop_from_end(lambda entry: entry.start_offset >= end_offset)

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove the epochs before the start of the log; the one that reaches into it begins there."""
        gone = [entry for entry in self.entries if entry.start_offset <= start_offset]
        # Kafka stops at the first entry to keep; in a sorted list that is the same.
        for entry in gone:
            del self._starts[entry.epoch]
        if gone:
            self._starts[gone[-1].epoch] = start_offset
        return bool(gone)

    def clear(self) -> bool:
        had_any = bool(self._starts)
        self._starts.clear()
        self.latest_epoch = None
        return had_any

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """Return where an epoch, or the last one before it, ends; None if unknown."""
        latest = self.latest
        if epoch == UNDEFINED or latest is None or epoch > latest.epoch:
            return None
        if epoch == latest.epoch:
            return EpochEnd(epoch, log_end_offset)
        following = min(known for known in self._starts if known > epoch)
        floor = max((known for known in self._starts if known <= epoch), default=epoch)
        return EpochEnd(floor, self._starts[following])

    def epoch_at(self, offset: int) -> int | None:
        """Return the epoch in which an offset was written; None below the first entry."""
        reached = [entry.epoch for entry in self.entries if entry.start_offset <= offset]
        return reached[-1] if reached else None

    def _drop_from_end(self, is_wrong: Callable[[EpochStart], bool]) -> bool:
        dropped = False
        while (latest := self.latest) is not None and is_wrong(latest):
            del self._starts[latest.epoch]
            self.latest_epoch = max(self._starts, default=None)
            dropped = True
        return dropped
