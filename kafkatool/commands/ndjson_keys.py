"""What every key of every NDJSON row means: the text of kafkatool-ndjson(5).

The rows themselves are made in `log_rows`, `side_rows` and `ls_rows`; a test compares the two.
"""

from __future__ import annotations

from typing import NamedTuple


class RowKind(NamedTuple):
    """One kind of row."""

    command: str
    meaning: str
    keys: dict[str, str]
    optional: frozenset[str] = frozenset()
    """Keys that only some rows of this kind have; all others are always there, null where unknown."""


_TOPIC = {
    "topic": "the topic, from the name of the directory",
    "partition": "the number of the partition, likewise",
}
_FILE = {"file": "path of the file"}
_OF_PARTITION = _FILE | _TOPIC
_WEIGHT = {
    "files": "number of files",
    "size": "bytes that the files claim to have",
    "allocated": "bytes that they take on the disk; less than size where a file is sparse",
}
_PLACE = {
    "log_dir": "the log directory, where one was named",
    "directory": "the directory of the partition",
    **_TOPIC,
}
_RANGE = {
    "first_offset": "first offset",
    "last_offset": "last offset",
    "first_timestamp_ms": "timestamp of the first batch",
    "max_timestamp_ms": "greatest timestamp",
}
_PROBLEM = {"problem": "what kept the ranges from being found out, or is wrong at the end of the log"}

_DUMP_LOG: dict[str, RowKind] = {
    "batch": RowKind(
        "dump-log",
        "A record batch, or a message of the formats before magic 2.",
        {
            **_TOPIC,
            "segment": "base offset of the segment, from the name of the file",
            "base_offset": "offset of the first record",
            "last_offset": "offset of the last record",
            "last_offset_delta": "last_offset minus base_offset, as stored",
            "batch_length": "bytes behind the length field, as stored",
            "partition_leader_epoch": "epoch of the leader that took the batch",
            "magic": "format version: 2, or 0 or 1 in old logs",
            "crc": "stored checksum",
            "attributes": "attribute bits as a number, unknown ones included",
            "codec": "none, gzip, snappy, lz4, zstd; null for a number that names none",
            "timestamp_type": "CreateTime, LogAppendTime, NoTimestampType",
            "base_timestamp_ms": "timestamp that records count from; null with a delete horizon",
            "max_timestamp_ms": "greatest timestamp of the batch",
            "delete_horizon_ms": "when compaction may drop tombstones of the batch; null where not set",
            "producer_id": "id of the producer; -1 for none",
            "producer_epoch": "epoch of the producer; -1 for none",
            "base_sequence": "sequence number of the first record; -1 for none",
            "last_sequence": "sequence number of the last record; -1 for none",
            "records_count": "number of records, as stored; null in old formats",
            "is_transactional": "whether it belongs to a transaction",
            "is_control": "whether it holds control records, such as the end of a transaction",
            "position": "byte in the file where it begins",
            "size": "bytes of the whole batch",
            "is_valid": "whether the checksum matches",
        },
    ),
    "record": RowKind(
        "dump-log",
        "A record: of dump-log with --deep-iteration, --print-data-log or a record filter; of cat, export.",
        {
            **_TOPIC,
            "offset": "offset of the record",
            "timestamp_ms": "its timestamp; -1 for none",
            "timestamp_type": "CreateTime, LogAppendTime, NoTimestampType",
            "key": "the key; null for none (--print-data-log)",
            "value": "the value; null for none, which is a tombstone in a compacted topic (--print-data-log)",
            "headers": "list of [name, value], order and duplicates kept (--print-data-log)",
            "header_keys": "names of the headers (without --print-data-log)",
            "sequence": "sequence number; -1 for none, null in old formats",
            "batch_position": "byte in the file where its batch begins",
            "key_size": "bytes of the key; -1 for null",
            "value_size": "bytes of the value; -1 for null",
            "decoded": "what a control record or a record of an internal topic says: type, version, key, "
            "value, and error where it could not be read (--print-data-log)",
            "producer_id": "id of the producer; -1 for none, null in old formats (cat and export)",
            "producer_epoch": "epoch of the producer, likewise",
            "partition_leader_epoch": "epoch of the leader that took the batch, likewise",
            "is_control": "whether it is a control record, such as the end of a transaction (cat and export)",
            "txn": "none, or what became of its transaction: committed, aborted, open, or unknown where that "
            "is lost in damage (cat and export)",
            "above_high_watermark": "whether consumers do not get it yet (cat and export)",
            "below_log_start": "whether it is deleted, and only still on the disk (cat and export)",
        },
        frozenset(
            {
                *("key", "value", "headers", "header_keys", "decoded"),
                *("producer_id", "producer_epoch", "partition_leader_epoch", "is_control", "txn"),
                *("above_high_watermark", "below_log_start"),
            }
        ),
    ),
    "damage": RowKind(
        "dump-log",
        "Something that is not as it should be, in its place among the other rows.",
        {
            **_TOPIC,
            **_FILE,
            "position": "byte where it begins",
            "end_position": "byte where good data may begin again (exclusive)",
            "first_offset": "first offset at stake; null where unknown",
            "last_offset": "last offset at stake; null where unknown",
            "next_good_offset": "offset of the next good batch; null where there is none",
            "class": "bad_crc, bad_length, bad_magic, bad_offset, bad_record, torn_tail, zero_filled, "
            "bit_flip, unreadable, too_large, in_flight, stale_index, bad_index, missing_file, "
            "bad_checkpoint, bad_snapshot, bad_metadata, overlap, gap",
            "severity": "loss (records gone or unreadable), no_start (a broker would refuse to start, or "
            "drop the log), degraded (works, or is rebuilt at start), note",
            "expected": "what should be there",
            "found": "what is there",
            "message": "the same in a sentence",
            "fix": "the command to run next",
        },
    ),
}

