"""Batches appended all at once leave the same files as batch by batch."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from kafkatool.engine import append_runs, log
from kafkatool.engine.config import read_config
from kafkatool.engine.fs import Disk
from kafkatool.engine.log_loading import open_log
from kafkatool.engine.refusals import LogRefusal
from kafkatool.engine.segment import Segment
from kafkatool.format.batch import NewRecord, write_batch
from kafkatool.format.release import NEWEST

TIME = 1_772_355_600_000


def _stretch(random: Random, offset: int) -> tuple[bytes, int]:
    """Many batches of all sizes, times that go back and forth, now and then an odd one."""
    batches = []
    for _ in range(random.choice([1, 2, 9, random.randint(1, 40)])):
        count = random.randint(1, 5)
        time = TIME + random.randint(-50, 5000)
        rows = [
            NewRecord(b"k", bytes(random.randint(0, 900)), time + random.randint(0, 9)) for _ in range(count)
        ]
        epoch = 0 if random.random() < 0.995 else 1
        odd = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if random.random() < 0.002 else {}
        batches.append(write_batch(rows, base_offset=offset, partition_leader_epoch=epoch, **odd))  # type: ignore[arg-type]
        offset += count + (random.random() < 0.05)
    return b"".join(batches), offset


def _write(directory: Path, seed: int) -> tuple[dict[str, bytes], list[object]]:
    random = Random(seed)
    config = read_config({"segment.bytes": str(1 << 20), "flush.messages": "1000"}, NEWEST)
    offset, told = 0, list[object]()
    with open_log(Disk(), str(directory), config, now_ms=TIME) as opened:
        for _ in range(120):
            data, offset = _stretch(random, offset)
            try:
                told.append(opened.append_as_follower(data, now_ms=TIME))
            except LogRefusal as refusal:
                told.append(str(refusal))
        told += [opened.log_end_offset, opened.recovery_point, len(opened.segments)]
    return {path.name: path.read_bytes() for path in directory.iterdir()}, told


@pytest.mark.parametrize("seed", range(6))
def test_a_run_leaves_what_single_batches_leave(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = 0
    real = append_runs.plain_run

    def counted(*arguments: object) -> object:
        nonlocal at_once
        found = real(*arguments)  # type: ignore[arg-type]
        at_once += found is not None
        return found

    monkeypatch.setattr(log, "plain_run", counted)
    quick = _write(tmp_path / "quick-0", seed)
    monkeypatch.setattr(log, "plain_run", lambda *_: None)
    monkeypatch.setattr(Segment, "append_plain", lambda *_: -1)
    assert quick == _write(tmp_path / "slow-0", seed)
    assert at_once > 10, "the quick way was hardly taken"
    assert sum(name.endswith(".log") for name in quick[0]) > 1


def test_a_damaged_batch_among_many_is_refused_and_none_is_written(tmp_path: Path) -> None:
    config = read_config({}, NEWEST)
    batches = [
        write_batch([NewRecord(b"k", os.urandom(100), TIME)], base_offset=at, partition_leader_epoch=0)
        for at in range(20)
    ]
    with open_log(Disk(), str(tmp_path / "t-0"), config, now_ms=TIME) as opened:
        opened.append_as_follower(batches[0], now_ms=TIME)
        bad = bytearray(b"".join(batches[1:]))
        bad[-1] ^= 1
        with pytest.raises(LogRefusal, match="checksum"):
            opened.append_as_follower(bytes(bad), now_ms=TIME)
        assert opened.log_end_offset == 1
