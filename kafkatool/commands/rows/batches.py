"""Batches, records and damage as rows: the keys are a stable interface, listed in kafkatool-ndjson(5)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, cast

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.values import Row, ndjson
from kafkatool.engine.batches import row_fields
from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.row_fields import FILE, HEADER, TOPIC, text
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.files.source import Guest
from kafkatool.engine.files.stdin_log import STDIN
from kafkatool.errors import FormatError
from kafkatool.format.batch import TimestampType
from kafkatool.format.legacy import LegacyHeader, LegacyMessage, read_messages
from kafkatool.format.names import base_offset, parse_partition_directory
from kafkatool.format.record import DEFAULT_MAX_INFLATED, Record

BATCH = RowTable(
    "batch", "dump-log", "A record batch, or a message of the formats before magic 2.", *row_fields.BATCH
)
BATCH_COLUMNS = BATCH.columns(
    partition_name="PARTITION",
    position="POSITION",
    base_offset="BASE",
    last_offset="LAST",
    records_count="RECORDS",
    max_timestamp_ms="TIME",
    size="SIZE",
    codec="CODEC",
    partition_leader_epoch="EPOCH",
    producer="PRODUCER",
    flags="FLAGS",
    note="NOTE",
)
RECORD = RowTable(
    "record",
    "dump-log",
    "A record: of dump-log with --deep-iteration, --print-data-log or a record filter; of cat, export.",
    *row_fields.RECORD,
    *(field._replace(optional=True) for field in row_fields.VISIBILITY),
)
RECORD_COLUMNS = RECORD.columns(
    partition_name="PARTITION",
    offset="OFFSET",
    timestamp_ms="TIME",
    key_size="KEY",
    value_size="VALUE",
    sequence="SEQUENCE",
    header_text="HEADERS",
    key_text="KEY DATA",
    value_text="VALUE DATA",
    note="NOTE",
)
DAMAGE = RowTable(
    "damage",
    "dump-log",
    "Something that is not as it should be, in its place among the other rows.",
    *TOPIC,
    FILE,
    *row_fields.DAMAGE,
    text("fix", "the command to run next"),
)
CSV_KEYS = {"batch": BATCH.keys, "record": tuple(field.key for field in row_fields.RECORD)}


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The place of a log, as its name and its directory's name say."""

    path: str
    topic: str | None
    partition: int | None
    segment: int | None

    @classmethod
    def of(cls, path: str, guest: Guest) -> LogPlace:
        """Build the place of a path; a truncated topic name is looked up in the metadata beside it."""
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


_KEYS = ("kind", *BATCH.keys)
_of_header = attrgetter(*(str(field.get) or field.key for field in HEADER))
_NOT_IN_LEGACY = (
    *("last_offset_delta", "partition_leader_epoch", "base_timestamp_ms", "producer_id", "producer_epoch"),
    *("base_sequence", "last_sequence", "records_count"),
)


def batch_row(place: LogPlace, batch: Batch) -> dict[str, object]:
    """Return the row of a batch; one attrgetter reads the whole header, as there may be millions of rows."""
    header = batch.header
    where = ("batch", place.topic, place.partition, place.segment)
    found = (*where, *_of_header(header), batch.position, header.size, batch.is_valid)
    row = dict(zip(_KEYS, found, strict=True))
    if isinstance(header, LegacyHeader):
        row |= dict.fromkeys(_NOT_IN_LEGACY)
        row["base_offset"] = _first_offset(header, batch)
        if header.timestamp_type is TimestampType.NONE:
            row["max_timestamp_ms"] = None
    elif row["delete_horizon_ms"] is not None:  # the field then holds this instead of a timestamp
        row["base_timestamp_ms"] = None
    return row


def _first_offset(header: LegacyHeader, batch: Batch) -> int | None:
    """Return a batch's first offset; for a compressed wrapper it is in the inner messages."""
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
    """Return the row of a record; key, value and header values only with `payload`, their sizes always."""
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


def damage_row(place: LogPlace, damage: Damage) -> dict[str, object]:
    given = {"topic": place.topic, "partition": place.partition, "file": place.path}
    return DAMAGE.row(damage, **given, fix=next_step(place, damage))


def next_step(place: LogPlace, damage: Damage) -> str:
    """Return the command that shows more."""
    from kafkatool.engine.advice.table import Advice

    where = os.path.dirname(place.path) or "."
    if damage.kind is FindingClass.TOO_LARGE:
        return Advice.SHOW_LARGE_BATCH(file=place.path)
    if damage.next_good_offset is not None:
        return Advice.SHOW_FROM(offset=damage.next_good_offset, where=where)
    return Advice.VERIFY(where=where) if place.path != STDIN else Advice.SHOW_FILE(file=STDIN)


def damage_sentence(place: LogPlace, damage: Damage) -> str:
    """Return damage as one line for people."""
    text = f"{place.path}: byte {damage.position}: {damage.kind}: {damage.message}"
    text += f" (expected {damage.expected}, found {damage.found})"
    if damage.first_offset is not None:
        last = "the end" if damage.last_offset is None else damage.last_offset
        text += f"; offsets {damage.first_offset} to {last} are at stake"
    if damage.next_good_offset is not None:
        text += f"; goes on at byte {damage.end_position} with offset {damage.next_good_offset}"
    return text


def table_row(row: Row, place: LogPlace) -> Row:
    """Return the row with what only columns show: joined fields, and a word for what is unusual."""
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
