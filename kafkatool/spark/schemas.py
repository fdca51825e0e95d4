"""The columns of `kafkalog` for Spark and Arrow: segments, batches, records."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pyarrow as pa

from kafkatool.engine.records.arrow_batches import BATCH_TYPES
from kafkatool.engine.records.arrow_rows import ARROW, RECORD_COLUMNS, RECORD_FIELDS


class Granularity(StrEnum):
    SEGMENTS = "segments"
    BATCHES = "batches"
    RECORDS = "records"


_PLACE: dict[str, Any] = {
    "root": pa.string(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "segment": pa.int64(),
}
LISTED: dict[str, Any] = {
    **_PLACE,
    "state": pa.string(),
    "file": pa.string(),
    "size": pa.int64(),
    "index_size": pa.int64(),
    "modified_ms": pa.int64(),
}
"""What is known of a segment without opening it."""
_HEADER = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
_RECORD_TYPES = {name: ARROW[RECORD_FIELDS[name].type] for name in RECORD_COLUMNS} | {
    "headers": pa.list_(_HEADER)
}
TYPES: dict[Granularity, dict[str, Any]] = {
    Granularity.SEGMENTS: {
        **LISTED,
        "batches": pa.int64(),
        "records": pa.int64(),
        "first_offset": pa.int64(),
        "last_offset": pa.int64(),
        "min_timestamp_ms": pa.int64(),
        "max_timestamp_ms": pa.int64(),
        "damages": pa.int64(),
        "error": pa.string(),
    },
    Granularity.BATCHES: {**_PLACE, **BATCH_TYPES},
    Granularity.RECORDS: {
        **_PLACE,
        **{name: _RECORD_TYPES[name] for name in ("offset", "timestamp_ms")},
        "timestamp": pa.timestamp("us", tz="UTC"),
        **_RECORD_TYPES,
        "error": pa.string(),
    },
}
"""A record's `error` is null; with onDamage=rows, damage gives a row with one, and little else."""
_NAMES = {
    pa.string(): "STRING",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.binary(): "BINARY",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.list_(_HEADER): "ARRAY<STRUCT<key: BINARY, value: BINARY>>",
}


def ddl(granularity: Granularity, names: list[str] | None = None) -> str:
    """Return the columns as Spark DDL, all or some."""
    types = TYPES[granularity]
    return ", ".join(f"`{name}` {_NAMES[types[name]]}" for name in names or types)


def arrow_schema(granularity: Granularity, names: list[str]) -> Any:
    return pa.schema([pa.field(name, TYPES[granularity][name]) for name in names])
