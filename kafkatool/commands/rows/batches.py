"""Batches, records and damage as rows: the keys are promises, listed in kafkatool-ndjson(5)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, cast

from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import Row, ndjson
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity, damage_facts
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.files.source import Guest
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import BatchHeader, TimestampType
from kafkatool.format.legacy import LegacyHeader, LegacyMessage, read_messages
from kafkatool.format.names import base_offset, parse_partition_directory
from kafkatool.format.record import DEFAULT_MAX_INFLATED, Record

BATCH_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("position", "POSITION", Look.number),
    Column("base_offset", "BASE", Look.number),
    Column("last_offset", "LAST", Look.number),
    Column("records_count", "RECORDS", Look.number),
    Column("max_timestamp_ms", "TIME", Look.time),
    Column("size", "SIZE", Look.size),
    Column("codec", "CODEC"),
    Column("partition_leader_epoch", "EPOCH", Look.number),
    Column("producer", "PRODUCER"),
    Column("flags", "FLAGS"),
    Column("note", "NOTE"),
)

RECORD_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("offset", "OFFSET", Look.number),
    Column("timestamp_ms", "TIME", Look.time),
    Column("key_size", "KEY", Look.number),
    Column("value_size", "VALUE", Look.number),
    Column("sequence", "SEQUENCE", Look.number),
    Column("header_text", "HEADERS"),
    Column("key_text", "KEY DATA"),
    Column("value_text", "VALUE DATA"),
    Column("note", "NOTE"),
)

BATCH_KEYS = (
    *("topic", "partition", "segment", "base_offset", "last_offset", "last_offset_delta", "batch_length"),
    *("partition_leader_epoch", "magic", "crc", "attributes", "codec", "timestamp_type"),
    *("base_timestamp_ms", "max_timestamp_ms", "delete_horizon_ms", "producer_id", "producer_epoch"),
    *("base_sequence", "last_sequence", "records_count", "is_transactional", "is_control"),
    *("position", "size", "is_valid"),
)
RECORD_KEYS = (
    *("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"),
    *("header_keys", "sequence", "batch_position", "key_size", "value_size", "decoded"),
)
DAMAGE_KEYS = (
    *("topic", "partition", "file", "position", "end_position", "first_offset", "last_offset"),
    *("next_good_offset", "class", "severity", "expected", "found", "message", "fix"),
)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """Where a log stands: what its name and its directory's say."""

    path: str
    topic: str | None
    partition: int | None
    segment: int | None

    @classmethod
    def of(cls, path: str, guest: Guest) -> LogPlace:
        """A topic whose name the directory's cut short is looked up in the metadata beside it."""
        directory = os.path.dirname(os.path.abspath(path))
        name = os.path.basename(directory)
        named = parse_partition_directory(name) if path != "-" else None
        segment = base_offset(os.path.basename(path))
        if named is None:
            return cls(path, None, None, segment)
        topic = named.topic
        if named.may_be_cut(name):
            from kafkatool.engine.directory.topic_names import real_topic_name

            topic = real_topic_name(directory, guest) or topic
        return cls(path, topic, named.partition, segment)

    @property
    def name(self) -> str:
        return self.path if self.topic is None else f"{self.topic}-{self.partition}"


def batch_row(place: LogPlace, batch: Batch) -> dict[str, object]:
    header = batch.header
    row: dict[str, object] = {
        "kind": "batch",
        "topic": place.topic,
        "partition": place.partition,
        "segment": place.segment,
    }
    row |= _header_row(header) if isinstance(header, BatchHeader) else _legacy_row(header, batch)
    row |= {"position": batch.position, "size": header.size, "is_valid": batch.is_valid}
    return row


def _header_row(header: BatchHeader) -> dict[str, object]:
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "last_offset_delta": header.last_offset_delta,
        "batch_length": header.batch_length,
        "partition_leader_epoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "attributes": header.attributes,
        "codec": header.codec_label,
        "timestamp_type": header.timestamp_type.value,
        # With a delete horizon set, the field holds that and no timestamp.
        "base_timestamp_ms": header.base_timestamp if header.delete_horizon_ms is None else None,
        "max_timestamp_ms": header.max_timestamp,
        "delete_horizon_ms": header.delete_horizon_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "records_count": header.records_count,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }


def _legacy_row(header: LegacyHeader, batch: Batch) -> dict[str, object]:
    """Magic 0 and 1 know neither producers nor counts: those stay null."""
    has_time = header.timestamp_type is not TimestampType.NONE
    return dict.fromkeys(BATCH_KEYS[3:-3]) | {
        "base_offset": _first_offset(header, batch),
        "last_offset": header.offset,
        "batch_length": header.entry_size,
        "magic": header.magic,
        "crc": header.crc,
        "attributes": header.attributes,
        "codec": header.codec_label,
        "timestamp_type": header.timestamp_type.value,
        "max_timestamp_ms": header.timestamp if has_time else None,
        "is_transactional": False,
        "is_control": False,
    }


