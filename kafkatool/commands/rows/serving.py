"""What `serve` tells of, as rows."""

from __future__ import annotations

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column
from kafkatool.engine.batches.row_fields import TOPIC, inside, int32, int64, size, text, tree, word

STATE = (
    int64(
        "log_start_offset",
        "first offset that clients can read; null, like the others, if unreadable",
        "log_start",
    ),
    int64("last_stable_offset", "where readers of committed records stop", "last_stable"),
    int64("high_watermark", "where all others stop"),
    int64("log_end_offset", "behind the last good batch", "log_end"),
    int64("checkpointed_high_watermark", "that of the checkpoint on the disk", lambda _state: None),
    int64(
        "open_transactions",
        "number of transactions that were never ended",
        lambda state: len(state.open_transactions),
    ),
    tree(
        "held_by",
        "the one that holds the last stable offset, as an object of open_transactions of "
        "compact; null where none does",
        lambda _state: None,
    ),
    int64(
        "aborted_transactions",
        "number of transactions whose records are hidden from such readers",
        lambda state: len(state.aborted),
    ),
    int64("segments", "number of segments", lambda state: len(state.segments)),
    size("size", "bytes that can be read", lambda state: sum(one.end for one in state.segments)),
)
SERVED = RowTable(
    "served",
    "serve",
    "A partition that would be served, with --list.",
    TOPIC[0],
    TOPIC[1]._replace(get="number"),
    *inside(
        "partition",
        text("directory", "the directory of the partition", "path"),
        word("state", "what the directory is to a broker: active, deleted, stray, future, metadata"),
    ),
    *STATE,
    text("note", "what is to be known about it, in words"),
)
SERVED_COLUMNS = SERVED.columns(
    topic="TOPIC",
    partition="PARTITION",
    state="STATE",
    log_start_offset="START",
    last_stable_offset="STABLE",
    high_watermark="HIGH WATERMARK",
    log_end_offset="END",
    segments="SEGMENTS",
    size="SIZE",
    note=Column("note", "NOTE", blank=""),
)
SERVING = RowTable(
    "serving",
    "serve",
    "Clients can connect now.",
    text("host", "the address that is listened on"),
    int32("port", "the port, which the system chose if it was 0"),
    text("bootstrap", "what clients have to be given as bootstrap.servers"),
    text("security", "TLS or not, and how clients log in, in words"),
    int64("topics", "number of topics served"),
    int64("partitions", "number of partitions served"),
    int32("metrics_port", "the port of --metrics; null without"),
)
SERVE_SUMMARY = RowTable(
    "serve_summary",
    "serve",
    "What was served, at the end.",
    int64("connections", "connections that were accepted", "accepted"),
    int64("connections_refused", "those that were not, because of a limit", "refused"),
    int64("connections_failed", "those that were closed because of what came, or did not", "failed"),
    int64("requests", "requests"),
    *inside(
        "traffic",
        size(
            "bytes_by_sendfile", "bytes of records that went from file to socket in the kernel", "by_sendfile"
        ),
        size("bytes_by_copy", "bytes of records that were copied: TLS, --no-sendfile", "by_copy"),
        size("bytes_by_send", "bytes sent besides", "other_bytes"),
        size("bytes_received", "bytes received", "received"),
    ),
)
