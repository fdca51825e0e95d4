"""Choose unchanged segments to read again.

Bit rot changes neither size nor modification time of a file, so a good result must not be trusted for ever.
Every run reads the segments that were last read too long ago, and the oldest share of the rest: with a run
per day, every segment is read again before the limit, and no run has to read all of them at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

DAY_MS = 86_400_000
OLDER_THAN_MS = 30 * DAY_MS
SHARE = 0.04
YOUNG_MS = DAY_MS // 2
"""A segment read more recently than this is not read again for the share, however frequent the runs."""


class Verified(NamedTuple):
    """A segment, the size of its log, and when the log was last read (None: not recorded)."""

    key: Hashable
    size: int
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Recheck:
    """When to read unchanged segments again, by the caller's clock."""

    now_ms: int
    older_than_ms: int | None = OLDER_THAN_MS
    """None: no segment is too old."""
    share: float = SHARE
    """Share of the known bytes to read in each run; 0: none."""

    def due(self, known: Iterable[Verified]) -> set[Hashable]:
        """Return the keys of the segments to read again.

        The age is unknown of segments recorded by an older release, or dated in the future by a wrong clock:
        these come first in the share, but are not all read at once.
        """
        everything = list(known)
        ages = {one.key: self._age(one) for one in everything}
        budget = self.share * sum(one.size for one in everything)
        chosen: set[Hashable] = set()
        for one in sorted(everything, key=lambda one: (ages[one.key] is not None, -(ages[one.key] or 0))):
            age = ages[one.key]
            is_old = age is not None and self.older_than_ms is not None and age >= self.older_than_ms
            if is_old or (budget > 0 and (age is None or age >= YOUNG_MS)):
                chosen.add(one.key)
                budget -= one.size
        return chosen

    def _age(self, one: Verified) -> int | None:
        return None if one.at_ms is None or one.at_ms > self.now_ms else self.now_ms - one.at_ms
