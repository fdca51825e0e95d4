"""Walk the batches of a segment as columns, up to where the cleaner stops.

A broker's cleaner follows the lengths and gives up at an impossible one. It does not check checksums: it
copies a batch with a wrong one, and gives a correct one to what it rewrites. So the walk continues after such
a batch, and marks it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import NamedTuple, TypeVar, cast

import numpy as np

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.scan import Batch, BatchRun, scan_runs
from kafkatool.engine.compaction.cleanable_log import CleanerStops, SourceSegment
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.format.batch import MAX_INT32, BatchHeader
from kafkatool.format.columns import BadRecords, RecordColumns, RecordDecoder
from kafkatool.format.legacy import LegacyHeader

_Item = TypeVar("_Item")
_LARGE = 8 << 20
"""Size of a segment from which a thread pays off."""


class CleanableStretch(NamedTuple):
    """Whole batches of magic 2, with all their records."""

    columns: RecordColumns
    window: bytes
    shift: int
    """Subtract this from a position in the file to get the place in `window`."""
    has_bad_checksum: bool = False
    """It is a single batch that does not match its checksum."""

    @property
    def is_plain(self) -> bool:
        """Whether its records lie in `window` itself, not decompressed elsewhere."""
        return self.columns.data.obj is self.window

    def raw(self, row: int) -> memoryview:
        """Return the bytes of a batch."""
        start = int(self.columns.batches.position[row]) - self.shift
        return memoryview(self.window)[start : start + int(self.columns.batches.size[row])]


class LegacyEntry(NamedTuple):
    """One message, or one wrapper of messages, of magic 0 or 1."""

    position: int
    header: LegacyHeader
    data: memoryview


def walk(
    segment: SourceSegment, decoder: RecordDecoder, guest: Guest, start: int = 0
) -> Iterator[CleanableStretch | LegacyEntry]:
    """Yield all batches from a position on; raise CleanerStops where a broker's cleaner would.

    Each item is valid until the next one is asked for.
    """
    items = _walk(segment, decoder, guest, start)
    return _ahead(items) if segment.size > _LARGE else items


def _walk(
    segment: SourceSegment, decoder: RecordDecoder, guest: Guest, start: int
) -> Iterator[CleanableStretch | LegacyEntry]:
    doubtful: Batch | None = None
    with open_source(segment.path, guest) as source:
        for item in scan_runs(source, start, chain=True):
            if isinstance(item, BatchRun):
                yield from _stretches(segment, decoder, item.window, item.start, item.end, item.position)
            elif isinstance(item, Batch):
                doubtful = None if item.is_valid else item
                if item.is_valid:
                    yield from _single(segment, decoder, item)
            elif doubtful is not None and _is_walked_over(doubtful, item, segment.base_offset):
                for one in _single(segment, decoder, doubtful):
                    assert isinstance(one, CleanableStretch)
                    yield one._replace(has_bad_checksum=True)
            else:
                raise CleanerStops(segment.path, item.position, item.message)


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield the items; a thread reads, checks and decodes the next while the caller uses this one."""
    from concurrent.futures import ThreadPoolExecutor

    with closing(cast(Generator[_Item, None, None], items)), ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item


def _is_walked_over(batch: Batch, damage: Damage, base_offset: int) -> bool:
    """Return whether the damage is only a wrong checksum of a batch that belongs to this segment."""
    header = batch.header
    if damage.kind is not FindingClass.BAD_CRC or damage.position != batch.position:
        return False
    if not isinstance(header, BatchHeader) or header.magic != 2:
        return False
    return base_offset <= header.base_offset <= header.last_offset <= base_offset + MAX_INT32


def _single(
    segment: SourceSegment, decoder: RecordDecoder, batch: Batch
) -> Iterator[CleanableStretch | LegacyEntry]:
    """Yield a batch that is not part of a run."""
    if batch.data is None:
        raise CleanerStops(segment.path, batch.position, f"a batch of {batch.header.size} bytes")
    if isinstance(batch.header, LegacyHeader):
        yield LegacyEntry(batch.position, batch.header, batch.data)
        return
    window = bytes(batch.data)
    yield from _stretches(segment, decoder, window, 0, len(window), batch.position)


def _stretches(
    segment: SourceSegment, decoder: RecordDecoder, window: bytes, start: int, end: int, position: int
) -> Iterator[CleanableStretch]:
    pieces: list[RecordColumns] = []
    for columns in decoder.decode(window, start, end, position):
        if isinstance(columns, BadRecords):
            raise CleanerStops(segment.path, columns.position, f"its records: {columns.error}")
        if not pieces and int(columns.batches.records_count.sum()) == len(columns):
            yield CleanableStretch(columns, window, position - start)
            decoder.turn()
            continue
        # A very large batch comes in pieces, each in the memory of the one before.
        pieces.append(_copied(columns))
        if sum(map(len, pieces)) == int(columns.batches.records_count[0]):
            yield CleanableStretch(_joined(pieces), window, position - start)
            decoder.turn()
            pieces = []


def _copied(columns: RecordColumns) -> RecordColumns:
    return RecordColumns(columns.data, columns.batches, *(column.copy() for column in columns[2:]))


def _joined(pieces: list[RecordColumns]) -> RecordColumns:
    parts = (np.concatenate(column) for column in zip(*(piece[2:] for piece in pieces), strict=True))
    return RecordColumns(pieces[0].data, pieces[-1].batches, *parts)
