"""Rows of `compact`."""

from __future__ import annotations

from kafkatool.commands.ndjson_keys.row_kind import TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "compaction": RowKind(
        "compact",
        "One pass of the log cleaner over a partition; pass 0 where there is nothing to clean.",
        {
            **TOPIC,
            "directory": "the directory of the partition",
            "at_ms": "the moment of the pass",
            "pass": "number of the pass, from 1",
            "first_dirty": "first offset that was not cleaned before",
            "first_uncleanable": "base offset of the first segment that may not be cleaned",
            "bound": "what ends the range: active_segment, last_stable_offset, min_compaction_lag",
            "bound_offset": "the offset that ends it; its whole segment is left alone",
            "bad_checkpoint": "why the cleaner's checkpoint does not count: below_log_start, above_log_end",
            "clean_bytes": "bytes of segments that begin below first_dirty",
            "cleanable_bytes": "bytes of segments from there to first_uncleanable",
            "ratio": "cleanable bytes of both",
            "min_ratio": "min.cleanable.dirty.ratio, which a broker wants exceeded",
            "overdue_ms": "how much longer than max.compaction.lag.ms the oldest dirty segment has waited",
            "is_due": "whether a broker would clean it at that moment",
            "has_cleaner": "whether log.cleaner.enable is true, and log.cleaner.threads not 0",
            "is_uncleanable": "always null: that a cleaner gave the partition up is only in its memory",
            "last_stable_offset": "the last stable offset",
            "open_transactions": "objects: producer_id, producer_epoch, transactional_id (null where no "
            "__transaction_state at hand has it), first_offset, "
            "first_timestamp_ms (null where that batch does not tell), last_timestamp_ms, age_ms, "
            "fix (the command that ends it)",
            "end_offset": "where the next pass begins; this and all below null in pass 0",
            "map_keys": "keys in the offset map",
            "map_capacity": "keys that it takes",
            "map_is_full": "whether that ended the pass early",
            "dirty_keys": "keys of the whole dirty range; null of a later pass that ended early",
            "dedupe_buffer_size": "log.cleaner.dedupe.buffer.size",
            "dedupe_buffer_needed": "what it must be to take all of them in one pass; null where it is not "
            "known, or none is large enough",
            "groups": "objects, one for each new segment: segments (the base offsets of those it is made of; "
            "it has the first), bytes_before, bytes_after",
            "segments_before": "segments that were read",
            "segments_after": "segments that they become",
            "bytes_before": "bytes of their logs",
            "bytes_after": "bytes of the new ones",
            "records_before": "records in them",
            "records_after": "records that stay",
            "superseded": "records that go because their key has a later one",
            "unkeyed": "records that go because they have no key",
            "tombstone": "tombstones that go because their horizon is past",
            "aborted": "records that go because their transaction was aborted",
            "marker": "markers of transactions that go because nothing of them is left",
            "kept_size": "bytes of the keys and values that stay, uncompressed",
            "superseded_size": "bytes of keys and values of those that go because superseded",
            "unkeyed_size": "likewise",
            "tombstone_size": "likewise",
            "aborted_size": "likewise",
            "marker_size": "likewise",
            "horizons_set": "batches that got a delete horizon",
            "batches_emptied": "batches that stay without records, for what they tell of producers",
            "batches_rewritten": "batches that lost records or got a horizon",
            "bad_checksums": "batches with a wrong checksum, which the cleaner does not look at",
        },
    ),
    "waste": RowKind(
        "compact",
        "A key, or what several begin with, of which records go; with --top.",
        {
            **TOPIC,
            "what": "key or prefix",
            "key": "the key, cut where it is long, or the prefix",
            "keys": "how many keys begin so",
            "records": "records that go, superseded or tombstones; an estimate where keys are very many",
            "bytes": "bytes of their keys and values",
        },
    ),
    "key_life": RowKind(
        "compact",
        "A record of the key that --key names.",
        {
            **TOPIC,
            "key": "the key",
            "segment": "base offset of the segment",
            "offset": "offset of the record",
            "timestamp_ms": "its timestamp",
            "value_size": "bytes of its value; null for a tombstone",
            "fate": "kept, superseded, tombstone, aborted, or not_reached by the pass",
            "delete_horizon_ms": "when tombstones of its batch may go; null where that is not set",
        },
    ),
}
