"""The door to the disk, and the disk that loses power."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.whole_files import write_file
from tests.engine.crash_disk import CrashDisk, PowerCut, everything, nothing


def make(tmp_path: Path, **options: int | str) -> CrashDisk:
    (tmp_path / "disk").mkdir(exist_ok=True)
    return CrashDisk(tmp_path / "disk", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("disk", [Disk(), None])
def test_what_is_written_can_be_read_back(tmp_path: Path, disk: Files | None) -> None:
    files = disk or CrashDisk(tmp_path)
    file = files.create(str(tmp_path / "a"))
    file.write_at(2, b"cd")
    file.write_at(0, b"ab")
    file.truncate(3)
    assert file.read_at(0, 9) == b"abc"
    assert file.size() == 3
    file.close()
    with pytest.raises(FileExistsError):
        files.create(str(tmp_path / "a"))
    files.set_mtime(str(tmp_path / "a"), 1_000_000_007)
    assert (tmp_path / "a").stat().st_mtime_ns == 1_000_000_007
    assert files.free_space(str(tmp_path)) > 0


def test_data_without_a_sync_is_lost_and_a_name_without_one_too(tmp_path: Path) -> None:
    disk = make(tmp_path)
    for name in ("nothing", "data", "both"):
        file = disk.create(f"{disk.root}/{name}")
        file.write_at(0, b"x")
        if name != "nothing":
            file.sync()
        if name == "both":
            disk.sync_directory(disk.root)
    disk.unlink(f"{disk.root}/data")
    left = disk.survivors(tmp_path / "left", keep=nothing)
    assert {path.name: path.read_bytes() for path in left.iterdir()} == {
        "nothing": b"",
        "data": b"x",
        "both": b"x",
    }
    kept = disk.survivors(tmp_path / "kept", keep=everything)
    assert sorted(path.name for path in kept.iterdir()) == ["both", "nothing"]


def test_the_power_fails_during_the_operation_it_was_told_and_nothing_follows(tmp_path: Path) -> None:
    disk = make(tmp_path, stop_at=1)
    file = disk.create(f"{disk.root}/a")
    with pytest.raises(PowerCut):
        file.write_at(0, b"1234")
    with pytest.raises(PowerCut):
        disk.unlink(f"{disk.root}/a")
    left = disk.survivors(tmp_path / "left", keep=everything, tear=lambda size: 3)
    assert (left / "a").read_bytes() == b"123"


def test_a_new_directory_is_a_name_in_its_parent(tmp_path: Path) -> None:
    disk = make(tmp_path)
    disk.make_directory(f"{disk.root}/d")
    write_file(disk, f"{disk.root}/d/a", b"x")
    disk.sync_directory(f"{disk.root}/d")
    assert list(disk.survivors(tmp_path / "lost", keep=nothing).iterdir()) == []
    disk.sync_directory(disk.root)
    assert (disk.survivors(tmp_path / "safe", keep=nothing) / "d" / "a").read_bytes() == b"x"


def test_syncs_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    really = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        really(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    disk = Disk()
    file = disk.create(str(tmp_path / "a"))
    file.write_at(0, b"x")
    assert synced == []
    file.sync()
    assert synced == [(tmp_path / "a").stat().st_ino]
    disk.sync_directory(str(tmp_path))
    assert synced[1:] == [tmp_path.stat().st_ino]
    file.close()