_SIDE: dict[str, RowKind] = {
    "index_entry": RowKind(
        "dump-log",
        "An entry of an .index file.",
        {
            **_OF_PARTITION,
            "slot": "number of the entry, from 0",
            "offset": "offset that it leads to",
            "position": "byte in the .log where the batch of that offset begins",
        },
    ),
    "time_index_entry": RowKind(
        "dump-log",
        "An entry of a .timeindex file.",
        {
            **_OF_PARTITION,
            "slot": "number of the entry, from 0",
            "timestamp_ms": "greatest timestamp up to that offset",
            "offset": "offset that it leads to",
        },
    ),
    "aborted_transaction": RowKind(
        "dump-log",
        "An entry of a .txnindex file.",
        {
            **_OF_PARTITION,
            "version": "format version of the entry",
            "producer_id": "id of the producer",
            "first_offset": "first offset of the transaction",
            "last_offset": "offset of the marker that aborted it",
            "last_stable_offset": "last stable offset when it was aborted",
        },
    ),
    "producer_state": RowKind(
        "dump-log",
        "A producer in a .snapshot file.",
        {
            **_OF_PARTITION,
            "producer_id": "id of the producer",
            "producer_epoch": "its epoch",
            "last_sequence": "sequence number of its last record",
            "last_offset": "offset of its last record",
            "offset_delta": "last minus first offset of its last batch",
            "timestamp_ms": "timestamp of its last batch",
            "coordinator_epoch": "epoch of the coordinator that wrote its last marker",
            "current_txn_first_offset": "first offset of its open transaction; -1 for none",
        },
    ),
    "leader_epoch": RowKind(
        "dump-log",
        "A line of a leader-epoch-checkpoint.",
        {
            **_OF_PARTITION,
            "epoch": "the leader epoch",
            "start_offset": "first offset of that epoch",
        },
    ),
    "partition_metadata": RowKind(
        "dump-log",
        "A partition.metadata file.",
        {
            **_OF_PARTITION,
            "version": "format version",
            "topic_id": "id of the topic",
        },
    ),
    "checkpoint_entry": RowKind(
        "dump-log",
        "A line of one of the offset checkpoints of a log directory.",
        {
            **_FILE,
            "checkpoint": "name of the checkpoint",
            "topic": "topic of the line",
            "partition": "partition of the line",
            "offset": "offset of the line",
        },
    ),
    "meta_properties": RowKind(
        "dump-log",
        "A meta.properties file.",
        {
            **_FILE,
            "version": "format version",
            "cluster_id": "id of the cluster",
            "node_id": "id of the node; the broker's in version 0",
            "directory_id": "id of the log directory",
        },
    ),
    "quorum_state": RowKind(
        "dump-log",
        "A quorum-state file.",
        {
            **_FILE,
            "data_version": "format version",
            "leader_id": "the leader that this node knows; -1 for none",
            "leader_epoch": "its epoch",
            "voted_id": "the node that this one has voted for; -1 for none",
            "voted_directory_id": "its directory id; null in version 0",
            "current_voters": "ids of the voters; null from version 1 on",
        },
    ),
    "clean_shutdown": RowKind(
        "dump-log",
        "A .kafka_cleanshutdown file.",
        {
            **_FILE,
            "version": "format version; null where unreadable",
            "broker_epoch": "epoch of the broker that shut down; null where unreadable",
        },
    ),
}

