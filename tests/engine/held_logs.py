"""Logs with records of the past and of the future, and what of them a retention of an hour holds back."""

from __future__ import annotations

from pathlib import Path

from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.time_index import TimeEntry, write_entries

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
OLD, YOUNG, AHEAD = NOW_MS - 5 * HOUR_MS, NOW_MS - 60_000, NOW_MS + 24 * HOUR_MS
LIMITS = ("--at", str(NOW_MS), "--set", "retention.ms=3600000")

# A log as its segments, a segment as its batches, a batch as the times of its records.
Times = list[list[list[int]]]
HELD: Times = [
    [[OLD, OLD]],
    [[OLD], [OLD, AHEAD, OLD]],
    [[OLD]],
    [[AHEAD + 1, OLD]],
    [[OLD]],
    [[OLD], [YOUNG]],
]


def write_log(directory: Path, log: Times) -> None:
    """Segments and time indexes as a broker writes them; 400 bytes each record."""
    directory.mkdir(parents=True)
    offset = 0
    for segment in log:
        base, raw, entries = offset, b"", [TimeEntry(-1, 0)]
        for times in segment:
            records = [NewRecord(b"k", b"v" * 400, at) for at in times]
            raw += write_batch(records, base_offset=offset, partition_leader_epoch=0)
            offset += len(times)
            if max(times) > entries[-1].timestamp_ms:
                entries.append(TimeEntry(max(times), offset - 1 - base))
        (directory / segment_file(base, ".log")).write_bytes(raw)
        (directory / segment_file(base, ".timeindex")).write_bytes(write_entries(entries[1:]))
        (directory / segment_file(base, ".index")).write_bytes(b"")
