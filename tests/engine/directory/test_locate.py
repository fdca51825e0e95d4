from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.directory.locate import Search, SearchAction, SearchStep, search_in
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.offset_index import OffsetEntry, write_entries
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.time_index import write_entries as write_times
from tests.logs import GUEST, TIME, write_log

ANY_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def segment(directory: Path, base: int, stamps: list[int], *, indexed: bool = True) -> None:
    """One record a batch, an entry for every third batch, as a broker with a tiny interval writes them."""
    data = b""
    entries: list[OffsetEntry] = []
    times: list[TimeEntry] = []
    greatest, at_offset = -1, 0
    for number, stamp in enumerate(stamps):
        if stamp > greatest:
            greatest, at_offset = stamp, number
        if number and number % 3 == 0:
            entries.append(OffsetEntry(number, len(data)))
            if not times or greatest > times[-1].timestamp_ms:
                times.append(TimeEntry(greatest, at_offset))
        data += write_batch([NewRecord(b"k", b"v", stamp)], base_offset=base + number)
    if not times or greatest > times[-1].timestamp_ms:
        times.append(TimeEntry(greatest, at_offset))
    write_log(directory, data, f"{base:020d}.log")
    if indexed:
        (directory / f"{base:020d}.index").write_bytes(write_entries(entries))
        (directory / f"{base:020d}.timeindex").write_bytes(write_times(times))


def search(directory: Path, log_start: int | None = None) -> Search:
    return search_in(read_partition(str(directory), [], GUEST), GUEST, log_start)


def watched(directory: Path) -> tuple[Search, list[SearchStep]]:
    """A search, and the steps that it will take."""
    way, steps = search(directory), list[SearchStep]()
    way.observe = steps.append
    return way, steps


def partition(directory: Path, stamps: list[int], *, indexed: bool = True) -> Path:
    for base in range(0, len(stamps), 10):
        segment(directory, base, stamps[base : base + 10], indexed=indexed)
    return directory


@ANY_FILE
@given(st.lists(st.integers(TIME, TIME + 50), min_size=1, max_size=30), st.integers(-3, 35), st.booleans())
def test_an_offset_is_found_where_a_whole_walk_finds_it(
    tmp_path_factory: object, stamps: list[int], target: int, indexed: bool
) -> None:
    directory = partition(_fresh(tmp_path_factory), stamps, indexed=indexed)
    found = search(directory).offset(target)
    assert (found is None) == (target < 0 or target >= len(stamps))
    if found is not None:
        assert (found.offset, found.timestamp_ms) == (target, stamps[target])
        assert found == search(directory).whole_walk(offset=target)


@ANY_FILE
@given(st.lists(st.integers(TIME, TIME + 50), min_size=1, max_size=30), st.integers(TIME - 2, TIME + 52))
def test_a_time_is_found_as_the_brokers_rule_says(
    tmp_path_factory: object, stamps: list[int], target: int
) -> None:
    directory = partition(_fresh(tmp_path_factory), stamps)
    expected = next((offset for offset, stamp in enumerate(stamps) if stamp >= target), None)
    found = search(directory).time(target)
    assert (found.offset if found else None) == expected


def _fresh(factory: object) -> Path:
    path: Path = factory.mktemp("t", numbered=True)  # type: ignore[attr-defined]
    return path / "t-0"


def test_records_below_the_log_start_are_no_answer(tmp_path: Path) -> None:
    directory = partition(tmp_path / "t-0", [TIME + at for at in range(10)])
    found = search(directory, log_start=4).time(TIME)
    assert found is not None
    assert found.offset == 4


def test_a_gap_between_segments_hands_over_to_the_next(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", 0, [TIME] * 4)
    segment(tmp_path / "t-0", 100, [TIME] * 4)
    way, steps = watched(tmp_path / "t-0")
    found = way.offset(50)
    assert found is not None
    assert (found.segment, found.offset) == (100, 100)
    assert [step.action for step in steps].count(SearchAction.SEGMENT) == 2


def test_the_steps_name_the_slots_that_were_visited(tmp_path: Path) -> None:
    directory = partition(tmp_path / "t-0", [TIME + at for at in range(10)])
    way, steps = watched(directory)
    way.time(TIME + 7)
    assert [step.action for step in steps] == [
        *(SearchAction.SEGMENT, SearchAction.TIME_INDEX, SearchAction.OFFSET_INDEX, SearchAction.WALK),
    ]
    assert all(step.visited for step in steps[1:3])
    assert steps[1].slots == 3
