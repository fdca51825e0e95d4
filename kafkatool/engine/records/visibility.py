"""What a read_committed consumer would see of a partition, and which rule hides the rest.

below_log_start       deleted by DeleteRecords or retention, but still on disk
above_high_watermark  not yet on all in-sync replicas
control               markers that end transactions, and other control records
aborted               in transactions that were aborted
open                  at or after the first offset of a transaction that is still open
unknown               in transactions whose end is lost in damage
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.records.fates import TransactionFate, Transactions, marker_fate
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK
from kafkatool.format.columns import BatchColumns, RecordColumns

LOG_END = (1 << 63) - 1
"""A high watermark that hides nothing."""


class VisibilityRule(IntEnum):
    """Why a record is hidden: the first rule that applies."""

    SHOWN = 0
    BELOW_LOG_START = 1
    ABOVE_HIGH_WATERMARK = 2
    CONTROL = 3
    ABORTED = 4
    UNKNOWN = 5
    OPEN = 6

    @property
    def label(self) -> str:
        return self.name.lower()


PASSING = (VisibilityRule.ABOVE_HIGH_WATERMARK, VisibilityRule.OPEN)
"""Rules whose records may become visible later, when the log has grown."""


class JudgedRecords(NamedTuple):
    """Verdicts on one piece: `fate` and `is_control` have one entry per batch, the others one per record."""

    fate: NDArray[np.uint8]
    is_control: NDArray[np.bool_]
    above_high_watermark: NDArray[np.bool_]
    below_log_start: NDArray[np.bool_]
    rule: NDArray[np.uint8]


@dataclass(slots=True)
class Visibility:
    """The limits of one partition; `transactions` is used only if there are any."""

    transactions: Transactions
    high_watermark: int = LOG_END
    log_start: int = 0
    may_be_behind_open: bool = False
    """Whether the records start after the start of the log, so a transaction may be open before them."""
    _has_met_any: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._has_met_any = self.may_be_behind_open

    def judge(self, columns: RecordColumns) -> JudgedRecords:
        """Return the verdicts on these records; call it in offset order."""
        batches = columns.batches
        is_current = batches.magic == 2
        is_control = (batches.attributes & CONTROL_MASK != 0) & is_current
        fate = self._fates(columns)
        stable = self._stable(columns)
        # A batch that extends past a limit is hidden as a whole.
        above = batches.last_offset >= self.high_watermark
        rules = np.select(
            [
                above,
                is_control,
                fate == TransactionFate.ABORTED,
                fate == TransactionFate.UNKNOWN,
                batches.last_offset >= stable,
            ],
            [
                VisibilityRule.ABOVE_HIGH_WATERMARK,
                VisibilityRule.CONTROL,
                VisibilityRule.ABORTED,
                VisibilityRule.UNKNOWN,
                VisibilityRule.OPEN,
            ],
            VisibilityRule.SHOWN,
        ).astype(np.uint8)
        below = columns.offset < self.log_start
        rule = rules[columns.batch]
        rule[below] = VisibilityRule.BELOW_LOG_START
        return JudgedRecords(fate, is_control, above[columns.batch], below, rule)

    def look_again(self, high_watermark: int, log_start: int) -> None:
        """Update the limits: the log may have grown."""
        self.high_watermark, self.log_start = high_watermark, log_start
        self.transactions.look_again()

    def _fates(self, columns: RecordColumns) -> NDArray[np.uint8]:
        attributes = columns.batches.attributes[columns.batches.magic == 2]
        self._has_met_any = self._has_met_any or bool((attributes & TRANSACTIONAL_MASK).any())
        if not self._has_met_any:
            return np.zeros(len(columns.batches.magic), dtype=np.uint8)
        fates = self.transactions.fates(columns.batches)
        # Compaction removes records but keeps their marker for a while: the fate is then only in the marker.
        for row in np.flatnonzero(_is_marker(columns.batches)[columns.batch]).tolist():
            fates[columns.batch[row]] = marker_fate(columns.key(row))
        return fates

    def _stable(self, columns: RecordColumns) -> int:
        """Return the last stable offset; looks ahead for it only after a first transaction."""
        if not self._has_met_any:
            return self.high_watermark
        last = int(columns.batches.last_offset.max())
        stable = self.transactions.last_stable_offset(last, self.high_watermark)
        reached = self.transactions.reached
        return stable if reached >= last else min(stable, reached + 1)


def _is_marker(batches: BatchColumns) -> NDArray[np.bool_]:
    """Return which batches are markers that end a transaction."""
    both = CONTROL_MASK | TRANSACTIONAL_MASK
    found: NDArray[np.bool_] = (batches.attributes & both == both) & (batches.magic == 2)
    return found


@dataclass(slots=True)
class Hidden:
    """How many records each rule hid."""

    counts: Counter[VisibilityRule] = field(default_factory=Counter)

    def add(self, rules: NDArray[np.uint8]) -> None:
        for number, count in enumerate(np.bincount(rules, minlength=len(VisibilityRule)).tolist()):
            if number and count:
                self.counts[VisibilityRule(number)] += count

    def sentence(self) -> str:
        """Return `3 aborted, 2 control`, in the order of the rules; empty if nothing was hidden."""
        return ", ".join(f"{self.counts[rule]} {rule.label}" for rule in VisibilityRule if self.counts[rule])
