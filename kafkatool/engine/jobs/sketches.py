"""Summarise many numbers in little memory; summaries can be joined in any grouping.

    Spread      how values are distributed: fixed buckets, always the same
    Distinct    the number of different values: exact while there are few, then HyperLogLog
    Timeline    totals per hour, or per longer stretch if there are too many hours
    Lowest      a sample: the items with the lowest of pseudo-random ranks

Each depends only on its input, not on how that was split: `a.join(b)` equals one summary of both. So workers
can summarise a log in any splits and the answer is the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


def no_numbers(*shape: int) -> Numbers:
    return np.zeros(shape or (0,), dtype=np.int64)


def no_hashes() -> Hashes:
    return np.zeros(0, dtype=np.uint64)


def mix(values: Hashes) -> Hashes:
    """Spread every bit of a number over all 64 (the finish of SplitMix64), keeping numbers distinct."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def groups(keys: Numbers | Hashes) -> tuple[Numbers | None, Numbers]:
    """Return an order that groups equal keys (None: already grouped), and where each group begins."""
    order = None
    if len(keys) and not bool(np.all(keys[:-1] <= keys[1:])):
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else no_numbers()
    return order, begins


# --- how values are spread ----------------------------------------------------------------------------

_EXACT_BITS = 7
_EXACT = 1 << _EXACT_BITS  # values below this have their own bucket
_PER_OCTAVE = _EXACT // 2  # buckets between a power of two and the next: within 1.6 %
_OCTAVES = 31 - _EXACT_BITS
_BUCKETS = _EXACT + _OCTAVES * _PER_OCTAVE
_GREATEST = (1 << 31) - 1


def bucket_of(values: Numbers) -> Numbers:
    """Return the buckets of values from 0 to 2^31 - 1."""
    exponent = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    octave = np.maximum(exponent - _EXACT_BITS, -1)
    fine = _EXACT + octave * _PER_OCTAVE + (values >> (octave + 1)) - _PER_OCTAVE
    return np.where(values < _EXACT, values, fine)


def bucket_top(bucket: int) -> int:
    """Return the greatest value of a bucket."""
    if bucket < _EXACT:
        return bucket
    octave, step = divmod(bucket - _EXACT, _PER_OCTAVE)
    return ((_PER_OCTAVE + step + 1) << (octave + 1)) - 1


@dataclass(slots=True)
class Spread:
    """Least, greatest, sum and percentiles of values from 0 on; percentiles cap values at 2^31 - 1."""

    buckets: Numbers = field(default_factory=lambda: no_numbers(_BUCKETS))
    count: int = 0
    total: int = 0
    least: int = 0
    greatest: int = 0

    def add(self, values: Numbers) -> None:
        if not len(values):
            return
        least, greatest = int(values.min()), int(values.max())
        self.least = min(self.least, least) if self.count else least
        self.greatest = max(self.greatest, greatest)
        self.count += len(values)
        self.total += int(values.sum())
        if greatest > _GREATEST:
            values = np.minimum(values, _GREATEST)
        if least == greatest:  # records of one size are common
            self.buckets[bucket_of(values[:1])] += len(values)
            return
        found = np.bincount(values if greatest < _EXACT else bucket_of(values))
        self.buckets[: len(found)] += found

    def join(self, other: Self) -> None:
        if not other.count:
            return
        self.least = min(self.least, other.least) if self.count else other.least
        self.greatest = max(self.greatest, other.greatest)
        self.count += other.count
        self.total += other.total
        self.buckets += other.buckets

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def percentile(self, share: float) -> int | None:
        """Return a value that this share do not exceed: exact below 128, else at most 1.6 % too high."""
        if not self.count:
            return None
        rank = max(1, -int(-share * self.count // 1))
        bucket = int(np.searchsorted(np.cumsum(self.buckets), rank))
        return max(self.least, min(bucket_top(bucket), self.greatest))


# --- how many different -------------------------------------------------------------------------------

MOST_EXACT = 1 << 16
_INDEX_BITS = 14
_REGISTERS = 1 << _INDEX_BITS


def registers_of(hashes: Hashes) -> NDArray[np.uint8]:
    """Return HyperLogLog registers: per 14-bit prefix, the longest run of zeros after it, plus 1."""
    registers = np.zeros(_REGISTERS, dtype=np.uint8)
    mixed = mix(hashes)
    rest = mixed << np.uint64(_INDEX_BITS) | np.uint64(1 << (_INDEX_BITS - 1))
    # The upper half alone decides unless it is zero: a float holds 32 bits exactly.
    high, low = (rest >> np.uint64(32)).astype(np.float64), rest.astype(np.uint32).astype(np.float64)
    bits = np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1])
    np.maximum.at(registers, mixed >> np.uint64(64 - _INDEX_BITS), (65 - bits).astype(np.uint8))
    return registers


def estimate(registers: NDArray[np.uint8]) -> int:
    """Estimate how many different hashes gave these registers; the standard error is 0.8 %."""
    alpha = 0.7213 / (1 + 1.079 / _REGISTERS)
    counted = np.bincount(registers, minlength=1)
    inverse = sum(float(count) * 2.0**-rank for rank, count in enumerate(counted))
    raw = alpha * _REGISTERS**2 / inverse
    empty = int(counted[0])
    if raw <= 2.5 * _REGISTERS and empty:
        raw = _REGISTERS * float(np.log(_REGISTERS / empty))
    return round(raw)


