from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatool.engine.batches.finder import BatchFinder
from kafkatool.engine.batches.headers import FoundBatch
from kafkatool.engine.files.source import AnySource, FileSource, open_source
from kafkatool.errors import FormatError
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message


def batch(offset: int, count: int = 1, stamp: int = 5) -> bytes:
    return write_batch([NewRecord(None, b"v", stamp + i) for i in range(count)], base_offset=offset)


class CountingSource:
    """Bytes in memory that count how many were asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name = "memory"
        self.size_hint: int | None = len(data)
        self.unreadable: list[tuple[int, int]] = []
        self.changed: str | None = None
        self.bytes_read = 0

    def read(self, position: int, size: int) -> bytes:
        piece = self.data[position : position + size]
        self.bytes_read += len(piece)
        return piece

    def next_data(self, position: int) -> int:
        return position

    def close(self) -> None: ...

    def __enter__(self) -> CountingSource:
        return self

    def __exit__(self, *exc: object) -> None: ...


def by_walking(finder: BatchFinder, start: int, offset: int) -> FoundBatch | None:
    return next((found for found in finder.chain(start) if found.header.last_offset >= offset), None)


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=300),
    st.lists(st.tuples(st.integers(0, 300), st.integers(-5, 220)), max_size=40),
)
def test_find_answers_like_a_walk_of_its_own_even_where_offsets_go_back(
    offsets: list[int], questions: list[tuple[int, int]]
) -> None:
    batches = [batch(offset) for offset in offsets]
    finder = BatchFinder(CountingSource(b"".join(batches)))
    starts = [0]
    for raw in batches:
        starts.append(starts[-1] + len(raw))
    for start, offset in questions:
        position = starts[start % len(starts)]
        assert finder.find(position, offset) == by_walking(finder, position, offset)


def test_asking_for_every_offset_in_any_order_is_not_quadratic() -> None:
    log = b"".join(batch(offset) for offset in range(5000))
    source = CountingSource(log)
    finder = BatchFinder(source)
    for offset in [*range(0, 6000, 3), *range(5999, 0, -7)]:
        found = finder.find(0, offset)
        assert (found.header.last_offset if found else -1) == (offset if offset < 5000 else -1)
    # One walk, and a window for each question that goes back.
    assert source.bytes_read < len(log) + 1200 * (64 << 10)


@given(st.binary(max_size=200), st.integers(-5, 210), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_give_a_batch_or_none_or_a_format_error(data: bytes, position: int, offset: int) -> None:
    finder = BatchFinder(CountingSource(data))
    try:
        found = finder.find(position, offset)
        if found is not None:
            finder.max_record_timestamp(found)
    except FormatError:
        pass


def test_a_bad_length_stops_the_walk_where_kafka_throws() -> None:
    first = batch(0)
    broken = first + batch(1)[:8] + (13).to_bytes(4, "big") + bytes(80)
    finder = BatchFinder(CountingSource(broken))
    assert finder.find(0, 0) is not None
    for _ in range(2):
        with pytest.raises(FormatError, match=f"at byte {len(first)}"):
            finder.find(0, 1)


@pytest.fixture
def real_log(tmp_path: Path) -> Iterator[AnySource]:
    path = tmp_path / "0.log"
    empty = batch(7)
    path.write_bytes(batch(0, 3, 100) + write_message(3, None, b"v", timestamp_ms=50) + empty)
    with open_source(path) as source:
        yield source


def test_the_latest_time_is_that_of_the_records(real_log: FileSource) -> None:
    finder = BatchFinder(real_log)
    stamps = {found.header.last_offset: finder.max_record_timestamp(found) for found in finder.chain(0)}
    assert stamps == {2: 102, 3: 50, 7: 5}


def test_a_batch_beyond_the_limit_is_not_loaded(real_log: FileSource) -> None:
    finder = BatchFinder(real_log, max_batch_size=10)
    found = finder.batch_at(0)
    assert found is not None
    with pytest.raises(FormatError):
        finder.max_record_timestamp(found)
