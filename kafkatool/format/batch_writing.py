"""Encode records as one batch of magic 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkatool.format.batch import NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, Codec, NewRecord, seal
from kafkatool.format.compression import compress
from kafkatool.format.record import write_record


def write_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    attributes: int = 0,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Encode records at consecutive offsets as one batch; `attributes` adds flags to the codec."""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=0,
    )
    return write_batch_like(header, list(records), codec)


def write_batch_like(
    header: BatchHeader, rows: Sequence[NewRecord], codec: Codec, level: int | None = None
) -> bytes:
    """Encode records at consecutive offsets under a header, whose sizes, counts and times become theirs.

    `level` is the codec's; None for Kafka's default.
    """
    base_timestamp = rows[0].timestamp_ms if rows else NO_TIMESTAMP
    body = b"".join(write_record(row, delta, base_timestamp) for delta, row in enumerate(rows))
    header = header._replace(
        magic=2,
        attributes=header.attributes | codec,
        last_offset_delta=max(0, len(rows) - 1),
        base_timestamp=base_timestamp,
        max_timestamp=max((row.timestamp_ms for row in rows), default=NO_TIMESTAMP),
        records_count=len(rows),
    )
    return seal(header, compress(codec, body, level=level) if rows else body)
