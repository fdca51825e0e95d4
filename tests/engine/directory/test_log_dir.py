"""A log directory as facts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.directory.log_dir import (
    ListingProblem,
    PartitionState,
    SegmentState,
    data_group,
    read_files,
    read_log_dir,
    read_partition,
    unique_files,
)
from kafkatool.engine.directory.targets import FileTarget
from kafkatool.errors import KafkatoolError
from tests.engine.disk import CLUSTER_ID, TOPIC_ID, write_mixed_log_dir, write_partition, write_segment


def test_a_log_directory_says_whose_it_is(tmp_path: Path) -> None:
    found = read_log_dir(str(write_mixed_log_dir(tmp_path / "data")))
    assert found.meta is not None
    assert (found.meta.cluster_id, found.meta.node_id, found.meta.directory_id) == (CLUSTER_ID, 7, TOPIC_ID)
    assert found.was_shut_down_cleanly
    assert found.high_watermarks == {("orders", 0): 120}
    assert found.problems == []


def test_every_partition_has_its_state(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    write_partition(log_dir, "moved-1.0123456789abcdef0123456789abcdef-future", segments=1)
    write_partition(log_dir, "__cluster_metadata-0", segments=1)
    found = {(p.topic, p.partition): p.state for p in read_log_dir(str(log_dir)).partitions}
    assert found == {
        ("orders", 0): PartitionState.ACTIVE,
        ("orders", 2): PartitionState.ACTIVE,
        ("orders", 10): PartitionState.ACTIVE,
        ("gone", 0): PartitionState.DELETED,
        ("lost", 3): PartitionState.STRAY,
        ("moved", 1): PartitionState.FUTURE,
        ("__cluster_metadata", 0): PartitionState.METADATA,
    }


def test_segments_are_told_apart_by_base_offset_and_state(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "orders-0", segments=3)
    write_segment(directory, 0, suffix=".deleted")
    write_segment(directory, 0, suffix=".cleaned")
    write_segment(directory, 60, suffix=".swap")
    (directory / "00000000000000000500.index").touch()
    found = read_partition(str(directory), [])
    assert [(segment.base_offset, segment.state) for segment in found.segments] == [
        (0, SegmentState.CLEANED),
        (0, SegmentState.DELETED),
        (0, SegmentState.CLOSED),
        (60, SegmentState.CLOSED),
        (60, SegmentState.SWAP),
        (120, SegmentState.ACTIVE),
        (500, SegmentState.ORPHAN),
    ]
    assert found.topic_id == TOPIC_ID
    assert [entry.name for entry in found.other_files] == ["leader-epoch-checkpoint", "partition.metadata"]


def test_nothing_in_a_deleted_partition_is_active(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "gone-0.0123456789abcdef0123456789abcdef-delete")
    states = {segment.state for segment in read_partition(str(directory), []).segments}
    assert states == {SegmentState.CLOSED}


def test_a_sparse_index_takes_less_than_it_claims(tmp_path: Path) -> None:
    segment = read_partition(str(write_partition(tmp_path, "orders-0")), []).segments[-1]
    assert segment.size > 1 << 20
    assert segment.allocated < 1 << 18


def test_what_nobody_knows_is_listed(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    (log_dir / "lost+found").mkdir()
    (log_dir / "core.1234").touch()
    (log_dir / "orders-0/notes.txt").touch()
    (log_dir / "orders-0/backup").mkdir()
    (log_dir / "recovery-point-offset-checkpoint.tmp").touch()
    found = read_log_dir(str(log_dir))
    assert found.unknown_directories == [str(log_dir / "lost+found")]
    assert found.partitions[2].unknown_directories == (f"{log_dir}/orders-0/backup",)
    groups = {entry.name: data_group(entry) for entry in found.all_files}
    assert groups["core.1234"] == groups["notes.txt"] == "unknown"
    assert groups["recovery-point-offset-checkpoint.tmp"] == "leftover"
    assert groups["00000000000000000000.log"] == "log"
    assert groups["meta.properties"] == "state"


def test_a_broken_side_file_is_a_problem_and_not_the_end(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    (log_dir / "replication-offset-checkpoint").write_text("0\n7\n")
    (log_dir / "orders-0/partition.metadata").write_bytes(b"\xff")
    found = read_log_dir(str(log_dir))
    assert len(found.partitions) == 5
    assert {os.path.basename(problem.path) for problem in found.problems} == {
        "replication-offset-checkpoint",
        "partition.metadata",
    }
    assert not any(problem.vanished for problem in found.problems)


def test_a_partition_that_vanishes_while_we_walk_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    real = os.scandir

    def scandir(path: str) -> object:
        if path == str(log_dir / "orders-2"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return real(path)

    monkeypatch.setattr("kafkatool.engine.directory.log_dir.os.scandir", scandir)
    found = read_log_dir(str(log_dir))
    assert len(found.partitions) == 4
    assert found.problems == [ListingProblem(str(log_dir / "orders-2"), "vanished", vanished=True)]


def test_a_partition_that_may_not_be_read_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    real = os.scandir

    def scandir(path: str) -> object:
        if path == str(log_dir / "orders-2"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr("kafkatool.engine.directory.log_dir.os.scandir", scandir)
    assert read_log_dir(str(log_dir)).problems == [
        ListingProblem(str(log_dir / "orders-2"), "Permission denied")
    ]


def test_a_log_directory_that_cannot_be_listed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KafkatoolError, match="No such file"):
        read_log_dir(str(tmp_path / "nowhere"))


def test_a_hard_link_counts_once(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "orders-0")
    os.link(directory / "00000000000000000000.log", directory / "00000000000000000000.log.deleted")
    files = list(read_partition(str(directory), []).files)
    assert len(list(unique_files(files))) == len(files) - 1


def test_files_named_one_by_one_are_grouped_by_their_directory(tmp_path: Path) -> None:
    one, two = write_partition(tmp_path, "a-0"), write_partition(tmp_path, "b-1")
    problems: list[ListingProblem] = []
    names = [one / "00000000000000000060.log", two / "00000000000000000000.log", tmp_path / "nothing"]
    found = read_files([FileTarget(str(name)) for name in names], problems)
    assert [(p.topic, p.partition, len(p.segments)) for p in found] == [("a", 0, 1), ("b", 1, 1)]
    assert [problem.path for problem in problems] == [str(tmp_path / "nothing")]


def test_reading_changes_nothing(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    before = {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(tmp_path.rglob("*"))}
    read_log_dir(str(log_dir))
    assert {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(tmp_path.rglob("*"))} == before
