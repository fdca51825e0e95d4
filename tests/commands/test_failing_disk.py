"""Blocks that a disk does not give: the kernel says EIO, the walk goes on."""

from __future__ import annotations

import json
from pathlib import Path

from kafkatool.engine.findings import FindingClass
from tests.cli import run
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
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == kafka.exit_code == 4
    assert {row["class"] for row in rows if row["kind"] == "damage"} == {"unreadable"}
    assert b"image it" in result.stderr
    assert kafka.stdout.count(b"isvalid: true") == COUNT - len(hit())
    assert limited.exit_code == 3
