"""The page cache in Kafka's terms, on logs of our own engine: what is evicted is known."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from kafkatool.engine.batches.seek import EVERYWHERE, Range
from kafkatool.engine.cache import planning
from kafkatool.engine.cache.planning import CacheAction, apply, bounds, free_memory, plan
from kafkatool.engine.cache.residents import MappedPartition, Notes, cached_tail, map_targets, reading_from
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, PartitionTarget
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.open_files import open_kafka_files
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.source import Guest
from kafkatool.engine.log.loading import open_log
from kafkatool.errors import UsageError
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import NEWEST
from tests.engine.cold import evict, resident_pages
from tests.log_dirs import locked

TIME = 1_772_355_600_000
BATCH_RECORDS = 10
SEGMENT = 1 << 20


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three segments of 1 MiB and a bit: a batch of 10 records, some 10 KiB, every second."""
    config = read_config({"segment.bytes": str(SEGMENT)}, NEWEST)
    path = tmp_path / "logs" / "orders-0"
    path.parent.mkdir()
    with open_log(Disk(), str(path), config, now_ms=TIME) as log:
        for second in range(330):
            rows = [NewRecord(b"k", os.urandom(1000), TIME + 1000 * second) for _ in range(BATCH_RECORDS)]
            log.append_as_leader(write_batch(rows), leader_epoch=0, now_ms=TIME + 1000 * second)
    for file in path.iterdir():
        evict(file)
    if any(any(resident_pages(log)) for log in path.glob("*.log")):
        pytest.skip("this file system does not evict (tmpfs?)")
    return path


def _map(path: Path, notes: Notes | None = None) -> MappedPartition:
    (found,) = map_targets([PartitionTarget(str(path))], Guest(), notes or Notes())
    return found


