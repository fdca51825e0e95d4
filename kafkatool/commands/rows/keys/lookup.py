"""Rows of `lookup`."""

from __future__ import annotations

from kafkatool.commands.rows.keys.row_kind import TOPIC, RowKind

ROW_KINDS: dict[str, RowKind] = {
    "lookup": RowKind(
        "lookup",
        "Where an offset or a time is found.",
        {
            **TOPIC,
            "directory": "the directory of the partition",
            "segment": "base offset of the segment",
            "position": "byte where the batch to read from begins",
            "base_offset": "first offset of that batch; null for messages before magic 2",
            "last_offset": "last offset of that batch",
            "offset": "first record in it that was meant; null where compaction left none",
            "timestamp_ms": "timestamp of that record",
        },
    ),
    "lookup_step": RowKind(
        "lookup",
        "A step of the search, with --explain.",
        {
            **TOPIC,
            "directory": "the directory of the partition",
            "action": "segment, time_index, offset_index, walk, full_walk (what reading everything says)",
            "file": "path of the file that was asked; - for all",
            "result": "what came out, in words",
            "slots": "entries of the index; null where none was asked",
            "visited": "the entries that were looked at, in order",
            "bytes_read": "bytes walked through; null where none were",
        },
    ),
}
