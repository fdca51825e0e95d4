"""Find the last rows of a log without reading it from the start: step back through the index."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.indexes import read_offset_index
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.batches.seek import Range, batch_at
from kafkatool.engine.files.source import Guest, Source


class Tail(NamedTuple):
    """Where the last rows begin: walk from `position` and skip the first `skip` rows."""

    position: int
    skip: int
    rows: int


def find_tail(
    source: Source,
    path: str,
    guest: Guest,
    count: int,
    rows_of: Callable[[Batch], int],
    wanted: Range,
) -> Tail:
    """Return the start of the last `count` rows; fewer if the log has no more."""
    positions = read_offset_index(path, guest).positions
    back = 1
    while True:
        start = positions[-back] if back <= len(positions) else 0
        if start and batch_at(source, start) is None:  # the index is wrong
            start = 0
        tail = _tail_from(source, start, count, rows_of, wanted)
        if tail.rows >= count or start == 0:
            return tail
        back *= 2


def _tail_from(
    source: Source, start: int, count: int, rows_of: Callable[[Batch], int], wanted: Range
) -> Tail:
    kept: deque[tuple[int, int]] = deque()
    total = 0
    for batch in _batches(source, start, wanted):
        rows = rows_of(batch)
        if not rows:
            continue
        kept.append((batch.position, rows))
        total += rows
        while kept and total - kept[0][1] >= count:
            total -= kept.popleft()[1]
    if not kept or total < count:  # from the very start, as damage there may be the reason for too few rows
        return Tail(start, 0, total)
    return Tail(kept[0][0], max(0, total - count), min(total, count))


def _batches(source: Source, start: int, wanted: Range) -> Iterator[Batch]:
    for item in scan(source, start):
        if isinstance(item, Damage) or not wanted.touches(item):
            continue
        if wanted.is_behind(item):
            return
        yield item
