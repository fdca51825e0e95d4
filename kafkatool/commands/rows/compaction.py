"""Compaction as rows and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.rows.transactions import OPEN_TRANSACTIONS
from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import Row, human_duration, human_size
from kafkatool.engine.batches.row_fields import (
    PARTITION,
    TOPIC,
    data,
    flag,
    inside,
    int64,
    items,
    real,
    size,
    time_ms,
    values,
    word,
)
from kafkatool.engine.compaction.dirty_range import BadCheckpoint, Bound
from kafkatool.format.kernel.verdicts import Fate

if TYPE_CHECKING:
    from kafkatool.engine.compaction.broker_cleaner import Cleaner
    from kafkatool.engine.compaction.cleanable_log import CleanableLog, SourceSegment
    from kafkatool.engine.compaction.cleaner import Counts
    from kafkatool.engine.compaction.dirty_range import DirtyRange
    from kafkatool.engine.compaction.key_life import Stage
    from kafkatool.engine.compaction.passes import Pass
    from kafkatool.engine.compaction.waste import Waste
    from kafkatool.engine.directory.log_dir import Partition

_WORDS = {
    Fate.SUPERSEDED: "superseded",
    Fate.UNKEYED: "unkeyed",
    Fate.TOMBSTONE: "tombstone",
    Fate.ABORTED: "aborted",
    Fate.MARKER: "marker",
}

_SUPERSEDED_SIZE = "bytes of keys and values of those that go because superseded"


def _count_of(what: str, fate: Fate, counts: Counts) -> int:
    """Return what a pass counted for the records with one fate."""
    found: dict[Fate, int] = getattr(counts, what)
    return found[fate]


_DONE = (
    int64("end_offset", "where the next pass begins; this and all below null in pass 0"),
    int64("map_keys", "keys in the offset map", "offsets.key_count"),
    int64("map_capacity", "keys that it takes", "offsets.capacity"),
    flag("map_is_full", "whether that ended the pass early", "offsets.is_full"),
    int64(
        "dirty_keys",
        "keys of the whole dirty range; null of a later pass that ended early",
        "offsets.dirty_keys",
    ),
    size("dedupe_buffer_size", "log.cleaner.dedupe.buffer.size", lambda _cleaned: None),
    size(
        "dedupe_buffer_needed",
        "what it must be to take all of them in one pass; null where it is not "
        "known, or none is large enough",
        lambda _cleaned: None,
    ),
    items(
        "groups",
        "objects, one for each new segment: segments (the base offsets of those it is made of; "
        "it has the first), bytes_before, bytes_after",
        lambda cleaned: [_group(group, new) for group, new in cleaned.groups],
    ),
    int64(
        "segments_before",
        "segments that were read",
        lambda cleaned: sum(len(group) for group, _new in cleaned.groups),
    ),
    int64("segments_after", "segments that they become", lambda cleaned: len(cleaned.groups)),
    *inside(
        "counts",
        size("bytes_before", "bytes of their logs", "bytes_read"),
        size("bytes_after", "bytes of the new ones", "bytes_written"),
        int64("records_before", "records in them", "records_read"),
        int64("records_after", "records that stay", "records_kept"),
        *(
            int64(_WORDS[fate], meaning, partial(_count_of, "removed", fate))
            for fate, meaning in (
                (Fate.SUPERSEDED, "records that go because their key has a later one"),
                (Fate.UNKEYED, "records that go because they have no key"),
                (Fate.TOMBSTONE, "tombstones that go because their horizon is past"),
                (Fate.ABORTED, "records that go because their transaction was aborted"),
                (Fate.MARKER, "markers of transactions that go because nothing of them is left"),
            )
        ),
        size("kept_size", "bytes of the keys and values that stay, uncompressed", "bytes_kept"),
        *(
            size(f"{_WORDS[fate]}_size", meaning, partial(_count_of, "bytes_removed", fate))
            for fate, meaning in zip(_WORDS, (_SUPERSEDED_SIZE, *repeat("likewise", 4)), strict=True)
        ),
        int64("horizons_set", "batches that got a delete horizon"),
        int64("batches_emptied", "batches that stay without records, for what they tell of producers"),
        int64("batches_rewritten", "batches that lost records or got a horizon"),
        int64("bad_checksums", "batches with a wrong checksum, which the cleaner does not look at"),
    ),
)
"""The result of a pass over a log."""
PASSES = RowTable(
    "compaction",
    "compact",
    "One pass of the log cleaner over a partition; pass 0 where there is nothing to clean.",
    *PARTITION,
    time_ms("at_ms", "the moment of the pass"),
    int64("pass", "number of the pass, from 1"),
    int64("first_dirty", "first offset that was not cleaned before"),
    int64("first_uncleanable", "base offset of the first segment that may not be cleaned"),
    word("bound", "what ends the range: active_segment, last_stable_offset, min_compaction_lag", "reason"),
    int64("bound_offset", "the offset that ends it; its whole segment is left alone", "bound"),
    word("bad_checkpoint", "why the cleaner's checkpoint does not count: below_log_start, above_log_end"),
    size("clean_bytes", "bytes of segments that begin below first_dirty"),
    size("cleanable_bytes", "bytes of segments from there to first_uncleanable"),
    real("ratio", "cleanable bytes of both"),
    real("min_ratio", "min.cleanable.dirty.ratio, which a broker wants exceeded"),
    time_ms("overdue_ms", "how much longer than max.compaction.lag.ms the oldest dirty segment has waited"),
    flag("is_due", "whether a broker would clean it at that moment"),
    flag("has_cleaner", "whether log.cleaner.enable is true, and log.cleaner.threads not 0"),
    flag(
        "is_uncleanable",
        "always null: that a cleaner gave the partition up is only in its memory",
        lambda _dirty: None,
    ),
    int64("last_stable_offset", "the last stable offset"),
    OPEN_TRANSACTIONS,
    *_DONE,
)
PASS_COLUMNS = PASSES.columns(
    partition_name="PARTITION",
    **{"pass": "PASS"},
    first_dirty="FROM",
    end_offset="TO",
    first_uncleanable="UNTIL",
    bound="BECAUSE OF",
    ratio_text=Column("ratio_text", "DIRTY", Look.number),
    map_keys="KEYS",
    map_capacity="OF",
    segments_before="SEGMENTS",
    segments_after="AFTER",
    bytes_before="BYTES",
    bytes_after="AFTER",
    records_before="RECORDS",
    records_after="AFTER",
    removed_text="REMOVED",
    changed_text="CHANGED",
)
WASTE = RowTable(
    "waste",
    "compact",
    "A key, or what several begin with, of which records go; with --top.",
    *TOPIC,
    word("what", "key or prefix"),
    data("key", "the key, cut where it is long, or the prefix"),
    int64("keys", "how many keys begin so"),
    int64("records", "records that go, superseded or tombstones; an estimate where keys are very many"),
    size("bytes", "bytes of their keys and values"),
)
WASTE_COLUMNS = WASTE.columns(
    partition_name="PARTITION", what="WHAT", key="KEY", keys="KEYS", records="RECORDS", bytes="BYTES"
)
STAGES = RowTable(
    "key_life",
    "compact",
    "A record of the key that --key names.",
    *TOPIC,
    data("key", "the key"),
    int64("segment", "base offset of the segment"),
    int64("offset", "offset of the record"),
    time_ms("timestamp_ms", "its timestamp"),
    size(
        "value_size",
        "bytes of its value; null for a tombstone",
        lambda stage: stage.value_size if stage.value_size >= 0 else None,
    ),
    word(
        "fate",
        "kept, superseded, tombstone, aborted, or not_reached by the pass",
        lambda stage: "not_reached" if stage.fate is None else _WORDS.get(stage.fate, "kept"),
    ),
    time_ms("delete_horizon_ms", "when tombstones of its batch may go; null where that is not set"),
)
STAGE_COLUMNS = STAGES.columns(
    partition_name="PARTITION",
    segment="SEGMENT",
    offset="OFFSET",
    timestamp_ms="TIME",
    value_size=Column("value_size", "VALUE", Look.size, blank="tombstone"),
    fate="FATE",
    delete_horizon_ms="HORIZON",
)


def range_row(
    partition: Partition,
    log: CleanableLog,
    dirty: DirtyRange,
    at_ms: int,
    cleaner: Cleaner,
    transactions: list[Row],
) -> Row:
    """Return the row of what can be cleaned, and of what limits it."""
    return PASSES.row(
        dirty,
        **values(PARTITION, partition),
        at_ms=at_ms,
        **{"pass": 0},
        min_ratio=cleaner.min_ratio,
        is_due=cleaner.is_on and dirty.is_due(cleaner.min_ratio),
        has_cleaner=cleaner.is_on,
        last_stable_offset=log.last_stable_offset,
        open_transactions=transactions,
        **values(_DONE, None),
    )


def pass_row(row: Row, number: int, one: Pass, cleaner: Cleaner) -> Row:
    """Return the row of a range with the result of a pass."""
    keys = one.cleaned.offsets.dirty_keys
    return {
        **row,
        **values(_DONE, one.cleaned),
        "pass": number,
        "dedupe_buffer_size": cleaner.buffer_size,
        "dedupe_buffer_needed": None if keys is None else cleaner.needed(keys),
    }


def _group(group: Sequence[SourceSegment], new: SourceSegment) -> Row:
    """Return the row of segments that are merged into one."""
    return {
        "segments": [one.base_offset for one in group],
        "bytes_before": sum(one.size for one in group),
        "bytes_after": new.size,
    }


def for_people(row: Row, partition: Partition) -> Row:
    """Return a row with the short texts that a table shows."""
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
    """Return the row of one record in the life of a key."""
    return STAGES.row(stage, topic=partition.topic, partition=partition.partition, key=key)


def waste_rows(partition: Partition, waste: Waste, most: int, show: Callable[[bytes], object]) -> list[Row]:
    """Return the prefixes and the keys with the most removed records, at most `most` of each."""
    place = values(TOPIC, partition)
    prefixes = [
        WASTE.row(one, **place, what="prefix", key=show(one.prefix)) for one in waste.keys.prefixes(most)
    ]
    keys = [WASTE.row(one, **place, what="key", key=show(one.key), keys=1) for one in waste.keys.top(most)]
    return [*prefixes, *keys]


def range_sentence(name: str, dirty: DirtyRange, cleaner: Cleaner) -> str:
    """Say whether a broker would clean now, and if not, why."""
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
    """Say how large a map that was too small should have been; return None if it was large enough."""
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
    """Say which segments are merged into one."""
    groups = row["groups"]
    assert isinstance(groups, list)
    for group in groups:
        bases = group["segments"]
        sizes = f"{human_size(group['bytes_before'])} to {human_size(group['bytes_after'])}"
        if len(bases) > 1:
            yield f"{name}: segments {', '.join(map(str, bases))} become {bases[0]}: {sizes}"
        else:
            yield f"{name}: segment {bases[0]} stays by itself: {sizes}"
