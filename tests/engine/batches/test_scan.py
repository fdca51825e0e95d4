from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.format.batch import HEADER_SIZE, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from tests.logs import TIME, batches, offsets, walk, write_log

ANY_FILE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
LOG = b"".join(batches(6))
ENDS = [len(b"".join(batches(6)[:count])) for count in range(7)]


def test_a_good_log_gives_its_batches_and_nothing_else(tmp_path: Path) -> None:
    found, damage = walk(write_log(tmp_path, LOG))
    assert offsets(found) == [2, 5, 8, 11, 14, 17]
    assert [batch.position for batch in found] == ENDS[:-1]
    assert b"".join(bytes(batch.data or b"") for batch in found) == LOG
    assert damage == []


def test_an_empty_log_gives_nothing(tmp_path: Path) -> None:
    assert walk(write_log(tmp_path, b"")) == ([], [])


def test_a_log_cut_at_any_byte_gives_a_prefix_and_at_most_one_damage(tmp_path: Path) -> None:
    whole, _ = walk(write_log(tmp_path, LOG))
    for cut in range(len(LOG)):
        found, damage = walk(write_log(tmp_path, LOG[:cut]))
        complete = sum(end <= cut for end in ENDS[1:])
        assert offsets(found) == offsets(whole[:complete]), cut
        if cut in ENDS:
            assert damage == [], cut
        else:
            (torn,) = damage
            assert (torn.kind, torn.position, torn.end_position) == (
                FindingClass.TORN_TAIL,
                ENDS[complete],
                cut,
            )
            assert torn.first_offset == (3 * complete if complete else None)


@ANY_FILE
@given(at=st.integers(0, len(LOG) - 1), bit=st.integers(0, 7), chain=st.booleans())
def test_a_flipped_bit_costs_its_own_batch_only(tmp_path: Path, at: int, bit: int, chain: bool) -> None:
    damaged = LOG[:at] + bytes([LOG[at] ^ 1 << bit]) + LOG[at + 1 :]
    found, damage = walk(write_log(tmp_path, damaged), chain=chain)
    hit = sum(end <= at for end in ENDS[1:])
    good = {batch.position for batch in found if batch.is_valid}
    assert good >= set(ENDS[:-1]) - {ENDS[hit]} or chain
    if at - ENDS[hit] >= 17 or 8 <= at - ENDS[hit] < 12:  # covered by the checksum, or the length
        assert damage
        assert ENDS[hit] in {item.position for item in damage} | {b.position for b in found if not b.is_valid}


@ANY_FILE
@given(at=st.integers(8, 11), bit=st.integers(0, 7), which=st.integers(0, 4))
def test_behind_a_broken_length_the_walk_goes_on_with_the_next_batch(
    tmp_path: Path, at: int, bit: int, which: int
) -> None:
    position = ENDS[which] + at
    damaged = LOG[:position] + bytes([LOG[position] ^ 1 << bit]) + LOG[position + 1 :]
    found, damage = walk(write_log(tmp_path, damaged))
    assert [b.position for b in found if b.is_valid] == [p for p in ENDS[:-1] if p != ENDS[which]]
    # By chance a wrong length may lead to bytes that look like a header: then there are two pieces.
    assert (damage[0].position, damage[-1].end_position) == (ENDS[which], ENDS[which + 1])
    assert (damage[-1].next_good_offset, damage[-1].last_offset) == (3 * which + 3, 3 * which + 2)
    assert len(damage) <= 2


@ANY_FILE
@given(data=st.binary(max_size=400), chain=st.booleans())
def test_any_bytes_are_walked_to_their_end(tmp_path: Path, data: bytes, chain: bool) -> None:
    found, damage = walk(write_log(tmp_path, data), chain=chain)
    covered = sum(b.header.size for b in found) + sum(d.end_position - d.position for d in damage)
    assert bool(data) == bool(covered)


def test_a_batch_swallowed_by_the_length_of_a_bad_one_is_found(tmp_path: Path) -> None:
    first, second, third = batches(3)
    longer = len(first) + len(second) - 12
    bad = first[:8] + longer.to_bytes(4, "big") + first[12:]
    found, damage = walk(write_log(tmp_path, bad + second + third))
    assert [b.position for b in found if b.is_valid] == [len(first), len(first) + len(second)]
    assert [d.kind for d in damage] == [FindingClass.BAD_CRC]
    chained, _ = walk(write_log(tmp_path, bad + second + third), chain=True)
    assert [b.position for b in chained] == [0, len(first) + len(second)]


