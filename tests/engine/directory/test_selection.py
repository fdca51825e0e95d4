"""What the user named, found: for plans by log directory, for streams in order, less what is filtered out."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.directory.log_dir import ListingProblem
from kafkatool.engine.directory.partition_filter import EVERYTHING, PartitionFilter, parse_partition_filter
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, PartitionTarget, Target
from tests.engine.directory.test_topic_names import CUT, LONG_TOPIC, write_metadata
from tests.engine.disk import write_partition
from tests.logs import GUEST, LOG

NAMES = ("clicks-0", "orders-10", "orders-2", "orders-3.0123456789abcdef0123456789abcdef-delete")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for name in NAMES:
        write_partition(tmp_path, name)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 2 7\n")
    return tmp_path


def planned(*targets: Target, only: PartitionFilter = EVERYTHING) -> list[str]:
    homes = Selection(targets, GUEST, only).homes
    return [named.partition.directory for home in homes for named in home.partitions]


def placed(*targets: Target, only: PartitionFilter = EVERYTHING, by_name: bool = False) -> list[str]:
    selection = Selection(targets, GUEST, only)
    places = (one for target in targets for one in selection.places_of(target, [], by_name=by_name))
    return [one.partition.directory for one in (places if by_name else selection.places([]))]


def test_a_plan_is_about_partitions_by_name_and_a_deleted_one_only_where_it_is_named(log_dir: Path) -> None:
    assert planned(LogDirTarget(str(log_dir))) == list(NAMES[:3])
    deleted = PartitionTarget(str(log_dir / NAMES[3]))
    assert planned(deleted, LogDirTarget(str(log_dir))) == list(NAMES)
    assert planned(PartitionTarget(str(log_dir / NAMES[2])), deleted) == list(NAMES[2:])


def test_a_plan_knows_what_the_checkpoints_say_and_which_segments_are_meant(log_dir: Path) -> None:
    file = FileTarget(str(log_dir / "orders-2" / LOG))
    ((named,),) = (home.partitions for home in Selection([file], GUEST).homes)
    assert (named.log_start, named.recovery_point, named.bases) == (7, None, frozenset({0}))
    assert len(named.partition.segments) > 1


def test_a_stream_takes_everything_in_the_order_named_and_files_last(log_dir: Path) -> None:
    file, one = FileTarget(str(log_dir / "clicks-0" / LOG)), PartitionTarget(str(log_dir / "orders-10"))
    by_number = [NAMES[0], NAMES[2], NAMES[3], NAMES[1]]
    assert placed(file, one, LogDirTarget(str(log_dir))) == ["orders-10", *by_number, "clicks-0"]
    assert placed(LogDirTarget(str(log_dir)), by_name=True) == list(NAMES)


def test_a_stream_lists_a_partition_when_its_turn_comes(log_dir: Path) -> None:
    places = Selection([LogDirTarget(str(log_dir))], GUEST).places([])
    assert next(places).partition.directory == "clicks-0"
    (log_dir / "orders-2" / "00000000000000009000.log").write_bytes(b"")
    assert next(places).partition.segments[-1].base_offset == 9000


def test_a_partition_that_cannot_be_listed_is_a_problem_and_the_others_follow(log_dir: Path) -> None:
    gone, there = str(log_dir / "orders-7"), str(log_dir / "clicks-0")
    problems: list[ListingProblem] = []
    selection = Selection([PartitionTarget(gone), PartitionTarget(there)], GUEST)
    assert [one.partition.path for one in selection.places(problems)] == [there]
    assert problems == [ListingProblem(gone, "No such file or directory", vanished=True)]
    assert selection.unread == [f"{gone}: No such file or directory"]


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (parse_partition_filter(["orders"]), NAMES[1:]),
        (parse_partition_filter(["re:.*"], excluded=["orders"]), NAMES[:1]),
        (parse_partition_filter(partitions=["2-9"]), NAMES[2:]),
    ],
)
def test_a_filter_holds_for_all_that_is_named(
    only: PartitionFilter, expected: tuple[str, ...], log_dir: Path
) -> None:
    whole = LogDirTarget(str(log_dir))
    named = [PartitionTarget(str(log_dir / name)) for name in NAMES]
    files = [FileTarget(str(log_dir / name / LOG)) for name in NAMES]
    assert planned(whole, only=only) == [one for one in expected if "delete" not in one]
    assert planned(*named, only=only) == planned(*files, only=only) == list(expected)
    assert placed(whole, only=only, by_name=True) == list(expected)
    assert placed(*named, only=only) == placed(*files, only=only) == list(expected)


def test_a_filtered_plan_is_not_about_the_whole_directory(log_dir: Path) -> None:
    only = parse_partition_filter(["orders"])
    (home,) = Selection([LogDirTarget(str(log_dir))], GUEST, only).homes
    assert not home.is_whole
    assert "clicks-0" not in home.log_dir.listed


def test_a_filter_knows_a_topic_whose_name_was_cut(tmp_path: Path) -> None:
    write_partition(tmp_path, CUT)
    write_metadata(tmp_path, "00000000000000000005.log")
    target = LogDirTarget(str(tmp_path))
    assert placed(target, only=parse_partition_filter([LONG_TOPIC])) == [CUT]
    assert placed(target, only=parse_partition_filter(excluded=[LONG_TOPIC])) == ["__cluster_metadata-0"]


def test_without_files_nothing_is_listed_again(log_dir: Path) -> None:
    selection = Selection([LogDirTarget(str(log_dir)), FileTarget(str(log_dir / "orders-2" / LOG))], GUEST)
    (listed,) = selection.log_dirs
    (home,) = selection.without_files().homes
    assert home.log_dir is listed
    assert all(named.bases is None for named in home.partitions)
