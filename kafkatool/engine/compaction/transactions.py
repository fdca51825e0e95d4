"""Which transactional batches and markers a pass of the cleaner can do without.

Data of an aborted transaction can go at once. A marker can go when no batch of its transaction was met in
this pass; until an abort's can, its entry stays in the transaction index.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from kafkatool.format.txn_index import AbortedTxn

ABORT, COMMIT = 0, 1


class CleanedTransactions:
    """The transactions under way at one point of a walk."""

    def __init__(self) -> None:
        self.kept: list[AbortedTxn] = []
        """Entries for the index of the segment that is being written."""
        self._waiting: list[tuple[int, int, AbortedTxn]] = []
        self._added = 0
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        """Of those, the producers of which data was met."""
        self._committed: set[int] = set()

    def add(self, transactions: Iterable[AbortedTxn]) -> None:
        for txn in transactions:
            self._added += 1
            heappush(self._waiting, (txn.first_offset, self._added, txn))

    def data(self, producer_id: int, last_offset: int) -> bool:
        """A transactional batch: whether it was aborted."""
        self._begin(last_offset)
        if producer_id in self._aborted:
            self._observed.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def control(self, producer_id: int, last_offset: int, kind: int | None) -> bool:
        """A control batch, None for one that was emptied: whether nobody needs it any more."""
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
        """Whether data of the transaction is still there."""
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
