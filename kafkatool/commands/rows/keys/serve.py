"""Rows of `serve`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "served": RowKind(
        "serve",
        "A partition that would be served, with --list.",
        {
            **TOPIC,
            "directory": "the directory of the partition",
            "state": "what the directory is to a broker: active, deleted, stray, future, metadata",
            "log_start_offset": "first offset that clients can read; null, like the others, if unreadable",
            "last_stable_offset": "where readers of committed records stop",
            "high_watermark": "where all others stop",
            "log_end_offset": "behind the last good batch",
            "checkpointed_high_watermark": "that of the checkpoint on the disk",
            "open_transactions": "number of transactions that were never ended",
            "held_by": "the one that holds the last stable offset, as an object of open_transactions of "
            "compact; null where none does",
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
