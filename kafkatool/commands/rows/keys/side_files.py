"""Rows of `dump-log` for files beside a log."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import FILE, OF_PARTITION, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "index_entry": RowKind(
        "dump-log",
        "An entry of an .index file.",
        {
            **OF_PARTITION,
            "slot": "number of the entry, from 0",
            "offset": "offset that it leads to",
            "position": "byte in the .log where the batch of that offset begins",
        },
    ),
    "time_index_entry": RowKind(
        "dump-log",
        "An entry of a .timeindex file.",
        {
            **OF_PARTITION,
            "slot": "number of the entry, from 0",
            "timestamp_ms": "greatest timestamp up to that offset",
            "offset": "offset that it leads to",
        },
    ),
    "aborted_transaction": RowKind(
        "dump-log",
        "An entry of a .txnindex file.",
        {
            **OF_PARTITION,
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
            **OF_PARTITION,
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
            **OF_PARTITION,
            "epoch": "the leader epoch",
            "start_offset": "first offset of that epoch",
        },
    ),
    "partition_metadata": RowKind(
        "dump-log",
        "A partition.metadata file.",
        {
            **OF_PARTITION,
            "version": "format version",
            "topic_id": "id of the topic",
        },
    ),
    "checkpoint_entry": RowKind(
        "dump-log",
        "A line of one of the offset checkpoints of a log directory.",
        {
            **FILE,
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
            **FILE,
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
            **FILE,
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
            **FILE,
            "version": "format version; null where unreadable",
            "broker_epoch": "epoch of the broker that shut down; null where unreadable",
        },
    ),
}
