"""What `report` writes besides the rows of other commands."""

from __future__ import annotations

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.engine.batches.row_fields import (
    FAILURES,
    FILE,
    SEVERITIES,
    TOPIC,
    data,
    flag,
    inside,
    int64,
    items,
    real,
    size,
    text,
    texts,
    time_ms,
    values,
    word,
)

SAVED = (
    size(
        "compaction_read_bytes",
        "bytes that a pass of the cleaner would read; null where there is none",
        "bytes_read",
    ),
    size("compaction_removed_bytes", "bytes that it would remove; likewise", "bytes_removed"),
    int64("compaction_removed_records", "records that it would remove; likewise", "records_removed"),
    texts("compaction_errors", "where the cleaner would give up, in words; likewise", "errors"),
)
RECORD = (
    int64("offset", "offset of the record"),
    time_ms("timestamp_ms", "its time"),
    data("key", "its key; null for none; of a long one the first 400 bytes"),
    data("value", "its value; likewise"),
    size("key_size", "bytes of the whole key; -1 for null"),
    size("value_size", "bytes of the whole value; -1 for null"),
)
_DIRECTORY = (
    text("path", "its path"),
    *inside("meta", text("cluster_id", "id of the cluster"), int64("node_id", "id of the node")),
    flag("clean_shutdown", "whether it has the mark of a clean shutdown", "was_shut_down_cleanly"),
)
INCIDENT_TOPICS = RowTable(
    "incident_topic",
    "report",
    "One topic of a report.",
    text("topic", "the topic, or the name of a directory that belongs to none"),
    int64("partitions", "number of partition directories"),
    int64("segments", "number of segments"),
    size("size", "bytes of their logs"),
    int64("batches", "good batches that were read"),
    int64("records", "records in them, by their headers"),
    int64("findings", "findings that are more than notes"),
    int64(
        "retention_delete_segments",
        "segments that the next check of a broker would delete",
        "expired_segments",
    ),
    size("retention_delete_bytes", "bytes on the disk that go with them", "freed"),
    *SAVED,
)
INCIDENT_RECORDS = RowTable(
    "incident_record",
    "report",
    "A record beside damage (--with-payloads).",
    *TOPIC,
    FILE,
    int64("finding_position", "position of the finding that it lies beside", "damage.position"),
    word("side", "before, behind"),
    *RECORD,
)
INCIDENTS = RowTable(
    "incident",
    "report",
    "The whole report in a row. Comes last.",
    text("version", "version of kafkatool"),
    time_ms("now_ms", "the moment of the report (--now)"),
    items(
        "directories",
        "the log directories: path, cluster_id, node_id, clean_shutdown",
        lambda run: [values(_DIRECTORY, one) for one in run.all_log_dirs],
    ),
    word("state", "loss, no_start, degraded; good; unread where not all could be read"),
    text("sentence", "what is wrong, in words"),
    text("advice", "what to do next, in words"),
    text("command", "the command to run next, or what to do instead; null for none"),
    *inside(
        "summary",
        int64("partitions", "number of partitions"),
        int64("segments", "number of segments"),
        size("size", "bytes of logs that were read"),
        size("total_size", "bytes of logs that there are"),
        int64("batches", "number of good batches"),
        int64("records", "number of records in them, by their headers"),
        real("sample", "the share of the data that was asked for; null for all of it"),
    ),
    int64("damaged_partitions", "partitions, and files outside of any, with more than notes"),
    *inside("summary", *SEVERITIES),
    *inside(
        "forecast",
        size("bytes_a_day", "what comes in, by the timestamps of the time looked ahead; null if unknown"),
    ),
    *inside(
        "summary",
        int64("unreadable_blocks", "number of 4 KiB blocks that the disk would not give"),
        FAILURES,
    ),
)
