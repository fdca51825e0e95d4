"""Blocks that a disk does not give: the kernel says EIO, the walk goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.batches.damage import FindingClass
from kafkatool.format.names import segment_file
from kafkatool.format.state.checkpoint import EpochStart, write_leader_epochs
from kafkatool.format.state.producer_snapshot import write_snapshot
from tests.cli import Run, run
from tests.engine.partitions_to_verify import batch, state, write_segment
from tests.failing_disk import failing_disk
from tests.logs import LOG, batches, walk

COUNT = 2000
PARTS = batches(COUNT)
DATA = b"".join(PARTS)
BAD = [(40960, 45056), (131072, 139264)]


def hit() -> set[int]:
    """The batches that touch a bad block."""
    starts, position = [], 0
    for part in PARTS:
        starts.append(position)
        position += len(part)
    return {
        at
        for at, start in enumerate(starts)
        if any(first < start + len(PARTS[at]) and start < last for first, last in BAD)
    }


def test_a_scan_walks_around_bad_blocks_and_loses_only_what_stands_on_them(tmp_path: Path) -> None:
    with failing_disk(tmp_path, {LOG: DATA}, {LOG: BAD}) as mount:
        found, damage = walk(mount / LOG)
    good = {batch.header.last_offset // 3 for batch in found if batch.is_valid}
    assert good == set(range(COUNT)) - hit()
    assert {item.kind for item in damage} == {FindingClass.UNREADABLE}


def test_dump_log_names_the_blocks_and_advises_to_image_the_disk(tmp_path: Path) -> None:
    with failing_disk(tmp_path, {LOG: DATA}, {LOG: BAD}) as mount:
        result = run("dump-log", "--format", "ndjson", str(mount / LOG))
        kafka = run("dump-log", str(mount / LOG))
        limited = run("dump-log", "--max-errors", "1", str(mount / LOG))
    rows = result.rows
    assert result.exit_code == kafka.exit_code == 4
    assert {row["class"] for row in rows if row["kind"] == "damage"} == {"unreadable"}
    assert b"image it" in result.stderr
    assert kafka.stdout.count(b"isvalid: true") == COUNT - len(hit())
    assert limited.exit_code == 3


# --- verify -----------------------------------------------------------------------------------------------

MANY = 300
"""Batches of one record in each of two segments."""
FIRST, SECOND = segment_file(0, ".log"), segment_file(MANY, ".log")
BLOCKS = [(20480, 24576), (61440, 69632)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A partition in which nothing is wrong."""
    made = tmp_path_factory.mktemp("whole")
    for base in (0, MANY):
        write_segment(made, base, [batch(base + at) for at in range(MANY)], is_active=base > 0)
    (made / segment_file(MANY, ".snapshot")).write_bytes(write_snapshot([state(MANY - 1)]))
    (made / "leader-epoch-checkpoint").write_bytes(write_leader_epochs([EpochStart(0, 0)]))
    return {path.name: path.read_bytes() for path in made.iterdir()}


def lost(blocks: list[tuple[int, int]]) -> set[int]:
    """The offsets in the first segment whose batches touch these blocks."""
    size = len(batch(0))
    return {at for at in range(MANY) if any(a < (at + 1) * size and at * size < b for a, b in blocks)}


def stretch(block: tuple[int, int]) -> tuple[int, int]:
    """Where the batches on a bad block begin and end."""
    touched, size = lost([block]), len(batch(0))
    return min(touched) * size, (max(touched) + 1) * size


def verified(mount: Path, *options: str) -> tuple[Run, list[dict[str, Any]]]:
    ended = run("verify", "--format", "ndjson", *options, str(mount))
    assert ended.stdout, ended.stderr
    return ended, ended.rows


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "orders-0").mkdir()
    return tmp_path / "orders-0"


@pytest.mark.parametrize("options", [["--jobs", "1"], ["--jobs", "2"], ["--jobs", "2", "--deep"]])
def test_verify_names_the_blocks_and_goes_on_behind_them(
    mount: Path, files: dict[str, bytes], options: list[str]
) -> None:
    with failing_disk(mount, files, {FIRST: BLOCKS}):
        ended, rows = verified(mount, *options)
        stopped = run("verify", *options, "--max-errors", "2", str(mount))
    found, summary = rows[:-1], rows[-1]
    assert ended.exit_code == 4
    assert {row["class"] for row in found} == {"unreadable"}
    assert [(row["position"], row["end_position"]) for row in found] == [stretch(block) for block in BLOCKS]
    assert {at for row in found for at in range(row["first_offset"], row["last_offset"] + 1)} == lost(BLOCKS)
    assert summary["unreadable_blocks"] == 3
    assert summary["batches"] == 2 * MANY - len(lost(BLOCKS))
    assert b"image it before doing anything else" in ended.stderr
    assert stopped.exit_code == 3
    assert b"image the disk" in stopped.stderr


def test_a_segment_with_a_bad_block_is_read_again_every_night(
    mount: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    remembered = ("--state", str(tmp_path / "state.json"))
    with failing_disk(mount, files, {FIRST: BLOCKS}):
        for _ in range(2):
            ended, rows = verified(mount, *remembered)
            assert (ended.exit_code, rows[-1]["skipped_segments"]) == (4, 0)
    with failing_disk(mount, files, {}):
        ended, rows = verified(mount, *remembered)
        assert (ended.exit_code, rows[-1]["skipped_segments"]) == (0, 0)
        assert verified(mount, *remembered)[1][-1]["skipped_segments"] == 1


@pytest.mark.parametrize("name", [segment_file(0, ".index"), segment_file(0, ".timeindex")])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_index_on_a_bad_block_is_told_as_such(
    mount: Path, files: dict[str, bytes], name: str, jobs: str
) -> None:
    with failing_disk(mount, files, {name: [(0, 4096)]}):
        ended, rows = verified(mount, "--jobs", jobs)
    assert ended.exit_code == 4
    assert [(row["class"], Path(row["file"]).name) for row in rows[:-1]] == [("unreadable", name)]
    assert rows[-1]["batches"] == 2 * MANY


# --- stats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--deep",)])
def test_stats_leave_out_what_stands_on_bad_blocks(tmp_path: Path, options: tuple[str, ...]) -> None:
    with failing_disk(tmp_path, {LOG: DATA}, {LOG: BAD}) as mount:
        result = run("stats", "--format", "ndjson", *options, str(mount / LOG))
        limited = run("stats", "--max-errors", "1", str(mount / LOG))
    row = result.rows[0]
    assert result.exit_code == 4
    assert row["batches"] == COUNT - len(hit())
    assert row["damage_classes"] == {"unreadable": 2}
    assert b"image it" in result.stderr
    assert limited.exit_code == 3
