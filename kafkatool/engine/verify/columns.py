"""The walk of `verify`, for those who want every good batch as a row besides: each byte is read once."""

from __future__ import annotations

import numpy as np

from kafkatool.engine.batches.column_walk import one_batch
from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.files.source import AnySource
from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob, LogWalk
from kafkatool.format.columns import BatchColumns
from kafkatool.format.kernel import loops
from kafkatool.format.kernel.loops import Tally

ROWS = 1 << 14
_FIELDS = len(BatchColumns._fields)


class ColumnsWalk(LogWalk):
    """Hands the batches of a log to `take`, many at a time and in order."""

    def __init__(self, job: LogJob, split: Split, source: AnySource, before: LogFacts | None) -> None:
        super().__init__(job, split, source, before)
        self._table = np.empty((_FIELDS, ROWS), dtype=np.int64)
        self._rows = 0

    def take(self, columns: BatchColumns) -> None:
        """Good batches that follow each other."""
        raise NotImplementedError

    def run(self) -> LogFacts:
        facts = super().run()
        self._flush()
        return facts

    def _run(self, tally: Tally, window: bytes, position: int, end: int) -> tuple[int, int]:
        stop, why = super()._run(tally, window, position, end)
        at = 0
        while at < stop:
            if self._rows == ROWS:
                self._flush()
            at, self._rows = loops.batch_rows(window, at, stop, position + at, self._table, self._rows)
        return stop, why

    def _account(self, batch: Batch) -> None:
        before = self.facts.batches
        super()._account(batch)
        if self.facts.batches == before:
            return
        found = one_batch(batch, self.job.max_batch_size)
        if not isinstance(found, Damage):
            if self._rows == ROWS:
                self._flush()
            self._table[:, self._rows] = [column[0] for column in found]
            self._rows += 1

    def _flush(self) -> None:
        if self._rows:
            # A copy: who takes it may keep it, as Arrow does without one of its own.
            self.take(BatchColumns(*self._table[:, : self._rows].copy()))
        self._rows = 0
