"""One flipped bit is found wherever it stands; anything else is not taken for one."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.bit_flips import LARGEST, BitFlip, find_flip
from kafkatool.format.batch import CRC_START, NewRecord, write_batch

BATCH = write_batch([NewRecord(b"key", b"value" * 40, 1_700_000_000_000 + at) for at in range(5)])


@given(byte=st.integers(17, len(BATCH) - 1), bit=st.integers(0, 7))
def test_every_bit_that_the_checksum_covers_or_holds_is_found(byte: int, bit: int) -> None:
    damaged = bytearray(BATCH)
    damaged[byte] ^= 1 << bit
    assert find_flip(damaged, damaged) == BitFlip(byte, bit)


@given(bit=st.integers(0, 10))
def test_a_bit_of_the_length_is_found(bit: int) -> None:
    damaged = bytearray(BATCH)
    byte = 11 - bit // 8
    damaged[byte] ^= 1 << bit % 8
    length = int.from_bytes(damaged[8:12], "big", signed=True) + 12
    behind = bytes(damaged) + BATCH * 10
    assert find_flip(behind[: max(0, length)], behind) == BitFlip(byte, bit % 8)


def test_a_bit_of_the_magic_is_found() -> None:
    damaged = bytearray(BATCH)
    damaged[16] ^= 0x40
    assert find_flip(damaged, damaged) == BitFlip(16, 6)


def test_two_flipped_bits_are_not_taken_for_one() -> None:
    source = random.Random(1)
    for _ in range(200):
        damaged = bytearray(BATCH)
        for position in source.sample(range(CRC_START * 8, len(BATCH) * 8), 2):
            damaged[position // 8] ^= 1 << position % 8
        assert find_flip(damaged, damaged) is None


def test_a_batch_that_is_too_large_is_left_alone() -> None:
    raw = bytearray(write_batch([NewRecord(None, bytes(LARGEST), 0)]))
    raw[100] ^= 1
    assert find_flip(raw, raw) is None


@given(st.binary(max_size=200))
def test_any_bytes_give_an_answer(data: bytes) -> None:
    find_flip(data, data)
