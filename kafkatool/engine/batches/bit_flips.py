"""Find the single flipped bit that explains a damaged batch, and say how certain that is.

A CRC is linear: one flipped bit changes it by a value that depends only on the bit's distance from the end,
x^t for the t-th bit. The difference between stored and computed checksum (the syndrome) therefore identifies
the bit, by its discrete logarithm. That is computed with baby steps and giant steps, so a search costs far
less than the checksum itself. Outside the checksummed bytes few bits can be proven: those of the length, the
magic and the checksum; each of them is tried. The base offset and the leader epoch can be anything and are
never guessed.

A match alone proves little in a large batch: if many bytes are wrong, one bit in 2^32 matches by chance, and
1 MiB has 2^23 bits. So a flip counts only if it is the only one with which checksum, length and every record
agree, decompression included. It is proven if the odds of a chance match are small, or if further evidence
supports it. That must be a check which chance would not pass; records that decode with and without the flip
(such as a flip inside a value) are no evidence. Accepted are:

    healed     as stored, the records do not decode or contradict their header (count, offsets, times);
               with the bit flipped back they decode and agree
    gzip       the stream inside has its own checksum, and it matches
    messages   a wrapper of magic 0 or 1 holds messages with a checksum each, and all match
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE, SHORTEST_ENTRY
from kafkatool.engine.files.source import AnySource
from kafkatool.errors import FormatError
from kafkatool.format import legacy
from kafkatool.format.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    Codec,
    read_header,
)
from kafkatool.format.checksum import crc32, crc32c
from kafkatool.format.kernel.loops import records_hold
from kafkatool.format.primitives import Buffer
from kafkatool.format.record import read_body

LARGEST = 16 << 20
"""The size limit of a batch in bytes; larger ones are skipped, so that memory stays bounded."""
MOST_ODDS = 1e-4
"""The highest odds of a chance match accepted without further evidence: a batch of about 50 KiB."""

MAYBE_FLIPPED = (
    FindingClass.BAD_CRC,
    FindingClass.BAD_LENGTH,
    FindingClass.BAD_MAGIC,
    FindingClass.TORN_TAIL,
)
"""Kinds of damage that one flipped bit can cause."""

HEALED = "as it stands its records do not decode, with the bit flipped back all of them do"
GZIP = "the checksum of its gzip stream matches"
MESSAGES = "every message inside matches a checksum of its own"

_LENGTH_POSITION = 8
_SMALL_STEPS = 1 << 13


class BitFlip(NamedTuple):
    """A byte, counted from the start of the batch, and the bit in it, 0 being the lowest."""

    byte: int
    bit: int


@dataclass(frozen=True, slots=True)
class FoundFlip:
    """The one bit that makes a batch good, and the evidence for it."""

    flip: BitFlip
    size: int
    """Size of the whole mended batch in bytes."""
    first_offset: int
    last_offset: int
    bits_tried: int
    proof: str | None
    """The evidence besides the checksum; None if there is none."""

    @property
    def odds(self) -> float:
        """The odds of a chance match: how many single flips are expected to match by accident."""
        return self.bits_tried / 2**32

    @property
    def is_proven(self) -> bool:
        return self.proof is not None or self.odds <= MOST_ODDS


class _Layout(NamedTuple):
    """Where a format stores its checksum, and which checksum it is."""

    magics: tuple[int, ...]
    crc_at: int
    covered_from: int
    least_size: int
    checksum: Callable[[Buffer, int], int]
    polynomial: int


_BATCH = _Layout((2,), 17, CRC_START, HEADER_SIZE, crc32c, 0x82F63B78)
_MESSAGE = _Layout(
    (0, 1), 12, legacy.CRC_START, LOG_OVERHEAD + legacy.MIN_SIZE, crc32, 0xEDB88320
)  # fmt: skip


class _Hit(NamedTuple):
    """A flip with which the checksum matches, and the resulting size of the batch."""

    flip: BitFlip
    size: int


def find_flip(available: Buffer, *, is_to_end: bool) -> FoundFlip | None:
    """Return the one bit that makes the batch at the start of `available` good; None unless exactly one does.

    `available` continues after the batch, as a repaired length may cover more or fewer bytes. `is_to_end`:
    it reaches the end of the log.
    """
    if len(available) < LOG_OVERHEAD + legacy.MIN_SIZE:
        return None
    search = _Search(available, is_to_end)
    good = [hit for hit in search.hits() if _agrees(search.mended(hit))]
    if len(good) != 1:
        return None
    return _weighed(search, good[0])


def size_to_search(damage: Damage) -> int:
    """Return how many bytes `described_as_flip` reads: the damage, and the start of what follows it."""
    return min(damage.end_position - damage.position, LARGEST) + HEADER_SIZE


def described_as_flip(damage: Damage, source: AnySource, log_size: int) -> Damage:
    """Return the same damage, described as a flipped bit if flipping one back makes the batch good."""
    if damage.kind not in MAYBE_FLIPPED:
        return damage
    available = source.read(damage.position, size_to_search(damage))
    found = find_flip(available, is_to_end=damage.position + len(available) == log_size)
    if found is None:
        return damage
    flip, byte = found.flip, damage.position + found.flip.byte
    message = f"bit {flip.bit} of byte {byte} is flipped: the batch is good with it flipped back"
    if not found.is_proven:
        message += f", or seems so by chance, with odds of 1 in {round(1 / found.odds)}"
    if damage.kind is FindingClass.BAD_MAGIC:  # a broker keeps the batch: the more important fact
        return replace(damage, message=f"{damage.message}; {message}", is_mendable=found.is_proven)
    return replace(
        damage,
        kind=FindingClass.BIT_FLIP,
        expected=f"byte {byte} to be {available[flip.byte] ^ 1 << flip.bit:#04x}",
        found=f"{available[flip.byte]:#04x}",
        message=message,
        is_mendable=found.is_proven,
    )


class _Search:
    """Finds every single flip that makes a checksum match, and counts those tried."""

    def __init__(self, available: Buffer, is_to_end: bool) -> None:
        self._data = memoryview(available)
        self._is_to_end = is_to_end
        self._length = int.from_bytes(self._data[_LENGTH_POSITION:LOG_OVERHEAD], "big", signed=True)
        self._magic = self._data[MAGIC_POSITION]
        self.own_size = self._length + LOG_OVERHEAD
        self.bits_tried = 0

    def hits(self) -> list[_Hit]:
        found: list[_Hit] = []
        for layout in (_BATCH, _MESSAGE):
            if self._magic in layout.magics:
                found += self._in_length(layout)
                found += self._by_syndrome(layout)
            else:
                found += self._in_magic(layout)
        return found

    def mended(self, hit: _Hit) -> bytes:
        raw = bytearray(self._data[: hit.size])
        raw[hit.flip.byte] ^= 1 << hit.flip.bit
        return bytes(raw)

    def as_it_stands(self) -> bytes | None:
        """Return the batch by its own length field; None if there are too few bytes, or it is too large."""
        is_there = 0 < self.own_size <= min(len(self._data), LARGEST)
        return bytes(self._data[: self.own_size]) if is_there else None

    def _fits(self, layout: _Layout, size: int) -> bool:
        return layout.least_size <= size <= min(len(self._data), LARGEST)

    def _stored(self, layout: _Layout) -> int:
        return int.from_bytes(self._data[layout.crc_at : layout.crc_at + 4], "big")

    def _in_length(self, layout: _Layout) -> Iterator[_Hit]:
        """Try all lengths that differ in one bit, the shortest first: one pass over the bytes covers all."""
        sizes = {_signed(self._length ^ 1 << bit) + LOG_OVERHEAD: bit for bit in range(32)}
        at, value, stored = layout.covered_from, 0, self._stored(layout)
        for size, bit in sorted(sizes.items()):
            if not self._fits(layout, size):
                continue
            value = layout.checksum(self._data[at:size], value)
            at = size
            self.bits_tried += 1
            if value == stored and self._lines_up(size):
                yield _Hit(BitFlip(_LENGTH_POSITION + 3 - bit // 8, bit % 8), size)

    def _lines_up(self, size: int) -> bool:
        """Whether what follows is valid: an entry, zeros, or the end of the log."""
        front = self._data[size : size + SHORTEST_ENTRY]
        if len(front) < SHORTEST_ENTRY:
            return self._is_to_end
        length = int.from_bytes(front[_LENGTH_POSITION:LOG_OVERHEAD], "big", signed=True)
        return not any(front) or (length >= legacy.MIN_SIZE and front[MAGIC_POSITION] <= 2)

    def _by_syndrome(self, layout: _Layout) -> Iterator[_Hit]:
        """Find a bit in the checksum itself, or in the bytes that it covers."""
        size = self.own_size
        if not self._fits(layout, size):
            return
        covered = size - layout.covered_from
        syndrome = layout.checksum(self._data[layout.covered_from : size], 0) ^ self._stored(layout)
        self.bits_tried += 32 + 8 * covered
        if syndrome.bit_count() == 1:
            bit = syndrome.bit_length() - 1
            yield _Hit(BitFlip(layout.crc_at + 3 - bit // 8, bit % 8), size)
            return
        # The t-th bit before the end of the covered bytes; within a byte the highest bit comes last.
        power = _logarithm(layout.polynomial, syndrome, 8 * covered)
        if power is not None:
            flip = BitFlip(size - 1 - (power - 1) // 8, 7 - (power - 1) % 8)
            if flip.byte != MAGIC_POSITION or self._magic ^ 1 << flip.bit in layout.magics:
                yield _Hit(flip, size)

    def _in_magic(self, layout: _Layout) -> Iterator[_Hit]:
        """Try the magics of this layout that differ in one bit from the stored one."""
        if not self._fits(layout, self.own_size):
            return
        for magic in layout.magics:
            changed = self._magic ^ magic
            if changed.bit_count() != 1:
                continue
            self.bits_tried += 1
            hit = _Hit(BitFlip(MAGIC_POSITION, changed.bit_length() - 1), self.own_size)
            raw = memoryview(self.mended(hit))
            if layout.checksum(raw[layout.covered_from :], 0) == self._stored(layout):
                yield hit


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


# --- further evidence for a flip ------------------------------------------------------------------------


def _weighed(search: _Search, hit: _Hit) -> FoundFlip:
    raw = search.mended(hit)
    if raw[MAGIC_POSITION] < 2:
        first = last = legacy.read_legacy_header(raw).offset
    else:
        header = read_header(raw)
        first, last = header.base_offset, header.last_offset
    proof = _own_checksum(raw)
    if proof is None:
        before = search.as_it_stands()
        proof = HEALED if before is None or not _agrees(before) else None
    return FoundFlip(hit.flip, hit.size, first, last, search.bits_tried, proof)


def _own_checksum(raw: bytes) -> str | None:
    """Return which content of an agreeing batch has a checksum of its own; None if none has."""
    if raw[MAGIC_POSITION] < 2:
        return MESSAGES if raw[MAGIC_POSITION + 1] & CODEC_MASK else None
    header = read_header(raw)
    return GZIP if header.records_count and header.attributes & CODEC_MASK == Codec.GZIP else None


def _agrees(raw: bytes) -> bool:
    """Whether a batch holds exactly the records that its header promises; ignores its checksum."""
    try:
        if raw[MAGIC_POSITION] == 2:
            return _records_agree(raw)
        return raw[MAGIC_POSITION] < 2 and _messages_agree(raw)
    except (FormatError, IndexError):
        return False


def _records_agree(raw: bytes) -> bool:
    header = read_header(raw)
    if header.records_count == 0:
        return len(raw) == HEADER_SIZE and header.last_offset_delta >= 0
    return records_hold(raw[:HEADER_SIZE], read_body(header, raw, max_inflated=DEFAULT_MAX_BATCH_SIZE))


def _messages_agree(raw: bytes) -> bool:
    is_wrapper = bool(raw[MAGIC_POSITION + 1] & CODEC_MASK)
    if not _is_filled(raw):
        return False
    return all(
        _is_filled(message.raw) and (message.is_valid or not is_wrapper)
        for message in legacy.read_messages(raw, max_inflated=DEFAULT_MAX_BATCH_SIZE)
    )


def _is_filled(raw: bytes) -> bool:
    """Whether key and value of a message end exactly at its end."""
    at = 18 if raw[MAGIC_POSITION] == 0 else 26
    for _ in ("key", "value"):
        at += 4 + max(0, int.from_bytes(raw[at : at + 4], "big", signed=True))
    return at == len(raw)


# --- logarithms of syndromes ----------------------------------------------------------------------------


class _Steps(NamedTuple):
    small: dict[int, int]
    """x^i -> i, for the baby steps."""
    back: tuple[list[int], ...]
    """Tables for going back one giant step, one for each of the four bytes."""


def _logarithm(polynomial: int, value: int, most: int) -> int | None:
    """Return the power of x, 1 to `most`, that equals `value`; unique, as powers repeat only after 2^31."""
    small, (low, second, third, top) = _steps(polynomial)
    for large in range(0, most + 1, _SMALL_STEPS):
        found = small.get(value)
        if found is not None:
            power = large + found
            return power if 1 <= power <= most else None
        value = low[value & 255] ^ second[value >> 8 & 255] ^ third[value >> 16 & 255] ^ top[value >> 24]
    return None


@cache
def _steps(polynomial: int) -> _Steps:
    small, value = {}, 1
    for power in range(_SMALL_STEPS):
        small[value] = power
        value = value >> 1 ^ (polynomial if value & 1 else 0)
    # One power back, as a matrix with one column per bit; squared until it goes back one giant step.
    matrix = [1 << bit + 1 for bit in range(31)] + [(1 << 31 ^ polynomial) << 1 & 0xFFFFFFFF | 1]
    for _ in range(_SMALL_STEPS.bit_length() - 1):
        matrix = [_product(matrix, column) for column in matrix]
    bytes_ = tuple([_product(matrix, value << 8 * at) for value in range(256)] for at in range(4))
    return _Steps(small, bytes_)


def _product(matrix: list[int], value: int) -> int:
    result = 0
    while value:
        lowest = value & -value
        result ^= matrix[lowest.bit_length() - 1]
        value ^= lowest
    return result
