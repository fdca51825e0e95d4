"""What `pipeline` says of an audit, as rows."""

from __future__ import annotations

from operator import itemgetter

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.engine.batches.row_fields import (
    DAMAGE,
    inside,
    int32,
    int64,
    ints,
    real,
    size,
    text,
    texts,
    time_ms,
    word,
)

_FINDINGS = int64("findings", "findings that are more than notes")
RUNS = RowTable(
    "audit",
    "pipeline run",
    "What a run came to; of `pipeline collect` too.",
    text("run", "directory of the run", "directory"),
    int64("roots", "how many roots its tables hold"),
    int64("partitions", "partition directories"),
    int64("segments", "segments"),
    int64("segments_read", "those that were new, had changed, or were due to be read again"),
    int64("segments_rechecked", "those that were unchanged, and read again (--recheck-older-than)"),
    size("size", "bytes of their logs"),
    size("size_read", "bytes that were read"),
    int64("batches", "good batches"),
    int64("records", "records by the headers of these"),
    _FINDINGS,
    int64("loss", "findings of this severity"),
    *(int64(name, "likewise") for name in ("no_start", "degraded", "note")),
    *inside("worst", word("worst", "the worst severity; null where there is none", "label")),
    texts("failures", "what could not be read"),
)
RUN_COLUMNS = RUNS.columns(
    roots="ROOTS",
    partitions="PARTITIONS",
    segments="SEGMENTS",
    segments_read="READ",
    size="SIZE",
    batches="BATCHES",
    records="RECORDS",
    findings="FINDINGS",
    worst="WORST",
    run="RUN",
)
TOPIC_REPORTS = RowTable(
    "topic_report",
    "pipeline report",
    "One topic over all roots of a run.",
    text("topic", "the topic; null for files outside of one"),
    size("size", "bytes of its logs"),
    size("older_size", "the same in OLDER; null without one"),
    size("growth", "the difference; null without OLDER"),
    int64("partitions", "partition directories"),
    int64("records", "records"),
    real("skew", "the largest partition over the mean; null for a single one"),
    int64("old_format_batches", "batches of magic 0 and 1"),
    real("single_record_share", "share of data batches with one record; null without any"),
    int64("future_segments", "segments with a time after that of the run"),
    _FINDINGS,
    int64("new_findings", "those that are not in OLDER; null without one"),
    size("retention_delete_bytes", "bytes that retention would delete"),
    size("compaction_removed_bytes", "bytes that compaction would remove; null where there is none"),
    texts(
        "remarks",
        "what is worth a look: damage, skew, old format, single-record batches, future timestamps",
    ),
)
TOPIC_COLUMNS = TOPIC_REPORTS.columns(
    topic="TOPIC",
    size="SIZE",
    growth="GROWTH",
    partitions="PARTITIONS",
    records="RECORDS",
    skew="SKEW",
    old_format_batches="MAGIC 0/1",
    single_record_share="SINGLE",
    findings="FINDINGS",
    new_findings="NEW",
    retention_delete_bytes="RETENTION",
    compaction_removed_bytes="COMPACTION",
    remarks="LOOK AT",
)
NEW_FINDINGS = RowTable(
    "new_finding",
    "pipeline report",
    "A finding of the run that is not in OLDER; without OLDER, every finding.",
    text("root", "the root"),
    text("topic", "the topic"),
    int32("partition", "the partition"),
    text("file", "the file"),
    *(
        field._replace(meaning=meaning)
        for field, meaning in zip(
            DAMAGE,
            (
                *("first byte of what is wrong", "the byte behind it", "first offset at stake"),
                *("last offset at stake", "where good records go on", "as of `finding`", "as of `finding`"),
                *("what should be there", "what is there", "in words"),
            ),
            strict=True,
        )
    ),
    text("fix", "the command to run next"),
    ints("replicas", "nodes that have the partition"),
    ints("isr", "those in sync"),
    int32("leader", "the leader"),
)
_SUMS = (
    time_ms("now_ms", "the moment of the run"),
    int64("roots", "roots in its tables"),
    int64("partitions", "partition directories"),
    int64("segments", "segments"),
    size("size", "bytes of their logs"),
    int64("batches", "good batches"),
    int64("records", "records"),
)
REPORTS = RowTable(
    "report",
    "pipeline report",
    "The last row: the whole run.",
    text("run", "directory of the run", "run.directory"),
    *inside(
        "older", text("older", "directory of the run it was compared with; null without one", "directory")
    ),
    *inside(
        "run.manifest",
        *(field._replace(get=itemgetter(field.key)) for field in _SUMS),
    ),
    int64("new_findings", "rows of new_finding", lambda found: len(found.new_findings)),
    int64("mended_findings", "findings of OLDER that are gone", "mended"),
    texts("gone_topics", "topics of OLDER that are gone"),
    texts("failures", "what could not be read in the run", lambda found: found.run.manifest["failures"]),
)
