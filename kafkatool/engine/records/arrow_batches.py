"""Batches as Arrow: header columns, named as in all rows of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.row_fields import BATCH
from kafkatool.engine.records.arrow_rows import ARROW, TIMESTAMP_TYPES
from kafkatool.format.batch import (
    CODEC_LABELS,
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kafkatool.format.columns import BatchColumns, Column

Mask = NDArray[np.bool_]

BATCH_TYPES: dict[str, Any] = {field.key: ARROW[field.type] for field in BATCH[3:]} | {"error": pa.string()}
"""The types of header columns; `error` describes the damage in rows where `is_valid` is false."""


def batch_arrays(columns: BatchColumns, names: Sequence[str]) -> dict[str, Any]:
    """Make only these columns of good batches."""
    return {name: _MAKERS[name](columns) for name in names if name in _MAKERS}


def damage_arrays(damage: Damage, names: Sequence[str]) -> dict[str, Any]:
    """Make one row that stands for damage."""
    known = {
        "base_offset": damage.first_offset,
        "last_offset": damage.last_offset,
        "position": damage.position,
        "size": damage.end_position - damage.position,
        "is_valid": False,
        "error": f"{damage.kind}: {damage.message}",
    }
    return {name: pa.array([known.get(name)], BATCH_TYPES[name]) for name in names if name in BATCH_TYPES}


def _as(name: str, values: Column, where: Mask | None = None) -> Any:
    """Convert values to the type of a column; null where the mask is false."""
    mask = None if where is None or where.all() else ~where
    return pa.array(values, mask=mask).cast(BATCH_TYPES[name])


def _plain(name: str, field: str) -> Callable[[BatchColumns], Any]:
    return lambda columns: _as(name, getattr(columns, field))


def _current(name: str, field: str) -> Callable[[BatchColumns], Any]:
    """Make a column that is null in old formats."""
    return lambda columns: _as(name, getattr(columns, field), columns.magic == 2)


def _words(numbers: Column, words: Sequence[str | None]) -> Any:
    return pa.array(words, pa.string()).take(pa.array(numbers))


def _last_sequence(columns: BatchColumns) -> Any:
    base, delta = columns.base_sequence, columns.last_offset_delta
    # Sequences wrap around to 0 after the largest 32-bit number.
    last = np.where(base == NO_SEQUENCE, NO_SEQUENCE, (base + delta) & 0x7FFFFFFF)
    return _as("last_sequence", last, columns.magic == 2)


def _is_set(mask: int) -> Callable[[BatchColumns], Any]:
    return lambda columns: pa.array(((columns.attributes & mask) != 0) & (columns.magic == 2))


def _has_horizon(columns: BatchColumns) -> Mask:
    found: Mask = ((columns.attributes & DELETE_HORIZON_MASK) != 0) & (columns.magic == 2)
    return found


def _timestamp_type(columns: BatchColumns) -> Any:
    is_append_time = columns.attributes & TIMESTAMP_TYPE_MASK != 0
    return _words(np.where(columns.magic == 0, 0, np.where(is_append_time, 2, 1)), TIMESTAMP_TYPES)


_MAKERS: dict[str, Callable[[BatchColumns], Any]] = {
    "base_offset": _plain("base_offset", "base_offset"),
    "last_offset": _plain("last_offset", "last_offset"),
    "last_offset_delta": _current("last_offset_delta", "last_offset_delta"),
    "batch_length": lambda columns: _as("batch_length", columns.size - LOG_OVERHEAD),
    "partition_leader_epoch": _current("partition_leader_epoch", "partition_leader_epoch"),
    "magic": _plain("magic", "magic"),
    "crc": _plain("crc", "crc"),
    "attributes": _plain("attributes", "attributes"),
    "codec": lambda columns: _words(columns.attributes & CODEC_MASK, CODEC_LABELS),
    "timestamp_type": _timestamp_type,
    "base_timestamp_ms": lambda columns: _as(
        "base_timestamp_ms", columns.base_timestamp, (columns.magic == 2) & ~_has_horizon(columns)
    ),
    "max_timestamp_ms": lambda columns: _as("max_timestamp_ms", columns.max_timestamp, columns.magic > 0),
    "delete_horizon_ms": lambda columns: _as(
        "delete_horizon_ms", columns.base_timestamp, _has_horizon(columns)
    ),
    "producer_id": _current("producer_id", "producer_id"),
    "producer_epoch": _current("producer_epoch", "producer_epoch"),
    "base_sequence": _current("base_sequence", "base_sequence"),
    "last_sequence": _last_sequence,
    "records_count": _plain("records_count", "records_count"),
    "is_transactional": _is_set(TRANSACTIONAL_MASK),
    "is_control": _is_set(CONTROL_MASK),
    "position": _plain("position", "position"),
    "size": _plain("size", "size"),
    "is_valid": lambda columns: pa.array(np.ones(len(columns.position), dtype=np.bool_)),
    "error": lambda columns: pa.nulls(len(columns.position), pa.string()),
}
