"""Logs that are mended while they are read: every byte as it was written, or as it lies on the disk."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.engine.batches.mending import BatchMend, Mender
from kafkatool.engine.files.source import FileSource, Guest, open_source
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.engine.small_batches import SMALL
from tests.logs import LOG, TIME, batches
from tests.mutations import flipped

BEFORE = write_batch([NewRecord(b"k", b"before", TIME)], base_offset=90)
BEHIND = write_batch([NewRecord(b"k", b"behind", TIME + 9)], base_offset=200)


def read(path: Path, mender: Mender) -> bytes:
    with open_source(path, Guest(mending=mender)) as source:
        # In pieces, so that a patch is met at the edge of one as well.
        return b"".join(source.read(at, 37) for at in range(0, source.size_hint or 0, 37))


def collected() -> tuple[Mender, list[BatchMend]]:
    found: list[BatchMend] = []
    return Mender(found.append), found


def check(path: Path, raw: bytes, positions: Iterator[int]) -> None:
    """Each flip of the middle batch of three is mended, or left as it is."""
    whole = BEFORE + raw + BEHIND
    for position in positions:
        byte = len(BEFORE) + position // 8
        damaged = flipped(whole, byte, position % 8)
        path.write_bytes(damaged)
        mender, told = collected()
        got = read(path, mender)
        assert path.read_bytes() == damaged
        if told:
            assert got == whole, position
            assert [(one.byte, one.bit, one.is_mended) for one in told] == [(byte, position % 8, True)]
            assert told[0].position == len(BEFORE)
        else:
            assert got == damaged, position
            assert position // 8 < 8 or (raw[16] == 2 and 12 <= position // 8 < 16), position


@pytest.mark.parametrize("name", SMALL)
def test_a_flip_is_mended_to_what_was_written_or_left(name: str, tmp_path: Path) -> None:
    raw = SMALL[name]
    bits = random.Random(name).sample(range(len(raw) * 8), 60)
    check(tmp_path / LOG, raw, iter([*range(8 * 8, 21 * 8, 3), *bits]))


@pytest.mark.soak
@pytest.mark.parametrize("name", SMALL)
def test_every_flip_is_mended_to_what_was_written_or_left(name: str, tmp_path: Path) -> None:
    raw = SMALL[name]
    check(tmp_path / LOG, raw, iter(range(len(raw) * 8)))


def test_several_batches_are_mended_and_each_is_told(tmp_path: Path) -> None:
    good = batches(6)
    whole = b"".join(good)
    size = len(good[0])
    damaged = flipped(flipped(flipped(whole, 70, 2), 2 * size + 9, 0), 5 * size + 16, 6)
    (tmp_path / LOG).write_bytes(damaged)
    mender, told = collected()
    assert read(tmp_path / LOG, mender) == whole
    assert [(one.first_offset, one.last_offset) for one in told] == [(0, 2), (6, 8), (15, 17)]
    assert "bit 2 of byte 70 is flipped back" in told[0].message
    assert "offsets 0 to 2" in told[0].message
    assert f"1 in {round(1 / told[0].odds)}" in told[0].message


def test_what_cannot_be_mended_between_hides_nothing_behind_it(tmp_path: Path) -> None:
    good = batches(8)
    size = len(good[0])
    whole = b"".join(good)
    broken = whole[: 2 * size + 40] + bytes(60) + whole[2 * size + 100 :]
    (tmp_path / LOG).write_bytes(flipped(broken, 6 * size + 80, 1))
    mender, told = collected()
    assert read(tmp_path / LOG, mender) == broken
    assert [one.first_offset for one in told] == [18]


def test_a_log_that_grows_is_walked_on_and_what_was_told_is_not_told_again(tmp_path: Path) -> None:
    good = batches(4)
    size = len(good[0])
    whole = b"".join(good)
    damaged = flipped(flipped(whole, 80, 1), 3 * size + 80, 1)
    path = tmp_path / LOG
    path.write_bytes(damaged[: 3 * size])
    mender, told = collected()
    for _ in range(2):
        assert read(path, mender) == whole[: 3 * size]
        assert len(told) == 1
    path.write_bytes(damaged)
    assert read(path, mender) == whole
    assert [one.position for one in told] == [0, 3 * size]


def test_a_log_that_was_written_anew_is_looked_at_anew(tmp_path: Path) -> None:
    path, whole = tmp_path / LOG, b"".join(batches(3))
    path.write_bytes(flipped(whole, 80, 1))
    mender, _told = collected()
    assert read(path, mender) == whole
    for other in (flipped(whole, 90, 4), whole[: len(whole) // 3]):
        path.write_bytes(other)
        os.utime(path, ns=(0, len(other)))
        assert read(path, mender) == whole[: len(other)]


def test_too_large_a_batch_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    raw = write_batch([NewRecord(None, random.Random(1).randbytes(200_000), TIME)])
    path = tmp_path / LOG
    path.write_bytes(flipped(raw, 1000, 1))
    mender, told = collected()
    assert read(path, mender) == flipped(raw, 1000, 1)
    assert [one.is_mended for one in told] == [False]
    assert "left as it is" in told[0].message
    assert "another replica" in told[0].message


def test_a_batch_that_would_not_fit_between_its_neighbours_is_left(tmp_path: Path) -> None:
    """With a base offset that is wrong, too, more than one bit is."""
    misplaced = write_batch([NewRecord(b"k", b"value", TIME)], base_offset=50)
    path = tmp_path / LOG
    for position in (70, 9):
        damaged = BEFORE + flipped(misplaced, position, 1) + BEHIND
        path.write_bytes(damaged)
        mender, told = collected()
        assert read(path, mender) == damaged
        assert not told


@pytest.mark.parametrize("name", ["00000000000000000000.index", "leader-epoch-checkpoint"])
def test_only_logs_are_mended(name: str, tmp_path: Path) -> None:
    path, raw = tmp_path / name, flipped(b"".join(batches(2)), 80, 1)
    path.write_bytes(raw)
    mender, told = collected()
    assert read(path, mender) == raw
    assert not told


def test_a_log_of_nothing_but_damage_takes_bounded_time(tmp_path: Path) -> None:
    """The front of a batch again and again: each one would be searched to the end of the file."""
    path = tmp_path / LOG
    path.write_bytes(batches(1)[0][:70] * 30_000)
    mender, told = collected()
    with open_source(path, Guest(mending=mender)) as source:
        assert isinstance(source, FileSource)
        assert not source.patches
    assert not told


def test_another_process_begins_anew(tmp_path: Path) -> None:
    path, whole = tmp_path / LOG, b"".join(batches(3))
    path.write_bytes(flipped(whole, 80, 1))
    mender, _told = collected()
    read(path, mender)
    guest = pickle.loads(pickle.dumps(Guest(mending=mender)))
    assert read(path, guest.mending) == whole
