"""From which offset and time to which: with few reads, and never a guess."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory import extent as extent_module
from kafkatool.engine.directory.extent import Extent, partition_extent, segment_extent
from kafkatool.engine.directory.log_dir import Segment, read_partition
from kafkatool.engine.files.source import FileSource, Guest, Source
from kafkatool.format.batch import DELETE_HORIZON_MASK, TIMESTAMP_TYPE_MASK, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message
from kafkatool.format.offset_index import OffsetEntry
from tests.engine.disk import START_MS, write_partition, write_segment
from tests.logs import batches, write_log
from tests.mutations import flip

WHOLE = Extent(0, 59, START_MS, START_MS + 29_001)


def only_segment(directory: Path) -> Segment:
    (segment,) = read_partition(str(directory), []).segments
    return segment


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    return path


@pytest.mark.parametrize("is_active", [True, False])
def test_a_segment_is_measured_from_its_ends(directory: Path, is_active: bool) -> None:
    write_segment(directory, 0, is_active=is_active)
    assert segment_extent(only_segment(directory), Guest()) == WHOLE


def test_with_indexes_only_the_ends_are_walked(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment(directory, 0, batches=400)
    starts: list[int] = []

    def watched(source: Source, start: int) -> Iterator[Batch | Damage]:
        starts.append(start)
        return scan(source, start)

    monkeypatch.setattr(extent_module, "scan", watched)
    assert segment_extent(only_segment(directory), Guest()).last_offset == 799
    assert starts[0] > 300_000


@pytest.mark.parametrize("missing", [".index", ".timeindex", ".index .timeindex"])
def test_without_an_index_nothing_is_wrong(directory: Path, missing: str) -> None:
    write_segment(directory, 0)
    for extension in missing.split():
        (directory / f"{0:020d}{extension}").unlink()
    found = segment_extent(only_segment(directory), Guest())
    assert (found.first_offset, found.last_offset) == (0, 59)
    # With an offset index alone nobody knows the times before its last entry.
    assert found.max_timestamp_ms == (None if missing == ".timeindex" else WHOLE.max_timestamp_ms)


@pytest.mark.parametrize(
    "entry", [OffsetEntry(1, 5), OffsetEntry(3, 870), OffsetEntry(9, 1 << 30), OffsetEntry(-5, -5)]
)
def test_an_index_that_lies_is_not_believed(directory: Path, entry: OffsetEntry) -> None:
    write_segment(directory, 0)
    raw = b"".join(number.to_bytes(4, "big", signed=True) for number in entry)
    (directory / f"{0:020d}.index").write_bytes(raw)
    assert segment_extent(only_segment(directory), Guest()) == WHOLE


def test_any_bytes_in_the_indexes_give_the_same_offsets(directory: Path) -> None:
    write_segment(directory, 0)
    for seed in range(30):
        for extension in (".index", ".timeindex"):
            (directory / f"{0:020d}{extension}").write_bytes(os.urandom(seed * 7))
        found = segment_extent(only_segment(directory), Guest())
        assert (found.first_offset, found.last_offset) == (0, 59)


def test_an_empty_segment_has_no_range_and_no_problem(directory: Path) -> None:
    write_segment(directory, 0, batches=0, is_active=True)
    found = segment_extent(only_segment(directory), Guest())
    assert found == Extent()
    assert found.is_empty


def test_damage_is_told_and_walked_past(directory: Path) -> None:
    write_segment(directory, 0)
    log = directory / f"{0:020d}.log"
    (directory / f"{0:020d}.index").unlink()
    flip(log, 5000)
    found = segment_extent(only_segment(directory), Guest())
    assert (found.first_offset, found.last_offset) == (0, 59)
    assert found.problem is not None
    assert found.problem.startswith("bad_crc at byte ")


def test_a_preallocated_log_ends_where_its_zeros_begin(directory: Path) -> None:
    write_segment(directory, 0, is_active=True)
    os.truncate(directory / f"{0:020d}.log", 1 << 20)
    assert segment_extent(only_segment(directory), Guest()) == WHOLE


def test_garbage_has_a_problem_and_no_range(directory: Path) -> None:
    (directory / f"{0:020d}.log").write_bytes(b"\xff" * 1000)
    found = segment_extent(only_segment(directory), Guest())
    assert (found.first_offset, found.last_offset) == (None, None)
    assert found.problem == "no batch at the start"


def test_a_log_that_vanishes_is_a_problem_only(directory: Path) -> None:
    write_segment(directory, 0)
    segment = only_segment(directory)
    (directory / f"{0:020d}.log").unlink()
    assert segment_extent(segment, Guest()) == Extent(problem="vanished")


def test_the_first_time_is_what_the_header_really_says(directory: Path) -> None:
    record = [NewRecord(b"k", b"v", START_MS)]
    log = directory / f"{0:020d}.log"
    log.write_bytes(write_batch(record, attributes=DELETE_HORIZON_MASK))
    assert segment_extent(only_segment(directory), Guest()).first_timestamp_ms is None
    log.write_bytes(write_batch(record, attributes=TIMESTAMP_TYPE_MASK))
    assert segment_extent(only_segment(directory), Guest()).first_timestamp_ms == START_MS


def test_old_messages_are_measured_too(directory: Path) -> None:
    messages = [
        write_message(offset, b"k", b"v", magic=1, timestamp_ms=START_MS + offset) for offset in (7, 9)
    ]
    (directory / f"{7:020d}.log").write_bytes(b"".join(messages))
    assert segment_extent(only_segment(directory), Guest()) == Extent(7, 9, START_MS + 7, START_MS + 9)


def test_a_partition_reaches_from_its_first_segment_to_its_last(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "orders-0", segments=4)
    write_segment(directory, 0, suffix=".deleted")
    write_segment(directory, 240, batches=0, is_active=True)
    found = partition_extent(read_partition(str(directory), []), Guest())
    assert found == Extent(0, 239, START_MS, START_MS + 119_001)


def test_a_partition_with_one_late_segment_in_the_middle_has_its_time(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for base, start_ms in ((0, START_MS), (60, START_MS + 900_000_000), (120, START_MS + 60_000)):
        write_segment(directory, base, start_ms=start_ms)
    found = partition_extent(read_partition(str(directory), []), Guest())
    assert found.max_timestamp_ms == START_MS + 900_029_001


def test_an_empty_partition_is_empty(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert partition_extent(read_partition(str(tmp_path / "orders-0"), []), Guest()).is_empty


def test_a_log_that_the_disk_does_not_give_is_told_and_not_taken_for_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "t-0", b"".join(batches(200)))

    def failing(fd: int, size: int, position: int) -> bytes:
        if position < 8192 and position + size > 4096:
            raise OSError(errno.EIO, "Input/output error")
        return os.pread(fd, size, position)

    def open_failing(name: str, guest: Guest) -> FileSource:
        return FileSource(os.open(name, os.O_RDONLY), name, guest, failing)

    monkeypatch.setattr(extent_module, "open_source", open_failing)
    partition = read_partition(str(path.parent), [])
    extent = segment_extent(partition.segments[0], Guest(cache_keep=True))
    assert not extent.could_be_read
    assert extent.last_offset == 599
    assert "image the disk" in str(extent.problem)
