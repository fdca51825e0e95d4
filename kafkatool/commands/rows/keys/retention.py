"""Rows of `retention`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "verdict": RowKind(
        "retention",
        "What the next check of a broker does with a segment, and the numbers it compares.",
        {
            **TOPIC,
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
            "remote_offset": "the highest offset in remote storage, of a tiered topic that copies, by "
            "__remote_log_metadata or --remote-offset; -1 for none; null where it is not known",
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
            "is_certain": "false for what something not read here may have changed: a default, or, where the "
            "metadata ended before the broker did, everything but --set and --config",
        },
    ),
    "held": RowKind(
        "retention",
        "Expired data that only a time in the future holds back (--free): ranks before all changes.",
        {
            "rank": "1: with it go all of that rank, changes of settings too where more is wanted",
            **TOPIC,
            "directory": "the directory of the partition",
            "record_offset": "the record that holds longest: its own offset, not that of its batch",
            "record_timestamp_ms": "its time",
            "future_records": "number of records with a time in the future that the command deletes",
            "first_offset": "the first offset that the command deletes",
            "last_offset": "the last one",
            "freed": "bytes on this disk that go besides what goes anyway, with the check after the command",
            "segments": "number of segments that do",
            "within_ms": "the longest it takes: until the next check, and file.delete.delay.ms",
            "message": "what is deleted, in words",
            "delete_command": "the command that does it; there is no way back",
        },
    ),
    "change": RowKind(
        "retention",
        "A change of a setting that frees space (--free). Those of one rank go together.",
        {
            "rank": "lowest for the way that frees the least of what is enough, after what is held back",
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
            **TOPIC,
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
