"""Find single batches in a log by position or offset, from headers alone, as Kafka's index checks do.

A walk follows Kafka's chain: the length of a batch leads to the next one, nothing is verified. Samples of
each walk are kept: looking up a million offsets costs about one walk, however damaged the index is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from kafkatool.engine.batches.headers import FoundBatch, follow, next_batch
from kafkatool.engine.files.source import Source
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import (
    CODEC_MASK,
    NO_TIMESTAMP,
    BatchHeader,
)
from kafkatool.format.legacy import read_messages
from kafkatool.format.record import DEFAULT_MAX_INFLATED, read_records

WINDOW = 64 << 10
SAMPLE_EVERY = 64
WALKS_KEPT = 64


class BatchFinder:
    """Finds batches in one log; raises FormatError where Kafka's own walk throws."""

    def __init__(
        self,
        source: Source,
        *,
        max_batch_size: int = DEFAULT_MAX_INFLATED,
        max_inflated: int = DEFAULT_MAX_INFLATED,
    ) -> None:
        self.source = source
        self.size = source.size_hint or 0
        self.max_batch_size = max_batch_size
        self.max_inflated = max_inflated
        self._window = b""
        self._window_at = 0
        self._walks: dict[int, _HeaderWalk] = {}

    def batch_at(self, position: int) -> FoundBatch | None:
        """Return the batch that begins at a position; None if too few bytes are left for it."""
        return next_batch(self._bytes, position, self.size)

    def find(self, start: int, offset: int) -> FoundBatch | None:
        """Return the first batch of the chain from `start` whose last offset is at least `offset`."""
        if start < 0 or start > self.size:
            raise FormatError("position", start, expected=f"0 to {self.size}", found=start)
        walk = self._walks.pop(start, None) or _HeaderWalk(start)
        self._walks[start] = walk
        if len(self._walks) > WALKS_KEPT:
            del self._walks[next(iter(self._walks))]
        return walk.find(self, offset)

    def chain(self, position: int) -> Iterator[FoundBatch]:
        """Follow the lengths from a position to the end."""
        return follow(self.batch_at, position)

    def max_record_timestamp(self, batch: FoundBatch) -> int:
        """Return the largest timestamp of a batch's records, at least -1; raise FormatError if damaged."""
        if batch.size > self.max_batch_size:
            raise TooLarge("batch", batch.position, expected=self.max_batch_size, found=batch.size)
        data = self.source.read(batch.position, batch.size)
        return max(NO_TIMESTAMP, max(self._timestamps(batch, data), default=NO_TIMESTAMP))

    def _timestamps(self, batch: FoundBatch, data: bytes) -> Iterator[int]:
        header = batch.header
        if isinstance(header, BatchHeader):
            records = read_records(header, data, max_inflated=self.max_inflated)
            return (record.timestamp_ms for record in records)
        if not header.attributes & CODEC_MASK:
            # The time of a single message is readable even if its key and value are not.
            return iter((header.timestamp,))
        return (message.timestamp_ms for message in read_messages(data, max_inflated=self.max_inflated))

    def _bytes(self, position: int, size: int) -> bytes:
        at = position - self._window_at
        if at < 0 or at + size > len(self._window):
            self._window = self.source.read(position, WINDOW)
            self._window_at, at = position, 0
        return self._window[at : at + size]


class _HeaderWalk:
    """One chain of batches, walked up to a frontier: every 64th position, and the highest offset so far."""

    def __init__(self, start: int) -> None:
        self.frontier = start
        self.highest: int | None = None
        self.positions: list[int] = []
        self.highest_by_sample: list[int] = []
        self.steps = 0

    def find(self, finder: BatchFinder, offset: int) -> FoundBatch | None:
        if self.highest is not None and self.highest >= offset:
            sample = bisect_left(self.highest_by_sample, offset)
            return next(b for b in finder.chain(self.positions[sample]) if b.header.last_offset >= offset)
        for batch in finder.chain(self.frontier):
            if self._step(batch) >= offset:
                return batch
        return None

    def _step(self, batch: FoundBatch) -> int:
        """Remember a batch; return its last offset."""
        self.frontier = batch.position + batch.size
        reached = batch.header.last_offset
        self.highest = reached if self.highest is None else max(self.highest, reached)
        if self.steps % SAMPLE_EVERY == 0:
            self.positions.append(batch.position)
            self.highest_by_sample.append(self.highest)
        self.highest_by_sample[-1] = self.highest
        self.steps += 1
        return reached
