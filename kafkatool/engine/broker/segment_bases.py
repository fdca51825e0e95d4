"""Decide where to split a segment whose offsets span more than its indexes can express."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkatool.engine.batches.records import records_of
from kafkatool.format.batch import MAX_INT32, BatchHeader
from kafkatool.format.legacy import Header


def bases_of(batches: Iterable[tuple[int, Header]], read: Callable[[int, int], bytes]) -> dict[int, int]:
    """Return the base offsets of the new segments by position; each segment holds as much as it can.

    `read` returns bytes of the log, given position and size: a wrapper of magic 0 or 1 must be opened to find
    its first offset. Raises FormatError if that is impossible.
    """
    found: dict[int, int] = {}
    base: int | None = None
    for position, header in batches:
        if base is None or not 0 <= header.last_offset - base <= MAX_INT32:
            if isinstance(header, BatchHeader):
                base = header.base_offset
            else:
                base = next(records_of(header, read(position, header.size))).offset
            found[position] = base
    return found
