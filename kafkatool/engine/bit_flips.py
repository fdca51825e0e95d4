"""Which single bit, flipped back, makes a batch whole again.

A CRC is linear: flipping one bit changes it by a value that depends only on how far the bit stands from the
end. So the difference between stored and computed checksum (the syndrome) is walked back from the end, a byte
at a time, until it is the difference that one bit of that byte makes. Outside the checksum there are few bits
that can matter, length and magic: those are tried.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kafkatool.format.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION
from kafkatool.format.checksum import crc32c
from kafkatool.format.primitives import Buffer

POLYNOMIAL = 0x82F63B78
LARGEST = 4 << 20
"""A second's work; larger batches are left alone."""

_LENGTH = range(8, LOG_OVERHEAD)
_CRC_FIELD = range(17, CRC_START)


class BitFlip(NamedTuple):
    """A byte, counted from the start of the batch, and the bit in it, 0 being the lowest."""

    byte: int
    bit: int


def find_flip(data: Buffer, available: Buffer) -> BitFlip | None:
    """The one bit that makes the batch good; None where there is none, or where looking costs too much.

    `data` is the batch by its own length; `available` the bytes from its start on, of which a repaired
    length may claim more or fewer.
    """
    if len(available) < HEADER_SIZE:
        return None
    header = _flip_in_header(available)
    if header is not None or len(data) < HEADER_SIZE or len(data) > LARGEST:
        return header
    return _flip_under_checksum(data)


def _flip_in_header(available: Buffer) -> BitFlip | None:
    """Length and magic stand outside the checksum: each of their bits is tried."""
    length = int.from_bytes(available[8:LOG_OVERHEAD], "big", signed=True)
    if available[MAGIC_POSITION] == 2:
        for bit in range(31):
            if _is_whole(available, length ^ 1 << bit):
                return BitFlip(_LENGTH[3 - bit // 8], bit % 8)
        return None
    changed = available[MAGIC_POSITION] ^ 2
    if changed.bit_count() == 1 and _is_whole(available, length):
        return BitFlip(MAGIC_POSITION, changed.bit_length() - 1)
    return None


def _is_whole(available: Buffer, length: int) -> bool:
    size = length + LOG_OVERHEAD
    if not HEADER_SIZE <= size <= min(len(available), LARGEST):
        return False
    stored = int.from_bytes(available[17:CRC_START], "big")
    return bool(crc32c(memoryview(available)[CRC_START:size]) == stored)


def _flip_under_checksum(data: Buffer) -> BitFlip | None:
    stored = int.from_bytes(data[17:CRC_START], "big")
    syndrome = crc32c(memoryview(data)[CRC_START:]) ^ stored
    if syndrome.bit_count() == 1:
        bit = syndrome.bit_length() - 1
        return BitFlip(_CRC_FIELD[3 - bit // 8], bit % 8)
    table, by_top_byte, bits = _tables()
    for byte in range(len(data) - 1, CRC_START - 1, -1):
        if syndrome in bits:
            return BitFlip(byte, bits[syndrome])
        # One byte back: the step forward is x -> table[x & 255] ^ (x >> 8), and top bytes are unique.
        low = by_top_byte[syndrome >> 24]
        syndrome = (syndrome ^ table[low]) << 8 | low
    return None


@cache
def _tables() -> tuple[list[int], list[int], dict[int, int]]:
    """The table of the checksum, the index of each top byte in it, and what single bits do."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    by_top_byte = [0] * 256
    for index, value in enumerate(table):
        by_top_byte[value >> 24] = index
    return table, by_top_byte, {table[1 << bit]: bit for bit in range(8)}
