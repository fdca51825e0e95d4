"""Rows of `dump-log`, and of `cat` and `export`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import FILE, TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "batch": RowKind(
        "dump-log",
        "A record batch, or a message of the formats before magic 2.",
        {
            **TOPIC,
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
            **TOPIC,
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
            **TOPIC,
            **FILE,
            "position": "byte where it begins",
            "end_position": "byte where good data may begin again (exclusive)",
            "first_offset": "first offset at stake; null where unknown",
            "last_offset": "last offset at stake; null where unknown",
            "next_good_offset": "offset of the next good batch; null where there is none",
            "class": "bad_crc, bad_length, bad_magic, bad_offset, bad_record, torn_tail, zero_filled, "
            "bit_flip, unreadable, too_large, in_flight, stale_index, bad_index, missing_file, "
            "bad_checkpoint, bad_snapshot, bad_metadata, overlap, gap; what holds the last stable offset "
            "(doctor, report): open_transaction; of a host (doctor): "
            "no_permission, host_limit, no_space, bad_mount",
            "severity": "loss (records gone or unreadable), no_start (a broker would refuse to start, or "
            "drop the log), degraded (works, or is rebuilt at start), note",
            "expected": "what should be there",
            "found": "what is there",
            "message": "the same in a sentence",
            "fix": "the command to run next",
        },
    ),
}
