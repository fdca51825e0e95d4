"""Decide which bytes of a log a fetch returns, as a broker does.

A fetch is a slice of one segment's file: it begins with the batch that holds the requested offset, and may
end in the middle of one. Batches at or after the limit (log end, high watermark or last stable offset) are
never in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from kafkatool.engine.batches.headers import FoundBatch
from kafkatool.engine.batches.indexes import OffsetIndex

_BASE = attrgetter("base_offset")


class FetchedSegment(Protocol):
    """What a fetch needs to know about a segment."""

    base_offset: int

    def find(self, offset: int) -> FoundBatch | None:
        """Return the first batch that reaches an offset; None if there is none."""

    def end_of_slice(self, position: int) -> int:
        """Return the position up to which batches follow each other without a break."""

    def index(self) -> OffsetIndex: ...


class LogSlice(NamedTuple):
    """`size` bytes of a segment, from its batch `first` on."""

    segment: int
    first: FoundBatch
    size: int


def floor_segment(segments: Sequence[FetchedSegment], offset: int) -> int:
    """Return the number of the last segment that begins at or below an offset; 0 if none does."""
    return max(0, bisect_right(segments, offset, key=_BASE) - 1)


def find_slice(
    segments: Sequence[FetchedSegment],
    offset: int,
    limit: int,
    log_end: int,
    max_bytes: int,
    at_least_one: bool,
) -> LogSlice | None:
    """Return the slice for a fetch from an offset; None if no batch below the limit reaches it.

    With `at_least_one` the first batch is returned whole, however large.
    """
    if offset >= limit:
        return None
    for number in range(floor_segment(segments, offset), len(segments)):
        first = segments[number].find(offset)
        if first is not None:
            end = segments[number].end_of_slice(first.position)
            if limit < log_end:
                end = min(end, _position_of_limit(segments, number, limit, end))
            wanted = max(max_bytes, first.size) if at_least_one else max_bytes
            return LogSlice(number, first, max(0, min(end - first.position, wanted)))
    return None


def _position_of_limit(segments: Sequence[FetchedSegment], number: int, limit: int, end: int) -> int:
    """Return the position in a segment up to which a reader may read."""
    last = floor_segment(segments, limit)
    if number != last:
        return end if number < last else 0
    found = segments[number].find(limit)
    return end if found is None else found.position


def offset_behind(segments: Sequence[FetchedSegment], cut: LogSlice, log_end: int) -> int:
    """Return an offset above all records of a slice, as precise as the index."""
    behind = segments[cut.segment].index().offset_behind(cut.first.position + cut.size)
    if behind is not None:
        return behind
    following = segments[cut.segment + 1 : cut.segment + 2]
    return following[0].base_offset if following else log_end
