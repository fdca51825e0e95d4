"""Rows of `doctor`; its findings are those of `verify`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import RowKind

ROW_KINDS: dict[str, RowKind] = {
    "diagnosis": RowKind(
        "doctor",
        "What a start comes to, for one broker. Comes behind its findings.",
        {
            "broker": "the configuration that was named, or the log directories",
            "log_dirs": "all log directories of the broker, those that are missing too",
            "cluster_id": "whose they are; null if unknown",
            "node_id": "likewise, by the configuration if that was named",
            "verdict": "starts, loses (starts, without some offsets), partly (starts without a directory), "
            "serves_nothing (starts, and leads hardly any partition), no_start, running (a broker is), "
            "unknown (not all could be read, or --quick left out what decides)",
            "message": "the same in a sentence",
            "lost_offsets": "how many offsets would not be served any more",
            "lost_at_least": "whether there may be more: what is cut does not end with a good batch",
            "maybe_lost_offsets": "how many more may go, as other replicas decide: above the checkpointed "
            "high watermark, or of partitions that are missing here",
            "lost_partitions": "directories of the partitions that lose any",
            "offline_dirs": "log directories that the broker would leave out",
            "pid": "the process that is running on them; null if none is, or it cannot be named",
            "partitions": "number of partition directories",
            "size": "bytes of all logs",
            "sampled_size": "bytes of logs that were read besides what a start reads",
            "scan_size": "bytes that a start scans because it does not trust them; null if none",
            "scan_partitions": "number of partitions that have any of them",
            "recovery_least_ms": "how long that takes at least; null if nothing is scanned",
            "recovery_most_ms": "how long it may take; null if the read rate is not known",
            "read_rate": "bytes a second that the volume gave; null if not known, as where all is in memory",
            "loss": "number of findings of this severity",
            "no_start": "likewise",
            "degraded": "likewise",
            "note": "likewise",
            "worst": "the worst severity; null where nothing was found",
            "notes": "what limits the answer, in words",
            "failures": "what could not be read, in words",
        },
    ),
}
