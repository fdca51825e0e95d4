"""What was copied out for reading is on the disk when we say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.files.source import Guest
from kafkatool.engine.recover import salvage as module
from kafkatool.engine.recover.result import Recovered
from kafkatool.engine.recover.salvage import salvage
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from tests.engine.crash_disk import CrashDisk, nothing

BATCH = write_batch([NewRecord(b"k", b"worth keeping", 0)], base_offset=7)


def copy_and_lose_power(root: Path, without: str | None = None) -> dict[str, bytes]:
    """The copies that a power cut leaves, right after they were reported."""
    log = root / "disk" / "logs" / "t-0" / segment_file(0, ".log")
    log.parent.mkdir(parents=True)
    log.write_bytes(b"damage" + BATCH)
    disk = CrashDisk(root / "disk", without=without)
    recovered = Recovered(str(log.parent), cuts=[(str(log), 6)])
    salvage(recovered, str(root / "disk" / "kept"), disk, Guest(cache_keep=True))
    left = disk.survivors(root / "left", keep=nothing)
    return {path.name: path.read_bytes() for path in (left / "kept").glob("*")}


def sync_calls() -> list[str]:
    path = Path(str(module.__file__))
    lines = enumerate(path.read_text().splitlines(), 1)
    return [f"{path.name}:{number}" for number, line in lines if ".sync()" in line or ".sync_dir" in line]


def test_what_was_copied_survives_a_power_cut(tmp_path: Path) -> None:
    assert copy_and_lose_power(tmp_path) == {segment_file(7, ".log"): BATCH}


@pytest.mark.parametrize("site", sync_calls())
def test_every_sync_is_needed(tmp_path: Path, site: str) -> None:
    assert copy_and_lose_power(tmp_path, site) != {segment_file(7, ".log"): BATCH}
