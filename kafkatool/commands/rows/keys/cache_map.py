"""Rows of `cache-map`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import FILE, OF_PARTITION, TOPIC, RowKind

_PAGES = {
    "size": "bytes",
    "pages": "pages of the files",
    "resident_pages": "pages in the page cache; null where the kernel does not tell us",
    "resident_size": "bytes in the page cache, likewise",
    "dirty_pages": "pages that are not yet written to the disk; null before Linux 6.5, or if not told",
    "writeback_pages": "pages that are being written, likewise",
    "evicted_pages": "pages that were in the cache and are no more, likewise",
    "recently_evicted_pages": "those whose eviction memory pressure would explain, likewise",
}
_LOGS_OF_THEM = {
    "log_size": "bytes of the log files among them",
    "log_resident_size": "bytes of those in the page cache, likewise",
}
_ROUND = {"round": "number of the look, from 0, with --watch"}
ROW_KINDS: dict[str, RowKind] = {
    "file": RowKind(
        "cache-map",
        "A file and what of it is in the page cache.",
        {
            **OF_PARTITION,
            "segment": "base offset of the segment; null where it belongs to none",
            "type": "what kind of file it is",
            **_PAGES,
            "resident_ranges": "with --pages: first byte and byte behind the last of all that is resident",
            **_ROUND,
        },
        frozenset({"resident_ranges", "round"}),
    ),
    "cache_segment": RowKind(
        "cache-map",
        "A segment with all its files (--segments).",
        {
            **TOPIC,
            "directory": "the directory of the partition",
            "segment": "base offset of the segment",
            "state": "active, closed, deleted, cleaned, swap or orphan",
            **_PAGES,
            **_LOGS_OF_THEM,
            **_ROUND,
        },
        frozenset({"round"}),
    ),
    "cache_partition": RowKind(
        "cache-map",
        "A partition, and how far back from its end it is in memory without a gap.",
        {
            **TOPIC,
            "directory": "the directory of the partition",
            "segments": "number of segments",
            **_PAGES,
            **_LOGS_OF_THEM,
            "tail_size": "bytes of the log at its end that are in memory without a gap",
            "tail_segment": "base offset of the segment in which they begin; null where there are none",
            "tail_position": "byte in its log where they begin, likewise",
            "tail_first_offset": "first offset of the first whole batch in memory, likewise",
            "tail_last_offset": "last offset of the log, likewise",
            "tail_first_timestamp_ms": "time of that first batch, likewise",
            "tail_last_timestamp_ms": "greatest time of the last segment, likewise",
            **_ROUND,
        },
        frozenset({"round"}),
    ),
    "cache_topic": RowKind(
        "cache-map",
        "A topic with all its partitions (--topics).",
        {
            "topic": TOPIC["topic"],
            "partitions": "number of partitions",
            **_PAGES,
            **_LOGS_OF_THEM,
            **_ROUND,
        },
        frozenset({"round"}),
    ),
    "cache_reader": RowKind(
        "cache-map",
        "A consumer group, and what its next fetch meets (--lag, --groups).",
        {
            "group": "the group",
            **TOPIC,
            "offset": "the offset it reads next",
            "segment": "base offset of the segment that holds it; null at the end of the log",
            "position": "byte where the batch begins, likewise",
            "is_cached": "whether the page of that byte is in memory; null where we are not told",
            "behind_size": "bytes from there to the end of the log",
            "cold_size": "bytes of these that are not in memory",
        },
    ),
    "cache_step": RowKind(
        "cache-map",
        "A stretch of a log that is to be read into memory or forgotten (--warm, --evict).",
        {
            "action": "warm or evict",
            **FILE,
            "segment": "base offset of the segment",
            "position": "first byte that is meant",
            "end_position": "byte behind the last",
            "size": "bytes that would be read or forgotten",
            "why": "why that is not all of them, or none; else null",
            "resident_before": "with --apply: bytes of the file in memory before; else null",
            "resident_after": "and after",
        },
    ),
}
