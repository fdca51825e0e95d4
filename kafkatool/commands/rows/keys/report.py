"""Rows of `report`; the others that it writes are those of `verify`, `stats`, `retention` and `cache-map`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import FILE, TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "incident_topic": RowKind(
        "report",
        "One topic of a report.",
        {
            "topic": "the topic, or the name of a directory that belongs to none",
            "partitions": "number of partition directories",
            "segments": "number of segments",
            "size": "bytes of their logs",
            "batches": "good batches that were read",
            "records": "records in them, by their headers",
            "findings": "findings that are more than notes",
            "retention_delete_segments": "segments that the next check of a broker would delete",
            "retention_delete_bytes": "bytes on the disk that go with them",
            "compaction_read_bytes": "bytes that a pass of the cleaner would read; null where there is none",
            "compaction_removed_bytes": "bytes that it would remove; likewise",
            "compaction_removed_records": "records that it would remove; likewise",
            "compaction_errors": "where the cleaner would give up, in words; likewise",
        },
    ),
    "incident_record": RowKind(
        "report",
        "A record beside damage (--with-payloads).",
        {
            **TOPIC,
            **FILE,
            "finding_position": "position of the finding that it lies beside",
            "side": "before, behind",
            "offset": "offset of the record",
            "timestamp_ms": "its time",
            "key": "its key; null for none; of a long one the first 400 bytes",
            "value": "its value; likewise",
            "key_size": "bytes of the whole key; -1 for null",
            "value_size": "bytes of the whole value; -1 for null",
        },
    ),
    "incident": RowKind(
        "report",
        "The whole report in a row. Comes last.",
        {
            "version": "version of kafkatool",
            "now_ms": "the moment of the report (--now)",
            "directories": "the log directories: path, cluster_id, node_id, clean_shutdown",
            "state": "loss, no_start, degraded; good; unread where not all could be read",
            "sentence": "what is wrong, in words",
            "advice": "what to do next, in words",
            "command": "the command to run next, or what to do instead; null for none",
            "partitions": "number of partitions",
            "segments": "number of segments",
            "size": "bytes of logs that were read",
            "total_size": "bytes of logs that there are",
            "batches": "number of good batches",
            "records": "number of records in them, by their headers",
            "sample": "the share of the data that was asked for; null for all of it",
            "damaged_partitions": "partitions, and files outside of any, with more than notes",
            "loss": "number of findings of this severity",
            "no_start": "likewise",
            "degraded": "likewise",
            "note": "likewise",
            "worst": "the worst severity; null where nothing was found",
            "bytes_a_day": "what comes in, by the timestamps of the time looked ahead; null if unknown",
            "unreadable_blocks": "number of 4 KiB blocks that the disk would not give",
            "failures": "what could not be read, in words",
        },
    ),
}
