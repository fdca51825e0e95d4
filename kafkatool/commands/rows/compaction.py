"""Compaction as rows and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import Row, human_duration, human_size
from kafkatool.engine.compaction.dirty_range import BadCheckpoint, Bound
from kafkatool.format.kernel.verdicts import Fate

if TYPE_CHECKING:
    from kafkatool.engine.compaction.broker_cleaner import Cleaner
    from kafkatool.engine.compaction.cleanable_log import CleanableLog, SourceSegment
    from kafkatool.engine.compaction.dirty_range import DirtyRange
    from kafkatool.engine.compaction.key_life import Stage
    from kafkatool.engine.compaction.passes import Pass
    from kafkatool.engine.compaction.waste import Waste
    from kafkatool.engine.directory.log_dir import Partition

PASS_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("pass", "PASS", Look.number),
    Column("first_dirty", "FROM", Look.number),
    Column("end_offset", "TO", Look.number),
    Column("first_uncleanable", "UNTIL", Look.number),
    Column("bound", "BECAUSE OF"),
    Column("ratio_text", "DIRTY", Look.number),
    Column("map_keys", "KEYS", Look.number),
    Column("map_capacity", "OF", Look.number),
    Column("segments_before", "SEGMENTS", Look.number),
    Column("segments_after", "AFTER", Look.number),
    Column("bytes_before", "BYTES", Look.size),
    Column("bytes_after", "AFTER", Look.size),
    Column("records_before", "RECORDS", Look.number),
    Column("records_after", "AFTER", Look.number),
    Column("removed_text", "REMOVED"),
    Column("changed_text", "CHANGED"),
)
STAGE_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("segment", "SEGMENT", Look.number),
    Column("offset", "OFFSET", Look.number),
    Column("timestamp_ms", "TIME", Look.time),
    Column("value_size", "VALUE", Look.size, blank="tombstone"),
    Column("fate", "FATE"),
    Column("delete_horizon_ms", "HORIZON", Look.time),
)
WASTE_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("what", "WHAT"),
    Column("key", "KEY"),
    Column("keys", "KEYS", Look.number),
    Column("records", "RECORDS", Look.number),
    Column("bytes", "BYTES", Look.size),
)
_WORDS = {
    Fate.SUPERSEDED: "superseded",
    Fate.UNKEYED: "unkeyed",
    Fate.TOMBSTONE: "tombstone",
    Fate.ABORTED: "aborted",
    Fate.MARKER: "marker",
}


def range_row(
    partition: Partition,
    log: CleanableLog,
    dirty: DirtyRange,
    at_ms: int,
    cleaner: Cleaner,
    transactions: list[Row],
) -> Row:
    """What there is to clean, and what holds the rest."""
    return {
        "kind": "compaction",
        "topic": partition.topic,
        "partition": partition.partition,
        "directory": partition.path,
        "at_ms": at_ms,
        "pass": 0,
        "first_dirty": dirty.first_dirty,
        "first_uncleanable": dirty.first_uncleanable,
        "bound": str(dirty.reason),
        "bound_offset": dirty.bound,
        "bad_checkpoint": None if dirty.bad_checkpoint is None else str(dirty.bad_checkpoint),
        "clean_bytes": dirty.clean_bytes,
        "cleanable_bytes": dirty.cleanable_bytes,
        "ratio": dirty.ratio,
        "min_ratio": cleaner.min_ratio,
        "overdue_ms": dirty.overdue_ms,
        "is_due": cleaner.is_on and dirty.is_due(cleaner.min_ratio),
        "has_cleaner": cleaner.is_on,
        "is_uncleanable": None,
        "last_stable_offset": log.last_stable_offset,
        "open_transactions": transactions,
        **dict.fromkeys(_RESULT),
    }


_RESULT = (
    *("end_offset", "map_keys", "map_capacity", "map_is_full"),
    *("dirty_keys", "dedupe_buffer_size", "dedupe_buffer_needed"),
    *("groups", "segments_before", "segments_after"),
    *("bytes_before", "bytes_after", "records_before", "records_after", *_WORDS.values()),
    *("kept_size", *(f"{word}_size" for word in _WORDS.values())),
    *("horizons_set", "batches_emptied", "batches_rewritten", "bad_checksums"),
)


def pass_row(row: Row, number: int, one: Pass, cleaner: Cleaner) -> Row:
    """The same with what a pass made of it."""
    cleaned, counts = one.cleaned, one.cleaned.counts
    dirty_keys = cleaned.offsets.dirty_keys
    return {
        **row,
        "pass": number,
        "end_offset": cleaned.end_offset,
        "map_keys": cleaned.offsets.key_count,
        "map_capacity": cleaned.offsets.capacity,
        "map_is_full": cleaned.offsets.is_full,
        "dirty_keys": dirty_keys,
        "dedupe_buffer_size": cleaner.buffer_size,
        "dedupe_buffer_needed": None if dirty_keys is None else cleaner.needed(dirty_keys),
        "groups": [_group(group, new) for group, new in cleaned.groups],
        "segments_before": sum(len(group) for group, _new in cleaned.groups),
        "segments_after": len(cleaned.groups),
        "bytes_before": counts.bytes_read,
        "bytes_after": counts.bytes_written,
        "records_before": counts.records_read,
        "records_after": counts.records_kept,
        **{_WORDS[fate]: count for fate, count in counts.removed.items()},
        "kept_size": counts.bytes_kept,
        **{f"{_WORDS[fate]}_size": size for fate, size in counts.bytes_removed.items()},
        "horizons_set": counts.horizons_set,
        "batches_emptied": counts.batches_emptied,
        "batches_rewritten": counts.batches_rewritten,
        "bad_checksums": counts.bad_checksums,
    }


def _group(group: Sequence[SourceSegment], new: SourceSegment) -> Row:
    """Segments that become one."""
    return {
        "segments": [one.base_offset for one in group],
        "bytes_before": sum(one.size for one in group),
        "bytes_after": new.size,
    }


def for_people(row: Row, partition: Partition) -> Row:
    """A row with what a table says in fewer words."""
    removed = [f"{row[word]} {word}" for word in _WORDS.values() if row.get(word)]
    changed = [f"{row[name]} {word}" for name, word in _CHANGES.items() if row.get(name)]
    ratio = row.get("ratio")
    return {
        **row,
        "partition_name": partition.directory,
        "ratio_text": f"{ratio:.3f}" if isinstance(ratio, float) else None,
        "removed_text": ", ".join(removed) or "nothing" if row.get("pass") else "nothing to clean",
        "changed_text": ", ".join(changed) or None,
    }


_CHANGES = {"batches_rewritten": "rewritten", "horizons_set": "got a horizon", "batches_emptied": "emptied"}


def stage_row(partition: Partition, key: object, stage: Stage) -> Row:
    """One record in the life of a key."""
    fate = "not_reached" if stage.fate is None else _WORDS.get(stage.fate, "kept")
    return {
        "kind": "key_life",
        "topic": partition.topic,
        "partition": partition.partition,
        "key": key,
        "segment": stage.segment,
        "offset": stage.offset,
        "timestamp_ms": stage.timestamp_ms,
        "value_size": stage.value_size if stage.value_size >= 0 else None,
        "fate": fate,
        "delete_horizon_ms": stage.delete_horizon_ms,
    }


def waste_rows(partition: Partition, waste: Waste, most: int, show: Callable[[bytes], object]) -> list[Row]:
    """The prefixes and the keys of which most records go, so many of each."""
    place = {"kind": "waste", "topic": partition.topic, "partition": partition.partition}
    prefixes = [
        {
            **place,
            "what": "prefix",
            "key": show(one.prefix),
            "keys": one.keys,
            "records": one.records,
            "bytes": one.bytes,
        }
        for one in waste.keys.prefixes(most)
    ]
    keys = [
        {**place, "what": "key", "key": show(one.key), "keys": 1, "records": one.records, "bytes": one.bytes}
        for one in waste.keys.top(most)
    ]
    return [*prefixes, *keys]


def range_sentence(name: str, dirty: DirtyRange, cleaner: Cleaner) -> str:
    """Whether a broker would clean now, and why not."""
    if dirty.bad_checkpoint is not None:
        name = f"{name}: the cleaner's checkpoint is {_BAD_CHECKPOINTS[dirty.bad_checkpoint]}, all is dirty"
    if not dirty.cleanable_bytes:
        because = {
            Bound.ACTIVE: "all behind the last cleaning is in the active segment",
            Bound.STABLE: f"the last stable offset is {dirty.bound}",
            Bound.LAG: "the next segment is younger than min.compaction.lag.ms",
        }[dirty.reason]
        return f"{name}: nothing to clean: {because}"
    if not cleaner.is_on:
        return f"{name}: by log.cleaner.enable and log.cleaner.threads nobody would ever clean this"
    if not dirty.is_due(cleaner.min_ratio):
        ratio = f"{dirty.ratio:.3f} is not above {cleaner.min_ratio} dirty"
        return f"{name}: a broker would not clean this yet: {ratio}"
    why = f"{dirty.ratio:.3f} is above {cleaner.min_ratio} dirty"
    if dirty.ratio <= cleaner.min_ratio:
        why = f"it has waited {human_duration(dirty.overdue_ms)} longer than max.compaction.lag.ms"
    doubt = "unless its cleaner has given it up, which no file tells"
    return f"{name}: a broker would clean this now, {doubt}: {why}"


_BAD_CHECKPOINTS = {
    BadCheckpoint.BELOW_START: "below the log start",
    BadCheckpoint.ABOVE_END: "above the log end",
}


def map_sentence(name: str, row: Row) -> str | None:
    """What a map that was too small would have needed; None where it had room."""
    if not row["map_is_full"]:
        return None
    words = f"{name}: {row['map_capacity']} keys fill the map of a broker at offset {row['end_offset']}"
    if row["dirty_keys"] is None:
        return words
    words += f", {row['dirty_keys']} are dirty: "
    if row["dedupe_buffer_needed"] is None:
        return f"{words}no log.cleaner.dedupe.buffer.size takes them at once"
    return f"{words}log.cleaner.dedupe.buffer.size={row['dedupe_buffer_needed']} would take them at once"


def group_sentences(name: str, row: Row) -> Iterator[str]:
    """Which segments become one."""
    groups = row["groups"]
    assert isinstance(groups, list)
    for group in groups:
        bases = group["segments"]
        sizes = f"{human_size(group['bytes_before'])} to {human_size(group['bytes_after'])}"
        if len(bases) > 1:
            yield f"{name}: segments {', '.join(map(str, bases))} become {bases[0]}: {sizes}"
        else:
            yield f"{name}: segment {bases[0]} stays by itself: {sizes}"