_LS: dict[str, RowKind] = {
    "logdir": RowKind(
        "ls",
        "A log directory. Comes before all other rows.",
        {
            "log_dir": "its path",
            "cluster_id": "id of the cluster, from meta.properties",
            "node_id": "id of the node",
            "directory_id": "id of the log directory",
            "meta_version": "format version of meta.properties",
            "clean_shutdown": "whether the broker left its mark of a clean shutdown",
            "partitions": "number of partition directories, in every state",
            "segments": "number of segments",
            **_WEIGHT,
            "unknown_files": "paths of files that are not Kafka's",
            "unknown_directories": "paths of directories that are not Kafka's: brokers refuse one at the top",
        },
    ),
    "topic": RowKind(
        "ls",
        "A topic, over all the log directories named (--topics).",
        {
            "topic": "name of the topic",
            "topic_id": "its id; null where unknown or where partitions disagree",
            "partitions": "number of partition directories",
            "states": "how many are in each state: active:3,stray:1",
            "segments": "number of segments",
            "first_timestamp_ms": "least timestamp of the first batches; null where one is unknown",
            "max_timestamp_ms": "greatest timestamp; null where one is unknown",
            **_WEIGHT,
            **_PROBLEM,
        },
    ),
    "partition": RowKind(
        "ls",
        "A partition (--partitions, the default).",
        {
            **_PLACE,
            "topic_id": "id of the topic, from partition.metadata",
            "state": "active, deleted, stray, future, metadata",
            "segments": "number of segments",
            **_RANGE,
            "log_start_offset": "from log-start-offset-checkpoint",
            "high_watermark": "from replication-offset-checkpoint",
            "recovery_point": "from recovery-point-offset-checkpoint",
            **_WEIGHT,
            "leftover_allocated": "bytes on the disk of files marked as deleted, cleaned, swap or unfinished",
            **_PROBLEM,
        },
    ),
    "segment": RowKind(
        "ls",
        "A segment (--segments).",
        {
            **_PLACE,
            "segment": "its base offset",
            "state": "active, closed, deleted, cleaned, swap; orphan for indexes without a log",
            **_RANGE,
            "log_size": "bytes of the .log; null where it is missing",
            "index_size": "bytes that its indexes claim to have",
            **_WEIGHT,
            "modified_ms": "when the .log was last modified",
            **_PROBLEM,
        },
    ),
    "file_entry": RowKind(
        "ls",
        "A file (--files).",
        {
            **_PLACE,
            **_FILE,
            "file_kind": "log, index, timeindex, txnindex, snapshot, the name of a checkpoint …, unknown",
            "group": "what its space is counted as: log, index, state, leftover, unknown",
            "state": "live, deleted, cleaned, swap, tmp, part",
            "offset": "the offset in its name",
            "size": "bytes that it claims to have",
            "allocated": "bytes that it takes on the disk",
            "modified_ms": "when it was last modified",
        },
    ),
    "total": RowKind(
        "ls",
        "Everything that was named, each file once. Comes last.",
        {
            "partitions": "number of partition directories",
            "segments": "number of segments",
            **_WEIGHT,
            "leftover_allocated": "bytes on the disk of files marked as deleted, cleaned, swap or unfinished",
        },
    ),
    "space": RowKind(
        "ls",
        "A file system and where its space went (--space). used = log + index + state + leftover + unknown "
        "+ open_deleted + unexplained; all in bytes on the disk.",
        {
            "mount": "where it is mounted",
            "log_dirs": "the log directories on it",
            "capacity": "its size",
            "used": "what is used",
            "available": "what is left for those who are not root",
            "log": "log segments and KRaft snapshots",
            "index": "indexes",
            "state": "checkpoints, snapshots and the like",
            "leftover": "deleted, cleaned, swap and unfinished files, and deleted or stray partitions",
            "unknown": "files in the log directories that are not Kafka's",
            "open_deleted": "deleted files that a process still holds open",
            "unexplained": "all else on the file system",
            "inodes": "number of inodes",
            "inodes_used": "number of inodes in use",
            "inodes_by_group": "the same groups, in inodes",
            "inodes_open_deleted": "inodes of deleted files that a process still holds open",
            "inodes_unexplained": "all others",
            "all_processes_seen": "false where some processes could not be asked what they hold open",
            "processes": "who holds deleted files open: list of objects with pid, command, files, allocated",
        },
    ),
}

_LOOKUP: dict[str, RowKind] = {
    "lookup": RowKind(
        "lookup",
        "Where an offset or a time is found.",
        {
            **_TOPIC,
            "directory": "the directory of the partition",
            "segment": "base offset of the segment",
            "position": "byte where the batch to read from begins",
            "base_offset": "first offset of that batch; null for messages before magic 2",
            "last_offset": "last offset of that batch",
            "offset": "first record in it that was meant; null where compaction left none",
            "timestamp_ms": "timestamp of that record",
        },
    ),
    "lookup_step": RowKind(
        "lookup",
        "A step of the search, with --explain.",
        {
            **_TOPIC,
            "directory": "the directory of the partition",
            "action": "segment, time_index, offset_index, walk, full_walk (what reading everything says)",
            "file": "path of the file that was asked; - for all",
            "result": "what came out, in words",
            "slots": "entries of the index; null where none was asked",
            "visited": "the entries that were looked at, in order",
            "bytes_read": "bytes walked through; null where none were",
        },
    ),
}