def _logs(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def _read(path: Path, position: int) -> None:
    """Bring in a file from a position on, and nothing before it."""
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(file.fileno(), 1 << 30, position)


def test_a_cold_log_has_no_tail_in_memory(partition: Path) -> None:
    assert cached_tail(_map(partition), Guest()) is None


def test_looking_at_a_cold_log_leaves_it_cold(partition: Path) -> None:
    mapped = _map(partition)
    cached_tail(mapped, Guest())
    reading_from(mapped, "g", 500, Guest())
    assert not any(any(resident_pages(file)) for file in partition.iterdir() if file.stat().st_size)


def test_the_tail_is_told_in_bytes_offsets_and_time(partition: Path) -> None:
    last = _logs(partition)[-1]
    start = last.stat().st_size // 2 // PAGE * PAGE
    _read(last, start)
    tail = cached_tail(_map(partition), Guest())
    assert tail is not None
    base = int(last.stem)
    assert (tail.segment, tail.position, tail.size) == (base, start, last.stat().st_size - start)
    assert tail.last_offset == 3299
    assert tail.last_timestamp_ms == TIME + 329_000
    assert tail.first_offset is not None
    assert tail.first_timestamp_ms == TIME + tail.first_offset // BATCH_RECORDS * 1000
    # The first batch that begins behind the gap, and not the one before it.
    batch = (last.stat().st_size - 0) / (3300 - base) * BATCH_RECORDS
    assert tail.first_offset - base == pytest.approx(start / batch * BATCH_RECORDS, abs=BATCH_RECORDS)
    assert (tail.first_offset - base) * batch / BATCH_RECORDS >= start - PAGE


def test_a_tail_reaches_back_over_whole_segments(partition: Path) -> None:
    first, *others = _logs(partition)
    for log in others:
        log.read_bytes()
    tail = cached_tail(_map(partition), Guest())
    assert tail is not None
    assert tail.segment == tail.first_offset == int(others[0].stem)
    assert tail.size == sum(log.stat().st_size for log in others)
    first.read_bytes()
    whole = cached_tail(_map(partition), Guest())
    assert whole is not None
    assert (whole.first_offset, whole.position) == (0, 0)


def test_a_preallocated_log_ends_where_its_batches_do(partition: Path) -> None:
    last = _logs(partition)[-1]
    size = last.stat().st_size
    last.read_bytes()
    os.truncate(last, SEGMENT)
    tail = cached_tail(_map(partition), Guest())
    assert tail is not None
    assert tail.size == size


def test_a_group_is_told_whether_its_next_batch_is_in_memory(partition: Path) -> None:
    first, *_others, last = _logs(partition)
    last.read_bytes()
    mapped = _map(partition)
    hurt = reading_from(mapped, "slow", 5, Guest())
    assert (hurt.is_cached, hurt.segment, hurt.position) == (False, 0, 0)
    assert hurt.cold_size == sum(log.stat().st_size for log in _logs(partition)[:-1])
    fine = reading_from(mapped, "quick", int(last.stem), Guest())
    assert (fine.is_cached, fine.cold_size, fine.behind_size) == (True, 0, last.stat().st_size)
    assert reading_from(mapped, "done", 3300, Guest()).segment is None
    assert first.exists()


def test_a_file_that_vanishes_is_noted_and_left_out(partition: Path) -> None:
    notes = Notes()
    targets = [FileTarget(str(path)) for path in (*_logs(partition), partition / "gone.log")]
    (mapped,) = map_targets(targets, Guest(), notes)
    assert len(list(mapped.files)) == len(_logs(partition))
    assert notes.vanished == [str(partition / "gone.log")]


def test_a_log_directory_is_mapped_partition_by_partition(partition: Path) -> None:
    found = list(map_targets([LogDirTarget(str(partition.parent))], Guest(), Notes()))
    assert [one.partition.topic for one in found] == ["orders"]


# --- warm and evict -----------------------------------------------------------------------------------


def test_warming_brings_in_the_tail_and_no_more(partition: Path) -> None:
    mapped = _map(partition)
    pieces = plan(mapped, CacheAction.WARM, bounds(mapped, EVERYWHERE, 100 * PAGE, Guest()), 1 << 40)
    done = list(apply(pieces, Guest()))
    # Each file may begin and end within a page.
    assert 100 * PAGE <= sum(one.resident_after - one.resident_before for one in done) <= 104 * PAGE
    tail = cached_tail(_map(partition), Guest())
    assert tail is not None
    assert 100 * PAGE <= tail.size <= 104 * PAGE


def test_warming_takes_the_newest_first_and_at_most_what_is_free(partition: Path) -> None:
    mapped = _map(partition)
    pieces = plan(mapped, CacheAction.WARM, bounds(mapped, EVERYWHERE, None, Guest()), 20 * PAGE)
    assert sum(piece.size for piece in pieces) == 20 * PAGE
    assert pieces[0].segment == int(_logs(partition)[-1].stem)
    assert pieces[0].why == "as much as memory has free"


def test_eviction_of_a_range_forgets_that_range(partition: Path) -> None:
    for log in _logs(partition):
        log.read_bytes()
    mapped = _map(partition)
    base = int(_logs(partition)[1].stem)
    within = bounds(mapped, Range(to_offset=base + 500), None, Guest())
    assert list(within) == [0, base]
    list(apply(plan(mapped, CacheAction.EVICT, within, 0), Guest()))
    assert not any(resident_pages(_logs(partition)[0]))
    second = resident_pages(_logs(partition)[1])
    assert second[: within[base][1] // PAGE - 16].count(1) == 0
    assert all(second[within[base][1] // PAGE + 1 :])
    assert all(resident_pages(_logs(partition)[2]))


def test_a_range_of_times_is_one_of_bytes(partition: Path) -> None:
    mapped = _map(partition)
    within = bounds(mapped, Range(from_ms=TIME + 320_000), None, Guest())
    assert list(within) == [int(_logs(partition)[-1].stem)]
    assert bounds(mapped, Range(from_ms=TIME + 999_000), None, Guest()) == {}


def test_the_active_segment_of_a_live_log_is_never_evicted(partition: Path) -> None:
    for log in _logs(partition):
        log.read_bytes()
    with locked(partition.parent):
        mapped = _map(partition)
        pieces = plan(mapped, CacheAction.EVICT, bounds(mapped, EVERYWHERE, None, Guest()), 0)
        list(apply(pieces, Guest()))
    assert all(resident_pages(_logs(partition)[-1]))
    assert not any(resident_pages(_logs(partition)[0]))
    assert pieces[0].why.startswith("active")


def test_what_memory_has_free_is_less_than_all_of_it(tmp_path: Path) -> None:
    assert 0 <= free_memory() < os.sysconf("SC_PHYS_PAGES") * PAGE
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemFree:    1600 kB\n")
    assert free_memory(str(tmp_path)) == 1500 * 1024
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/box\n")
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "memory.max").write_text("2048000\n")
    (tmp_path / "box" / "memory.current").write_text("1024000\n")
    assert planning.free_memory(str(tmp_path), str(tmp_path)) == 1024000 - 1024000 // 16


# --- whose files --------------------------------------------------------------------------------------


def test_the_files_of_a_process_are_those_it_has_open(partition: Path) -> None:
    log, gone = _logs(partition)[0], partition / "00000000000000000077.log"
    gc.collect()
    _, deleted_before = open_kafka_files(os.getpid())  # whatever other tests have left open
    with log.open("rb"), (partition / "notes.txt").open("w"), gone.open("wb"):
        gone.unlink()
        paths, deleted = open_kafka_files(os.getpid())
    assert str(log) in paths
    assert not any(path.endswith("notes.txt") for path in paths)
    assert deleted == deleted_before + 1


def test_a_process_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no such process"):
        open_kafka_files(1 << 30)
