"""Count the keys of many records: distinct keys, the most frequent ones, and common prefixes.

Keys are identified by a 64-bit hash. Up to a limit every key is counted; beyond it their number is estimated,
and the frequent keys come from a sample of the records, which does not depend on the splits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.jobs.sketches import (
    MOST_EXACT,
    Hashes,
    Lowest,
    Numbers,
    estimate,
    groups,
    mix,
    no_hashes,
    no_numbers,
    registers_of,
)
from kafkatool.format.kernel import loops

KEY_CUT = 64
"""Number of bytes of a key that are kept for display."""
SAMPLE = 1 << 14
_SETTLE = 1 << 14
_PREFIX_CUT = 32
_SEPARATORS = np.isin(np.arange(256), list(b":/|#@._- "))
_PREFIX_TIES = 4096
_FRAME = 5  # schema registry header: a zero byte and the schema id

Texts = NDArray[np.uint8]
"""One row per key: its first bytes, padded with zeros."""


class Key(NamedTuple):
    """A key and its totals. `key` is cut off if it is shorter than `size`."""

    key: bytes
    size: int
    hash: int
    records: int
    bytes: int


class Prefix(NamedTuple):
    """A prefix that several keys share."""

    prefix: bytes
    keys: int
    records: int
    bytes: int


def texts_of(data: memoryview, starts: Numbers, sizes: Numbers) -> Texts:
    """Return the first bytes of the keys in `data`."""
    texts = np.zeros((len(starts), KEY_CUT), dtype=np.uint8)
    width = min(KEY_CUT, int(sizes.max(initial=0)))
    if width:
        places = starts[:, None] + np.arange(width)
        outside = np.arange(width) >= sizes[:, None]
        places[outside] = 0
        texts[:, :width] = np.frombuffer(data, dtype=np.uint8)[places]
        texts[:, :width][outside] = 0
    return texts


@dataclass(slots=True)
class Keys:
    """The keys of all records that have one."""

    records: int = 0
    hashes: Hashes | None = field(default_factory=no_hashes)
    """Hashes of all keys, in order; None if there are too many."""
    measures: Numbers = field(default_factory=lambda: no_numbers(0, 3))
    """Number of records, bytes, and the key's own size, per key."""
    texts: Texts = field(default_factory=lambda: np.zeros((0, KEY_CUT), dtype=np.uint8))
    registers: NDArray[np.uint8] | None = None
    sample: Lowest = field(default_factory=lambda: Lowest(SAMPLE))
    _waiting: list[tuple[Hashes, Numbers, Texts]] = field(default_factory=list)
    _count: int = 0

    def add(
        self, data: memoryview, starts: Numbers, sizes: Numbers, record_sizes: Numbers, ranks: Hashes
    ) -> None:
        """Add the keys in `data`; `ranks` decide which records are sampled."""
        if not len(starts):
            return
        self.records += len(starts)
        hashes = np.empty(len(starts), dtype=np.uint64)
        where: Any = np.ascontiguousarray(starts)
        how_long: Any = np.ascontiguousarray(sizes)
        loops.hashes(data, where, how_long, hashes)
        self._sample(data, starts, sizes, record_sizes, ranks, hashes)
        if self.hashes is None:
            self._register(registers_of(hashes))
            return
        order, begins = groups(hashes)
        first = begins if order is None else order[begins]
        counts = np.diff(begins, append=len(hashes))
        summed = np.add.reduceat(record_sizes if order is None else record_sizes[order], begins)
        measures = np.stack((counts, summed, sizes[first]), axis=1)
        self._count_known(hashes[first], measures, first, data, starts)

    def _sample(
        self,
        data: memoryview,
        starts: Numbers,
        sizes: Numbers,
        record_sizes: Numbers,
        ranks: Hashes,
        hashes: Hashes,
    ) -> None:
        kept = self.sample.wanted(ranks)
        if len(kept):
            measures = np.stack((np.ones_like(kept), record_sizes[kept], sizes[kept]), axis=1)
            texts = texts_of(data, starts[kept], sizes[kept])
            self.sample.add(ranks[kept], hashes[kept], measures, texts)

    def _count_known(
        self, hashes: Hashes, measures: Numbers, first: Numbers, data: memoryview, starts: Numbers
    ) -> None:
        """Add to the keys in the table; queue new ones."""
        assert self.hashes is not None
        new = np.ones(len(hashes), dtype=bool)
        if len(self.hashes):
            place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
            new = self.hashes[place] != hashes
            self.measures[place[~new], :2] += measures[~new, :2]
        if new.any():
            texts = texts_of(data, starts[first[new]], measures[new, 2])
            self._wait(hashes[new], measures[new], texts)

    def _wait(self, hashes: Hashes, measures: Numbers, texts: Texts) -> None:
        self._waiting.append((hashes, measures, texts))
        self._count += len(hashes)
        if self._count >= _SETTLE:
            self.settle()

    def settle(self) -> None:
        """Merge queued keys into the table; give the table up if it grows too large."""
        self.sample.settle()
        if self.hashes is None or not self._waiting:
            return
        parts = [(self.hashes, self.measures, self.texts), *self._waiting]
        hashes, measures, texts = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        self._waiting, self._count = [], 0
        order, begins = groups(hashes)
        first = begins if order is None else order[begins]
        self.hashes = hashes[first]
        if len(self.hashes) > MOST_EXACT:
            self._register(registers_of(self.hashes))
            return
        summed = np.add.reduceat(measures if order is None else measures[order], begins, axis=0)
        summed[:, 2] = measures[first, 2]
        self.measures, self.texts = summed, texts[first]

    def _register(self, registers: NDArray[np.uint8]) -> None:
        self.registers = registers if self.registers is None else np.maximum(self.registers, registers)
        self.hashes = None
        self.measures, self.texts = self.measures[:0], self.texts[:0]

    def join(self, other: Self) -> None:
        """Add the keys of the records after these."""
        self.settle()
        other.settle()
        self.records += other.records
        self.sample.join(other.sample)
        if other.hashes is None:
            assert other.registers is not None
            if self.hashes is not None:
                self._register(registers_of(self.hashes))
            self._register(other.registers)
        elif self.hashes is None:
            self._register(registers_of(other.hashes))
        elif len(other.hashes):
            self._wait(other.hashes, other.measures, other.texts)
            self.settle()

    # --- results ------------------------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        return self.hashes is not None

    @property
    def count(self) -> int:
        """The number of distinct keys, exact or estimated."""
        if self.hashes is not None:
            return len(self.hashes)
        assert self.registers is not None
        return estimate(self.registers)

    def top(self, most: int) -> list[Key]:
        """Return the most frequent keys; equally frequent ones in key order."""
        hashes, measures, texts, scale = self._counted()
        order = np.argsort(-measures[:, 0], kind="stable") if len(hashes) else no_numbers()
        if len(order) > most:  # include all that are as frequent as the last one
            order = order[measures[order, 0] >= measures[order[most - 1], 0]]
            if len(order) > 4096:
                order = order[:4096]
        keys = [self._key(hashes, measures, texts, scale, int(row)) for row in order]
        keys.sort(key=lambda key: (-key.records, key.key, key.hash))
        return keys[:most]

    def prefixes(self, most: int) -> list[Prefix]:
        """Return the prefixes, up to a separator, that two or more keys share, the most records first."""
        _hashes, measures, texts, scale = self._counted()
        lengths = prefix_lengths(texts, measures[:, 2])
        has_one = lengths > 0
        lengths, measures, texts = lengths[has_one], measures[has_one], texts[has_one]
        order, begins = groups(_hash_prefixes(texts, lengths))
        if not len(begins):
            return []
        first = begins if order is None else order[begins]
        summed = np.add.reduceat(measures if order is None else measures[order], begins, axis=0)
        keys = np.diff(begins, append=len(lengths))
        chosen = np.flatnonzero(keys > 1)
        chosen = chosen[np.argsort(-summed[chosen, 0], kind="stable")][: most + _PREFIX_TIES]
        shared = [
            Prefix(
                texts[first[at], : lengths[first[at]]].tobytes(),
                int(keys[at]),
                round(int(summed[at, 0]) * scale),
                round(int(summed[at, 1]) * scale),
            )
            for at in chosen.tolist()
        ]
        return sorted(shared, key=lambda one: (-one.records, one.prefix))[:most]

    def _key(self, hashes: Hashes, measures: Numbers, texts: Texts, scale: float, row: int) -> Key:
        records, size, key_size = (int(value) for value in measures[row])
        text = texts[row].tobytes()[:key_size]
        return Key(text, key_size, int(hashes[row]), round(records * scale), round(size * scale))

    def _counted(self) -> tuple[Hashes, Numbers, Texts, float]:
        """Return all keys with their measures, or those of the sample, and the factor to scale them by."""
        self.settle()
        if self.hashes is not None:
            return self.hashes, self.measures, self.texts, 1.0
        hashes, measures, texts = self._sample_columns()
        order, begins = groups(hashes)
        first = begins if order is None else order[begins]
        summed = np.add.reduceat(measures if order is None else measures[order], begins, axis=0)
        summed[:, 2] = measures[first, 2]
        return hashes[first], summed, texts[first], self.records / len(hashes)

    def _sample_columns(self) -> tuple[Hashes, Numbers, Texts]:
        hashes, measures, texts = self.sample.columns
        return hashes.astype(np.uint64), measures.astype(np.int64), texts.astype(np.uint8)


def prefix_lengths(texts: Texts, sizes: Numbers) -> Numbers:
    """Return the length up to and including the first separator; 0 if there is none near the front."""
    is_separator = _SEPARATORS[texts[:, :_PREFIX_CUT]]
    is_separator &= np.arange(_PREFIX_CUT) < sizes[:, None]
    lengths = np.where(is_separator.any(axis=1), is_separator.argmax(axis=1) + 1, 0)
    lengths[(texts[:, 0] == 0) & (sizes >= _FRAME)] = _FRAME
    return lengths


def _hash_prefixes(texts: Texts, lengths: Numbers) -> Hashes:
    """Return FNV-1a hashes of the prefixes of these lengths."""
    hashes = np.full(len(texts), 14695981039346656037, dtype=np.uint64)
    for at in range(int(lengths.max(initial=0))):
        more = (hashes ^ texts[:, at]) * np.uint64(1099511628211)
        hashes = np.where(at < lengths, more, hashes)
    return hashes


def ranks_of(offsets: Numbers, seed: int) -> Hashes:
    """Return pseudo-random numbers, the same for the same offset of the same partition."""
    return mix(offsets.astype(np.uint64) ^ np.uint64(seed))
