"""Where the space went."""

from __future__ import annotations

import os
from pathlib import Path

from kafkatool.engine.directory.log_dir import read_log_dir
from kafkatool.engine.directory.space import account, mount_point, open_deleted_files
from tests.engine.disk import write_mixed_log_dir, write_segment


def test_the_parts_make_up_the_whole(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    write_segment(log_dir / "orders-0", 0, suffix=".deleted")
    (log_dir / "what").write_bytes(b"?" * 10_000)
    (space,) = account([read_log_dir(str(log_dir))])
    assert space.used == sum(space.groups.values()) + space.open_deleted_size + space.unexplained
    assert space.inodes_used == (
        sum(space.file_counts.values())
        + len({entry.inode for entry in space.open_deleted})
        + space.unexplained_inodes
    )
    # Two whole partitions that wait for their end, and the deleted segment.
    assert space.file_counts == {"log": 6, "index": 12, "state": 9, "leftover": 13, "unknown": 1}
    assert space.groups["unknown"] >= 10_000
    assert space.mount == mount_point(str(tmp_path))


def test_two_log_directories_on_one_disk_share_an_account(tmp_path: Path) -> None:
    found = [read_log_dir(str(write_mixed_log_dir(tmp_path / name))) for name in ("one", "two")]
    (both,) = account(found)
    (one,) = account(found[:1])
    assert both.directories == (str(tmp_path / "one"), str(tmp_path / "two"))
    assert both.groups["log"] == 2 * one.groups["log"]


def test_a_hard_link_is_paid_for_once(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    (before,) = account([read_log_dir(str(log_dir))])
    os.link(
        log_dir / "orders-0/00000000000000000000.log", log_dir / "orders-0/00000000000000000000.log.deleted"
    )
    (after,) = account([read_log_dir(str(log_dir))])
    assert sum(after.groups.values()) == sum(before.groups.values())


def test_a_deleted_file_that_is_still_open_is_found_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as file:
        file.write(b"x" * 100_000)
        file.flush()
        os.fsync(file.fileno())
        device = os.fstat(file.fileno()).st_dev
        assert not [e for e in open_deleted_files({device})[0] if e.path == str(path)]
        path.unlink()
        (held,) = [e for e in open_deleted_files({device})[0] if e.path == str(path)]
        assert (held.pid, held.size) == (os.getpid(), 100_000)
        assert held.allocated >= 100_000
        assert held.command


def test_without_processes_to_ask_it_says_so(tmp_path: Path) -> None:
    assert open_deleted_files({1}, proc=str(tmp_path / "proc")) == ([], False)


def test_no_log_directory_is_no_account() -> None:
    assert account([]) == []
