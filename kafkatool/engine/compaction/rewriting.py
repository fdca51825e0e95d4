"""Rewrite batches and messages with the records that stay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kafkatool.engine.batches.records import records_of
from kafkatool.format.batch import (
    CODEC_MASK,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Codec,
    NewRecord,
    TimestampType,
    read_header,
)
from kafkatool.format.columns import Column, RecordColumns
from kafkatool.format.compression import compress
from kafkatool.format.kernel import loops
from kafkatool.format.legacy import LegacyHeader, write_message
from kafkatool.format.record import Record, write_record
from kafkatool.format.rewriting import check_writable, sealed

_NO_PRODUCER = BatchHeader(0, 0, -1, 2, 0, 0, 0, -1, -1, -1, -1, -1, 0)


def kept_records(columns: RecordColumns, rows: Iterable[int]) -> list[Record]:
    """Return these rows of some columns as records."""
    offsets, times = columns.offset, columns.timestamp_ms
    return [
        Record(
            int(offsets[row]),
            int(times[row]),
            -1,
            0,
            columns.key(row),
            columns.value(row),
            columns.headers(row),
        )
        for row in rows
    ]


def rewritten(header: BatchHeader, records: Sequence[Record], horizon_ms: int | None) -> bytes:
    """Return a batch with only these records; raise NotWritable where a broker would throw."""
    times = [record.timestamp_ms for record in records]
    check_writable(header, [record.offset for record in records], times)
    base = records[0].timestamp_ms if horizon_ms is None else horizon_ms
    body = b"".join(
        write_record(
            NewRecord(record.key, record.value, record.timestamp_ms, record.headers),
            record.offset - header.base_offset,
            base,
        )
        for record in records
    )
    return sealed(header, _compressed(header, body), times, horizon_ms)


def _compressed(header: BatchHeader, body: bytes) -> bytes:
    return compress(Codec(header.attributes & CODEC_MASK), body)


def rewritten_rows(
    header: BatchHeader, columns: RecordColumns, rows: Column, horizon_ms: int | None
) -> bytes:
    """Do the same for rows of columns; those without headers need no Python step each."""
    if columns.headers_count[rows].any():
        return rewritten(header, kept_records(columns, rows.tolist()), horizon_ms)
    table = np.stack(
        [
            column[rows]
            for column in (
                *(columns.offset, columns.timestamp_ms, columns.key_start, columns.key_size),
                *(columns.value_start, columns.value_size),
            )
        ]
    )
    offsets, times = table[:2].tolist()
    check_writable(header, offsets, times)
    base = times[0] if horizon_ms is None else horizon_ms
    body = loops.record_bytes(columns.data, table, header.base_offset, base)
    return sealed(header, _compressed(header, body), times, horizon_ms)


# --- magic 0 and 1 --------------------------------------------------------------------------------------


def legacy_records(header: LegacyHeader, data: memoryview) -> list[Record]:
    return list(records_of(header, data))


def converted(
    header: LegacyHeader, records: Sequence[Record], horizon_ms: int | None
) -> tuple[BatchHeader, bytes]:
    """Convert old messages to one batch of magic 2, as Kafka 4 does."""
    codec = header.attributes & CODEC_MASK
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND
    model = _NO_PRODUCER._replace(
        base_offset=records[0].offset,
        attributes=codec | (TIMESTAMP_TYPE_MASK if is_append_time else 0),
        last_offset_delta=records[-1].offset - records[0].offset,
        max_timestamp=header.max_timestamp,
    )
    data = rewritten(model, records, horizon_ms)
    return read_header(data), data


def rewritten_wrapper(header: LegacyHeader, records: Sequence[Record]) -> bytes:
    """Keep old messages in a wrapper of the same magic, as Kafka 3.9 does."""
    base, magic = records[0].offset, header.magic
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND
    kind = TIMESTAMP_TYPE_MASK if is_append_time else 0
    inner = [
        write_message(
            record.offset - base if magic else record.offset,
            record.key,
            record.value,
            magic=magic,
            attributes=kind,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    codec = Codec(header.attributes & CODEC_MASK)
    latest = header.timestamp if is_append_time else max(record.timestamp_ms for record in records)
    return write_message(
        records[-1].offset,
        None,
        compress(codec, b"".join(inner), magic=magic),
        magic=magic,
        attributes=codec | kind,
        timestamp_ms=latest,
    )
