"""What the user named, listed by topic and number, and limited to some states."""

from __future__ import annotations

from pathlib import Path

from kafkatool.engine.directory.listing import Listed, list_places
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget
from tests.engine.disk import write_partition
from tests.logs import GUEST, LOG

DELETED = "orders-3.0123456789abcdef0123456789abcdef-delete"


def directories(listed: Listed) -> list[str]:
    return [one.partition.directory for one in listed.places]


def test_partitions_are_listed_by_number_and_files_last(tmp_path: Path) -> None:
    for name in ("orders-10", "orders-2", DELETED):
        write_partition(tmp_path, name)
    file = FileTarget(str(tmp_path / "orders-2" / LOG))
    listed = list_places([file, LogDirTarget(str(tmp_path))], GUEST)
    assert directories(listed) == ["orders-2", DELETED, "orders-10", "orders-2"]
    assert [one.is_partial for one in listed.places] == [False, False, False, True]
    assert listed.loose == listed.log_dirs


def test_partitions_in_some_states_are_listed_without_files_that_belong_to_none(tmp_path: Path) -> None:
    for name in ("orders-2", DELETED):
        write_partition(tmp_path, name)
    some = list_places([LogDirTarget(str(tmp_path))], GUEST).only(["deleted"])
    assert (directories(some), some.loose, len(some.log_dirs)) == ([DELETED], [], 1)
