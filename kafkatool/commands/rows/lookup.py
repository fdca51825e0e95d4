"""What `lookup` finds, as rows."""

from __future__ import annotations

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.engine.batches.row_fields import PARTITION, int64, ints, size, text, time_ms, word

LOOKUPS = RowTable(
    "lookup",
    "lookup",
    "Where an offset or a time is found.",
    *PARTITION,
    int64("segment", "base offset of the segment"),
    int64("position", "byte where the batch to read from begins"),
    int64("base_offset", "first offset of that batch; null for messages before magic 2"),
    int64("last_offset", "last offset of that batch"),
    int64("offset", "first record in it that was meant; null where compaction left none"),
    time_ms("timestamp_ms", "timestamp of that record"),
)
LOOKUP_COLUMNS = LOOKUPS.columns(
    topic="TOPIC",
    partition="PARTITION",
    offset="OFFSET",
    timestamp_ms="TIME",
    segment="SEGMENT",
    position="POSITION",
    base_offset="BASE",
    last_offset="LAST",
)
LOOKUP_STEPS = RowTable(
    "lookup_step",
    "lookup",
    "A step of the search, with --explain.",
    *PARTITION,
    word("action", "segment, time_index, offset_index, walk, full_walk (what reading everything says)"),
    text("file", "path of the file that was asked; - for all"),
    text("result", "what came out, in words"),
    int64("slots", "entries of the index; null where none was asked"),
    ints("visited", "the entries that were looked at, in order"),
    size("bytes_read", "bytes walked through; null where none were"),
)