_PLAN: dict[str, RowKind] = {
    "step": RowKind(
        "rebuild-index",
        "One change of one file, planned or, with --apply, made. Damage in a log is told as in dump-log.",
        {
            **_TOPIC,
            **_FILE,
            "action": "write, remove, rename, purge; undo with --undo",
            "target": "the new name, for rename, or for what is removed to a place of its own",
            "why": "the reason, in words",
            "size_before": "bytes of the file as it is; null where there is none",
            "size_after": "bytes of what is written; null for remove and rename",
            "entries": "entries of the index, or producers of the snapshot, that is written",
            "only_there": "entries of the old file that the log does not bear out",
            "only_here": "entries that the old file lacks",
        },
    ),
    "recovery": RowKind(
        "recover",
        "One thing that a broker would do at start-up after an unclean shutdown.",
        {
            "directory": "the partition's directory, or the log directory",
            **_TOPIC,
            "segment": "base offset of the segment; null where it is about none",
            "what": "leftover (a file that was left behind is resolved), scan, cut, trim (of zeros that "
            "were reserved, or never written), delete, rebuild, split; "
            "refuse (the broker does not start), offline (it leaves the log directory out), stray (it sets "
            "the partition aside), promote (a -future copy takes its place), empty (such a copy loses all); "
            "salvage and unprovable with --keep-after-damage",
            "position": "byte where the log is cut; for a scan its size",
            "first_offset": "first offset at stake",
            "last_offset": "last offset of a good batch that is lost; null where there is none",
            "message": "the same in a sentence",
            "replicas": "nodes that hold the partition, by the newest metadata on the disk; null if unknown",
            "isr": "those of them that were in sync",
            "leader": "the leader; -1 for none",
            "metadata_ms": "when that was written into the metadata",
        },
    ),
    "plan": RowKind(
        "rebuild-index",
        "All steps for one log directory. Comes behind them.",
        {
            "command": "the command whose plan it is",
            "log_dir": "the log directory",
            "steps": "number of steps",
            "bytes_needed": "bytes that are written beside the old files",
            "bytes_free": "bytes that are free on that volume",
            "is_applied": "whether it was done",
            "journal": "path of the journal for --undo; null where nothing was done",
        },
    ),
}

_VERIFY: dict[str, RowKind] = {
    "finding": RowKind(
        "verify",
        "Something that is not as it should be, in a log or between files.",
        {
            **_DUMP_LOG["damage"].keys,
            "fix": "the command to run next, or what to do instead; null for notes",
            "replicas": "nodes that hold the partition, by the newest metadata on the disk; null if unknown",
            "isr": "those of them that were in sync",
            "eligible_leader_replicas": "those that were not, and have every committed record (ELR)",
            "leader": "the leader; -1 for none",
            "metadata_ms": "when that was written into the metadata",
            "below_recovery_point": "whether a broker that starts now would not look there; null if unknown",
        },
    ),
    "summary": RowKind(
        "verify",
        "What was checked. Comes last.",
        {
            "partitions": "number of partitions",
            "segments": "number of segments",
            "skipped_segments": "how many of them were skipped as unchanged (--state)",
            "deleted_partitions": "number of directories that wait to be deleted, and were left out",
            "deleted_size": "bytes of the logs in them",
            "size": "bytes of logs that were read",
            "batches": "number of good batches",
            "records": "number of records in them, by their headers",
            "deep": "whether records were decoded (--deep)",
            "sample": "the share of the data that was asked for; null for all of it",
            "total_size": "bytes of logs that there are, without those that were left out",
            "loss": "number of findings of this severity",
            "no_start": "likewise",
            "degraded": "likewise",
            "note": "likewise",
            "worst": "the worst severity; null where nothing was found",
            "unreadable_blocks": "number of 4 KiB blocks that the disk would not give",
            "failures": "what could not be read, in words",
            "interrupted": "whether somebody stopped it before it was done",
        },
    ),
}

_GROUP = {
    "by": "what the row is about: file, partition, topic, or total for everything together",
    "topic": "the topic, from the name of the directory; null for the total",
    "partition": "the number of the partition; null for topics and the total",
    "directory": "the directory of the partition, likewise",
    "file": "path of the file; null unless by is file",
}
_MEASURES = {
    "batches": "number of good batches",
    "records": "number of records in them",
    "size": "bytes of them",
}
_SPREAD = "as an object of min, mean, p50, p90, p99 and max; null where there is none"

