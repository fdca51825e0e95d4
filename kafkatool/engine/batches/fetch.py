"""Decide which bytes of a log a fetch gets, as a broker does.

A fetch is a slice of one segment's file: it begins with the whole batch that holds the asked offset, and may
end in the middle of one. What lies at or behind the limit (the log's end, the high watermark, the last stable
offset) is never in it, batch by batch.
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
    """Say what a fetch has to know of a segment."""

    base_offset: int

    def find(self, offset: int) -> FoundBatch | None:
        """Return the first batch that reaches an offset; None if there is none."""

    def end_of_slice(self, position: int) -> int:
        """Return the byte up to which batches follow each other from a position on."""

    def index(self) -> OffsetIndex: ...


class LogSlice(NamedTuple):
    """Name `size` bytes of a segment from its batch `first` on."""

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
    """Return what a fetch from an offset gets; None if no batch below the limit reaches it.

    With `at_least_one` the first batch is given whole, however large.
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
    """Return the byte of a segment up to which a reader may look."""
    last = floor_segment(segments, limit)
    if number != last:
        return end if number < last else 0
    found = segments[number].find(limit)
    return end if found is None else found.position


def offset_behind(segments: Sequence[FetchedSegment], cut: LogSlice, log_end: int) -> int:
    """Return an offset that no record in a slice reaches: the index knows it to within an entry."""
    behind = segments[cut.segment].index().offset_behind(cut.first.position + cut.size)
    if behind is not None:
        return behind
    following = segments[cut.segment + 1 : cut.segment + 2]
    return following[0].base_offset if following else log_end
