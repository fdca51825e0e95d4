"""Decode messages of magic 0 and 1 into the columns used for magic 2."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from kafkatool.format.batch import NO_SEQUENCE
from kafkatool.format.columns import RECORDS_AT_ONCE, BatchColumns, RecordColumns
from kafkatool.format.legacy import LegacyHeader, LegacyMessage, read_messages
from kafkatool.format.primitives import Buffer

_NOBODY = -1  # old formats know neither producers nor leader epochs


def read_legacy_columns(
    header: LegacyHeader, data: Buffer, position: int, *, max_inflated: int
) -> Iterator[RecordColumns]:
    """Yield the messages of one whole entry at `position`; raise FormatError where they do not decode."""
    messages = read_messages(data, max_inflated=max_inflated)
    while piece := list(islice(messages, RECORDS_AT_ONCE)):
        yield _columns(header, piece, position)


def _columns(header: LegacyHeader, messages: list[LegacyMessage], position: int) -> RecordColumns:
    keys, values = [one.key for one in messages], [one.value for one in messages]
    joined = b"".join(part for pair in zip(keys, values, strict=True) for part in pair if part is not None)
    key_size = np.array([-1 if key is None else len(key) for key in keys], dtype=np.int64)
    value_size = np.array([-1 if value is None else len(value) for value in values], dtype=np.int64)
    key_length, value_length = np.maximum(key_size, 0), np.maximum(value_size, 0)
    ends = np.cumsum(key_length + value_length)
    count = len(messages)
    nothing = np.zeros(count, dtype=np.int64)
    return RecordColumns(
        data=memoryview(joined),
        batches=_batch(header, messages, position),
        offset=np.array([one.offset for one in messages], dtype=np.int64),
        timestamp_ms=np.array([one.timestamp_ms for one in messages], dtype=np.int64),
        sequence=np.full(count, NO_SEQUENCE, dtype=np.int64),
        attributes=np.array([one.attributes for one in messages], dtype=np.int64),
        key_start=ends - value_length - key_length,
        key_size=key_size,
        value_start=ends - value_length,
        value_size=value_size,
        headers_start=nothing,
        headers_count=nothing,
        batch=nothing,
    )


def _batch(header: LegacyHeader, messages: list[LegacyMessage], position: int) -> BatchColumns:
    first = min(messages[0].offset, header.offset)
    fields = {
        "position": position,
        "base_offset": first,
        "size": header.size,
        "partition_leader_epoch": _NOBODY,
        "magic": header.magic,
        "crc": header.crc,
        "attributes": header.attributes,
        "last_offset_delta": header.offset - first,
        "base_timestamp": messages[0].timestamp_ms,
        "max_timestamp": header.timestamp,
        "producer_id": _NOBODY,
        "producer_epoch": _NOBODY,
        "base_sequence": NO_SEQUENCE,
        "records_count": len(messages),
    }
    return BatchColumns(**{name: np.array([value], dtype=np.int64) for name, value in fields.items()})
