"""Replay the producer state of a partition on disk: the newest good snapshot, and the batches after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.indexes import read_offset_index
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.scan import Batch, BatchRun, scan_runs
from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.files.source import Guest, open_source, read_small_file
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.batch import read_header
from kafkatool.format.columns import read_batch_columns
from kafkatool.format.legacy import Header
from kafkatool.format.state.producer_snapshot import read_snapshot


class ReplayStops(KafkatoolError):
    """A batch that no broker would have accepted from its producer, or an unreadable marker."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


def replay_producers(
    segments: Sequence[SegmentLog],
    snapshots: Mapping[int, str],
    start: int,
    now_ms: int | None,
    guest: Guest,
) -> tuple[ProducerStates, int]:
    """Return the producer state at the end of the log, and the log end offset; raise ReplayStops.

    `snapshots` has the paths of producer snapshots by offset. Without `now_ms` no producer expires.
    """
    states = ProducerStates()
    states.clear(start)
    for offset in sorted(snapshots, reverse=True):
        try:
            rows = read_snapshot(read_small_file(snapshots[offset], guest))
        except (FormatError, FileNotFoundError):
            continue
        if offset > start:
            states.load(rows, offset, now_ms)
            break
    return states, _replay(states, segments, guest)


def _replay(states: ProducerStates, segments: Sequence[SegmentLog], guest: Guest) -> int:
    """Replay all batches after the state; return the offset after the last one."""
    known, end = states.end_offset, segments[-1].base_offset
    floor = max((one.base_offset for one in segments if one.base_offset <= known), default=0)
    for segment in segments:
        if segment.base_offset < floor:
            continue
        with open_source(segment.path, guest) as source:
            start = read_offset_index(segment.path, guest).floor(known).position
            for item in scan_runs(source, start, chain=True):
                if isinstance(item, Damage):
                    # A broker truncates its last segment at a batch that it cannot validate, and no other.
                    if item.ends_chain or segment is segments[-1]:
                        break
                    continue
                last, batches = _of_producers(item, known)
                end = max(end, last + 1)
                for position, header, data in batches:
                    try:
                        states.replay(state_batch(header, data))
                    except (LogRefusal, FormatError) as error:
                        raise ReplayStops(segment.path, position, str(error)) from None
    return end


_Placed = tuple[int, Header, bytes | memoryview]
"""Position, header and bytes of a batch."""


def _of_producers(item: BatchRun | Batch, known: int) -> tuple[int, list[_Placed]]:
    """Return the last offset, and the batches with a producer id that reach offset `known`."""
    if isinstance(item, Batch):
        header, last = item.header, item.header.last_offset
        if header.producer_id >= 0 and last >= known:
            return last, [(item.position, header, item.data or b"")]
        return last, []
    run, window = item, memoryview(item.window)
    columns = read_batch_columns(run.window, run.start, run.end, run.batch_count, run.position)
    rows = np.flatnonzero((columns.producer_id >= 0) & (columns.last_offset >= known)).tolist()
    found: list[_Placed] = []
    for position, size in zip(columns.position[rows].tolist(), columns.size[rows].tolist(), strict=True):
        start = position - run.position + run.start
        found.append((position, read_header(window, start), window[start : start + size]))
    return int(columns.last_offset[-1]), found
