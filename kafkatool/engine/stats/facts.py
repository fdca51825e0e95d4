"""Sums over batches and records that can be joined.

Two of these are joined in one of two ways: either the second `follows` the first in the same partition, so
that the boundary counts too (a gap, a step back in time), or they are independent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.damage import Damage, Severity
from kafkatool.engine.jobs.sketches import Distinct, Lowest, Numbers, Spread, Timeline, no_numbers
from kafkatool.engine.stats.keys import Keys, ranks_of
from kafkatool.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kafkatool.format.columns import BatchColumns

WHAT_IF_BATCHES = 128
CODECS, MAGICS, TIMESTAMP_TYPES = 8, 3, 3
NO_TYPE, CREATE_TIME, LOG_APPEND_TIME = range(TIMESTAMP_TYPES)
Mask = NDArray[np.bool_]


def _sums(kinds: Numbers, count: int, *measures: Numbers) -> Numbers:
    """Return one row per kind: count and sums of measures. Sums are below 2^53, so floats are exact."""
    columns = [np.bincount(kinds, minlength=count)]
    columns += [np.bincount(kinds, weights=measure, minlength=count).astype(np.int64) for measure in measures]
    return np.stack(columns, axis=1)


def _least(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else min(a, b)


def _greatest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


@dataclass(slots=True)
class Times:
    """The timestamps of batches or records, in log order."""

    first: int | None = None
    last: int | None = None
    least: int | None = None
    greatest: int | None = None
    without: int = 0
    future: int = 0
    steps_back: int = 0
    """Number of times that are below the previous one."""
    greatest_step_ms: int = 0

    def add(self, times: Numbers, now_ms: int, leasts: Numbers | None = None) -> None:
        """Add times in log order, below 0 for none; `leasts` has the oldest times, if these differ."""
        known = times >= 0
        if leasts is not None and (leasts := leasts[leasts >= 0]).size:
            self.least = _least(self.least, int(leasts.min()))
        if not known.all():
            times = times[known]
            self.without += len(known) - len(times)
        if not len(times):
            return
        if leasts is None:
            self.least = _least(self.least, int(times.min()))
        self.greatest = _greatest(self.greatest, int(times.max()))
        self.future += int(np.count_nonzero(times > now_ms))
        self._step(int(times[0]))
        if (back := times[:-1] - times[1:]).size and (greatest := int(back.max())) > 0:
            self.steps_back += int(np.count_nonzero(back > 0))
            self.greatest_step_ms = max(self.greatest_step_ms, greatest)
        self.first = int(times[0]) if self.first is None else self.first
        self.last = int(times[-1])

    def _step(self, time: int) -> None:
        if self.last is not None and time < self.last:
            self.steps_back += 1
            self.greatest_step_ms = max(self.greatest_step_ms, self.last - time)

    def join(self, other: Self, *, follows: bool) -> None:
        if follows and other.first is not None:
            self._step(other.first)
        self.steps_back += other.steps_back
        self.greatest_step_ms = max(self.greatest_step_ms, other.greatest_step_ms)
        self.least = _least(self.least, other.least)
        self.greatest = _greatest(self.greatest, other.greatest)
        self.without += other.without
        self.future += other.future
        self.first = other.first if self.first is None else self.first
        self.last = self.last if other.last is None else other.last


@dataclass(slots=True)
class Offsets:
    """The offsets of batches, and the offsets missing between and inside them.

    If not all batches count, offsets between two of them are missing only if they are neighbours.
    """

    first: int | None = None
    last: int | None = None
    gaps: int = 0
    missing: int = 0
    """Number of offsets missing between and inside batches."""
    is_begun: bool = False
    """Whether there were any batches, counted or not."""
    opens_at: int | None = None
    """First offset of the very first batch; None unless that batch counts. Likewise the last one."""
    closes_at: int | None = None

    def add(self, first: Numbers, last: Numbers, counts: Numbers, counted: Mask | None = None) -> None:
        """Add consecutive batches; `counted` marks those that count (None: all)."""
        between = first[1:] - last[:-1] - 1
        open_, inside = between > 0, np.maximum(last - first + 1 - counts, 0)
        begins, ends = True, True
        if counted is not None:
            open_, inside = open_ & counted[1:] & counted[:-1], inside[counted]
            begins, ends = bool(counted[0]), bool(counted[-1])
        self._go_on(int(first[0]) if begins else None, int(last[-1]) if ends else None)
        self.gaps += int(np.count_nonzero(open_))
        self.missing += int(between[open_].sum()) + int(inside.sum())
        if counted is not None:
            first, last = first[counted], last[counted]
        if len(first):
            self.first = int(first[0]) if self.first is None else self.first
            self.last = int(last[-1])

    def _go_on(self, opens_at: int | None, closes_at: int | None) -> None:
        """Continue with batches from `opens_at` to `closes_at`."""
        if self.closes_at is not None and opens_at is not None and opens_at > self.closes_at + 1:
            self.gaps += 1
            self.missing += opens_at - self.closes_at - 1
        if not self.is_begun:
            self.opens_at = opens_at
        self.closes_at, self.is_begun = closes_at, True

    def join(self, other: Self, *, follows: bool) -> None:
        if follows and other.is_begun:
            self._go_on(other.opens_at, other.closes_at)
        self.gaps += other.gaps
        self.missing += other.missing
        if follows:
            self.first = other.first if self.first is None else self.first
            self.last = self.last if other.last is None else other.last
        else:
            # Different logs have no common range.
            self.first = self.last = self.opens_at = self.closes_at = None
            self.is_begun = self.is_begun or other.is_begun


@dataclass(slots=True)
class Damages:
    """Damaged data that was left out, and why."""

    classes: Counter[str] = field(default_factory=Counter)
    size: int = 0
    worst: Severity | None = None
    places: int = 0
    """Number of places, without notes."""

    def add(self, damage: Damage) -> None:
        self.classes[str(damage.kind)] += 1
        self.worst = max(self.worst or damage.severity, damage.severity)
        if damage.severity > Severity.NOTE:
            self.places += 1
            self.size += damage.end_position - damage.position

    def join(self, other: Self) -> None:
        self.classes.update(other.classes)
        self.size += other.size
        self.places += other.places
        if other.worst is not None:
            self.worst = max(self.worst or other.worst, other.worst)


class Records(NamedTuple):
    """Columns of records, with their keys in `data`; a size of -1 means null."""

    data: memoryview
    offsets: Numbers
    times: Numbers
    key_starts: Numbers
    key_sizes: Numbers
    value_sizes: Numbers
    headers: Numbers


@dataclass(slots=True)
class Deep:
    """Sums over the records of data batches; those of control batches are not counted."""

    records: int = 0
    null_keys: int = 0
    tombstones: int = 0
    with_headers: int = 0
    headers: int = 0
    times: Times = field(default_factory=Times)
    key_size: Spread = field(default_factory=Spread)
    value_size: Spread = field(default_factory=Spread)
    record_size: Spread = field(default_factory=Spread)
    keys: Keys = field(default_factory=Keys)
    inflated: Numbers = field(default_factory=lambda: no_numbers(CODECS, 2))
    """Per codec: bytes of the batches with readable records, as stored and without compression."""

    def add(self, records: Records, now_ms: int, seed: int) -> None:
        """Add records of data batches, in log order."""
        data, offsets, times, key_starts, key_sizes, value_sizes, headers = records
        if not len(offsets):
            return
        self.records += len(offsets)
        self.times.add(times, now_ms)
        keyed, valued = key_sizes >= 0, value_sizes >= 0
        self.tombstones += len(offsets) - int(np.count_nonzero(valued))
        self.headers += int(headers.sum())
        self.with_headers += int(np.count_nonzero(headers))
        sizes = np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
        self.record_size.add(sizes)
        self.value_size.add(value_sizes if valued.all() else value_sizes[valued])
        ranks = ranks_of(offsets, seed)
        if not keyed.all():
            self.null_keys += len(offsets) - int(np.count_nonzero(keyed))
            key_starts, key_sizes, sizes = (column[keyed] for column in (key_starts, key_sizes, sizes))
            ranks = ranks[keyed]
        self.key_size.add(key_sizes)
        self.keys.add(data, key_starts, key_sizes, sizes, ranks)

    def join(self, other: Self, *, follows: bool) -> None:
        self.records += other.records
        self.null_keys += other.null_keys
        self.tombstones += other.tombstones
        self.with_headers += other.with_headers
        self.headers += other.headers
        self.times.join(other.times, follows=follows)
        self.key_size.join(other.key_size)
        self.value_size.join(other.value_size)
        self.record_size.join(other.record_size)
        self.keys.join(other.keys)
        self.inflated = self.inflated + other.inflated


@dataclass(slots=True)
class Stats:
    """Sums over batches by their headers, and over their records if these were read."""

    deep: Deep | None = None
    idempotent: int = 0
    transactional: int = 0
    control: int = 0
    codecs: Numbers = field(default_factory=lambda: no_numbers(CODECS, 3))
    """Per codec: batches, records, bytes; likewise per magic."""
    magics: Numbers = field(default_factory=lambda: no_numbers(MAGICS, 3))
    types: Numbers = field(default_factory=lambda: no_numbers(TIMESTAMP_TYPES))
    offsets: Offsets = field(default_factory=Offsets)
    times: Times = field(default_factory=Times)
    """Times of data batches with records, by the greatest time of each."""
    timeline: Timeline = field(default_factory=Timeline)
    per_batch: Spread = field(default_factory=Spread)
    batch_size: Spread = field(default_factory=Spread)
    producers: Distinct = field(default_factory=Distinct)
    damages: Damages = field(default_factory=Damages)
    sample: Lowest = field(default_factory=lambda: Lowest(WHAT_IF_BATCHES))
    """Batches to compress with other codecs: number of the file, position, size."""

    @property
    def batches(self) -> int:
        return int(self.codecs[:, 0].sum())

    @property
    def records(self) -> int:
        return int(self.codecs[:, 1].sum())

    @property
    def size(self) -> int:
        return int(self.codecs[:, 2].sum())

    def add(self, columns: BatchColumns, now_ms: int, seed: int, file: int) -> None:
        """Add consecutive good batches."""
        if len(columns.size):
            self.offsets.add(columns.base_offset, columns.last_offset, columns.records_count)
            self.add_batches(columns, now_ms, seed, file)

    def add_batches(self, columns: BatchColumns, now_ms: int, seed: int, file: int) -> None:
        """Add good batches without their offsets: others may be between them."""
        attributes, counts, sizes = columns.attributes, columns.records_count, columns.size
        if not len(sizes):
            return
        is_control = (attributes & CONTROL_MASK) != 0
        self.control += int(np.count_nonzero(is_control))
        self.transactional += int(np.count_nonzero(attributes & TRANSACTIONAL_MASK))
        known = columns.producer_id >= 0
        if known.any():
            self.idempotent += int(np.count_nonzero(known))
            self.producers.add(np.unique(columns.producer_id[known]).astype(np.uint64))
        self.codecs += _sums(attributes & CODEC_MASK, CODECS, counts, sizes)
        self.magics += _sums(columns.magic, MAGICS, counts, sizes)
        types = np.where(columns.magic == 0, NO_TYPE, 1 + ((attributes & TIMESTAMP_TYPE_MASK) != 0))
        self.types += np.bincount(types, minlength=TIMESTAMP_TYPES)
        self.per_batch.add(counts)
        self.batch_size.add(sizes)
        self._add_times(columns, ~is_control & (counts > 0), now_ms)
        self._sample(columns, ~is_control & (counts > 0) & (columns.magic == 2), seed, file)

    def _add_times(self, columns: BatchColumns, is_data: Mask, now_ms: int) -> None:
        greatest, base = columns.max_timestamp, columns.base_timestamp
        # With LogAppendTime all records have the greatest time; a delete horizon is no record's time.
        is_base = (columns.attributes & (TIMESTAMP_TYPE_MASK | DELETE_HORIZON_MASK)) == 0
        leasts = np.where(is_base, base, greatest)
        timed = is_data & (greatest >= 0)
        counts, sizes = columns.records_count, columns.size
        if timed.all():  # the common case, without copies
            self.times.add(greatest, now_ms, leasts)
            self.timeline.add(greatest, counts, sizes)
        else:
            self.times.add(greatest[is_data], now_ms, leasts[timed])
            self.timeline.add(greatest[timed], counts[timed], sizes[timed])

    def _sample(self, columns: BatchColumns, is_data: Mask, seed: int, file: int) -> None:
        ranks = ranks_of(columns.base_offset, seed)
        kept = self.sample.wanted(ranks)
        kept = kept[is_data[kept]]
        if len(kept):
            rows = (np.full(len(kept), file), columns.position[kept], columns.size[kept])
            self.sample.add(ranks[kept], np.stack(rows, axis=1))

    def settle(self) -> None:
        """Bring everything into a form that depends only on the input."""
        self.sample.settle()
        if self.deep is not None:
            self.deep.keys.settle()

    def join(self, other: Self, *, follows: bool) -> None:
        self.idempotent += other.idempotent
        self.transactional += other.transactional
        self.control += other.control
        self.codecs = self.codecs + other.codecs
        self.magics = self.magics + other.magics
        self.types = self.types + other.types
        self.offsets.join(other.offsets, follows=follows)
        self.times.join(other.times, follows=follows)
        self.timeline.join(other.timeline)
        self.per_batch.join(other.per_batch)
        self.batch_size.join(other.batch_size)
        self.producers.join(other.producers)
        self.damages.join(other.damages)
        self.sample.join(other.sample)
        if self.deep is not None and other.deep is not None:
            self.deep.join(other.deep, follows=follows)
