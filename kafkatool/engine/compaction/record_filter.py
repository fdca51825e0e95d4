"""Decide which records and batches of a segment stay, for whole columns at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.compaction.cleanable_log import LastRecord, SourceSegment
from kafkatool.engine.compaction.offset_map import OffsetMap, judge_transactions
from kafkatool.engine.compaction.transactions import CleanedTransactions
from kafkatool.format.batch import CONTROL_MASK, DELETE_HORIZON_MASK
from kafkatool.format.columns import BatchColumns, Column, RecordColumns
from kafkatool.format.kernel import loops
from kafkatool.format.kernel.verdicts import IS_CONTROL, IS_DISCARDED, IS_PAST, Outcome

Flags = NDArray[np.bool_]


class JudgedBatches(NamedTuple):
    """Fates per record, outcomes per batch; `new_horizon`: the batch gets a delete horizon now."""

    fate: NDArray[np.uint8]
    outcome: NDArray[np.uint8]
    new_horizon: Flags


@dataclass(frozen=True, slots=True)
class CleaningFilter:
    """The rules of one pass. `first_uncleanable`: the batch that ends there stays, even if empty."""

    offsets: OffsetMap
    transactions: CleanedTransactions
    producers: CleanedProducers
    first_uncleanable: int
    now_ms: int

    def judge(self, columns: RecordColumns, segment: SourceSegment) -> JudgedBatches:
        batches = columns.batches
        is_control = (batches.attributes & CONTROL_MASK) != 0
        can_go = np.zeros(len(is_control), dtype=bool)
        for row, _is_control, gone in judge_transactions(columns, self.transactions, segment):
            can_go[row] = gone
        has_horizon = (batches.attributes & DELETE_HORIZON_MASK) != 0
        is_past = has_horizon & (batches.base_timestamp <= self.now_ms)
        discard = can_go & (~is_control | is_past)
        flags = (is_control * IS_CONTROL | discard * IS_DISCARDED | is_past * IS_PAST).astype(np.uint8)
        keys = (columns.data, columns.key_start, columns.key_size)
        found = self.offsets.last_offsets(*keys, columns.offset)
        fate = np.empty(len(columns), dtype=np.uint8)
        kept, tombstones = np.empty((2, len(flags)), dtype=np.int64)
        loops.judge_records(
            *(columns.offset, columns.key_size, columns.value_size, columns.batch),
            *(found, self.offsets.latest, flags),
            *(fate, kept, tombstones),
        )
        new_horizon = ((tombstones > 0) | (is_control & can_go)) & ~has_horizon & (kept > 0)
        return JudgedBatches(fate, self._outcomes(batches, kept, new_horizon), new_horizon)

    def _outcomes(self, batches: BatchColumns, kept: Column, new_horizon: Flags) -> NDArray[np.uint8]:
        stays_empty = self.producers.are_last(batches) | (batches.last_offset + 1 == self.first_uncleanable)
        outcome = np.full(len(kept), Outcome.DROP, dtype=np.uint8)
        outcome[(kept == 0) & stays_empty] = Outcome.EMPTY
        outcome[kept > 0] = Outcome.REWRITE
        outcome[(kept > 0) & (kept == batches.records_count) & ~new_horizon] = Outcome.COPY
        return outcome


class CleanedProducers:
    """The producers that a broker remembers, with the last batch of each, which shows where they were."""

    def __init__(self, known: Mapping[int, LastRecord]) -> None:
        self._ids = np.array(sorted(known), dtype=np.int64)
        last = [known[int(one)] for one in self._ids]
        self._offsets = np.array([one.data_offset for one in last], dtype=np.int64)
        self._epochs = np.array([one.epoch for one in last], dtype=np.int64)

    def are_last(self, batches: BatchColumns) -> Flags:
        """Return which batches are the last of their producer."""
        if not len(self._ids):
            return np.zeros(len(batches.position), dtype=bool)
        at: Column = np.minimum(np.searchsorted(self._ids, batches.producer_id), len(self._ids) - 1)
        is_known = (self._ids[at] == batches.producer_id) & (batches.producer_id >= 0)
        is_marker = (batches.attributes & CONTROL_MASK) != 0
        by_offset = batches.last_offset == self._offsets[at]
        by_epoch = is_marker & (batches.producer_epoch == self._epochs[at])
        is_last: Flags = np.where(self._offsets[at] >= 0, by_offset, by_epoch)
        is_last &= is_known
        return is_last
