"""Files that hold their old content or the new one, and what killed runs leave of them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.whole_files import (
    Replacement,
    make_directories,
    remove_leftovers,
    remove_tree,
    replace_file,
)
from tests.engine.crash_disk import CrashDisk, PowerCut, every_crash, every_way

LEFT = f".a.{'0' * 32}.tmp"


def replaced_or_not(tmp_path: Path, without: str | None = None) -> set[str]:
    """Replace a file, lose power at every operation, and return the sync sites; raise on a mixture."""
    number, sites = 0, set[str]()
    while True:
        root = tmp_path / f"{without}-{number}"
        root.mkdir(parents=True)
        (root / "a").write_bytes(b"old")
        disk = CrashDisk(root, stop_at=number, without=without)
        done = False
        with suppress(PowerCut):
            replace_file(disk, str(root / "a"), b"new!")
            done = True
        for way, keep, tear in every_way(number):
            left = disk.survivors(tmp_path / f"{without}-{number}-{way}", keep=keep, tear=tear)
            content = (left / "a").read_bytes()
            assert content == b"new!" if done else content in (b"old", b"new!"), (way, disk.operations)
        sites |= disk.sync_sites
        if done:
            return sites
        number += 1


def test_a_replaced_file_is_the_old_or_the_new_one_and_needs_each_of_its_syncs(tmp_path: Path) -> None:
    sites = replaced_or_not(tmp_path)
    assert len(sites) == 2
    for site in sites:
        with pytest.raises(AssertionError):
            replaced_or_not(tmp_path / "without", without=site)


def put(files: Files, path: Path, *pieces: bytes) -> None:
    with Replacement(files, str(path)) as new:
        for piece in pieces:
            new.write(piece)
        new.commit()


def test_two_processes_that_replace_a_file_do_not_write_into_each_others_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Replacement(Disk(), str(path)) as one:
        one.write(b"on")
        put(Disk(), path, b"other")
        remove_leftovers(Disk(), str(tmp_path), "a")
        assert path.read_bytes() == b"other"
        one.write(b"e")
        one.commit()
    assert path.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a"]


def test_what_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    put(Disk(), tmp_path / "a", b"old")
    with suppress(ZeroDivisionError), Replacement(Disk(), str(tmp_path / "a")) as new:
        new.write(b"half")
        raise ZeroDivisionError
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_only_leftovers_of_the_named_file_are_removed(tmp_path: Path) -> None:
    others = [".a.tmp.keep", f".b.{'0' * 32}.tmp", ".a.12.tmp"]
    for name in (LEFT, ".a.tmp", *others):
        (tmp_path / name).write_bytes(b"half")
    remove_leftovers(Disk(), str(tmp_path), "a")
    assert sorted(os.listdir(tmp_path)) == sorted(others)


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    with pytest.raises(OSError, match="is not a regular file"):
        Replacement(Disk(), str(path))
    assert os.listdir(tmp_path) == ["a"]


def test_directories_are_there_for_good_once_they_are_made(tmp_path: Path) -> None:
    def work(disk: CrashDisk) -> None:
        make_directories(disk, f"{disk.root}/a/b/c")

    for crash in every_crash(tmp_path, lambda root: None, work):
        assert not crash.done or (crash.left / "a" / "b" / "c").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        make_directories(Disk(), str(tmp_path / "file" / "below"))


def test_a_tree_is_removed_with_its_links_and_not_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "inner" / "a").write_bytes(b"a")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "b").write_bytes(b"b")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    remove_tree(Disk(), str(tmp_path / "tree"))
    assert [path.name for path in tmp_path.rglob("*")] == ["kept", "b"]
