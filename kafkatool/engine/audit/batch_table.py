"""The batches table of an audit: rows of one log at a time, in separate files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkatool.engine.files.whole_files import Replacement
from kafkatool.engine.records.arrow_batches import BATCH_TYPES, batch_arrays
from kafkatool.format.columns import BatchColumns

_LONG, _INT = pa.int64(), pa.int32()

_OF_BATCHES = {name: kind for name, kind in BATCH_TYPES.items() if name not in ("is_valid", "error")}
COLUMNS = {"partition": _INT, "segment": _LONG, **_OF_BATCHES}


def batch_rows(columns: BatchColumns, partition: int | None, segment: int | None) -> Any:
    count = len(columns.position)
    arrays = {
        "partition": pa.repeat(pa.scalar(partition, _INT), count),
        "segment": pa.repeat(pa.scalar(segment, _LONG), count),
        **batch_arrays(columns, list(_OF_BATCHES)),
    }
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(list(COLUMNS.items())))


def open_batches(file: Replacement) -> Any:
    words = ["codec", "timestamp_type"]
    return pq.ParquetWriter(file, pa.schema(list(COLUMNS.items())), compression="zstd", use_dictionary=words)


def write_group(writer: Any, batches: list[Any]) -> None:
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=max(1, table.num_rows))