@dataclass(slots=True)
class Distinct:
    """The number of different 64-bit values."""

    values: Hashes | None = field(default_factory=no_hashes)
    """All of them in order; None if they are too many."""
    registers: NDArray[np.uint8] | None = None

    def add(self, values: Hashes) -> None:
        if self.values is None:
            self._register(registers_of(values))
        elif len(values):
            self._keep(np.union1d(self.values, values))

    def join(self, other: Self) -> None:
        if other.values is not None:
            self.add(other.values)
        else:
            assert other.registers is not None
            if self.values is not None:
                self._register(registers_of(self.values))
            self._register(other.registers)

    def _keep(self, values: Hashes) -> None:
        self.values = values
        if len(values) > MOST_EXACT:
            self._register(registers_of(values))

    def _register(self, registers: NDArray[np.uint8]) -> None:
        self.values = None
        self.registers = registers if self.registers is None else np.maximum(self.registers, registers)

    @property
    def is_exact(self) -> bool:
        return self.values is not None

    @property
    def count(self) -> int:
        if self.values is not None:
            return len(self.values)
        assert self.registers is not None
        return estimate(self.registers)


# --- what happened when -------------------------------------------------------------------------------

HOUR_MS = 3_600_000
MOST_STRETCHES = 768
WIDTHS_MS = (*accumulate((HOUR_MS, 6, 4, 7, 4, 13, *[16] * 6), lambda width, factor: width * factor),)
"""An hour, 6 hours, a day, 7, 28, 364 days, and so on up to all of time: each divides the next."""
MEASURES = 3


@dataclass(slots=True)
class Timeline:
    """Batches, records and bytes of every non-empty stretch of time."""

    level: int = 0
    stretches: Numbers = field(default_factory=no_numbers)
    """Numbers of stretches since 1970, in order."""
    measures: Numbers = field(default_factory=lambda: no_numbers(0, MEASURES))

    @property
    def width_ms(self) -> int:
        return int(WIDTHS_MS[self.level])

    def add(self, times_ms: Numbers, records: Numbers, sizes: Numbers) -> None:
        """Add batches: their times, from 0 on, and the records and bytes of each."""
        if not len(times_ms):
            return
        stretches = times_ms // self.width_ms
        order, begins = groups(stretches)
        if order is not None:
            stretches, records, sizes = stretches[order], records[order], sizes[order]
        counts = np.diff(begins, append=len(stretches))
        sums = (counts, np.add.reduceat(records, begins), np.add.reduceat(sizes, begins))
        self._take(stretches[begins], np.stack(sums, axis=1))

    def join(self, other: Self) -> None:
        level = max(self.level, other.level)
        self._coarsen(level)
        theirs = other.stretches // (WIDTHS_MS[level] // other.width_ms)
        self._take(theirs, other.measures)

    def coarse(self, most: int) -> Timeline:
        """Return a copy with at most so many stretches."""
        copy = Timeline(self.level, self.stretches, self.measures)
        copy._bound(most)
        return copy

    def _take(self, stretches: Numbers, measures: Numbers) -> None:
        self.stretches = np.concatenate((self.stretches, stretches))
        self.measures = np.concatenate((self.measures, measures))
        self._tidy()
        self._bound(MOST_STRETCHES)

    def _bound(self, most: int) -> None:
        while len(self.stretches) > most and self.level + 1 < len(WIDTHS_MS):
            self._coarsen(self.level + 1)

    def _coarsen(self, level: int) -> None:
        if level > self.level:
            self.stretches = self.stretches // (WIDTHS_MS[level] // self.width_ms)
            self.level = level
            self._tidy()

    def _tidy(self) -> None:
        """Merge equal stretches."""
        if not len(self.stretches):
            return
        order, begins = groups(self.stretches)
        if order is not None:
            self.stretches, self.measures = self.stretches[order], self.measures[order]
        self.stretches = self.stretches[begins]
        self.measures = np.add.reduceat(self.measures, begins, axis=0)


# --- a sample -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Lowest:
    """The `most` rows with the lowest ranks, first come first kept. A row is one value of every column."""

    most: int
    ranks: Hashes = field(default_factory=no_hashes)
    columns: tuple[NDArray[np.generic], ...] = ()
    _waiting: list[tuple[Hashes, tuple[NDArray[np.generic], ...]]] = field(default_factory=list)
    _count: int = 0

    def wanted(self, ranks: Hashes) -> Numbers:
        """Return which of these may get in; only their columns are needed."""
        if len(self.ranks) < self.most:
            return np.arange(len(ranks))
        return np.flatnonzero(ranks < self.ranks[-1])

    def add(self, ranks: Hashes, *columns: NDArray[np.generic]) -> None:
        if not len(ranks):
            return
        self._waiting.append((ranks, columns))
        self._count += len(ranks)
        if self._count >= self.most:
            self.settle()

    def join(self, other: Self) -> None:
        other.settle()
        self.add(other.ranks, *other.columns)
        self.settle()

    def settle(self) -> None:
        """Keep only the lowest, ordered by rank."""
        if not self._waiting:
            return
        parts = [(self.ranks, self.columns), *self._waiting] if len(self.ranks) else self._waiting
        ranks = np.concatenate([part[0] for part in parts])
        kept = np.argsort(ranks, kind="stable")[: self.most]
        self.ranks = ranks[kept]
        self.columns = tuple(
            np.concatenate(pieces)[kept] for pieces in zip(*(part[1] for part in parts), strict=True)
        )
        self._waiting, self._count = [], 0
