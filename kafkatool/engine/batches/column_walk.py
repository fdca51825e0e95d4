"""Walk a part of a log, yielding its batches as columns, many at once, and the damage between them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.scan import Batch, BatchRun
from kafkatool.engine.batches.segment_walk import SegmentWalk, in_place
from kafkatool.errors import FormatError
from kafkatool.format.batch import BatchHeader
from kafkatool.format.columns import BatchColumns, read_batch_columns
from kafkatool.format.legacy import LegacyHeader
from kafkatool.format.legacy_columns import read_legacy_columns


def walk_batches(walk: SegmentWalk) -> Iterator[BatchColumns | Damage]:
    """Yield what begins in the split of a walk."""
    for item in in_place(walk.rest(walk.position)):
        if isinstance(item, BatchRun):
            yield read_batch_columns(item.window, item.start, item.end, item.batch_count, item.position)
        else:
            yield item if isinstance(item, Damage) else one_batch(item, walk.max_batch_size)


def one_batch(batch: Batch, max_batch_size: int) -> BatchColumns | Damage:
    """Convert one good batch that is not in a run: of an old format, or right after damage.

    Return damage if the checksum matches but the batch cannot be used.
    """
    header = batch.header
    if header.magic not in (0, 1, 2):
        return _unusable(batch, FindingClass.BAD_MAGIC, "magic 0, 1 or 2", f"magic {header.magic}")
    if isinstance(header, LegacyHeader):
        return _legacy(batch, header, max_batch_size)
    assert isinstance(header, BatchHeader)
    if header.records_count < 0:
        return _unusable(batch, FindingClass.BAD_RECORD, "0 records or more", f"{header.records_count}")
    if header.last_offset_delta < 0:
        return _unusable(batch, FindingClass.BAD_OFFSET, "a last offset above", f"{header.last_offset}")
    fields = (batch.position, header.base_offset, header.size, *header[2:])
    return BatchColumns(*(np.array([field], dtype=np.int64) for field in fields))


def _unusable(batch: Batch, kind: FindingClass, expected: str, found: str) -> Damage:
    end = batch.position + batch.header.size
    return Damage(kind, batch.position, end, expected, found, f"{found} where {expected} should stand")


def _legacy(batch: Batch, header: LegacyHeader, max_batch_size: int) -> BatchColumns | Damage:
    end = batch.position + header.size
    if batch.data is None:
        what = f"{header.size} bytes"
        return Damage(FindingClass.TOO_LARGE, batch.position, end, "fits into memory", what, "too large")
    try:
        pieces = [
            (piece.batches, len(piece))
            for piece in read_legacy_columns(header, batch.data, batch.position, max_inflated=max_batch_size)
        ]
    except FormatError as error:
        expected, found = str(error.expected), str(error.found)
        return Damage(FindingClass.BAD_RECORD, batch.position, end, expected, found, str(error))
    if not pieces:
        return Damage(FindingClass.BAD_RECORD, batch.position, end, "a message", "none", "an empty wrapper")
    return pieces[0][0]._replace(records_count=np.array([sum(count for _batches, count in pieces)]))
