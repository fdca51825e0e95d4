"""Long lists of pairs of numbers in little memory: a compacted log can have millions of gaps to report."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from typing import IO

Pair = tuple[int, int]

_CHUNK = 1 << 16  # pairs held in memory before they are written to a temporary file
_PAIR_SIZE = 16


class Pairs:
    """Pairs of 64-bit numbers in the order they were added, iterable from either end."""

    def __init__(self) -> None:
        self._recent = array("q")
        self._spilled: IO[bytes] | None = None
        self._chunks = 0
        self._last_first: int | None = None
        self.is_rising = True
        """Whether each pair's first number is greater than that of the pair before."""

    def add(self, first: int, second: int) -> None:
        if self._last_first is not None and first <= self._last_first:
            self.is_rising = False
        self._last_first = first
        self._recent.extend((first, second))
        if len(self._recent) >= 2 * _CHUNK:
            self._spill()

    def __iter__(self) -> Iterator[Pair]:
        for number in range(self._chunks):
            yield from _pairs(self._chunk(number))
        yield from _pairs(self._recent)

    def __reversed__(self) -> Iterator[Pair]:
        yield from reversed(list(_pairs(self._recent)))
        for number in reversed(range(self._chunks)):
            yield from reversed(list(_pairs(self._chunk(number))))

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = tempfile.TemporaryFile(prefix="kafkatool-")  # noqa: SIM115 - lives as long as we do
        self._spilled.seek(0, 2)
        self._spilled.write(self._recent.tobytes())
        self._chunks += 1
        del self._recent[:]

    def _chunk(self, number: int) -> array[int]:
        assert self._spilled is not None
        self._spilled.seek(number * _CHUNK * _PAIR_SIZE)
        numbers = array("q")
        numbers.frombytes(self._spilled.read(_CHUNK * _PAIR_SIZE))
        return numbers


def _pairs(numbers: array[int]) -> Iterator[Pair]:
    return zip(numbers[::2], numbers[1::2], strict=True)
