"""Pass every good batch of a log as a row to observers of a walk, so that each byte is read only once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Self

import numpy as np

from kafkatool.engine.batches.column_walk import one_batch
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import Batch
from kafkatool.format.columns import BatchColumns
from kafkatool.format.kernel import loops

ROWS = 1 << 14
_FIELDS = len(BatchColumns._fields)


class Observer:
    """Collects something during a walk. Sent to workers empty, it returns with what it saw."""

    def fresh(self) -> Self:
        """Return another one that has seen nothing yet."""
        return deepcopy(self)

    def walking(self, _position: int) -> AbstractContextManager[object]:
        """Return a context that is active while the stretch from this position is walked."""
        return nullcontext()

    def take(self, columns: BatchColumns) -> None:
        """Take good batches, in order; the arrays may be kept."""
        raise NotImplementedError

    def merge(self, behind: Self) -> None:
        """Add what the same observer saw in the stretch after this one."""
        raise NotImplementedError


class BatchRows:
    """Collects batches and passes them to observers, many at a time and in order."""

    def __init__(self, observers: Sequence[Observer], max_batch_size: int) -> None:
        self._observers = observers
        self._max_batch_size = max_batch_size
        self._table = np.empty((_FIELDS, ROWS), dtype=np.int64)
        self._rows = 0

    def add_run(self, window: bytes, end: int, position: int) -> None:
        """Add the good batches in `window[:end]`."""
        at = 0
        while at < end:
            self._make_room()
            at, self._rows = loops.batch_rows(window, at, end, position + at, self._table, self._rows)

    def add(self, batch: Batch) -> None:
        """Add one good batch, unless its header is unusable."""
        found = one_batch(batch, self._max_batch_size)
        if not isinstance(found, Damage):
            self._make_room()
            self._table[:, self._rows] = [column[0] for column in found]
            self._rows += 1

    def _make_room(self) -> None:
        if self._rows == ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            # A copy: an observer may keep it, as Arrow does without copying.
            columns = BatchColumns(*self._table[:, : self._rows].copy())
            for observer in self._observers:
                observer.take(columns)
        self._rows = 0
