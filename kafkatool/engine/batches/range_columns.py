"""Test many records or batches at once against a range of offsets or times."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.seek import Range

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def records_in(wanted: Range, offsets: Numbers, times: Numbers) -> Mask:
    """Return which records are in the range, as `Range.holds` does for one."""
    return _within(wanted, offsets, offsets, times)


def batches_in(wanted: Range, first: Numbers, last: Numbers, greatest: Numbers) -> Mask:
    """Return which batches are in the range: with any of their offsets and with their greatest time in it."""
    start, stop = wanted.from_offset, wanted.to_offset
    if start is not None and stop is not None and start >= stop:
        return np.zeros(len(first), dtype=np.bool_)  # a batch may span it, but has no offset in it
    return _within(wanted, first, last, greatest)


def _within(wanted: Range, first: Numbers, last: Numbers, times: Numbers) -> Mask:
    takes = np.ones(len(first), dtype=np.bool_)
    if wanted.from_offset is not None:
        takes &= last >= wanted.from_offset
    if wanted.to_offset is not None:
        takes &= first < wanted.to_offset
    if wanted.from_ms is not None:
        takes &= times >= wanted.from_ms
    if wanted.to_ms is not None:
        takes &= times < wanted.to_ms
    return takes
