"""The rows of `stats`: the totals of each group as NDJSON objects, and as one line of a table."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from kafkatool.commands.rows.row_table import RowTable, plain_columns
from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.batches.row_fields import (
    RowField,
    data,
    flag,
    inside,
    int32,
    int64,
    real,
    size,
    text,
    time_ms,
    tree,
    values,
    word,
)
from kafkatool.engine.jobs.sketches import Spread, Timeline
from kafkatool.engine.stats.facts import Deep, Stats, Times
from kafkatool.engine.stats.grouping import By
from kafkatool.engine.stats.keys import Key
from kafkatool.engine.stats.recompress import WhatIf
from kafkatool.engine.stats.statistics import StatsGroup
from kafkatool.format.batch import CODEC_LABELS, TimestampType

StatsRow = dict[str, Any]

SPREAD_KEYS = ("min", "mean", "p50", "p90", "p99", "max")
_SPREADS = ("records_per_batch", "batch_size", "key_size", "value_size", "record_size")
_MEASURED = ("batches", "records", "size")
_TYPES = (TimestampType.NONE, TimestampType.CREATE, TimestampType.LOG_APPEND)
_BLOCKS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = 10) -> str:
    """Draw a bar of block characters; a share above 0 is always visible."""
    eighths = max(1, round(share * width * 8)) if share > 0 else 0
    whole, rest = divmod(min(eighths, width * 8), 8)
    return ("█" * whole + (_BLOCKS[rest] if rest else "")).ljust(width)


def share_text(share: float) -> str:
    """Format a share as `35%`; small shares keep a digit."""
    percent = 100 * share
    return f"{percent:.0f}%" if percent >= 9.95 or not percent else f"{percent:.1f}%"


# --- NDJSON and CSV -----------------------------------------------------------------------------------


def place_row(group: StatsGroup) -> StatsRow:
    """Return what identifies a group, as in every kind of row."""
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


def _spread(key: str, meaning: str, get: str = "") -> RowField:
    spread = attrgetter(get or key)
    meaning += ", as an object of min, mean, p50, p90, p99 and max; null where there is none"
    return tree(key, meaning, lambda found: spread_row(spread(found)))


_GROUP = (
    word("by", "what the row is about: file, partition, topic, or total for everything together"),
    text("topic", "the topic, from the name of the directory; null for the total"),
    int32("partition", "the number of the partition; null for topics and the total"),
    text("directory", "the directory of the partition, likewise"),
    text("file", "path of the file; null unless by is file"),
)
_DEEP = (
    int64("data_records", "number of records that were read, without control records", "records"),
    _spread("key_size", "bytes of a key that is not null"),
    _spread("value_size", "bytes of a value that is not null"),
    _spread("record_size", "bytes of key and value"),
    size(
        "inflated_size",
        "bytes that the batches would have if none were compressed",
        lambda deep: int(deep.inflated[:, 1].sum()),
    ),
    real(
        "ratio",
        "how many times larger they would be",
        lambda deep: ratio_of(*deep.inflated.sum(axis=0).tolist()),
    ),
    int64("keys", "number of different keys", "keys.count"),
    flag("keys_exact", "whether they were counted one by one, or else estimated", "keys.is_exact"),
    int64("null_keys", "number of records without a key"),
    int64("tombstones", "number of records without a value"),
    int64("records_with_headers", "number of records that have headers", "with_headers"),
    int64("headers", "number of headers"),
    *inside(
        "times",
        int64("no_timestamp_records", "number of records without a timestamp", "without"),
        int64("future_records", "number of records with a timestamp after --now", "future"),
        int64(
            "out_of_order_records",
            "number of records with a timestamp below that of the one before",
            "steps_back",
        ),
        time_ms("greatest_record_step_back_ms", "by how much at most", "greatest_step_ms"),
    ),
)
_RATES = (
    real(
        "records_per_second",
        "records by the time from the least to the greatest timestamp; null where that is none",
        lambda stats: rate(stats, stats.records),
    ),
    real("bytes_per_second", "bytes of batches, likewise", lambda stats: rate(stats, stats.size)),
)
STATS = RowTable(
    "stats",
    "stats",
    "What the good batches of a group come to; with --deep also their records, control records aside. "
    "Percentiles are exact below 128, and at most 1.6 % too high above.",
    *_GROUP,
    int64("partitions", "number of partitions; of a range, those that have something in it"),
    int64("files", "number of files; of a range, those that have something in it"),
    *inside(
        "stats",
        size("size", "bytes of good batches"),
        int64("batches", "number of good batches, or messages of the formats before magic 2"),
        int64("records", "number of records in them, by their headers; of a range with --deep, those in it"),
        _spread("records_per_batch", "records of a batch", "per_batch"),
        _spread("batch_size", "bytes of a batch"),
        tree(
            "codecs",
            "for every codec an object of batches, records, size, and ratio: how many times larger "
            "they would be if not compressed (--deep, else null)",
            lambda stats: codec_rows(stats),
        ),
        tree(
            "magics",
            "for every format version an object of batches, records and size",
            lambda stats: {
                str(magic): dict(zip(_MEASURED, measures, strict=True))
                for magic, measures in enumerate(stats.magics.tolist())
                if measures[0]
            },
        ),
        int64("producers", "number of different producer ids", "producers.count"),
        flag(
            "producers_exact", "whether they were counted one by one, or else estimated", "producers.is_exact"
        ),
        int64("idempotent_batches", "number of batches with a producer id", "idempotent"),
        int64(
            "transactional_batches",
            "number of batches that belong to a transaction, markers included",
            "transactional",
        ),
        int64("control_batches", "number of control batches, such as markers", "control"),
        tree(
            "timestamp_types",
            "for every type of timestamp the number of batches",
            lambda stats: {
                kind.value: int(count) for kind, count in zip(_TYPES, stats.types, strict=True) if count
            },
        ),
        time_ms(
            "min_timestamp_ms",
            "least timestamp of records with --deep; else of the batches' first records, "
            "and others in a batch may be older. Control batches have no say in times",
            lambda stats: times_of(stats).least,
        ),
        time_ms("max_timestamp_ms", "greatest timestamp", lambda stats: times_of(stats).greatest),
    ),
    *inside(
        "stats.times",
        int64("no_timestamp_batches", "number of batches without a timestamp", "without"),
        int64("future_batches", "number of batches with a greatest timestamp after --now", "future"),
        int64(
            "out_of_order_batches",
            "number of batches with a greatest timestamp below that before",
            "steps_back",
        ),
        time_ms("greatest_step_back_ms", "by how much at most", "greatest_step_ms"),
    ),
    *inside("stats", *_RATES),
    *inside(
        "stats.offsets",
        int64("first_offset", "first offset; null for topics and the total", "first"),
        int64("last_offset", "last offset, likewise", "last"),
        int64(
            "gaps",
            "number of places where offsets are missing between batches: compaction leaves them, and damage",
        ),
        int64(
            "missing_offsets",
            "number of offsets that no record has, between batches and inside them",
            "missing",
        ),
    ),
    *inside(
        "stats.damages",
        int64(
            "damaged",
            "number of damaged places, left out of everything else; with --deep also of batches "
            "whose records cannot be read, left out of what is said of records",
            "places",
        ),
        size("damaged_size", "bytes of them", "size"),
        tree(
            "damage_classes",
            "for every class of damage the number of places, notes included",
            lambda damages: dict(sorted(damages.classes.items())),
        ),
    ),
    *(field._replace(optional=True) for field in _DEEP),
)
STATS_TIMES = RowTable(
    "stats_time",
    "stats",
    "An hour of a group in which there are data batches; or a longer stretch, of 6 hours, 1, 7, 28, 364 "
    "days and so on, where there are more than 768. A batch counts where its greatest timestamp is.",
    *_GROUP,
    time_ms("from_ms", "where the stretch begins"),
    time_ms("to_ms", "where it ends (exclusive)"),
    int64("batches", "number of good batches"),
    int64("records", "number of records in them"),
    size("size", "bytes of them"),
)
_RANK = int64("rank", "1 for the most frequent")
_OF_KEYS = (
    size("size", "bytes of their keys and values", "bytes"),
    real("share", "records as a share of all data records, from 0 to 1"),
    flag("is_exact", "whether all keys were counted; else numbers are estimated from a sample"),
)
STATS_KEYS = RowTable(
    "stats_key",
    "stats",
    "One of the most frequent keys of a group (--deep).",
    *_GROUP,
    _RANK,
    data("key", "the key, or the first 64 bytes of it; with --redact a hash"),
    size("key_size", "bytes of the whole key", "size"),
    int64("records", "number of records with it"),
    *_OF_KEYS,
)
STATS_PREFIXES = RowTable(
    "stats_prefix",
    "stats",
    "What many keys of a group begin with: up to a separator (: / | # @ . _ - or a space), or a zero and "
    "the four bytes of a schema's id. Only what two keys or more share (--deep).",
    *_GROUP,
    _RANK,
    data("prefix", "what the keys begin with"),
    int64("keys", "number of different keys that were seen with it"),
    int64("records", "number of records with such a key"),
    *_OF_KEYS,
)
STATS_WHAT_IFS = RowTable(
    "stats_what_if",
    "stats",
    "What a sample of a group's batches takes with another codec (--what-if).",
    *_GROUP,
    word("codec", "none, gzip, snappy, lz4, zstd", "choice.codec.label"),
    int64("level", "its level; null for Kafka's default", "choice.level"),
    int64("batches", "number of batches in the sample"),
    size("stored_size", "bytes of them as they are", "stored"),
    size("inflated_size", "bytes of their records, not compressed", "inflated"),
    size("size", "bytes of the batches with this codec"),
    real("saved_share", "what that saves, as a share of stored_size; below 0 where it costs"),
    size("projected_size", "bytes of the whole group, if the sample is like the rest"),
    real("seconds", "time that it took to compress the sample here", lambda found: round(found.seconds, 6)),
)


def stats_row(group: StatsGroup) -> StatsRow:
    deep = {} if group.stats.deep is None else values(_DEEP, group.stats.deep)
    return STATS.row(group, **place_row(group), **deep)


def spread_row(spread: Spread) -> StatsRow | None:
    if not spread.count:
        return None
    shares = {f"p{percent}": spread.percentile(percent / 100) for percent in (50, 90, 99)}
    mean = None if spread.mean is None else round(spread.mean, 3)
    return {"min": spread.least, "mean": mean, **shares, "max": spread.greatest}


def codec_rows(stats: Stats) -> dict[str, StatsRow]:
    """Return every codec that occurs; unknown ones by their number."""
    found = {}
    for number, (batches, records, stored) in enumerate(stats.codecs.tolist()):
        if batches:
            label = CODEC_LABELS[number] or str(number)
            ratio = None if stats.deep is None else ratio_of(*stats.deep.inflated[number].tolist())
            found[label] = {"batches": batches, "records": records, "size": stored, "ratio": ratio}
    return found


def ratio_of(stored: int, inflated: int) -> float | None:
    return round(inflated / stored, 3) if stored else None


def times_of(stats: Stats) -> Times:
    """Return the most exact times that are known: those of records, if they were read."""
    return stats.times if stats.deep is None else stats.deep.times


def rates(stats: Stats) -> StatsRow:
    return values(_RATES, stats)


def rate(stats: Stats, count: int) -> float | None:
    """Return the count per second, from the least to the greatest time; None if no time passed."""
    times = times_of(stats)
    if times.least is None or times.greatest is None or times.greatest <= times.least:
        return None
    return round(count / ((times.greatest - times.least) / 1000), 3)


def time_rows(group: StatsGroup, timeline: Timeline) -> Iterator[StatsRow]:
    width = timeline.width_ms
    for stretch, measures in zip(timeline.stretches.tolist(), timeline.measures.tolist(), strict=True):
        measured = dict(zip(_MEASURED, measures, strict=True))
        when = {"from_ms": stretch * width, "to_ms": (stretch + 1) * width}
        yield STATS_TIMES.row(**place_row(group), **when, **measured)


def key_rows(group: StatsGroup, most: int, *, redact: bool) -> Iterator[StatsRow]:
    deep = group.stats.deep
    for rank, key in enumerate(() if deep is None else deep.keys.top(most), 1):
        assert deep is not None
        shown = hidden(key) if redact else key.key
        yield STATS_KEYS.row(key, **place_row(group), **_ranked(deep, rank, key.records), key=shown)


def _ranked(deep: Deep, rank: int, records: int) -> StatsRow:
    share = round(records / deep.records, 6) if deep.records else 0.0
    return {"rank": rank, "share": share, "is_exact": deep.keys.is_exact}


def hidden(key: Key) -> str:
    """Return a hash that tells keys apart without showing them."""
    return f"#{key.hash:016x}"


def prefix_rows(group: StatsGroup, most: int) -> Iterator[StatsRow]:
    deep = group.stats.deep
    for rank, one in enumerate(() if deep is None else deep.keys.prefixes(most), 1):
        assert deep is not None
        yield STATS_PREFIXES.row(one, **place_row(group), **_ranked(deep, rank, one.records))


def what_if_rows(group: StatsGroup, results: list[WhatIf]) -> Iterator[StatsRow]:
    for result in results:
        factor = result.size / result.stored if result.stored else None
        yield STATS_WHAT_IFS.row(
            result,
            **place_row(group),
            saved_share=None if factor is None else round(1 - factor, 6),
            projected_size=None if factor is None else round(group.stats.size * factor),
        )


def csv_columns(row: StatsRow) -> tuple[Column, ...]:
    """Return the columns of a table whose rows are like this one."""
    return plain_columns(csv_row(row))


def csv_row(row: StatsRow) -> StatsRow:
    """Return the row flattened: objects of fixed form become columns."""
    flat: StatsRow = {}
    for key, value in row.items():
        if key in _SPREADS:
            flat |= {f"{key}_{name}": None if value is None else value[name] for name in SPREAD_KEYS}
        elif key != "kind":
            flat[key] = value
    return flat


# --- one line per group -------------------------------------------------------------------------------

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
    """Return a group as one line of the short table."""
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
    """Format the codecs as `zstd 97% none 3%`, by bytes, the largest two."""
    mix = sorted(codec_rows(stats).items(), key=lambda item: -item[1]["size"])
    shares = [f"{label} {share_text(row['size'] / stats.size)}" for label, row in mix[:2]]
    return " ".join([*shares, *([f"+{len(mix) - 2}"] if len(mix) > 2 else [])]) or None


def notes(stats: Stats) -> Iterator[str]:
    """Yield what deserves a second look."""
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
