"""Decode the headers of many records into columns, without a step per record.

Headers follow each other and can only be found in order, so there is one round for the first header of all
records, one for the second, and so on. Records with very many headers are read one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.format.columns import Column
from kafkatool.format.primitives import read_varint

_MOST_ROUNDS = 64
_MORE = 0x80


class HeaderColumns(NamedTuple):
    """One row per header, record by record; a size of -1 is null."""

    key_start: Column
    key_size: Column
    value_start: Column
    value_size: Column


def read_header_columns(data: memoryview, starts: Column, counts: Column) -> HeaderColumns:
    """Return the headers of decoded records, given where they begin and how many each record has."""
    table = np.empty((4, int(counts.sum())), dtype=np.int64)
    first = np.cumsum(counts) - counts
    raw = np.frombuffer(data, dtype=np.uint8)
    at = starts.copy()
    rows = np.flatnonzero(counts)
    for number in range(_MOST_ROUNDS):
        if not len(rows):
            break
        targets = first[rows] + number
        for field in (0, 2):
            size, begin = _varints(raw, at[rows])
            table[field, targets], table[field + 1, targets] = begin, np.maximum(size, -1)
            at[rows] = begin + np.maximum(size, 0)
        rows = rows[counts[rows] > number + 1]
    for row in rows.tolist():
        _read_rest(data, int(at[row]), table, int(first[row]) + _MOST_ROUNDS, int(first[row] + counts[row]))
    return HeaderColumns(*table)


def _varints(raw: NDArray[np.uint8], at: Column) -> tuple[Column, Column]:
    """Decode a zigzag varint at each of many places; return the values and where each ends."""
    value = raw[at].astype(np.int64)
    more = np.flatnonzero(value & _MORE)
    value &= _MORE - 1
    shift = 7
    behind = at + 1
    while len(more):
        byte = raw[behind[more]].astype(np.int64)
        value[more] |= (byte & (_MORE - 1)) << shift
        behind[more] += 1
        shift += 7
        more = more[byte & _MORE != 0]
    return (value >> 1) ^ -(value & 1), behind


def _read_rest(data: memoryview, at: int, table: NDArray[np.int64], row: int, end: int) -> None:
    for target in range(row, end):
        for field in (0, 2):
            size, at = read_varint(data, at)
            table[field, target], table[field + 1, target] = at, max(size, -1)
            at += max(size, 0)
