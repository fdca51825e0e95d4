"""Choose the batches and records of a walk that count if `stats` has a range.

By headers alone a batch counts as a whole, or not at all. If records are read, each is checked: a batch
counts with its records in the range, if any, and extends only as far as the range does. Batches without
records, or with unreadable ones, are judged by their headers even then.
"""

from __future__ import annotations

import numpy as np

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.range_columns import Mask, batches_in, records_in
from kafkatool.engine.batches.seek import Range
from kafkatool.engine.jobs.sketches import Numbers
from kafkatool.engine.stats.facts import CODECS, Stats
from kafkatool.format.batch import CODEC_MASK
from kafkatool.format.columns import BatchColumns
from kafkatool.format.legacy import Header

_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1


class RangeChoice:
    """What is known about the rows of a table of batches, besides their headers."""

    def __init__(self, wanted: Range, rows: int, *, is_deep: bool) -> None:
        self.wanted = wanted
        self._is_deep = is_deep
        self._offsets = Range(wanted.from_offset, wanted.to_offset)
        self._has_times = wanted.from_ms is not None or wanted.to_ms is not None
        rows = rows if is_deep else 0
        self._is_read = np.zeros(rows, dtype=np.bool_)
        self._counts, self._between, self._inflated, self._greatest = np.zeros((4, rows), dtype=np.int64)
        self._forget(rows)

    def _forget(self, rows: int) -> None:
        for column in (self._is_read, self._counts, self._between, self._inflated):
            column[:rows] = 0
        self._greatest[:rows] = -1

    # --- during the walk ----------------------------------------------------------------------------------

    def before_the_end(self, bases: Numbers) -> int:
        """Return how many of these batches, in order, begin before the end of the range."""
        to = self.wanted.to_offset
        return len(bases) if to is None else int(np.searchsorted(bases, to))

    def takes_damage(self, damage: Damage) -> bool:
        """Return whether damage may affect the range. Only offsets decide: damage has no known times."""
        start, stop = self.wanted.from_offset, self.wanted.to_offset
        is_before = start is not None and damage.last_offset is not None and damage.last_offset < start
        is_behind = stop is not None and damage.first_offset is not None and damage.first_offset >= stop
        return not (is_before or is_behind)

    def takes_header(self, header: Header) -> bool:
        first = header.base_offset
        values = (first, header.last_offset, header.max_timestamp)
        return bool(batches_in(self.wanted, *(np.array([value]) for value in values))[0])

    def records(self, row: int, count: int, batch: Numbers, offsets: Numbers, times: Numbers) -> Mask:
        """Return which of these records count; they belong to `count` batches, the first in row `row`."""
        rows, held = slice(row, row + count), records_in(self.wanted, offsets, times)
        between = records_in(self._offsets, offsets, times) if self._has_times else held
        self._is_read[rows] = True
        self._counts[rows] += np.bincount(batch[held], minlength=count)
        self._between[rows] += np.bincount(batch[between], minlength=count)
        if self._has_times:
            np.maximum.at(self._greatest[rows], batch[held], times[held])
        return held

    def inflated(self, row: int, sizes: Numbers) -> None:
        """Add decompressed sizes to the batches from `row` on."""
        self._inflated[row : row + len(sizes)] += sizes

    def cannot_read(self, row: int) -> None:
        self._is_read[row] = False

    # --- results ------------------------------------------------------------------------------------------

    def count(self, stats: Stats, columns: BatchColumns, now_ms: int, seed: int, file: int) -> None:
        """Add the batches that count to `stats`; `columns` are consecutive and complete."""
        rows = len(columns.size)
        if not rows:
            return
        first, last, between = columns.base_offset, columns.last_offset, columns.records_count
        chosen = batches_in(self.wanted, first, last, columns.max_timestamp)
        if self._is_deep:
            is_read = self._is_read[:rows] & (columns.records_count > 0)
            chosen = np.where(is_read, self._counts[:rows] > 0, chosen)
            first = np.where(is_read, np.maximum(first, _bounded(self.wanted.from_offset, _LEAST)), first)
            behind = _bounded(self.wanted.to_offset, _GREATEST)
            last = np.where(is_read, np.minimum(last, behind - 1), last)
            between = np.where(is_read, self._between[:rows], between)
            self._add_inflated(stats, columns, chosen & self._is_read[:rows])
            columns = self._of_the_range(columns, is_read)
            self._forget(rows)
        stats.offsets.add(first, last, between, chosen)
        stats.add_batches(BatchColumns(*(column[chosen] for column in columns)), now_ms, seed, file)

    def _of_the_range(self, columns: BatchColumns, is_read: Mask) -> BatchColumns:
        """Return the batches with their record count and greatest time within the range."""
        rows = len(is_read)
        columns = columns._replace(
            records_count=np.where(is_read, self._counts[:rows], columns.records_count)
        )
        if not self._has_times:
            return columns
        return columns._replace(max_timestamp=np.where(is_read, self._greatest[:rows], columns.max_timestamp))

    def _add_inflated(self, stats: Stats, columns: BatchColumns, which: Mask) -> None:
        assert stats.deep is not None
        codecs = (columns.attributes & CODEC_MASK)[which]
        for at, sizes in enumerate((columns.size, self._inflated[: len(which)])):
            sums = np.bincount(codecs, weights=sizes[which], minlength=CODECS)
            stats.deep.inflated[:, at] += sums.astype(np.int64)


def _bounded(offset: int | None, otherwise: int) -> int:
    """Return an offset limited to 64 bits."""
    return otherwise if offset is None else max(_LEAST + 1, min(offset, _GREATEST))