_STATS: dict[str, RowKind] = {
    "stats": RowKind(
        "stats",
        "What the good batches of a group come to; with --deep also their records, control records aside. "
        "Percentiles are exact below 128, and at most 1.6 % too high above.",
        {
            **_GROUP,
            "partitions": "number of partitions",
            "files": "number of files",
            "size": "bytes of good batches",
            "batches": "number of good batches, or messages of the formats before magic 2",
            "records": "number of records in them, by their headers",
            "records_per_batch": f"records of a batch, {_SPREAD}",
            "batch_size": f"bytes of a batch, {_SPREAD}",
            "codecs": "for every codec an object of batches, records, size, and ratio: how many times larger "
            "they would be if not compressed (--deep, else null)",
            "magics": "for every format version an object of batches, records and size",
            "producers": "number of different producer ids",
            "producers_exact": "whether they were counted one by one, or else estimated",
            "idempotent_batches": "number of batches with a producer id",
            "transactional_batches": "number of batches that belong to a transaction, markers included",
            "control_batches": "number of control batches, such as markers",
            "timestamp_types": "for every type of timestamp the number of batches",
            "min_timestamp_ms": "least timestamp of records with --deep; else of the batches' first records, "
            "and others in a batch may be older. Control batches have no say in times",
            "max_timestamp_ms": "greatest timestamp",
            "no_timestamp_batches": "number of batches without a timestamp",
            "future_batches": "number of batches with a greatest timestamp after --now",
            "out_of_order_batches": "number of batches with a greatest timestamp below that before",
            "greatest_step_back_ms": "by how much at most",
            "records_per_second": "records by the time from the least to the greatest timestamp; null where "
            "that is none",
            "bytes_per_second": "bytes of batches, likewise",
            "first_offset": "first offset; null for topics and the total",
            "last_offset": "last offset, likewise",
            "gaps": "number of places where offsets are missing between batches: compaction leaves them, and "
            "damage",
            "missing_offsets": "number of offsets that no record has, between batches and inside them",
            "damaged": "number of damaged places, left out of everything else; with --deep also of batches "
            "whose records cannot be read, left out of what is said of records",
            "damaged_size": "bytes of them",
            "damage_classes": "for every class of damage the number of places, notes included",
            "data_records": "number of records that were read, without control records",
            "key_size": f"bytes of a key that is not null, {_SPREAD}",
            "value_size": f"bytes of a value that is not null, {_SPREAD}",
            "record_size": f"bytes of key and value, {_SPREAD}",
            "inflated_size": "bytes that the batches would have if none were compressed",
            "ratio": "how many times larger they would be",
            "keys": "number of different keys",
            "keys_exact": "whether they were counted one by one, or else estimated",
            "null_keys": "number of records without a key",
            "tombstones": "number of records without a value",
            "records_with_headers": "number of records that have headers",
            "headers": "number of headers",
            "no_timestamp_records": "number of records without a timestamp",
            "future_records": "number of records with a timestamp after --now",
            "out_of_order_records": "number of records with a timestamp below that of the one before",
            "greatest_record_step_back_ms": "by how much at most",
        },
        frozenset(
            {
                *("data_records", "key_size", "value_size", "record_size", "inflated_size", "ratio"),
                *("keys", "keys_exact", "null_keys", "tombstones", "records_with_headers", "headers"),
                *("no_timestamp_records", "future_records", "out_of_order_records"),
                "greatest_record_step_back_ms",
            }
        ),
    ),
    "stats_time": RowKind(
        "stats",
        "An hour of a group in which there are data batches; or a longer stretch, of 6 hours, 1, 7, 28, 364 "
        "days and so on, where there are more than 768. A batch counts where its greatest timestamp is.",
        {
            **_GROUP,
            "from_ms": "where the stretch begins",
            "to_ms": "where it ends (exclusive)",
            **_MEASURES,
        },
    ),
    "stats_key": RowKind(
        "stats",
        "One of the most frequent keys of a group (--deep).",
        {
            **_GROUP,
            "rank": "1 for the most frequent",
            "key": "the key, or the first 64 bytes of it; with --redact a hash",
            "key_size": "bytes of the whole key",
            "records": "number of records with it",
            "size": "bytes of their keys and values",
            "share": "records as a share of all data records, from 0 to 1",
            "is_exact": "whether all keys were counted; else numbers are estimated from a sample",
        },
    ),
    "stats_prefix": RowKind(
        "stats",
        "What many keys of a group begin with: up to a separator (: / | # @ . _ - or a space), or a zero and "
        "the four bytes of a schema's id. Only what two keys or more share (--deep).",
        {
            **_GROUP,
            "rank": "1 for the most frequent",
            "prefix": "what the keys begin with",
            "keys": "number of different keys that were seen with it",
            "records": "number of records with such a key",
            "size": "bytes of their keys and values",
            "share": "records as a share of all data records, from 0 to 1",
            "is_exact": "whether all keys were counted; else numbers are estimated from a sample",
        },
    ),
    "stats_what_if": RowKind(
        "stats",
        "What a sample of a group's batches takes with another codec (--what-if).",
        {
            **_GROUP,
            "codec": "none, gzip, snappy, lz4, zstd",
            "level": "its level; null for Kafka's default",
            "batches": "number of batches in the sample",
            "stored_size": "bytes of them as they are",
            "inflated_size": "bytes of their records, not compressed",
            "size": "bytes of the batches with this codec",
            "saved_share": "what that saves, as a share of stored_size; below 0 where it costs",
            "projected_size": "bytes of the whole group, if the sample is like the rest",
            "seconds": "time that it took to compress the sample here",
        },
    ),
}

