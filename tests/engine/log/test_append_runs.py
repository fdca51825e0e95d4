"""Batches appended all at once leave the same files as batch by batch."""

from __future__ import annotations

import os
from errno import ENOSPC
from itertools import count
from pathlib import Path
from random import Random

import pytest

from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import NEW_FILE_MODE, Disk, DiskFile, File
from kafkatool.engine.log import append_runs, partition_log
from kafkatool.engine.log.loading import open_log
from kafkatool.engine.log.segment import WritableSegment
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import read_entries
from kafkatool.format.primitives import Buffer
from kafkatool.format.release import NEWEST, Release

TIME = 1_772_355_600_000


def _stretch(random: Random, offset: int) -> tuple[bytes, int]:
    """Many batches of all sizes, times that go back and forth, now and then an odd one."""
    batches = []
    for _ in range(random.choice([1, 2, 9, random.randint(1, 40)])):
        many = random.randint(1, 5)
        time = TIME + random.randint(-50, 5000)
        rows = [
            NewRecord(b"k", bytes(random.randint(0, 900)), time + random.randint(0, 9)) for _ in range(many)
        ]
        epoch = 0 if random.random() < 0.995 else 1
        odd = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if random.random() < 0.002 else {}
        batches.append(write_batch(rows, base_offset=offset, partition_leader_epoch=epoch, **odd))  # type: ignore[arg-type]
        offset += many + (random.random() < 0.05)
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

    monkeypatch.setattr(partition_log, "plain_run", counted)
    quick = _write(tmp_path / "quick-0", seed)
    monkeypatch.setattr(partition_log, "plain_run", lambda *_: None)
    monkeypatch.setattr(WritableSegment, "append_plain", lambda *_: -1)
    assert quick == _write(tmp_path / "slow-0", seed)
    assert at_once > 10, "the quick way was hardly taken"
    assert sum(name.endswith(".log") for name in quick[0]) > 1


def _plain_and_odd(random: Random) -> list[bytes]:
    """Appends of one batch each, nearly all of them plain, and some of several."""
    appends, offset = [], 0
    for _ in range(400):
        data, offset = _stretch(random, offset) if random.random() < 0.02 else _single(random, offset)
        appends.append(data)
    return appends


def _single(random: Random, offset: int) -> tuple[bytes, int]:
    time, many = TIME + random.randint(-50, 5000), random.randint(1, 5)
    rows = [NewRecord(b"k", bytes(random.randint(0, 900)), time) for _ in range(many)]
    return write_batch(rows, base_offset=offset, partition_leader_epoch=0), offset + many


@pytest.mark.parametrize("flush", [{}, {"flush.messages": "50"}, {"flush.messages": "1"}, {"flush.ms": "0"}])
@pytest.mark.parametrize("seed", range(3))
def test_appends_in_line_leave_what_they_leave_one_by_one(
    tmp_path: Path, seed: int, flush: dict[str, str]
) -> None:
    """And are flushed where they would have been."""
    config = read_config({"segment.bytes": str(1 << 18), **flush}, Release.V4_0)
    appends, clock = _plain_and_odd(Random(seed)), count(1)
    disks = _WatchedDisk(), _WatchedDisk()
    with open_log(disks[0], str(tmp_path / "one-0"), config, now_ms=TIME) as one:
        for data in appends:
            one.append_as_follower(data, now_ms=TIME)
        expected = (one.log_end_offset, one.recovery_point, len(one.segments))
    times = list[int]()
    with open_log(disks[1], str(tmp_path / "line-0"), config, now_ms=TIME) as line:
        for at in range(0, len(appends), 16):
            times += line.append_each(list(appends[at : at + 16]), now_ms=TIME, clock=lambda: next(clock))
        assert (line.log_end_offset, line.recovery_point, len(line.segments)) == expected
    assert len(times) == len(appends)
    assert times == sorted(set(times))
    assert len(line.segments) > 2
    assert disks[0].synced == disks[1].synced
    assert len(disks[0].synced) > (20 if flush else 2)
    written = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one-0", "line-0")
    ]
    assert written[0] == written[1]


def test_an_append_that_is_flushed_takes_until_it_is(tmp_path: Path) -> None:
    config = read_config({"flush.messages": "3"}, Release.V4_0)
    appends: list[Buffer] = [
        write_batch([NewRecord(b"k", b"v", TIME)], base_offset=at, partition_leader_epoch=0)
        for at in range(10)
    ]
    disk = _WatchedDisk()
    with open_log(disk, str(tmp_path / "flushed-0"), config, now_ms=TIME) as opened:
        synced = opened.append_each(appends, now_ms=TIME, clock=lambda: len(disk.synced))
    assert synced == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]


class _WatchedDisk(Disk):
    """What every log was as long as when it was synced."""

    def __init__(self) -> None:
        self.synced: list[tuple[str, int]] = []

    def create(self, path: str, *, mode: int = NEW_FILE_MODE) -> File:
        return _WatchedFile(self, path, self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))


class _WatchedFile(DiskFile):
    def __init__(self, disk: _WatchedDisk, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._synced = disk.synced

    def sync(self) -> None:
        super().sync()
        if self.path.endswith(".log"):
            self._synced.append((os.path.basename(self.path), self.size()))


def test_a_failing_disk_leaves_no_entry_for_what_it_did_not_take(tmp_path: Path) -> None:
    """Neither by the short way nor by the long one: an index may lack entries, never be ahead of its log."""
    config = read_config({"index.interval.bytes": "0"}, NEWEST)
    for name, producer_id in (("short-0", -1), ("long-0", 7)):
        disk = _FullDisk()
        opened = open_log(disk, str(tmp_path / name), config, now_ms=TIME)
        batches = [
            write_batch(
                [NewRecord(b"k", b"v", TIME + at)],
                base_offset=at,
                partition_leader_epoch=0,
                producer_id=producer_id,
                producer_epoch=-1 if producer_id < 0 else 0,
                base_sequence=-1 if producer_id < 0 else at,
            )
            for at in range(13)
        ]
        for data in batches[:-1]:
            opened.append_as_follower(data, now_ms=TIME)
        disk.is_full = True
        with pytest.raises(OSError, match="full"):
            opened.append_as_follower(batches[-1], now_ms=TIME)
        disk.is_full = False
        opened.abandon()
        entries = list(read_entries((tmp_path / name / segment_file(0, ".index")).read_bytes()))
        assert all(entry.relative_offset < 12 for entry in entries)
        with open_log(Disk(), str(tmp_path / name), config, now_ms=TIME) as again:
            assert again.log_end_offset == 12


class _FullDisk(Disk):
    is_full = False

    def open(self, path: str) -> File:
        return _FullFile(self, path, self._open(path, os.O_RDWR))

    def create(self, path: str, *, mode: int = 0o644) -> File:
        return _FullFile(self, path, self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode))


class _FullFile(DiskFile):
    def __init__(self, disk: _FullDisk, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def write_at(self, position: int, data: Buffer) -> None:
        if self._disk.is_full:
            super().write_at(position, bytes(data)[: len(data) // 2])
            raise OSError(ENOSPC, "the disk is full")
        super().write_at(position, data)


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
