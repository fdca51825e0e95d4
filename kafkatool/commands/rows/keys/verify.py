"""Rows of `verify`."""

from __future__ import annotations

from kafkatool.commands.rows.batches import DAMAGE
from kafkatool.commands.rows.keys.row_kind import RowKind

ROW_KINDS: dict[str, RowKind] = {
    "finding": RowKind(
        "verify",
        "Something that is not as it should be, in a log or between files.",
        {
            **{field.key: field.meaning for field in DAMAGE.fields},
            "fix": "the command to run next, or what to do instead; null for notes",
            "replicas": "nodes that hold the partition, by the newest metadata on the disk; null if unknown",
            "isr": "those of them that were in sync",
            "eligible_leader_replicas": "those that were not, and have every committed record (ELR)",
            "leader": "the leader; -1 for none",
            "metadata_ms": "when that was written into the metadata",
            "below_recovery_point": "whether a broker that starts now would not look there; null if unknown",
        },
    ),
    "verified": RowKind(
        "verify",
        "With --state and -v: when a log was last read as a whole and found good.",
        {
            "topic": "the topic; null where the directory's name says none",
            "partition": "the partition, likewise",
            "segment": "base offset of the segment",
            "file": "its log",
            "size": "bytes of it",
            "verified_at_ms": "when all of it was last found good; null where that is not remembered",
        },
    ),
    "summary": RowKind(
        "verify",
        "What was checked. Comes last.",
        {
            "partitions": "number of partitions",
            "segments": "number of segments",
            "skipped_segments": "how many of them were skipped as unchanged (--state)",
            "rechecked_segments": "how many were read again though unchanged (--recheck-older-than)",
            "deleted_partitions": "number of directories that wait to be deleted, and were left out",
            "deleted_size": "bytes of the logs in them",
            "side_files": "number of files other than logs that were named themselves, and read",
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