_RETENTION: dict[str, RowKind] = {
    "verdict": RowKind(
        "retention",
        "What the next check of a broker does with a segment, and the numbers it compares.",
        {
            **_TOPIC,
            "directory": "the directory of the partition",
            "segment": "base offset of the segment",
            "size": "bytes of its records, without indexes and room only reserved",
            "verdict": "keep, delete, unknown",
            "rule": "start_offset, size, time, active, high_watermark, after_kept (an older one stays), "
            "policy, remote (not copied yet)",
            "message": "the reason in words",
            "at_ms": "the moment of the check",
            "largest_timestamp_ms": "the timestamp that counts for it",
            "largest_timestamp_from": "time_index, records, or mtime: the time of the file",
            "largest_timestamp_offset": "the offset that has it; null where that is not known",
            "records_largest_timestamp_ms": "what the records say, where that is known and something else",
            "records_largest_timestamp_offset": "the offset that has that one",
            "retention_ms": "the limit of time; -1 for none. Of a tiered topic that copies, the local one",
            "retention_bytes": "the limit of size; -1 for none; likewise",
            "log_size": "bytes of all segments before the check",
            "excess": "bytes above retention_bytes when this segment's turn came; null where it did not come",
            "upper_offset": "the offset that the high watermark must have reached for it to go",
            "high_watermark": "the high watermark",
            "high_watermark_is_assumed": "whether that is only the end of the log",
            "log_start": "the log start offset",
            "log_end": "the log end offset",
            "held_by": "base offset of the oldest segment that stays, if that is another one",
            "goes_ms": "when time alone lets it go; null for never",
            "is_active": "whether it is the segment that is written to",
            "replicas": "nodes that hold the partition, by the newest metadata on the disk; null if unknown",
            "isr": "those of them that were in sync",
            "leader": "the leader; -1 for none",
            "metadata_ms": "when that was written into the metadata",
        },
    ),
    "setting": RowKind(
        "retention",
        "A setting that a topic goes by; of compact also those of the broker's cleaner.",
        {
            "topic": "the topic",
            "name": "Kafka's name of it",
            "value": "its value, as Kafka writes it",
            "origin": "--set, --config, topic, broker, cluster (set while it ran, by the metadata), "
            "server.properties, default",
            "source": "the file and the name there; null where the origin says all",
            "is_certain": "false for a default that something not read here may have changed",
        },
    ),
    "change": RowKind(
        "retention",
        "A change of a setting that frees space (--free). Those of one rank go together.",
        {
            "rank": "1 for the way that frees the least of what is enough",
            "topic": "the topic",
            "setting": "retention.ms, retention.bytes, or the local ones",
            "value": "the value to set",
            "old_value": "the value now",
            "old_origin": "where that comes from",
            "freed": "bytes on this disk that go besides what goes anyway",
            "segments": "number of segments that do",
            "within_ms": "the longest it takes: until the next check, and file.delete.delay.ms",
            "set_command": "the command that makes the change",
            "undo_command": "the one that takes it back; what was deleted stays deleted",
        },
    ),
    "departure": RowKind(
        "retention",
        "A segment of today that goes within the time looked at (--forecast).",
        {
            **_TOPIC,
            "segment": "base offset of the segment",
            "size": "bytes of its records",
            "rule": "start_offset, size, time",
            "goes_ms": "when it may go, by time; or the step by which it is gone",
        },
    ),
    "forecast": RowKind(
        "retention",
        "All logs together at one moment to come (--forecast).",
        {
            "at_ms": "the moment",
            "size": "bytes of all logs",
            "segments": "number of segments",
            "deleted": "bytes that went since the step before",
        },
    ),
}

