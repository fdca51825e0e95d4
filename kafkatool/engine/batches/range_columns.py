"""A range of offsets or times, asked of many records or batches at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.seek import Range

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def records_in(wanted: Range, offsets: Numbers, times: Numbers) -> Mask:
    """Which records are meant: the same as `Range.holds`."""
    return _within(wanted, offsets, offsets, times)


def batches_in(wanted: Range, first: Numbers, last: Numbers, greatest: Numbers) -> Mask:
    """Which batches are meant as a whole: with any of their offsets, or with their greatest time, in it."""
    start, stop = wanted.from_offset, wanted.to_offset
    if start is not None and stop is not None and start >= stop:
        return np.zeros(len(first), dtype=np.bool_)  # a batch may lie around it, but has no offset in it
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
