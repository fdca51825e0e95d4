"""Records as Arrow: columns are passed on without conversion, keys and values as one buffer each.

Only the modules `arrow_*` of this package import pyarrow; import them lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.row_fields import RECORD, VISIBILITY
from kafkatool.engine.records.fates import TransactionFate
from kafkatool.engine.records.stream import RecordPiece
from kafkatool.errors import MissingExtra
from kafkatool.format.batch import TIMESTAMP_TYPE_MASK, TimestampType
from kafkatool.format.columns import Column, RecordColumns
from kafkatool.format.field_bytes import gather_fields
from kafkatool.format.header_columns import read_header_columns

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    raise MissingExtra("Parquet and Arrow need", "pyarrow", "; csv and ndjson need nothing more") from None

ROWS_IN_GROUP = 1 << 17
BYTES_IN_GROUP = 8 << 20

TIMESTAMP_TYPES = [one.value for one in (TimestampType.NONE, TimestampType.CREATE, TimestampType.LOG_APPEND)]
FATES = [fate.label for fate in TransactionFate]
HEADER = pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])
_WORD = pa.dictionary(pa.int8(), pa.string())


ARROW: dict[str, Any] = {
    **dict.fromkeys(("text", "word"), pa.string()),
    **dict.fromkeys(("int64", "size", "time_ms"), pa.int64()),
    **dict.fromkeys(("int16", "int32"), pa.int32()),
    "flag": pa.bool_(),
    "data": pa.binary(),
    "headers": pa.list_(HEADER),
    "ints": pa.list_(pa.int32()),
}
"""The types of fields in Spark and in audit tables."""
_IN_FILES = ARROW | {"text": pa.dictionary(pa.int32(), pa.string()), "word": _WORD, "int16": pa.int16()}
RECORD_FIELDS = {field.key: field for field in (*RECORD, *VISIBILITY)}
RECORD_COLUMNS = (
    *("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"),
    *("sequence", "producer_id", "producer_epoch", "partition_leader_epoch", "batch_position"),
    *("is_control", "txn", "above_high_watermark", "below_log_start"),
)


def schema(*, with_visibility: bool) -> Any:
    """Return the schema of exported files."""
    fields = [RECORD_FIELDS[name] for name in (RECORD_COLUMNS if with_visibility else RECORD_COLUMNS[:-4])]
    return pa.schema([pa.field(one.key, _IN_FILES[one.type], nullable=not one.never_null) for one in fields])


class ArrowRows:
    """Makes Arrow record batches from rows of pieces."""

    def __init__(self, topics: Sequence[str], *, with_visibility: bool) -> None:
        """`topics`: all topics that will occur, so that every batch shares one dictionary."""
        self.schema = schema(with_visibility=with_visibility)
        self._topics = pa.array(list(topics), pa.string())
        self._number = {topic: number for number, topic in enumerate(topics)}
        self._with_visibility = with_visibility

    def batch(
        self, piece: RecordPiece, rows: NDArray[np.int64], topic: str | None, partition: int | None
    ) -> Any:
        columns, batches = piece.columns, piece.columns.batches
        number = columns.batch[rows]
        is_current = (batches.magic == 2)[number]
        found = [
            _words(self._constant(None if topic is None else self._number[topic], len(rows)), self._topics),
            self._constant(partition, len(rows)),
            pa.array(columns.offset[rows]),
            pa.array(columns.timestamp_ms[rows]),
            _words(timestamp_types(columns)[number], pa.array(TIMESTAMP_TYPES)),
            binary(columns.data, columns.key_start[rows], columns.key_size[rows]),
            binary(columns.data, columns.value_start[rows], columns.value_size[rows]),
            header_lists(columns, rows),
            known(columns.sequence[rows], is_current, pa.int32()),
            known(batches.producer_id[number], is_current, pa.int64()),
            known(batches.producer_epoch[number], is_current, pa.int16()),
            known(batches.partition_leader_epoch[number], is_current, pa.int32()),
            pa.array(batches.position[number]),
        ]
        if self._with_visibility:
            found += self._visibility(piece, rows, number)
        return pa.RecordBatch.from_arrays(found, schema=self.schema)

    def _visibility(self, piece: RecordPiece, rows: NDArray[np.int64], number: Column) -> list[Any]:
        judged = piece.judged
        return [
            pa.array(judged.is_control[number]),
            _words(judged.fate[number].astype(np.int8), pa.array(FATES)),
            pa.array(judged.above_high_watermark[rows]),
            pa.array(judged.below_log_start[rows]),
        ]

    def _constant(self, value: int | None, count: int) -> Any:
        return (
            pa.nulls(count, pa.int32()) if value is None else pa.repeat(pa.scalar(value, pa.int32()), count)
        )


def _words(numbers: Any, words: Any) -> Any:
    return pa.DictionaryArray.from_arrays(numbers, words)


def timestamp_types(columns: RecordColumns) -> NDArray[np.int8]:
    batches = columns.batches
    is_append_time = batches.attributes & TIMESTAMP_TYPE_MASK != 0
    return np.where(batches.magic == 0, 0, np.where(is_append_time, 2, 1)).astype(np.int8)


def known(values: Column, is_known: NDArray[np.bool_], kind: Any) -> Any:
    """Convert values; null where they are not known (in old formats)."""
    return pa.array(values, mask=None if is_known.all() else ~is_known).cast(kind)


def binary(data: memoryview, starts: Column, sizes: Column) -> Any:
    joined, ends = gather_fields(data, starts, sizes)
    offsets = np.zeros(len(starts) + 1, dtype=np.int32)
    offsets[1:] = ends
    is_there = sizes >= 0
    nulls = len(sizes) - int(np.count_nonzero(is_there))
    bitmap = pa.py_buffer(np.packbits(is_there, bitorder="little")) if nulls else None
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(starts), buffers, nulls)


def header_lists(columns: RecordColumns, rows: NDArray[np.int64]) -> Any:
    counts = columns.headers_count[rows]
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    found = read_header_columns(columns.data, columns.headers_start[rows], counts)
    items = pa.StructArray.from_arrays(
        [
            binary(columns.data, found.key_start, found.key_size),
            binary(columns.data, found.value_start, found.value_size),
        ],
        fields=list(HEADER),
    )
    buffers = [None, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(HEADER), len(rows), buffers, 0, children=[items])


class ParquetFile:
    """A Parquet file with row groups of some megabytes each, whatever the size of the pieces."""

    def __init__(self, sink: Any, rows_schema: Any) -> None:
        self._schema = rows_schema
        words = [field.name for field in rows_schema if pa.types.is_dictionary(field.type)]
        self._writer = pq.ParquetWriter(
            sink,
            rows_schema,
            compression="zstd",
            use_dictionary=words,
            write_statistics=["partition", "offset", "timestamp_ms", "producer_id"],
        )
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0

    def write(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROWS_IN_GROUP or self._bytes >= BYTES_IN_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=max(1, self._rows))
        self._waiting = []
        self._rows = self._bytes = 0

    def close(self) -> None:
        self._flush()
        self._writer.close()


class ArrowFile:
    """A file in Arrow's IPC format, one record batch per piece."""

    def __init__(self, sink: Any, rows_schema: Any) -> None:
        self._writer = pa.ipc.new_file(sink, rows_schema)

    def write(self, batch: Any) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
