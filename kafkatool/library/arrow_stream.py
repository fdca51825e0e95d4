"""Queries as Arrow streams: batches are built as the stream is consumed, so memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.records.arrow_rows import ArrowRows
from kafkatool.library.reading import GREATEST_MS, NamedSubject

# After arrow_rows, which names the missing extra.
import pyarrow as pa  # isort: skip

if TYPE_CHECKING:
    from kafkatool.engine.records.stream import RecordPiece
    from kafkatool.format.columns import BatchColumns

_TIME = pa.timestamp("ms", tz="UTC")


def record_reader(
    topics: Sequence[str | None],
    pieces: Iterable[tuple[NamedSubject, RecordPiece, NDArray[np.int64]]],
) -> Any:
    """Return a pyarrow.RecordBatchReader of records, with a timestamp column before `timestamp_ms`."""
    rows_maker = ArrowRows(sorted({topic for topic in topics if topic is not None}), with_visibility=True)
    at = rows_maker.schema.get_field_index("timestamp_ms")
    schema = rows_maker.schema.insert(at, pa.field("timestamp", _TIME))

    def batches() -> Iterator[Any]:
        for named, piece, rows in pieces:
            made = rows_maker.batch(piece, rows, named.topic, named.partition)
            columns = made.columns
            columns.insert(at, _times(piece.columns.timestamp_ms[rows]))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def batch_reader(found: Iterable[tuple[NamedSubject, str, BatchColumns]]) -> Any:
    """Return a pyarrow.RecordBatchReader of batches, with a timestamp column before `max_timestamp_ms`."""
    from kafkatool.engine.records.arrow_batches import BATCH_TYPES, batch_arrays

    types = {name: kind for name, kind in BATCH_TYPES.items() if name not in ("is_valid", "error")}
    place = [("topic", pa.string()), ("partition", pa.int32()), ("file", pa.string())]
    schema = pa.schema([*place, *types.items()])
    at = schema.get_field_index("max_timestamp_ms")
    schema = schema.insert(at, pa.field("max_timestamp", _TIME))

    def batches() -> Iterator[Any]:
        for named, file, columns in found:
            count = len(columns.position)
            arrays = [
                pa.repeat(pa.scalar(value, kind), count)
                for value, (_name, kind) in zip((named.topic, named.partition, file), place, strict=True)
            ]
            arrays += batch_arrays(columns, list(types)).values()
            arrays.insert(at, _times(columns.max_timestamp))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _times(times_ms: NDArray[np.int64]) -> Any:
    """Return Arrow timestamps: null if there is none, or if it is too late for a datetime."""
    is_known = (times_ms >= 0) & (times_ms <= GREATEST_MS)
    return pa.array(np.where(is_known, times_ms, 0), pa.int64(), mask=~is_known).cast(_TIME)
