"""A fetch from batches in memory, against what a look at every one of them says."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.batches.fetch import LogSlice, find_slice, offset_behind
from kafkatool.engine.batches.headers import FoundBatch
from kafkatool.engine.batches.indexes import OffsetIndex
from kafkatool.format.batch import NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.offset_index import OffsetEntry, write_entries


@dataclass
class Shelf:
    """A segment that holds batches of two records each, with an index entry for every one but the first."""

    base_offset: int
    count: int

    @property
    def batches(self) -> list[FoundBatch]:
        found, position = [], 0
        for at in range(self.count):
            rows = [NewRecord(None, b"x" * at, 1)] * 2
            header = read_header(write_batch(rows, base_offset=self.base_offset + 2 * at))
            found.append(FoundBatch(position, header.size, header))
            position += header.size
        return found

    def find(self, offset: int) -> FoundBatch | None:
        return next((one for one in self.batches if one.header.last_offset >= offset), None)

    def end_of_slice(self, position: int) -> int:
        return sum(one.size for one in self.batches)

    def index(self) -> OffsetIndex:
        entries = [OffsetEntry(2 * at + 1, one.position) for at, one in enumerate(self.batches)]
        return OffsetIndex.whole(write_entries(entries[1:]), self.base_offset)


def shelves(counts: list[int]) -> tuple[list[Shelf], int]:
    made, base = [], 0
    for count in counts:
        made.append(Shelf(base, count))
        base += 2 * count
    return made, base


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    offset=st.integers(0, 26),
    limit=st.integers(0, 26),
    max_bytes=st.integers(0, 400),
    at_least_one=st.booleans(),
)
def test_a_slice_holds_the_asked_offset_and_nothing_that_reaches_the_limit(
    counts: list[int], offset: int, limit: int, max_bytes: int, at_least_one: bool
) -> None:
    segments, log_end = shelves(counts)
    limit = min(limit, log_end)
    cut = find_slice(segments, offset, limit, log_end, max_bytes, at_least_one)
    if offset >= limit:
        assert cut is None
        return
    assert cut is not None
    segment = segments[cut.segment]
    first = next(one for one in segment.batches if one.header.last_offset >= offset)
    below = [one for one in segment.batches if one.header.last_offset < limit]
    end = max((one.position + one.size for one in below), default=0)
    wanted = max(max_bytes, first.size) if at_least_one else max_bytes
    assert segment.base_offset <= offset <= segment.batches[-1].header.last_offset
    assert cut == LogSlice(cut.segment, first, max(0, min(end - first.position, wanted)))
    last = [one for one in segment.batches if one.position < cut.first.position + cut.size]
    assert not cut.size or offset_behind(segments, cut, log_end) > last[-1].header.base_offset
