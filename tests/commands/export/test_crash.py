"""`kafkatool export` on a disk that loses power: whole files, and a list that names no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkatool.engine.records.export_output import MANIFEST
from tests.cli import run
from tests.engine.crash_disk import CrashDisk, contents, every_crash
from tests.engine.transaction_logs import LogMaker, write_logs


def export_on(disk: CrashDisk, output: str, partition: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kafkatool.engine.files.disk.Disk", lambda: disk)
        assert run("export", "--all", "-o", f"{disk.root}/{output}", partition).exit_code == 0


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    first, second = LogMaker(), LogMaker(offset=3)
    first.plain().plain().plain()
    second.plain()
    return write_logs(tmp_path / "logs", {0: bytes(first.data), 3: bytes(second.data)})


def whole(partition: Path, output: Path) -> dict[str, bytes]:
    """What an export leaves that nothing interrupts."""
    assert run("export", "--all", "-o", output, partition).exit_code == 0
    return contents(output) if output.is_dir() else {output.name: output.read_bytes()}


def test_a_power_cut_leaves_whole_files_and_a_list_of_no_others(partition: Path, tmp_path: Path) -> None:
    expected = whole(partition, tmp_path / "whole")
    assert len(expected) == 3

    def work(disk: CrashDisk) -> None:
        export_on(disk, "deep/out", partition)

    for crash in every_crash(tmp_path / "crash", lambda root: None, work):
        out, where = crash.left / "deep" / "out", (crash.way, crash.operations[-1])
        found = contents(out)
        shown = {name: found[name] for name in found if not Path(name).name.startswith((".", "_"))}
        assert shown.items() <= expected.items(), where
        listed = json.loads(found.get(MANIFEST, b'{"files": {}}'))["files"]
        assert listed.keys() <= shown.keys(), where
        assert not crash.done or found == expected, where
        if crash.way == "some lost":
            assert whole(partition, out) == expected, where


@pytest.mark.parametrize("command", ["export", "report"])
def test_a_power_cut_leaves_one_file_as_it_was_or_the_new_one(
    partition: Path, tmp_path: Path, command: str
) -> None:
    work: Callable[[CrashDisk], None]
    if command == "export":
        name = "out.csv"
        (expected,) = whole(partition, tmp_path / name).values()

        def work(disk: CrashDisk) -> None:
            export_on(disk, name, partition)
    else:
        from kafkatool.commands.report.writing import opened

        name, expected = "report.html", b"<p>new</p>"

        def work(disk: CrashDisk) -> None:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr("kafkatool.engine.files.disk.Disk", lambda: disk)
                with opened(f"{disk.root}/{name}") as write:
                    write(["<p>", "new</p>"])

    for crash in every_crash(tmp_path / "crash", lambda root: (root / name).write_bytes(b"old"), work):
        found, where = (crash.left / name).read_bytes(), (crash.way, crash.operations[-1])
        assert found == expected if crash.done else found in (b"old", expected), where
