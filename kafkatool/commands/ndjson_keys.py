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
        "A record. Written instead of batches with --deep-iteration, --print-data-log or a record filter.",
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
        },
        frozenset({"key", "value", "headers", "header_keys", "decoded"}),
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
            "unknown_directories": "paths of directories that are not Kafka's: a broker does not start",
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
            "action": "write, remove, rename; undo with --undo",
            "target": "the new name, for rename",
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
            "what": "leftover (a file of an interrupted cleaning is resolved), scan, cut, delete, rebuild, "
            "split, refuse (the broker does not start); salvage and unprovable with --keep-after-damage",
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
            "size": "bytes of logs that were read",
            "batches": "number of good batches",
            "records": "number of records in them, by their headers",
            "deep": "whether records were decoded (--deep)",
            "sample": "the share of the data that was asked for; null for all of it",
            "loss": "number of findings of this severity",
            "no_start": "likewise",
            "degraded": "likewise",
            "note": "likewise",
            "worst": "the worst severity; null where nothing was found",
            "unreadable_blocks": "number of 4 KiB blocks that the disk would not give",
            "failures": "what could not be read, in words",
        },
    ),
}

ROW_KINDS: dict[str, RowKind] = {**_DUMP_LOG, **_SIDE, **_LS, **_VERIFY, **_LOOKUP, **_PLAN}
