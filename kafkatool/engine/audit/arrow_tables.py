"""The tables of an audit: columns, rows and files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from kafkatool.engine.audit import batch_table
from kafkatool.engine.audit.kept_partition import SegmentUnit, Unit
from kafkatool.engine.audit.sums import MAGICS
from kafkatool.engine.batches.row_fields import DAMAGE, REPLICAS, text
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import write_file
from kafkatool.engine.records.arrow_rows import ARROW
from kafkatool.format.batch import CODEC_LABELS, Codec

TABLES = ("segments", "batches", "findings", "producers", "topics")
_CODECS = [codec.label for codec in Codec]
_LONG, _INT, _TEXT = pa.int64(), pa.int32(), pa.string()

_PLACE = {"root": _TEXT, "partition": _INT}
_SUMS = {
    **{f"{name}_bytes": _LONG for name in _CODECS},
    **{f"magic{magic}_batches": _LONG for magic in range(MAGICS)},
    "single_record_batches": _LONG,
    "control_batches": _LONG,
    "transactional_batches": _LONG,
    "min_timestamp_ms": _LONG,
    "max_timestamp_ms": _LONG,
}
_SEGMENTS = {
    **_PLACE,
    "directory": _TEXT,
    "segment": _LONG,
    "state": _TEXT,
    "size": _LONG,
    "index_size": _LONG,
    "modified_ms": _LONG,
    "tail_crc": _LONG,
    "first_offset": _LONG,
    "last_offset": _LONG,
    "batches": _LONG,
    "records": _LONG,
    **_SUMS,
    "producers": _LONG,
    "damages": _LONG,
    "retention_verdict": _TEXT,
    "retention_rule": _TEXT,
    "retention_goes_ms": _LONG,
    "verified_at_ms": _LONG,
}
_FINDINGS = {
    **_PLACE,
    "file": _TEXT,
    **{field.key: ARROW[field.type] for field in (*DAMAGE, text("fix", ""), *REPLICAS[:3])},
}
_PRODUCERS = {
    **_PLACE,
    "segment": _LONG,
    "producer_id": _LONG,
    "producer_epoch": _INT,
    "last_sequence": _INT,
    "last_offset": _LONG,
    "last_timestamp_ms": _LONG,
    "open_transaction_offset": _LONG,
}
_TOPICS = {
    "root": _TEXT,
    "partitions": _LONG,
    "segments": _LONG,
    "size": _LONG,
    "index_size": _LONG,
    "largest_partition_size": _LONG,
    "batches": _LONG,
    "records": _LONG,
    **_SUMS,
    "findings": _LONG,
    "worst": _TEXT,
    "retention_delete_segments": _LONG,
    "retention_delete_bytes": _LONG,
    "compaction_records": _LONG,
    "compaction_removed_records": _LONG,
    "compaction_bytes": _LONG,
    "compaction_removed_bytes": _LONG,
    "compaction_errors": _LONG,
}
_COLUMNS = {"segments": _SEGMENTS, "findings": _FINDINGS, "producers": _PRODUCERS, "topics": _TOPICS}
_SEVERITIES = ("note", "degraded", "no_start", "loss")


def topic_directory(topic: str | None) -> str:
    """Return the directory of a topic in Hive's partition naming."""
    return f"topic={'__HIVE_DEFAULT_PARTITION__' if topic is None else quote(topic, safe='')}"


def root_directory(root: str) -> str:
    return f"root={quote(root, safe='')}"


def write_tables(units: Iterable[Unit], directory: str, files: Files) -> None:
    """Write all tables except batches: one file per table and topic."""
    by_topic: dict[str | None, list[Unit]] = defaultdict(list)
    for unit in units:
        by_topic[unit.topic].append(unit)
    makers = {
        "segments": _segment_rows,
        "findings": _finding_rows,
        "producers": _producer_rows,
        "topics": _topic_rows,
    }
    for table, rows_of in makers.items():
        files.make_directory(os.path.join(directory, table))
        schema = pa.schema(list(_COLUMNS[table].items()))
        for topic in sorted(by_topic, key=lambda name: (name is not None, name)):
            rows = list(rows_of(by_topic[topic]))
            if rows:
                place = os.path.join(directory, table, topic_directory(topic))
                files.make_directory(place)
                content = pa.BufferOutputStream()
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), content, compression="zstd")
                write_file(files, os.path.join(place, "part-0.parquet"), memoryview(content.getvalue()))