_COMPACT: dict[str, RowKind] = {
    "compaction": RowKind(
        "compact",
        "One pass of the log cleaner over a partition; pass 0 where there is nothing to clean.",
        {
            **_TOPIC,
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
            **_TOPIC,
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
            **_TOPIC,
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

_PAGES = {
    "size": "bytes",
    "pages": "pages of the files",
    "resident_pages": "pages in the page cache; null where the kernel does not tell us",
    "resident_size": "bytes in the page cache, likewise",
    "dirty_pages": "pages that are not yet written to the disk; null before Linux 6.5, or if not told",
    "writeback_pages": "pages that are being written, likewise",
    "evicted_pages": "pages that were in the cache and are no more, likewise",
    "recently_evicted_pages": "those whose eviction memory pressure would explain, likewise",
}
_LOGS_OF_THEM = {
    "log_size": "bytes of the log files among them",
    "log_resident_size": "bytes of those in the page cache, likewise",
}
_ROUND = {"round": "number of the look, from 0, with --watch"}
_CACHE_MAP: dict[str, RowKind] = {
    "file": RowKind(
        "cache-map",
        "A file and what of it is in the page cache.",
        {
            **_OF_PARTITION,
            "segment": "base offset of the segment; null where it belongs to none",
            "type": "what kind of file it is",
            **_PAGES,
            "resident_ranges": "with --pages: first byte and byte behind the last of all that is resident",
            **_ROUND,
        },
        frozenset({"resident_ranges", "round"}),
    ),
    "cache_segment": RowKind(
        "cache-map",
        "A segment with all its files (--segments).",
        {
            **_TOPIC,
            "directory": "the directory of the partition",
            "segment": "base offset of the segment",
            "state": "active, closed, deleted, cleaned, swap or orphan",
            **_PAGES,
            **_LOGS_OF_THEM,
            **_ROUND,
        },
        frozenset({"round"}),
    ),
    "cache_partition": RowKind(
        "cache-map",
        "A partition, and how far back from its end it is in memory without a gap.",
        {
            **_TOPIC,
            "directory": "the directory of the partition",
            "segments": "number of segments",
            **_PAGES,
            **_LOGS_OF_THEM,
            "tail_size": "bytes of the log at its end that are in memory without a gap",
            "tail_segment": "base offset of the segment in which they begin; null where there are none",
            "tail_position": "byte in its log where they begin, likewise",
            "tail_first_offset": "first offset of the first whole batch in memory, likewise",
            "tail_last_offset": "last offset of the log, likewise",
            "tail_first_timestamp_ms": "time of that first batch, likewise",
            "tail_last_timestamp_ms": "greatest time of the last segment, likewise",
            **_ROUND,
        },
        frozenset({"round"}),
    ),
    "cache_topic": RowKind(
        "cache-map",
        "A topic with all its partitions (--topics).",
        {
            "topic": _TOPIC["topic"],
            "partitions": "number of partitions",
            **_PAGES,
            **_LOGS_OF_THEM,
            **_ROUND,
        },
        frozenset({"round"}),
    ),
    "cache_reader": RowKind(
        "cache-map",
        "A consumer group, and what its next fetch meets (--lag, --groups).",
        {
            "group": "the group",
            **_TOPIC,
            "offset": "the offset it reads next",
            "segment": "base offset of the segment that holds it; null at the end of the log",
            "position": "byte where the batch begins, likewise",
            "is_cached": "whether the page of that byte is in memory; null where we are not told",
            "behind_size": "bytes from there to the end of the log",
            "cold_size": "bytes of these that are not in memory",
        },
    ),
    "cache_step": RowKind(
        "cache-map",
        "A stretch of a log that is to be read into memory or forgotten (--warm, --evict).",
        {
            "action": "warm or evict",
            **_FILE,
            "segment": "base offset of the segment",
            "position": "first byte that is meant",
            "end_position": "byte behind the last",
            "size": "bytes that would be read or forgotten",
            "why": "why that is not all of them, or none; else null",
            "resident_before": "with --apply: bytes of the file in memory before; else null",
            "resident_after": "and after",
        },
    ),
}

_BENCH: dict[str, RowKind] = {
    "bench_metric": RowKind(
        "bench-append",
        "A number that bench append, bench read or bench lookup measured.",
        {
            "name": "what was measured",
            "unit": "its unit",
            "value": "the number",
            "higher_is_better": "whether more of it is better; null where neither is",
            "samples": "the same of parts of the run, in their order",
        },
    ),
    "bench_change": RowKind(
        "bench-compare",
        "A number of two results beside each other.",
        {
            "name": "what was measured",
            "unit": "its unit",
            "before": "in the first result",
            "after": "in the second",
            "change": "the difference as a share of the first; null where that is 0",
            "noise": "the share that it varies by, three standard errors; null where there are no samples",
            "verdict": "better, worse, changed or same",
        },
    ),
}

_SERVE: dict[str, RowKind] = {
    "served": RowKind(
        "serve",
        "A partition that would be served, with --list.",
        {
            **_TOPIC,
            "directory": "the directory of the partition",
            "state": "what the directory is to a broker: active, deleted, stray, future, metadata",
            "log_start_offset": "first offset that clients can read; null, like the others, if unreadable",
            "last_stable_offset": "where readers of committed records stop",
            "high_watermark": "where all others stop",
            "log_end_offset": "behind the last good batch",
            "checkpointed_high_watermark": "that of the checkpoint on the disk",
            "open_transactions": "number of transactions that were never ended",
            "aborted_transactions": "number of transactions whose records are hidden from such readers",
            "segments": "number of segments",
            "size": "bytes that can be read",
            "note": "what is to be known about it, in words",
        },
    ),
    "serving": RowKind(
        "serve",
        "Clients can connect now.",
        {
            "host": "the address that is listened on",
            "port": "the port, which the system chose if it was 0",
            "bootstrap": "what clients have to be given as bootstrap.servers",
            "security": "TLS or not, and how clients log in, in words",
            "topics": "number of topics served",
            "partitions": "number of partitions served",
            "metrics_port": "the port of --metrics; null without",
        },
    ),
    "serve_summary": RowKind(
        "serve",
        "What was served, at the end.",
        {
            "connections": "connections that were accepted",
            "connections_refused": "those that were not, because of a limit",
            "connections_failed": "those that were closed because of what came, or did not",
            "requests": "requests",
            "bytes_by_sendfile": "bytes of records that went from file to socket in the kernel",
            "bytes_by_copy": "bytes of records that were copied: TLS, --no-sendfile",
            "bytes_by_send": "bytes sent besides",
            "bytes_received": "bytes received",
        },
    ),
}

_PIPELINE: dict[str, RowKind] = {
    "audit": RowKind(
        "pipeline run",
        "What a run came to; of `pipeline collect` too.",
        {
            "run": "directory of the run",
            "roots": "how many roots its tables hold",
            "partitions": "partition directories",
            "segments": "segments",
            "segments_read": "those that were new or had changed",
            "size": "bytes of their logs",
            "size_read": "bytes that were read",
            "batches": "good batches",
            "records": "records by the headers of these",
            "findings": "findings that are more than notes",
            "loss": "findings of this severity",
            "no_start": "likewise",
            "degraded": "likewise",
            "note": "likewise",
            "worst": "the worst severity; null where there is none",
            "failures": "what could not be read",
        },
    ),
    "topic_report": RowKind(
        "pipeline report",
        "One topic over all roots of a run.",
        {
            "topic": "the topic; null for files outside of one",
            "size": "bytes of its logs",
            "older_size": "the same in OLDER; null without one",
            "growth": "the difference; null without OLDER",
            "partitions": "partition directories",
            "records": "records",
            "skew": "the largest partition over the mean; null for a single one",
            "old_format_batches": "batches of magic 0 and 1",
            "single_record_share": "share of data batches with one record; null without any",
            "future_segments": "segments with a time after that of the run",
            "findings": "findings that are more than notes",
            "new_findings": "those that are not in OLDER; null without one",
            "retention_delete_bytes": "bytes that retention would delete",
            "compaction_removed_bytes": "bytes that compaction would remove; null where there is none",
            "remarks": "what is worth a look: damage, skew, old format, single-record batches, "
            "future timestamps",
        },
    ),
    "new_finding": RowKind(
        "pipeline report",
        "A finding of the run that is not in OLDER; without OLDER, every finding.",
        {
            "root": "the root",
            "topic": "the topic",
            "partition": "the partition",
            "file": "the file",
            "position": "first byte of what is wrong",
            "end_position": "the byte behind it",
            "first_offset": "first offset at stake",
            "last_offset": "last offset at stake",
            "next_good_offset": "where good records go on",
            "class": "as of `finding`",
            "severity": "as of `finding`",
            "expected": "what should be there",
            "found": "what is there",
            "message": "in words",
            "fix": "the command to run next",
            "replicas": "nodes that have the partition",
            "isr": "those in sync",
            "leader": "the leader",
        },
    ),
    "report": RowKind(
        "pipeline report",
        "The last row: the whole run.",
        {
            "run": "directory of the run",
            "older": "directory of the run it was compared with; null without one",
            "now_ms": "the moment of the run",
            "roots": "roots in its tables",
            "partitions": "partition directories",
            "segments": "segments",
            "size": "bytes of their logs",
            "batches": "good batches",
            "records": "records",
            "new_findings": "rows of new_finding",
            "mended_findings": "findings of OLDER that are gone",
            "gone_topics": "topics of OLDER that are gone",
            "failures": "what could not be read in the run",
        },
    ),
}

ROW_KINDS: dict[str, RowKind] = {
    **_DUMP_LOG,
    **_SIDE,
    **_LS,
    **_STATS,
    **_VERIFY,
    **_LOOKUP,
    **_PLAN,
    **_RETENTION,
    **_COMPACT,
    **_CACHE_MAP,
    **_BENCH,
    **_SERVE,
    **_PIPELINE,
}
