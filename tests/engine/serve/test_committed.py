"""The file of committed offsets after a power cut, and after a disk that was full for a while."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.files.disk import Disk
from kafkatool.engine.serve.committed import Commit, Committed
from tests.engine.crash_disk import CrashDisk, contents, every_crash

FILE = "offsets"


def commit(path: Path, *offsets: int) -> bytes:
    """Commit and save each of these offsets; returns what the file then holds."""
    committed = Committed(path=str(path))
    for offset in offsets:
        committed.commit("g", {("t", 0): Commit(offset)})
        committed.save()
    return path.read_bytes()


def test_a_power_cut_leaves_the_offsets_before_a_commit_or_after_it(tmp_path: Path) -> None:
    old, middle, new = (commit(tmp_path / FILE, offset) for offset in (5, 6, 7))

    def work(disk: CrashDisk) -> None:
        committed = Committed(path=f"{disk.root}/{FILE}", files=disk)
        for offset in (6, 7):
            committed.commit("g", {("t", 0): Commit(offset)})
            committed.save()

    for crash in every_crash(tmp_path / "crash", lambda root: (root / FILE).write_bytes(old), work):
        found, where = (crash.left / FILE).read_bytes(), (crash.way, crash.operations[-1])
        assert found == new if crash.done else found in (old, middle, new), where
        Committed(path=str(crash.left / FILE))
        assert contents(crash.left) == {FILE: found}, where


def test_what_could_not_be_saved_is_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(self: Disk, source: str, target: str) -> None:
        raise OSError(28, "No space left on device", target)

    committed = Committed(path=str(tmp_path / FILE))
    committed.commit("g", {("t", 0): Commit(5)})
    with monkeypatch.context() as patched:
        patched.setattr(Disk, "rename", is_full)
        with pytest.raises(OSError, match="No space left"):
            committed.save()
    assert os.listdir(tmp_path) == []
    committed.save()
    assert Committed(path=str(tmp_path / FILE)).get("g", "t", 0) == Commit(5)