def test_zeros_at_the_end_are_told_from_a_torn_batch(tmp_path: Path) -> None:
    _, damage = walk(write_log(tmp_path, LOG + bytes(5000)))
    (zeros,) = damage
    assert (zeros.kind, zeros.severity) == (FindingClass.ZERO_FILLED, Severity.DEGRADED)
    assert (zeros.position, zeros.end_position, zeros.throws) == (len(LOG), len(LOG) + 5000, True)


def test_zeros_in_the_middle_lose_what_stood_there(tmp_path: Path) -> None:
    damaged = LOG[: ENDS[2]] + bytes(ENDS[4] - ENDS[2]) + LOG[ENDS[4] :]
    found, damage = walk(write_log(tmp_path, damaged))
    (zeros,) = damage
    assert offsets(found) == [2, 5, 14, 17]
    assert (zeros.kind, zeros.severity) == (FindingClass.ZERO_FILLED, Severity.LOSS)
    assert (zeros.first_offset, zeros.last_offset) == (6, 11)


def test_offsets_that_go_back_are_told(tmp_path: Path) -> None:
    one, two = batches(2)
    found, damage = walk(write_log(tmp_path, two + one))
    assert len(found) == 2
    assert [d.kind for d in damage] == [FindingClass.BAD_OFFSET]


def test_legacy_messages_are_walked_and_found_again_behind_damage(tmp_path: Path) -> None:
    messages = [write_message(at, b"k", b"v" * 30, magic=at % 2) for at in range(6)]
    wrapper = write_wrapper([write_message(6 + at, b"k", b"v") for at in range(3)], Codec.GZIP)
    whole = [*messages, wrapper]
    found, damage = walk(write_log(tmp_path, b"".join(whole)))
    assert (offsets(found), damage) == ([0, 1, 2, 3, 4, 5, 8], [])
    broken = messages[2][:8] + b"\0\0\0\1" + messages[2][12:]
    found, damage = walk(write_log(tmp_path, b"".join([*messages[:2], broken, *messages[3:], wrapper])))
    assert offsets(found) == [0, 1, 3, 4, 5, 8]
    assert [d.kind for d in damage] == [FindingClass.BAD_LENGTH]


def test_a_batch_larger_than_the_limit_is_checked_but_not_held(tmp_path: Path) -> None:
    big = write_batch([NewRecord(None, os.urandom(3 << 20), TIME)])
    path = write_log(tmp_path, big)
    with open_source(path, Guest()) as source:
        (batch,) = scan(source, max_batch_size=1 << 20)
    assert isinstance(batch, Batch)
    assert batch.is_valid
    assert batch.data is None


def test_a_pipe_is_walked_like_a_file(tmp_path: Path) -> None:
    damaged = LOG[: ENDS[2]] + os.urandom(50) + LOG[ENDS[3] :]
    expected = walk(write_log(tmp_path, damaged))
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as end:
        end.write(damaged)
    with open_source(f"/dev/fd/{reading}", allow_pipe=True) as source:
        items = list(scan(source))
    os.close(reading)
    assert offsets(item for item in items if isinstance(item, Batch)) == offsets(expected[0])
    assert [item for item in items if isinstance(item, Damage)] == expected[1]


def test_blocks_that_the_disk_does_not_give_are_named_and_walked_around(tmp_path: Path) -> None:
    from kafkatool.engine.files.source import FileSource

    many = batches(400)
    path = write_log(tmp_path, b"".join(many))

    def pread(fd: int, size: int, position: int) -> bytes:
        if position < 12288 and position + size > 8192:
            raise OSError(5, "Input/output error")
        return os.pread(fd, size, position)

    fd = os.open(path, os.O_RDONLY)
    with FileSource(fd, str(path), Guest(), pread=pread) as source:
        items = list(scan(source))
        assert source.unreadable == [(8192, 12288)]
    damage = [item for item in items if isinstance(item, Damage)]
    good = [item for item in items if isinstance(item, Batch) and item.is_valid]
    assert FindingClass.UNREADABLE in {item.kind for item in damage}
    assert offsets(good)[-1] == 1199
    assert len(good) > 400 - 4096 // len(many[0]) - 3


HOSTILE = {
    "magic bytes": b"\x02" * (1 << 20),
    "headers without end": (b"\0" * 8 + (1 << 20).to_bytes(4, "big") + b"\0" * 4 + b"\x02" + b"\0" * 44)
    * ((1 << 20) // HEADER_SIZE),
    "noise": os.urandom(1 << 20),
    "small lengths": b"\0\0\0\0\0\0\0\1\0\0\0\x0e" * ((1 << 20) // 12),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("chain", [False, True])
def test_hostile_bytes_take_linear_time(tmp_path: Path, name: str, chain: bool) -> None:
    path = write_log(tmp_path, HOSTILE[name])
    start = time.process_time()
    walk(path, chain=chain)
    assert time.process_time() - start < 30  # quadratic work would take hours