def _segment_rows(units: list[Unit]) -> Iterator[dict[str, Any]]:
    for unit in units:
        for one in unit.segments:
            facts = one.facts
            damages = len(facts.damages) + facts.more_damages
            damages += len(facts.index_damages) + len(facts.time_damages)
            yield {
                "root": unit.root,
                "partition": unit.partition,
                "directory": unit.directory,
                "segment": one.base_offset,
                "state": one.state,
                "size": one.size,
                "index_size": one.index_size,
                "modified_ms": one.modified_ms,
                "tail_crc": one.tail,
                "first_offset": facts.first_offset,
                "last_offset": facts.last_offset if facts.batches else None,
                "batches": facts.batches,
                "records": facts.records,
                **_sums_row([one]),
                "producers": len(facts.producers),
                "damages": damages,
                "retention_verdict": one.retention.get("verdict"),
                "retention_rule": one.retention.get("rule"),
                "retention_goes_ms": one.retention.get("goes_ms"),
                "verified_at_ms": one.verified_at_ms,
            }


def _sums_row(segments: list[SegmentUnit]) -> dict[str, Any]:
    sums = [one.sums for one in segments]
    least = [one.min_timestamp_ms for one in sums if one.min_timestamp_ms is not None]
    greatest = [one.max_timestamp_ms for one in sums if one.max_timestamp_ms is not None]
    return {
        **{
            f"{name}_bytes": sum(one.codec_bytes[number] for one in sums)
            for number, name in enumerate(CODEC_LABELS)
            if name is not None
        },
        **{f"magic{magic}_batches": sum(one.magic_batches[magic] for one in sums) for magic in range(MAGICS)},
        "single_record_batches": sum(one.single_record_batches for one in sums),
        "control_batches": sum(one.control_batches for one in sums),
        "transactional_batches": sum(one.transactional_batches for one in sums),
        "min_timestamp_ms": min(least, default=None),
        "max_timestamp_ms": max(greatest, default=None),
    }


def _finding_rows(units: list[Unit]) -> Iterator[dict[str, Any]]:
    for unit in units:
        for row in unit.findings:
            yield {**{name: row.get(name) for name in _FINDINGS}, "root": unit.root}


def _producer_rows(units: list[Unit]) -> Iterator[dict[str, Any]]:
    for unit in units:
        for segment in unit.segments:
            for producer_id, trail in sorted(segment.facts.producers.items()):
                last, current = trail.last, trail.current
                yield {
                    "root": unit.root,
                    "partition": unit.partition,
                    "segment": segment.base_offset,
                    "producer_id": producer_id,
                    "producer_epoch": trail.epoch,
                    "last_sequence": None if last is None else last.last_sequence,
                    "last_offset": None if last is None else last.last_offset,
                    "last_timestamp_ms": trail.timestamp_ms,
                    "open_transaction_offset": None if current is None else current.first_offset,
                }


def _topic_rows(units: list[Unit]) -> Iterator[dict[str, Any]]:
    by_root: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        if unit.directory:
            by_root[unit.root].append(unit)
    for root, members in by_root.items():
        segments = [one for unit in members for one in unit.segments]
        findings = [row for unit in members for row in unit.findings]
        gone = [one for one in segments if one.retention.get("verdict") == "delete"]
        cleaned = [unit.compaction for unit in members if unit.compaction is not None]

        def saved(name: str, cleaned: list[dict[str, Any]] = cleaned) -> int | None:
            return sum(one.get(name) or 0 for one in cleaned) if cleaned else None

        yield {
            "root": root,
            "partitions": len(members),
            "segments": len(segments),
            "size": sum(one.size for one in segments),
            "index_size": sum(one.index_size for one in segments),
            "largest_partition_size": max(sum(one.size for one in unit.segments) for unit in members),
            "batches": sum(one.facts.batches for one in segments),
            "records": sum(one.facts.records for one in segments),
            **_sums_row(segments),
            "findings": sum(row["severity"] != "note" for row in findings),
            "worst": max((row["severity"] for row in findings), key=_SEVERITIES.index, default=None),
            "retention_delete_segments": len(gone),
            "retention_delete_bytes": sum(one.size for one in gone),
            "compaction_records": saved("records"),
            "compaction_removed_records": saved("records_removed"),
            "compaction_bytes": saved("bytes_read"),
            "compaction_removed_bytes": saved("bytes_removed"),
            "compaction_errors": sum(one.get("error") is not None for one in cleaned) if cleaned else None,
        }


def read_table(directory: str, table: str) -> Any:
    """Return a table of one run, with its topic as a column; empty if it has no rows."""
    import pyarrow.dataset as ds

    columns = batch_table.COLUMNS if table == "batches" else _COLUMNS[table]
    parts = {"topic": _TEXT} | ({"root": _TEXT} if table == "batches" else {})
    schema = pa.schema([*columns.items(), *parts.items()])
    path = os.path.join(directory, table)
    partitioning = ds.partitioning(pa.schema(list(parts.items())), flavor="hive")
    if not os.path.isdir(path):
        return schema.empty_table()
    return ds.dataset(path, schema=schema, format="parquet", partitioning=partitioning).to_table()
