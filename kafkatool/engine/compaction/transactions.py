"""Decide which transactional batches and markers a pass of the cleaner can remove.

Data of an aborted transaction can go at once. A marker can go if no batch of its transaction was seen in this
pass; until an abort marker can, its entry stays in the transaction index.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from kafkatool.format.txn_index import AbortedTxn

ABORT, COMMIT = 0, 1


class CleanedTransactions:
    """The open transactions at one point of a walk."""

    def __init__(self) -> None:
        self.kept: list[AbortedTxn] = []
        """Entries for the index of the segment being written."""
        self._waiting: list[tuple[int, int, AbortedTxn]] = []
        self._added = 0
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        """Producers of these of which data was seen."""
        self._committed: set[int] = set()

    def add(self, transactions: Iterable[AbortedTxn]) -> None:
        for txn in transactions:
            self._added += 1
            heappush(self._waiting, (txn.first_offset, self._added, txn))

    def data(self, producer_id: int, last_offset: int) -> bool:
        """Take a transactional batch; return whether it was aborted."""
        self._begin(last_offset)
        if producer_id in self._aborted:
            self._observed.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def control(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """Take a control batch (None: an emptied one); return whether it is no longer needed."""
        self._begin(last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            return not self._end_aborted(producer_id)
        if kind == COMMIT:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        return False

    def _end_aborted(self, producer_id: int) -> bool:
        """End an aborted transaction; return whether data of it is still there."""
        txn = self._aborted.pop(producer_id, None)
        if txn is None or producer_id not in self._observed:
            return False
        self._observed.discard(producer_id)
        self.kept.append(txn)
        return True

    def _begin(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            txn = heappop(self._waiting)[2]
            self._aborted.setdefault(txn.producer_id, txn)
