"""Rebuild producer state from the newest snapshot and the batches after it."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.engine.log.segment import WritableSegment
from kafkatool.engine.log.snapshots import Snapshots


def rebuild_producers(
    states: ProducerStates,
    snapshots: Snapshots,
    segments: Sequence[WritableSegment],
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Bring the state to `end_offset`; leave snapshots at the last two segments and at the end."""
    was_empty = not states.producers and states.end_offset >= end_offset
    snapshots.drop_outside(log_start_offset, end_offset)
    if states.end_offset != end_offset:
        snapshots.load_newest(states, log_start_offset, now_ms)
    else:
        snapshots.last_offset = max(snapshots.offsets(), default=log_start_offset)
    if end_offset > states.end_offset and not was_empty:
        _replay(states, snapshots, segments, log_start_offset, end_offset)
    states.end_offset = end_offset
    snapshots.take(states)


def take_empty_snapshots(
    states: ProducerStates, snapshots: Snapshots, segments: Sequence[WritableSegment], end_offset: int
) -> None:
    """Take snapshots without producers, as a broker does for a cleanly closed log that has no snapshot."""
    for offset in [*(segment.base_offset for segment in segments[-2:]), end_offset]:
        states.end_offset = offset
        snapshots.take(states)


def _replay(
    states: ProducerStates,
    snapshots: Snapshots,
    segments: Sequence[WritableSegment],
    log_start_offset: int,
    end_offset: int,
) -> None:
    kept = {segment.base_offset for segment in segments[-2:]}
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if segment.base_offset >= end_offset or (following is not None and following <= states.end_offset):
            continue
        start = max(segment.base_offset, states.end_offset, log_start_offset)
        states.end_offset = start
        if segment.base_offset in kept:
            snapshots.take(states)
        _replay_segment(states, segment, start, end_offset)


def _replay_segment(states: ProducerStates, segment: WritableSegment, start: int, end_offset: int) -> None:
    for found in segment.batches_from(segment.index_position(start)):
        header = found.header
        if header.last_offset < start:
            continue
        if header.last_offset >= end_offset:
            return
        if header.producer_id >= 0:
            data = segment.read(found.position, found.size) if header.is_control else b""
            states.replay(state_batch(header, data))
        states.end_offset = header.last_offset + 1
