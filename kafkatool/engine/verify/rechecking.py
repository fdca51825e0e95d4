"""Which segments are read again although nothing about them has changed.

Bit rot changes neither size nor time of a file, so what was found good once must not be believed for ever.
Every run reads what was last read too long ago, and the oldest share of the rest: by runs of a day each,
everything comes round before the limit, and no run has to read all of it at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

DAY_MS = 86_400_000
OLDER_THAN_MS = 30 * DAY_MS
SHARE = 0.04
YOUNG_MS = DAY_MS // 2
"""What was read since is not read again for the share, however often somebody runs it."""


class Verified(NamedTuple):
    """A segment, the bytes of its log, and when these were last read; None where nobody wrote that down."""

    key: Hashable
    size: int
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Recheck:
    """When to read again what seems unchanged, by the clock of the caller."""

    now_ms: int
    older_than_ms: int | None = OLDER_THAN_MS
    """None: whatever its age."""
    share: float = SHARE
    """Of the bytes that are known, in each run; 0 for none."""

    def due(self, known: Iterable[Verified]) -> set[Hashable]:
        """The keys of what is read again.

        Of unknown age is what an older release remembers, and what a wrong clock dated into the future: that
        comes first in the share, but is not all read at once.
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
