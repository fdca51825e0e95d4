"""Format a batch of magic 2 and its records as kafka-dump-log does."""

from __future__ import annotations

from kafkatool.format.batch import (
    CODEC_LABELS,
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kafkatool.format.java_values import java_utf8
from kafkatool.format.record import Record

_MOST_SHARED = 4096
_shared: dict[tuple[int, int, int, int], tuple[str, str, str]] = {}


def batch_line(header: BatchHeader, position: int, is_valid: bool) -> str:
    """Return the line for one batch, without a line end."""
    base, length, epoch, magic, crc, attributes, delta, _, max_time, pid, pepoch, seq, count = header
    if attributes & DELETE_HORIZON_MASK or magic != 2 or delta < 0:
        return _unusual_line(header, position, is_valid)
    # Neighbours share most of their numbers: format the shared ones once.
    shared = _shared.get((pid, pepoch, epoch, attributes))
    if shared is None:
        shared = _shared_texts(pid, pepoch, epoch, attributes)
    producer, stamp, codec = shared
    return (
        f"baseOffset: {base} lastOffset: {base + delta} count: {count} baseSequence: {seq} lastSequence: "
        f"{seq if seq == -1 else header.last_sequence}{producer}{position}{stamp}{max_time}"
        f" size: {length + 12}{codec}{crc} isvalid: {'true' if is_valid else 'false'}"
    )


def record_line(header: BatchHeader, record: Record) -> str:
    """Return the line for a record, without its key and value."""
    keys = ",".join(java_utf8(key) for key, _ in record.headers)
    return (
        f"| offset: {record.offset} {header.timestamp_type.value}: {record.timestamp_ms}"
        f" keySize: {record.key_size} valueSize: {record.value_size}"
        f" sequence: {record.sequence} headerKeys: [{keys}]"
    )


def codec_text(attributes: int) -> str:
    """Return the codec's name; for 5 to 7, where Kafka throws, the number."""
    return CODEC_LABELS[attributes & CODEC_MASK] or f"unknown({attributes & CODEC_MASK})"


def java_bool(value: bool) -> str:
    return "true" if value else "false"


def _shared_texts(pid: int, pepoch: int, epoch: int, attributes: int) -> tuple[str, str, str]:
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    flags, stamp, codec = _attribute_texts(attributes, "OptionalLong.empty")
    producer = f" producerId: {pid} producerEpoch: {pepoch} partitionLeaderEpoch: {epoch}{flags} position: "
    texts = producer, stamp, f" magic: 2{codec}"
    _shared[pid, pepoch, epoch, attributes] = texts
    return texts


def _unusual_line(header: BatchHeader, position: int, is_valid: bool) -> str:
    horizon = header.delete_horizon_ms
    optional = "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"
    flags, stamp, codec = _attribute_texts(header.attributes, optional)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count}"
        f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}{flags} position: {position}"
        f"{stamp}{header.max_timestamp} size: {header.size} magic: {header.magic}{codec}{header.crc}"
        f" isvalid: {java_bool(is_valid)}"
    )


def _attribute_texts(attributes: int, horizon: str) -> tuple[str, str, str]:
    transactional, control = bool(attributes & TRANSACTIONAL_MASK), bool(attributes & CONTROL_MASK)
    stamp = "LogAppendTime" if attributes & TIMESTAMP_TYPE_MASK else "CreateTime"
    return (
        f" isTransactional: {java_bool(transactional)} isControl: {java_bool(control)}"
        f" deleteHorizonMs: {horizon}",
        f" {stamp}: ",
        f" compresscodec: {codec_text(attributes)} crc: ",
    )
