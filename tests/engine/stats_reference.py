"""The numbers of `stats`, counted one record at a time in plain Python: slow, and easy to believe."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkatool.commands.rows.stats import key_rows, stats_row, time_rows
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE, Batch, scan
from kafkatool.engine.batches.seek import Range
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.stats.statistics import StatsGroup
from kafkatool.errors import FormatError
from kafkatool.format.batch import CODEC_LABELS, BatchHeader, TimestampType
from kafkatool.format.legacy import LegacyHeader, read_messages
from kafkatool.format.record import read_records
from tests.logs import TIME, walk

NOW = TIME + 40_000
"""When they are counted."""

Bytes = bytes | None


@dataclass
class PlainRecord:
    offset: int
    time_ms: int
    key: Bytes
    value: Bytes
    headers: int


@dataclass
class PlainBatch:
    first: int
    last: int
    size: int
    magic: int
    codec: int
    kind: TimestampType
    least_ms: int
    greatest_ms: int
    producer: int
    is_transactional: bool
    is_control: bool
    count: int
    records: list[PlainRecord] | None
    inflated: int
    number: int = 0
    """In its partition, where not all batches are meant."""
    present: int | None = None
    """How many records there are from `first` to `last`; None: all."""

    @property
    def is_timed(self) -> bool:
        return not self.is_control and self.count > 0


@dataclass
class PlainLog:
    batches: list[PlainBatch] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)


def read_plainly(path: Path) -> PlainLog:
    log = PlainLog()
    with open_source(path, Guest(cache_keep=True)) as source:
        items = list(scan(source))
    misplaced = {item.position for item in items if isinstance(item, Damage)}
    for item in items:
        if isinstance(item, Damage):
            log.damages.append(item)
        elif item.is_valid and item.position not in misplaced:
            log.batches.append(_batch(item))
    return log


def _batch(batch: Batch) -> PlainBatch:
    header = batch.header
    assert batch.data is not None
    if isinstance(header, LegacyHeader):
        return _legacy(header, batch.data)
    records: list[PlainRecord] | None
    try:
        records = [
            PlainRecord(record.offset, record.timestamp_ms, record.key, record.value, len(record.headers))
            for record in read_records(header, batch.data)
        ]
    except FormatError:
        records = None
    return PlainBatch(
        header.base_offset,
        header.last_offset,
        header.size,
        header.magic,
        header.attributes & 7,
        header.timestamp_type,
        _least_of(header),
        header.max_timestamp,
        header.producer_id,
        header.is_transactional,
        header.is_control,
        header.records_count,
        records,
        61 + _inflated(header, batch.data),
    )


def _least_of(header: BatchHeader) -> int:
    if header.timestamp_type is TimestampType.LOG_APPEND or header.delete_horizon_ms is not None:
        return header.max_timestamp
    return header.base_timestamp


def _inflated(header: BatchHeader, data: memoryview) -> int:
    from kafkatool.format.record import read_body

    try:
        return len(read_body(header, data)) if header.records_count else 0
    except FormatError:
        return 0


def _legacy(header: LegacyHeader, data: memoryview) -> PlainBatch:
    try:
        messages = list(read_messages(data, max_inflated=DEFAULT_MAX_BATCH_SIZE))
        records = [PlainRecord(m.offset, m.timestamp_ms, m.key, m.value, 0) for m in messages]
    except FormatError:
        messages, records = [], []
    times = [record.time_ms for record in records]
    return PlainBatch(
        min((m.offset for m in messages), default=header.offset),
        header.offset,
        header.size,
        header.magic,
        header.attributes & 7,
        header.timestamp_type,
        min((time for time in times if time >= 0), default=-1),
        max(times, default=-1),
        -1,
        False,
        False,
        len(records),
        records or None,
        sum(len(m.raw) for m in messages),
    )


# --- numbers ------------------------------------------------------------------------------------------


def plain_numbers(logs: list[PlainLog], now_ms: int) -> dict[str, Any]:
    """What NDJSON says of one partition whose segments these are; spreads as all their values."""
    batches = [batch for log in logs for batch in log.batches]
    timed = [batch for batch in batches if batch.is_timed]
    times = [batch.greatest_ms for batch in timed if batch.greatest_ms >= 0]
    leasts = [batch.least_ms for batch in timed if batch.least_ms >= 0 and batch.greatest_ms >= 0]
    producers = {batch.producer for batch in batches if batch.producer >= 0}
    return {
        "batches": len(batches),
        "records": sum(batch.count for batch in batches),
        "size": sum(batch.size for batch in batches),
        "codecs": _by(batches, lambda batch: CODEC_LABELS[batch.codec]),
        "magics": _by(batches, lambda batch: str(batch.magic)),
        "producers": len(producers),
        "idempotent_batches": sum(batch.producer >= 0 for batch in batches),
        "transactional_batches": sum(batch.is_transactional for batch in batches),
        "control_batches": sum(batch.is_control for batch in batches),
        "timestamp_types": dict(Counter(batch.kind.value for batch in batches)),
        "min_timestamp_ms": min(leasts, default=None),
        "max_timestamp_ms": max(times, default=None),
        "no_timestamp_batches": len(timed) - len(times),
        **_order(times, now_ms, "batches", "greatest_step_back_ms"),
        **_offsets(batches),
        "times": _hours(timed),
        "spreads": {
            "records_per_batch": [batch.count for batch in batches],
            "batch_size": [batch.size for batch in batches],
        },
    }


def _by(batches: list[PlainBatch], kind: Any) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for batch in batches:
        row = found.setdefault(kind(batch), {"batches": 0, "records": 0, "size": 0})
        row["batches"] += 1
        row["records"] += batch.count
        row["size"] += batch.size
    return found


def _order(times: list[int], now_ms: int, what: str, step: str) -> dict[str, int]:
    back = [a - b for a, b in itertools.pairwise(times) if b < a]
    return {
        f"future_{what}": sum(time > now_ms for time in times),
        f"out_of_order_{what}": len(back),
        step: max(back, default=0),
    }


def _offsets(batches: list[PlainBatch]) -> dict[str, int | None]:
    neighbours = [(a, b) for a, b in itertools.pairwise(batches) if b.number - a.number <= 1]
    between = [b.first - a.last - 1 for a, b in neighbours]
    inside = [max(0, b.last - b.first + 1 - (b.count if b.present is None else b.present)) for b in batches]
    return {
        "first_offset": batches[0].first if batches else None,
        "last_offset": batches[-1].last if batches else None,
        "gaps": sum(gap > 0 for gap in between),
        "missing_offsets": sum(gap for gap in between if gap > 0) + sum(inside),
    }


def _hours(timed: list[PlainBatch]) -> dict[int, tuple[int, int, int]]:
    found: dict[int, tuple[int, int, int]] = {}
    for batch in timed:
        if batch.greatest_ms >= 0:
            hour = batch.greatest_ms // 3_600_000 * 3_600_000
            batches, records, size = found.get(hour, (0, 0, 0))
            found[hour] = batches + 1, records + batch.count, size + batch.size
    return dict(sorted(found.items()))


def plain_deep_numbers(logs: list[PlainLog], now_ms: int) -> dict[str, Any]:
    batches = [batch for log in logs for batch in log.batches if batch.records is not None]
    records = list(_data_records(batches))
    times = [record.time_ms for record in records if record.time_ms >= 0]
    keys = Counter(record.key for record in records if record.key is not None)
    inflated, stored = sum(b.inflated for b in batches), sum(b.size for b in batches)
    return {
        "data_records": len(records),
        "inflated_size": inflated,
        "ratio": round(inflated / stored, 3) if stored else None,
        "keys": len(keys),
        "null_keys": sum(record.key is None for record in records),
        "tombstones": sum(record.value is None for record in records),
        "records_with_headers": sum(record.headers > 0 for record in records),
        "headers": sum(record.headers for record in records),
        "min_timestamp_ms": min(times, default=None),
        "max_timestamp_ms": max(times, default=None),
        "no_timestamp_records": len(records) - len(times),
        **_order(times, now_ms, "records", "greatest_record_step_back_ms"),
        "top": _top(records, keys),
        "spreads": {
            "key_size": [len(record.key) for record in records if record.key is not None],
            "value_size": [len(record.value) for record in records if record.value is not None],
            "record_size": [_size(record) for record in records],
        },
    }


def _data_records(batches: list[PlainBatch]) -> Iterator[PlainRecord]:
    for batch in batches:
        if not batch.is_control and batch.records is not None:
            yield from batch.records


def _size(record: PlainRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _top(records: list[PlainRecord], keys: Counter[bytes]) -> list[tuple[bytes, int, int]]:
    sizes: Counter[bytes] = Counter()
    for record in records:
        if record.key is not None:
            sizes[record.key] += _size(record)
    return sorted(((key, count, sizes[key]) for key, count in keys.items()), key=lambda k: (-k[1], k[0]))


# --- a range ------------------------------------------------------------------------------------------


def plain_range(logs: list[PlainLog], wanted: Range, *, deep: bool) -> list[PlainLog]:
    """The same logs with what lies in a range: whole batches, or the records of each one by one."""
    numbers = itertools.count()
    return [
        PlainLog([part for one in log.batches if (part := _part(one, wanted, next(numbers), deep=deep))])
        for log in logs
    ]


def _part(batch: PlainBatch, wanted: Range, number: int, *, deep: bool) -> PlainBatch | None:
    if not deep or not batch.records:
        is_in = any(wanted.holds(one, batch.greatest_ms) for one in range(batch.first, batch.last + 1))
        return replace(batch, number=number) if is_in else None
    held = [one for one in batch.records if wanted.holds(one.offset, one.time_ms)]
    if not held:
        return None
    offsets = Range(wanted.from_offset, wanted.to_offset)
    is_timed = wanted.from_ms is not None or wanted.to_ms is not None
    return replace(
        batch,
        first=batch.first if wanted.from_offset is None else max(batch.first, wanted.from_offset),
        last=batch.last if wanted.to_offset is None else min(batch.last, wanted.to_offset - 1),
        count=len(held),
        records=held,
        number=number,
        present=sum(offsets.holds(one.offset, 0) for one in batch.records),
        greatest_ms=max(one.time_ms for one in held) if is_timed else batch.greatest_ms,
    )


def check_counts(group: StatsGroup, logs: list[PlainLog]) -> None:
    """A group says of these logs what a plain count says."""
    row = stats_row(group)
    plain = plain_numbers(logs, NOW)
    deep = plain_deep_numbers(logs, NOW) if group.stats.deep else {"spreads": {}, "top": None}
    _check_spreads(row, plain.pop("spreads") | deep.pop("spreads"))
    hours = {
        r["from_ms"]: (r["batches"], r["records"], r["size"]) for r in time_rows(group, group.stats.timeline)
    }
    assert hours == plain.pop("times")
    if (top := deep.pop("top")) is not None:
        found = [(r["key"], r["records"], r["size"]) for r in key_rows(group, 10_000, redact=False)]
        assert found == [(key[:64], records, size) for key, records, size in top]
    for codec in row["codecs"].values():
        codec.pop("ratio")
    expected = plain | deep
    assert {key: row[key] for key in expected} == expected


def _check_spreads(row: dict[str, Any], spreads: dict[str, list[int]]) -> None:
    for name, values in spreads.items():
        found, ordered = row[name], sorted(values)
        if not values:
            assert found is None
            continue
        assert (found["min"], found["max"]) == (ordered[0], ordered[-1])
        assert found["mean"] == pytest.approx(sum(values) / len(values), abs=0.001)
        for percent in (50, 90, 99):
            exact = ordered[max(1, -(-len(values) * percent // 100)) - 1]
            assert exact <= found[f"p{percent}"] <= exact * 1.016


def logs_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.endswith(".log"))


def fingerprint(value: Any) -> Any:
    """Everything in a result, as something that can be compared."""
    if is_dataclass(value):
        return {one.name: fingerprint(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [fingerprint(one) for one in value]
    return value


def starts_of(log: Path) -> list[int]:
    return [batch.position for batch in walk(log)[0]]
