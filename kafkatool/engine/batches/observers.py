"""Whoever wants every good batch of a log as a row, in a walk that is made anyway: each byte is read once."""

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
    """Something that a walk adds up. Goes to the workers empty, and comes back with what it saw."""

    def fresh(self) -> Self:
        """Another one that has seen nothing yet."""
        return deepcopy(self)

    def walking(self, _position: int) -> AbstractContextManager[object]:
        """Entered while a stretch that begins there is walked."""
        return nullcontext()

    def take(self, columns: BatchColumns) -> None:
        """Good batches that follow each other; the arrays may be kept."""
        raise NotImplementedError

    def merge(self, behind: Self) -> None:
        """Take over what the same observer saw of the stretch behind."""
        raise NotImplementedError


class BatchRows:
    """Collects batches, and hands them to observers many at a time and in order."""

    def __init__(self, observers: Sequence[Observer], max_batch_size: int) -> None:
        self._observers = observers
        self._max_batch_size = max_batch_size
        self._table = np.empty((_FIELDS, ROWS), dtype=np.int64)
        self._rows = 0

    def add_run(self, window: bytes, end: int, position: int) -> None:
        """The good batches in `window[:end]`."""
        at = 0
        while at < end:
            self._make_room()
            at, self._rows = loops.batch_rows(window, at, end, position + at, self._table, self._rows)

    def add(self, batch: Batch) -> None:
        """One good batch, unless nobody can go by its header."""
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
            # A copy: who takes it may keep it, as Arrow does without one of its own.
            columns = BatchColumns(*self._table[:, : self._rows].copy())
            for observer in self._observers:
                observer.take(columns)
        self._rows = 0
