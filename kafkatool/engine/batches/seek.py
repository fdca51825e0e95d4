"""Find the position of an offset or a time in a log through its indexes.

An index is a hint: the batch that it points at is verified, and a wrong index only costs a walk from the
start of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.indexes import OffsetIndex, TimeIndex, read_offset_index, read_time_index
from kafkatool.engine.batches.resync import Resync
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE, NO_END, Batch, scan
from kafkatool.engine.files.source import Guest, Source
from kafkatool.format.batch import CODEC_MASK
from kafkatool.format.names import base_offset


@dataclass(frozen=True, slots=True)
class Range:
    """A range of offsets and times in milliseconds: from inclusive, to exclusive; None is open."""

    from_offset: int | None = None
    to_offset: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self == EVERYWHERE

    def holds(self, offset: int, timestamp_ms: int) -> bool:
        """Whether one record is in the range."""
        return (
            (self.from_offset is None or offset >= self.from_offset)
            and (self.to_offset is None or offset < self.to_offset)
            and (self.from_ms is None or timestamp_ms >= self.from_ms)
            and (self.to_ms is None or timestamp_ms < self.to_ms)
        )

    def touches(self, batch: Batch) -> bool:
        """Whether a batch may hold a record in the range, by its header."""
        header = batch.header
        first = _first_offset(batch)
        return (
            (self.from_offset is None or header.last_offset >= self.from_offset)
            and (self.to_offset is None or first is None or first < self.to_offset)
            and (self.from_ms is None or header.max_timestamp >= self.from_ms)
            and (self.to_ms is None or _earliest(batch) < self.to_ms)
        )

    def is_behind(self, batch: Batch) -> bool:
        """Whether this batch and all after it lie past the range."""
        first = _first_offset(batch)
        return batch.is_valid and self.to_offset is not None and first is not None and first >= self.to_offset


EVERYWHERE = Range()


def _first_offset(batch: Batch) -> int | None:
    """Return the first offset; None for a compressed wrapper of magic 0 or 1, whose header lacks it."""
    header = batch.header
    return None if header.magic < 2 and header.attributes & CODEC_MASK else header.base_offset


def _earliest(batch: Batch) -> int:
    """Return the earliest time in the header; older records are possible and are checked one by one."""
    header = batch.header
    if header.magic >= 2 and header.delete_horizon_ms is None:
        return min(header.base_timestamp, header.max_timestamp)
    return header.max_timestamp if header.codec_label == "none" else -1


def walk_range(
    source: Source,
    path: str,
    wanted: Range,
    guest: Guest,
    *,
    chain: bool = False,
    start: int | None = None,
    end: int | None = None,
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
) -> Iterator[Batch | Damage]:
    """Yield the batches of one log that may hold wanted records, and the damage on the way."""
    if start is None:
        start = 0 if wanted.is_open else seek(source, path, wanted, guest)
    walk = scan(source, start, end, chain=chain, max_batch_size=max_batch_size)
    return walk if wanted.is_open else _within(walk, wanted)


def _within(walk: Iterator[Batch | Damage], wanted: Range) -> Iterator[Batch | Damage]:
    for item in walk:
        if isinstance(item, Batch):
            if wanted.is_behind(item):
                return
            if not wanted.touches(item):
                continue
        yield item


def seek(source: Source, path: str, wanted: Range, guest: Guest) -> int:
    """Return a position at or before everything wanted; 0 if the indexes do not help."""
    if base_offset(os.path.basename(path)) is None or (wanted.from_offset is None and wanted.from_ms is None):
        return 0
    index = read_offset_index(path, guest)
    positions = [0]
    if wanted.from_offset is not None:
        positions.append(checked_position(source, index, wanted.from_offset))
    if wanted.from_ms is not None:
        positions.append(_position_of_time(source, index, read_time_index(path, guest), wanted.from_ms))
    return max(positions)


def checked_position(source: Source, index: OffsetIndex, offset: int) -> int:
    """Return the index's start position for an offset if a good batch not above it is there; else 0."""
    position = index.floor(offset).position
    found = batch_at(source, position) if position > 0 else None
    return position if found is not None and found <= offset else 0


def _position_of_time(source: Source, index: OffsetIndex, times: TimeIndex, time_ms: int) -> int:
    entry = times.floor(time_ms - 1)
    if entry.timestamp_ms < 0:
        return 0
    offset = entry.offset(times.base_offset)
    position = checked_position(source, index, offset)
    # Nothing up to this offset is later than the entry's time, provided that its batch agrees.
    for item in scan(source, position):
        if not isinstance(item, Batch) or not item.is_valid:
            return 0
        if item.header.last_offset >= offset:
            return position if item.header.max_timestamp == entry.timestamp_ms else 0
    return 0


def batch_at(source: Source, position: int) -> int | None:
    """Return the first offset of the good batch at a position; None if there is none."""
    limit = source.size_hint if source.size_hint is not None else NO_END
    if not 0 <= position < limit:
        return None
    return Resync(source, DEFAULT_MAX_BATCH_SIZE).offset_at(position, limit, -1)
