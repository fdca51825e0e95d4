"""The rows of `stats`: what each group comes to as NDJSON objects, and as one line of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.jobs.sketches import Spread, Timeline
from kafkatool.engine.stats.facts import Deep, Stats, Times
from kafkatool.engine.stats.grouping import By
from kafkatool.engine.stats.keys import Key
from kafkatool.engine.stats.recompress import WhatIf
from kafkatool.engine.stats.statistics import StatsGroup
from kafkatool.format.batch import CODEC_LABELS, TimestampType

StatsRow = dict[str, Any]

SPREAD_KEYS = ("min", "mean", "p50", "p90", "p99", "max")
SPREADS = ("records_per_batch", "batch_size", "key_size", "value_size", "record_size")
_TYPES = (TimestampType.NONE, TimestampType.CREATE, TimestampType.LOG_APPEND)
_BLOCKS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = 10) -> str:
    """A bar of block characters; what is not nothing is never invisible."""
    eighths = max(1, round(share * width * 8)) if share > 0 else 0
    whole, rest = divmod(min(eighths, width * 8), 8)
    return ("█" * whole + (_BLOCKS[rest] if rest else "")).ljust(width)


def share_text(share: float) -> str:
    """`35%`; small shares keep a digit."""
    percent = 100 * share
    return f"{percent:.0f}%" if percent >= 9.95 or not percent else f"{percent:.1f}%"


# --- NDJSON and CSV -----------------------------------------------------------------------------------


def place_row(group: StatsGroup) -> StatsRow:
    """What a group is, as every kind of row says it."""
    log, by = group.log, group.by
    partition = log.partition if log is not None and by is not None else None
    is_one = by in (By.PARTITION, By.FILE)
    return {
        "by": "total" if by is None else str(by),
        "topic": None if partition is None else partition.topic,
        "partition": partition.partition if partition is not None and is_one else None,
        "directory": partition.directory if partition is not None and is_one else None,
        "file": log.path if log is not None and by is By.FILE else None,
    }


def stats_row(group: StatsGroup) -> StatsRow:
    stats = group.stats
    row = {
        "kind": "stats",
        **place_row(group),
        "partitions": group.partitions,
        "files": group.files,
        "size": stats.size,
        "batches": stats.batches,
        "records": stats.records,
        "records_per_batch": spread_row(stats.per_batch),
        "batch_size": spread_row(stats.batch_size),
        "codecs": codec_rows(stats),
        "magics": {
            str(magic): dict(zip(("batches", "records", "size"), measures, strict=True))
            for magic, measures in enumerate(stats.magics.tolist())
            if measures[0]
        },
        "producers": stats.producers.count,
        "producers_exact": stats.producers.is_exact,
        "idempotent_batches": stats.idempotent,
        "transactional_batches": stats.transactional,
        "control_batches": stats.control,
        "timestamp_types": {
            kind.value: int(count) for kind, count in zip(_TYPES, stats.types, strict=True) if count
        },
        **_times(times_of(stats), stats.times),
        **rates(stats),
        "first_offset": stats.offsets.first,
        "last_offset": stats.offsets.last,
        "gaps": stats.offsets.gaps,
        "missing_offsets": stats.offsets.missing,
        "damaged": stats.damages.places,
        "damaged_size": stats.damages.size,
        "damage_classes": dict(sorted(stats.damages.classes.items())),
    }
    return row if stats.deep is None else {**row, **_deep(stats.deep)}


def spread_row(spread: Spread) -> StatsRow | None:
    if not spread.count:
        return None
    shares = {f"p{percent}": spread.percentile(percent / 100) for percent in (50, 90, 99)}
    mean = None if spread.mean is None else round(spread.mean, 3)
    return {"min": spread.least, "mean": mean, **shares, "max": spread.greatest}


def codec_rows(stats: Stats) -> dict[str, StatsRow]:
    """Every codec that there is; unknown ones by their number."""
    found = {}
    for number, (batches, records, size) in enumerate(stats.codecs.tolist()):
        if batches:
            label = CODEC_LABELS[number] or str(number)
            ratio = None if stats.deep is None else ratio_of(*stats.deep.inflated[number].tolist())
            found[label] = {"batches": batches, "records": records, "size": size, "ratio": ratio}
    return found


def ratio_of(stored: int, inflated: int) -> float | None:
    return round(inflated / stored, 3) if stored else None


def times_of(stats: Stats) -> Times:
    """The most exact times that are known: of records, if they were read."""
    return stats.times if stats.deep is None else stats.deep.times


def _times(exact: Times, of_batches: Times) -> StatsRow:
    return {
        "min_timestamp_ms": exact.least,
        "max_timestamp_ms": exact.greatest,
        "no_timestamp_batches": of_batches.without,
        "future_batches": of_batches.future,
        "out_of_order_batches": of_batches.steps_back,
        "greatest_step_back_ms": of_batches.greatest_step_ms,
    }


def rates(stats: Stats) -> StatsRow:
    """What came in a second, from the first to the last; null where that is no time at all."""
    times = times_of(stats)
    if times.least is None or times.greatest is None or times.greatest <= times.least:
        return {"records_per_second": None, "bytes_per_second": None}
    seconds = (times.greatest - times.least) / 1000
    return {
        "records_per_second": round(stats.records / seconds, 3),
        "bytes_per_second": round(stats.size / seconds, 3),
    }


def _deep(deep: Deep) -> StatsRow:
    times = deep.times
    return {
        "data_records": deep.records,
        "key_size": spread_row(deep.key_size),
        "value_size": spread_row(deep.value_size),
        "record_size": spread_row(deep.record_size),
        "inflated_size": int(deep.inflated[:, 1].sum()),
        "ratio": ratio_of(int(deep.inflated[:, 0].sum()), int(deep.inflated[:, 1].sum())),
        "keys": deep.keys.count,
        "keys_exact": deep.keys.is_exact,
        "null_keys": deep.null_keys,
        "tombstones": deep.tombstones,
        "records_with_headers": deep.with_headers,
        "headers": deep.headers,
        "no_timestamp_records": times.without,
        "future_records": times.future,
        "out_of_order_records": times.steps_back,
        "greatest_record_step_back_ms": times.greatest_step_ms,
    }


def time_rows(group: StatsGroup, timeline: Timeline) -> Iterator[StatsRow]:
    width = timeline.width_ms
    for stretch, measures in zip(timeline.stretches.tolist(), timeline.measures.tolist(), strict=True):
        yield {
            "kind": "stats_time",
            **place_row(group),
            "from_ms": stretch * width,
            "to_ms": (stretch + 1) * width,
            **dict(zip(("batches", "records", "size"), measures, strict=True)),
        }


def key_rows(group: StatsGroup, most: int, *, redact: bool) -> Iterator[StatsRow]:
    deep = group.stats.deep
    for rank, key in enumerate(() if deep is None else deep.keys.top(most), 1):
        assert deep is not None
        yield {
            "kind": "stats_key",
            **place_row(group),
            "rank": rank,
            "key": hidden(key) if redact else key.key,
            "key_size": key.size,
            "records": key.records,
            "size": key.bytes,
            "share": _share(key.records, deep.records),
            "is_exact": deep.keys.is_exact,
        }


def hidden(key: Key) -> str:
    """Something to tell keys apart by that does not show them."""
    return f"#{key.hash:016x}"


def prefix_rows(group: StatsGroup, most: int) -> Iterator[StatsRow]:
    deep = group.stats.deep
    for rank, one in enumerate(() if deep is None else deep.keys.prefixes(most), 1):
        assert deep is not None
        yield {
            "kind": "stats_prefix",
            **place_row(group),
            "rank": rank,
            "prefix": one.prefix,
            "keys": one.keys,
            "records": one.records,
            "size": one.bytes,
            "share": _share(one.records, deep.records),
            "is_exact": deep.keys.is_exact,
        }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0


def what_if_rows(group: StatsGroup, results: list[WhatIf]) -> Iterator[StatsRow]:
    for result in results:
        factor = result.size / result.stored if result.stored else None
        yield {
            "kind": "stats_what_if",
            **place_row(group),
            "codec": result.choice.codec.label,
            "level": result.choice.level,
            "batches": result.batches,
            "stored_size": result.stored,
            "inflated_size": result.inflated,
            "size": result.size,
            "saved_share": None if factor is None else round(1 - factor, 6),
            "projected_size": None if factor is None else round(group.stats.size * factor),
            "seconds": round(result.seconds, 6),
        }


def csv_columns(row: StatsRow) -> tuple[Column, ...]:
    """The columns of a table whose rows are like this one."""
    return tuple(Column(key, key) for key in csv_row(row))


def csv_row(row: StatsRow) -> StatsRow:
    """The same row without objects inside for what has a fixed form."""
    flat: StatsRow = {}
    for key, value in row.items():
        if key in SPREADS:
            flat |= {f"{key}_{name}": None if value is None else value[name] for name in SPREAD_KEYS}
        elif key != "kind":
            flat[key] = value
    return flat


# --- one line a group ---------------------------------------------------------------------------------

_NUMBERS = (
    Column("size", "SIZE", Look.size),
    Column("bar", "SHARE"),
    Column("records", "RECORDS", Look.number),
    Column("batches", "BATCHES", Look.number),
    Column("per_batch", "PER BATCH", Look.number),
    Column("mean_size", "AVG BATCH", Look.size),
    Column("codec_mix", "CODECS"),
    Column("notes", "NOTES", blank=""),
)
LINE_COLUMNS: dict[By, tuple[Column, ...]] = {
    By.TOPIC: (Column("name", "TOPIC"), Column("partitions", "PARTITIONS", Look.number), *_NUMBERS),
    By.PARTITION: (Column("name", "PARTITION"), *_NUMBERS),
    By.FILE: (Column("name", "FILE"), *_NUMBERS),
}


def line_row(group: StatsGroup, total_size: int) -> StatsRow:
    """A group as one line of the short table."""
    stats = group.stats
    share = min(1.0, stats.size / total_size) if total_size else 0.0
    return {
        **stats_row(group),
        "name": name_of(group),
        "bar": f"{bar(share, 8)} {share_text(share):>4}",
        "per_batch": None if stats.per_batch.mean is None else f"{stats.per_batch.mean:.1f}",
        "mean_size": None if stats.batch_size.mean is None else round(stats.batch_size.mean),
        "codec_mix": codec_mix(stats),
        "notes": ", ".join(notes(stats)),
    }


def name_of(group: StatsGroup) -> str:
    if group.by is None or group.log is None:
        return "total"
    if group.by is By.FILE:
        return group.log.path
    partition = group.log.partition
    if group.by is By.TOPIC:
        return partition.topic or partition.directory
    return partition.directory


def codec_mix(stats: Stats) -> str | None:
    """`zstd 97% none 3%`, by bytes, the greatest two."""
    mix = sorted(codec_rows(stats).items(), key=lambda item: -item[1]["size"])
    shares = [f"{label} {share_text(row['size'] / stats.size)}" for label, row in mix[:2]]
    return " ".join([*shares, *([f"+{len(mix) - 2}"] if len(mix) > 2 else [])]) or None


def notes(stats: Stats) -> Iterator[str]:
    """What is worth a second look."""
    times = times_of(stats)
    old = stats.batches - int(stats.magics[2, 0])
    for count, what in (
        (stats.damages.places, "damaged"),
        (old, "of an old format"),
        (times.future, "in the future"),
        (times.steps_back, "out of order"),
        (times.without, "without time"),
    ):
        if count:
            yield f"{count} {what}"
    if gaps := stats.offsets.gaps:
        yield f"{gaps} gap{'s' if gaps > 1 else ''}"
