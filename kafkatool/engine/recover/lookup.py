"""Find an offset as a loading broker does in a log that it does not scan, with the bytes it fails on.

It looks in the offset index, then follows the batches from there without checking checksums. Releases differ
in what they read of the batches on the way:

    3.9        the last offset, until one reaches the offset; records are never read
    4.0        the same, and the first offset of the batch found
    from 4.1   the first offset of every batch on the way

For magic 2 that is a field. An entry of magic 0 or 1 whose attributes name a codec must be decompressed for
it; if only a bit flip made it look compressed, that throws, and the broker does not start.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkatool.engine.batches.indexes import OffsetIndex
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.files.source import Source
from kafkatool.engine.recover.result import BrokerThrows, PartitionLoading, unreadable_in
from kafkatool.errors import FormatError
from kafkatool.format.batch import CODEC_MASK, HEADER_SIZE, BatchHeader
from kafkatool.format.legacy import read_messages
from kafkatool.format.names import segment_file
from kafkatool.format.record import DEFAULT_MAX_INFLATED
from kafkatool.format.release import Release


class SegmentLookup:
    """One segment whose index is trusted. Raises BrokerThrows where a broker fails."""

    def __init__(self, log: PartitionLoading, base: int, source: Source) -> None:
        self._name = segment_file(base, ".log")
        self._base = base
        self._release = log.how.release
        self._index = OffsetIndex.whole(log.read_or_fail(segment_file(base, ".index")), base)
        self._source = source

    def last_indexed_offset(self) -> int:
        """Return the offset of the last entry; the base offset if there is none."""
        slots = len(self._index.offsets)
        return self._index.entry(slots - 1).offset(self._base) if slots else self._base

    def position_of(self, offset: int) -> int | None:
        """Return where a broker begins to read for an offset; None if it finds no batch."""
        start = max(0, self._index.floor(offset).position)
        find = self._by_first_offset if self._release >= Release.V4_1 else self._by_last_offset
        found = find(start, offset)
        return None if found is None else found.position

    def batches(self, start: int, stop: int | None = None) -> Iterator[Batch]:
        """Yield the broker's chain of batches between two positions; raise BrokerThrows where it throws."""
        for item in scan(self._source, start, stop, chain=True):
            if isinstance(item, Batch):
                yield item
            elif item.ends_chain:
                self._fail_if_unreadable(item.position, item.position + HEADER_SIZE)
                if item.throws:
                    raise self._throws(item.position, item.message)
                return

    def check_readable(self, batch: Batch) -> None:
        """Raise BrokerThrows if the disk does not return what a broker reads of a batch."""
        header = batch.header
        has_producer = header.producer_id >= 0
        self._fail_if_unreadable(
            batch.position, batch.position + (header.size if has_producer else HEADER_SIZE)
        )

    def _by_last_offset(self, start: int, offset: int) -> Batch | None:
        for batch in self.batches(start):
            if batch.header.last_offset >= offset:
                if self._release >= Release.V4_0:
                    self._first_offset(batch)
                return batch
        return None

    def _by_first_offset(self, start: int, offset: int) -> Batch | None:
        before: Batch | None = None
        for batch in self.batches(start):
            first = self._first_offset(batch)
            if first == offset:
                return batch
            if first > offset:
                return before if before is not None and before.header.last_offset >= offset else batch
            before = batch
        return before if before is not None and before.header.last_offset >= offset else None

    def _first_offset(self, batch: Batch) -> int:
        header = batch.header
        if isinstance(header, BatchHeader) or not header.attributes & CODEC_MASK or batch.data is None:
            return header.base_offset
        try:
            return next(iter([*read_messages(batch.data, max_inflated=DEFAULT_MAX_INFLATED)])).offset
        except FormatError as error:
            raise self._throws(batch.position, f"an entry of magic {header.magic}, and {error}") from None

    def _throws(self, position: int, why: str) -> BrokerThrows:
        return BrokerThrows(f"{self._name}: byte {position}: {why}")

    def _fail_if_unreadable(self, start: int, end: int) -> None:
        bad = unreadable_in(self._source, start, end)
        if bad is not None:
            raise BrokerThrows(f"{self._name}: the disk does not give bytes {bad[0]} to {bad[1] - 1}")
