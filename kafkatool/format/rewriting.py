"""Rebuild batches that lost records, or got a delete horizon.

field                       some records stay                       no record stays
base offset, last offset    as they were                            as they were
leader epoch, producer      as they were                            as they were
codec                       the same, at its default level          none
base timestamp              the first record's, or the horizon      -1
max timestamp               the latest record's; LogAppendTime:     as it was
                            as it was
flags                       type, transactional, control, horizon   type, transactional, control
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kafkatool.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    Codec,
    TimestampType,
    seal,
)

_FLAGS = TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


class NotWritable(Exception):
    """A broker accepted this batch, but could not write it again."""


def emptied(header: BatchHeader) -> bytes:
    """Return a batch without its records: it still shows where its producer, or the log, had got to."""
    return seal(
        header._replace(attributes=header.attributes & _FLAGS, base_timestamp=NO_TIMESTAMP, records_count=0),
        b"",
    )


def sealed(header: BatchHeader, body: bytes, times: Sequence[int], horizon_ms: int | None) -> bytes:
    """Return a batch with a new body, already compressed, of records with these timestamps."""
    latest = max(NO_TIMESTAMP, *times)
    if header.timestamp_type is TimestampType.LOG_APPEND:
        latest = header.max_timestamp
    horizon = 0 if horizon_ms is None else DELETE_HORIZON_MASK
    return seal(
        header._replace(
            attributes=header.attributes & _FLAGS | Codec(header.attributes & CODEC_MASK) | horizon,
            base_timestamp=times[0] if horizon_ms is None else horizon_ms,
            max_timestamp=latest,
            records_count=len(times),
        ),
        body,
    )


def check_writable(header: BatchHeader, offsets: Sequence[int], times: Sequence[int]) -> None:
    """Check what a broker checks when it builds a batch; raise NotWritable."""
    for before, offset in pairwise(offsets):
        if offset <= before:
            raise NotWritable(f"offset {offset} follows {before}: they must rise")
    if min(times) < NO_TIMESTAMP:
        at = times.index(min(times))
        raise NotWritable(f"timestamp {times[at]} of offset {offsets[at]} is negative")
    if header.is_transactional and header.producer_id == -1:
        raise NotWritable("a transactional batch without a producer")
    if header.producer_id != -1 and header.producer_epoch == -1:
        raise NotWritable(f"producer {header.producer_id} without an epoch")
    if header.producer_id != -1 and header.base_sequence < 0 and not header.is_control:
        raise NotWritable(f"producer {header.producer_id} without a sequence number")
