"""Record times in a high dynamic range histogram: every value to within 1/128, whatever its size.

A loop that waits for each answer before it asks again misses the requests that would have come meanwhile: one
stall counts once, although many clients would have felt it. `corrected` adds the missing ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

_BITS = 7
_STEPS = 1 << _BITS

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


class Histogram:
    """Counts of integers, such as nanoseconds."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: Counter[int] = Counter(counts or {})

    def record(self, value: int, count: int = 1) -> None:
        self.counts[_slot(max(0, value))] += count

    def record_all(self, values: Sequence[int]) -> None:
        """Record many values, each below 2**53."""
        import numpy as np

        found = np.maximum(np.array(values, dtype=np.int64), 0)
        shift = np.maximum(np.frexp(found.astype(np.float64))[1].astype(np.int64) - _BITS - 1, 0)
        slots, counts = np.unique((shift << _BITS) + (found >> shift), return_counts=True)
        self.counts.update(dict(zip(slots.tolist(), counts.tolist(), strict=True)))

    def add(self, other: Histogram) -> None:
        self.counts.update(other.counts)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def max(self) -> int:
        return _value(max(self.counts)) if self.counts else 0

    @property
    def mean(self) -> float:
        return sum(_value(slot) * count for slot, count in self.counts.items()) / max(1, self.total)

    def percentile(self, percent: float) -> int:
        """Return the value that `percent` of all values do not exceed; 0 if there are none."""
        wanted = max(1, -int(-self.total * percent // 100))
        seen = 0
        for slot in sorted(self.counts):
            seen += self.counts[slot]
            if seen >= wanted:
                return _value(slot)
        return 0

    def corrected(self, expected_interval: int) -> Histogram:
        """Add the values that would have been seen if requests had always come at this interval."""
        found = Histogram(self.counts)
        for slot, count in self.counts.items():
            missing = _value(slot) - expected_interval
            while expected_interval > 0 and missing >= expected_interval:
                found.record(missing, count)
                missing -= expected_interval
        return found


def _slot(value: int) -> int:
    """Return the slot of a number: itself if small, else its power of two and the next seven bits."""
    shift = value.bit_length() - _BITS - 1
    return value if shift <= 0 else (shift << _BITS) + (value >> shift)


def _value(slot: int) -> int:
    """Return the greatest number in a slot."""
    shift = (slot >> _BITS) - 1
    if shift <= 0:
        return slot
    return ((_STEPS + (slot & (_STEPS - 1)) + 1) << shift) - 1
