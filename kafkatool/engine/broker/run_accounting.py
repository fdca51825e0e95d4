"""Apply a run of good batches to a segment's indexes and producers, all at once.

The rules are those of `IndexAccounting.add`, `Claims.see` and `ProducerStates.replay`, which take one batch
after another; here they work on whole columns. Runs that are not plain enough are left to those.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.scan import BatchRun
from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.engine.broker.producer_state import ProducerStates, SentBatch
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import (
    CONTROL_MASK,
    MAX_INT32,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    increment_sequence,
)
from kafkatool.format.columns import BatchColumns, Column, read_batch_columns

_MOST_PRODUCERS = 64
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class RunColumns(NamedTuple):
    """The columns of a run, and the batches with a later timestamp than all before them."""

    batches: BatchColumns
    last_offset: Column
    end: int
    latest: Column


def read_run(run: BatchRun, accounting: IndexAccounting) -> RunColumns | None:
    """Read the columns of a run; None if its batches need to be checked one by one."""
    batches = read_batch_columns(run.window, run.start, run.end, run.batch_count, run.position)
    last, end = batches.last_offset, run.position + run.end - run.start
    floor = accounting.last_indexed_offset + 1 if accounting.offset_entries else accounting.base_offset
    if last[0] < floor or last[-1] - accounting.base_offset > MAX_INT32 or end > MAX_INT32:
        return None
    newest = accounting.max_timestamp_offset
    if newest > last[0] or (accounting.time_entries and newest < accounting.last_time_offset):
        return None  # offsets went backwards: a time entry may be refused
    room = min(accounting.max_offset_entries, accounting.max_time_entries - 1)
    if max(accounting.offset_entries, accounting.time_entries) + len(last) >= room:
        return None
    before = np.maximum.accumulate(_behind(accounting.max_timestamp, batches.max_timestamp))
    return RunColumns(batches, last, end, np.flatnonzero(batches.max_timestamp > before))


def _behind(first: int, column: Column) -> Column:
    """Return, for each batch, the value of the batch before it."""
    found = np.empty_like(column)
    found[0], found[1:] = first, column[:-1]
    return found


# --- indexes ------------------------------------------------------------------------------------------


def add_run(run: RunColumns, accounting: IndexAccounting) -> tuple[bytes, bytes]:
    """Count the batches; return the entries that they add to the two indexes."""
    due = _due(run, accounting)
    times = _time_entries(run, due, accounting)
    if len(run.latest):
        newest = run.latest[-1]
        accounting.max_timestamp = int(run.batches.max_timestamp[newest])
        accounting.max_timestamp_offset = int(run.last_offset[newest])
    if not len(due):
        return b"", times
    accounting.offset_entries += len(due)
    accounting.last_indexed_offset = int(run.last_offset[due[-1]])
    entries = np.empty((len(due), 2), dtype=">i4")
    entries[:, 0] = run.last_offset[due] - accounting.base_offset
    entries[:, 1] = run.batches.position[due]
    return entries.tobytes(), times


def _due(run: RunColumns, accounting: IndexAccounting) -> NDArray[np.int64]:
    """Return which batches get an entry: those after more than an interval since the last one."""
    positions, interval = run.batches.position, accounting.interval_bytes
    since = int(positions[0]) - accounting.bytes_since_entry
    first = int(np.searchsorted(positions, since + interval, side="right"))
    if (np.diff(positions[first:]) > interval).all():  # usual for large batches: then every one is due
        due = np.arange(first, len(positions))
    else:
        due = np.array(_one_an_interval(positions.tolist(), first, interval))
    accounting.bytes_since_entry = run.end - (int(positions[due[-1]]) if len(due) else since)
    return due


def _one_an_interval(positions: list[int], first: int, interval: int) -> list[int]:
    due, at = [], first
    while at < len(positions):
        due.append(at)
        at = bisect_right(positions, positions[at] + interval, at + 1)
    return due


def _time_entries(run: RunColumns, due: NDArray[np.int64], accounting: IndexAccounting) -> bytes:
    """Return a time entry for each offset entry where the greatest time so far has grown."""
    known = np.searchsorted(run.latest, due, side="right")
    times = np.append(accounting.max_timestamp, run.batches.max_timestamp[run.latest])[known]
    offsets = np.append(accounting.max_timestamp_offset, run.last_offset[run.latest])[known]
    grown = times > np.maximum.accumulate(np.append(accounting.last_time, times[:-1]))[: len(times)]
    times, offsets = times[grown], offsets[grown]
    if not len(times):
        return b""
    accounting.time_entries += len(times)
    accounting.last_time, accounting.last_time_offset = int(times[-1]), int(offsets[-1])
    entries = np.empty(len(times), dtype=_TIME_ENTRY)
    entries["timestamp"], entries["offset"] = times, offsets - accounting.base_offset
    return entries.tobytes()


# --- what index files claim ---------------------------------------------------------------------------


def offsets_that_hold(run: RunColumns, entries: memoryview, base_offset: int, last_offset: int) -> int | None:
    """Return how many of the first entries belong to batches of this run; None if one is wrong.

    `last_offset` is the last before the run.
    """
    if not entries:
        return 0
    batches, positions = run.batches, run.batches.position
    claims = np.frombuffer(entries[: (len(positions) + 1) * offset_index.ENTRY_SIZE], ">i4").reshape(-1, 2)
    claims = claims.astype(np.int64)
    if (np.diff(claims[:, 1]) <= 0).any():
        return None
    claims = claims[: np.searchsorted(claims[:, 1], positions[-1], side="right")]
    rows, offsets = np.searchsorted(positions, claims[:, 1]), claims[:, 0] + base_offset
    before = _behind(last_offset, run.last_offset)
    holds = (
        (positions[rows] == claims[:, 1]) & (offsets > before[rows]) & (offsets >= batches.base_offset[rows])
    )
    return len(claims) if holds.all() else None


def times_that_hold(run: RunColumns, entries: memoryview, base_offset: int) -> int:
    """Return how many of the first entries are the greatest times of this run, each at its offset."""
    if not entries:
        return 0
    claims = np.frombuffer(entries[: (len(run.latest) + 1) * time_index.ENTRY_SIZE], _TIME_ENTRY)
    times = run.batches.max_timestamp[run.latest]
    if not len(times) or not len(claims):
        return 0
    rows = np.searchsorted(times, claims["timestamp"])
    there = np.minimum(rows, len(times) - 1)
    holds = (rows < len(times)) & (times[there] == claims["timestamp"])
    holds &= run.last_offset[run.latest][there] - base_offset == claims["offset"]
    holds &= rows > np.append(-1, rows[:-1])
    return len(claims) if holds.all() else int(np.argmin(holds))


# --- producers ----------------------------------------------------------------------------------------


def replay_run(run: RunColumns, states: ProducerStates) -> bool:
    """Replay the batches for their producers; False, changing nothing, if they must go one by one."""
    batches = run.batches
    rows = np.flatnonzero(batches.producer_id >= 0)
    if len(rows):
        if (batches.attributes[rows] & (CONTROL_MASK | TRANSACTIONAL_MASK)).any():
            return False
        ids, first = np.unique(batches.producer_id[rows], return_index=True)
        in_order = [int(one) for one in ids[np.argsort(first)]]
        if len(in_order) > _MOST_PRODUCERS or not all(_is_plain(run, one, states) for one in in_order):
            return False
        for producer_id in in_order:
            _remember(run, np.flatnonzero(batches.producer_id == producer_id), states)
    states.end_offset = int(run.last_offset[-1]) + 1
    return True


def _is_plain(run: RunColumns, producer_id: int, states: ProducerStates) -> bool:
    """Return whether a producer stays in one epoch and outside transactions."""
    known = states.producers.get(producer_id)
    epochs = run.batches.producer_epoch[run.batches.producer_id == producer_id]
    return bool((epochs == epochs[0]).all()) and (known is None or known.txn_first_offset is None)


def _remember(run: RunColumns, rows: Column, states: ProducerStates) -> None:
    batches = run.batches
    producer = states.known(int(batches.producer_id[rows[0]]))
    for row in rows[-(producer.batches.maxlen or 1) :]:
        sequence, delta = int(batches.base_sequence[row]), int(batches.last_offset_delta[row])
        last = NO_SEQUENCE if sequence == NO_SEQUENCE else increment_sequence(sequence, delta)
        sent = SentBatch(last, int(run.last_offset[row]), delta, int(batches.max_timestamp[row]))
        producer.add(int(batches.producer_epoch[row]), sent)
