"""Gather the bytes of one column, over many records, in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkatool.format.columns import Column
from kafkatool.format.kernel import loops


def gather_fields(data: memoryview, starts: Column, sizes: Column) -> tuple[bytes, Column]:
    """Return the fields concatenated, nulls as empty, and where each one ends."""
    ends = np.empty(len(starts), dtype=np.int64)
    take: Any = loops.gather  # accepts anything that can be indexed
    joined: bytes = take(data, starts, sizes, ends)
    return joined, ends