def _first_offset(header: LegacyHeader, batch: Batch) -> int | None:
    """A wrapper's first offset stands inside it."""
    if not header.attributes & 0x07:
        return header.offset
    if batch.data is None:
        return None
    try:
        return next(read_messages(batch.data, max_inflated=DEFAULT_MAX_INFLATED)).offset
    except (FormatError, StopIteration):
        return None


def record_row(
    place: LogPlace, batch: Batch, record: Record | LegacyMessage, *, payload: bool
) -> dict[str, object]:
    """One record; key, value and header values only with `payload`, their sizes always."""
    headers = () if isinstance(record, LegacyMessage) else record.headers
    row: dict[str, object] = {
        "kind": "record",
        "topic": place.topic,
        "partition": place.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": batch.header.timestamp_type.value,
    }
    if payload:
        row |= {"key": record.key, "value": record.value, "headers": [[n, v] for n, v in headers]}
    else:
        row["header_keys"] = [name for name, _ in headers]
    return row | {
        "sequence": None if isinstance(record, LegacyMessage) else record.sequence,
        "batch_position": batch.position,
        "key_size": record.key_size,
        "value_size": record.value_size,
    }


def damage_row(place: LogPlace, damage: Damage, *, kind: str = "damage") -> dict[str, object]:
    return {
        "kind": kind,
        "topic": place.topic,
        "partition": place.partition,
        "file": place.path,
        **damage_facts(damage),
        "fix": next_step(place, damage),
    }


def next_step(place: LogPlace, damage: Damage) -> str:
    """The command that shows more."""
    from kafkatool.engine.advice.table import Advice

    where = os.path.dirname(place.path) or "."
    if damage.kind is FindingClass.TOO_LARGE:
        return Advice.SHOW_LARGE_BATCH(file=place.path)
    if damage.next_good_offset is not None:
        return Advice.SHOW_FROM(offset=damage.next_good_offset, where=where)
    return Advice.VERIFY(where=where) if place.path != STDIN else Advice.SHOW_FILE(file=STDIN)


def damage_sentence(place: LogPlace, damage: Damage) -> str:
    """The same for a person, in one line."""
    text = f"{place.path}: byte {damage.position}: {damage.kind}: {damage.message}"
    text += f" (expected {damage.expected}, found {damage.found})"
    if damage.first_offset is not None:
        last = "the end" if damage.last_offset is None else damage.last_offset
        text += f"; offsets {damage.first_offset} to {last} are at stake"
    if damage.next_good_offset is not None:
        text += f"; goes on at byte {damage.end_position} with offset {damage.next_good_offset}"
    return text


def table_row(row: Row, place: LogPlace) -> Row:
    """The same row with what only columns show: joined fields and a word for what is unusual."""
    match row["kind"]:
        case "damage":
            extra = _damage_cells(row)
        case "batch":
            note = None if row["is_valid"] else "crc does not match"
            extra = {"producer": _producer(row), "flags": _flags(row), "note": note}
        case "record":
            extra = _record_cells(row)
        case _:
            return row
    return {**row, **extra, "partition_name": place.name}


def _damage_cells(row: Row) -> dict[str, object]:
    return {
        "base_offset": row["first_offset"],
        "offset": row["first_offset"],
        "note": f"{row['class']}: {row['message']}",
    }


def _record_cells(row: Row) -> dict[str, object]:
    names = (
        row["header_keys"] if "header_keys" in row else [name for name, _ in cast(list[Any], row["headers"])]
    )
    cells: dict[str, object] = {
        "header_text": ",".join(
            name.decode("utf-8", "backslashreplace") for name in cast(list[bytes], names)
        ),
        "key_text": row.get("key"),
        "value_text": row.get("value"),
    }
    if "decoded" in row:
        cells |= {"key_text": None, "value_text": ndjson(cast(Row, row["decoded"]))}
    return cells


def _producer(row: Row) -> str | None:
    if row["producer_id"] in (None, -1):
        return None
    return f"{row['producer_id']}/{row['producer_epoch']} {row['base_sequence']}..{row['last_sequence']}"


def _flags(row: Row) -> str | None:
    names = {
        "is_transactional": "txn",
        "is_control": "control",
    }
    flags = [word for key, word in names.items() if row[key]]
    if row["timestamp_type"] == TimestampType.LOG_APPEND.value:
        flags.append("append-time")
    if row["delete_horizon_ms"] is not None:
        flags.append("horizon")
    if row["magic"] != 2:
        flags.append(f"magic{row['magic']}")
    return ",".join(flags) or None


def bad_records(batch: Batch, error: FormatError, offset: int | None = None) -> Damage:
    """The damage that a batch's records are, where the batch itself could be read."""
    header = batch.header
    is_too_large = isinstance(error, TooLarge)
    first = header.base_offset
    return Damage(
        kind=FindingClass.TOO_LARGE if is_too_large else FindingClass.BAD_RECORD,
        position=batch.position,
        end_position=batch.position + header.size,
        expected=str(error.expected),
        found=str(error.found),
        message=f"{error.what} at its byte {error.at}",
        severity=Severity.DEGRADED if is_too_large else Severity.LOSS,
        first_offset=first if offset is None else offset,
        last_offset=header.last_offset if offset is None else offset,
    )
