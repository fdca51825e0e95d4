from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.batches.indexes import sibling_file
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.batches.seek import Range, seek, walk_range
from kafkatool.engine.batches.tail import find_tail
from kafkatool.engine.files.source import open_source
from kafkatool.format.offset_index import OffsetEntry, write_entries
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.time_index import write_entries as write_times
from tests.logs import GUEST, LOG, TIME, batches, offsets, write_log

ANY_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
COUNT = 40


def indexed(directory: Path, *, padding: int = 0, shift: int = 0) -> Path:
    """A log of 120 records with an entry for every fifth batch, right or shifted by some bytes."""
    parts = batches(COUNT)
    path = write_log(directory, b"".join(parts))
    starts = [len(b"".join(parts[:at])) for at in range(COUNT)]
    every = range(5, COUNT, 5)
    entries = [OffsetEntry(3 * at + 2, starts[at] + shift) for at in every]
    times = [TimeEntry(TIME + 1000 * (3 * at + 2), 3 * at + 2) for at in every]
    (directory / "00000000000000000000.index").write_bytes(write_entries(entries) + bytes(padding))
    (directory / "00000000000000000000.timeindex").write_bytes(write_times(times) + bytes(padding))
    return path


def found(path: Path, wanted: Range) -> list[int]:
    with open_source(path, GUEST) as source:
        walk = walk_range(source, str(path), wanted, GUEST)
        return offsets(item for item in walk if isinstance(item, Batch))


def by_scan(path: Path, wanted: Range) -> list[int]:
    with open_source(path, GUEST) as source:
        walk = walk_range(source, str(path), wanted, GUEST, start=0)
        return offsets(item for item in walk if isinstance(item, Batch))


wanted_ranges = st.builds(
    Range,
    st.none() | st.integers(-5, 130),
    st.none() | st.integers(-5, 130),
    st.none() | st.integers(TIME - 5000, TIME + 130_000),
    st.none() | st.integers(TIME - 5000, TIME + 130_000),
)


@ANY_FILE
@given(wanted=wanted_ranges, padding=st.sampled_from([0, 96]), shift=st.sampled_from([0, 1, 700, 1 << 20]))
def test_through_the_index_is_found_what_a_whole_walk_finds(
    tmp_path: Path, wanted: Range, padding: int, shift: int
) -> None:
    path = indexed(tmp_path, padding=padding, shift=shift)
    assert found(path, wanted) == by_scan(path, wanted)


def test_a_good_index_saves_reading_and_a_lying_one_is_not_believed(tmp_path: Path) -> None:
    path = indexed(tmp_path)
    late = Range(from_offset=100), Range(from_ms=TIME + 100_000)
    with open_source(path, GUEST) as source:
        assert all(seek(source, str(path), wanted, GUEST) > path.stat().st_size // 2 for wanted in late)
        path = indexed(tmp_path, shift=1)
        assert all(seek(source, str(path), wanted, GUEST) == 0 for wanted in late)


@ANY_FILE
@given(count=st.integers(0, 50), padding=st.sampled_from([0, 96]), shift=st.sampled_from([0, 3]))
def test_the_tail_is_the_end_of_the_whole(tmp_path: Path, count: int, padding: int, shift: int) -> None:
    path = indexed(tmp_path, padding=padding, shift=shift)
    with open_source(path, GUEST) as source:
        tail = find_tail(source, str(path), GUEST, count, lambda batch: 3, Range())
        walk = walk_range(source, str(path), Range(), GUEST, start=tail.position)
        rows = 3 * sum(isinstance(item, Batch) for item in walk) - tail.skip
    assert tail.rows == min(count, 3 * COUNT)
    assert rows == tail.rows or count == 0


def test_a_set_aside_log_has_its_index_set_aside_too() -> None:
    assert sibling_file(f"d/{LOG}.deleted", ".index") == "d/00000000000000000000.index.deleted"
    assert sibling_file(f"d/{LOG}", ".timeindex") == "d/00000000000000000000.timeindex"
    assert sibling_file("d/x.checkpoint", ".index") is None
