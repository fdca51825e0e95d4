"""A time span drawn from left to right: the position of a moment, and which times to label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkatool.commands.screen.page import Markup, join, tag
from kafkatool.commands.screen.values import iso_time

WIDTH = 1000
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(_SECOND * one for one in (1, 5, 15, 30)),
    *(_MINUTE * one for one in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * one for one in (1, 2, 3, 6, 12)),
    *(_DAY * one for one in (1, 2, 7, 14, 28, 91, 182, 364, 1820, 3640, 18200, 36400)),
)
_MOST_TICKS = 6
# An earlier time comes from a clock that was never set, or from a test, and would squeeze all others.
_EARLIEST_MS = 946_684_800_000


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """From `first_ms` to `last_ms`; times outside are drawn at the nearest end."""

    first_ms: int
    last_ms: int

    @property
    def span_ms(self) -> int:
        return max(1, self.last_ms - self.first_ms)

    def x(self, time_ms: int) -> float:
        return WIDTH * min(max(time_ms - self.first_ms, 0), self.span_ms) / self.span_ms

    def holds(self, time_ms: int) -> bool:
        return self.first_ms <= time_ms <= self.last_ms

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield round times: their position and their label."""
        step = next((one for one in _STEPS if self.span_ms / one <= _MOST_TICKS), _STEPS[-1])
        for time_ms in range(-(-self.first_ms // step) * step, self.last_ms + 1, step):
            yield self.x(time_ms), _written(time_ms, step)

    def labels(self) -> Markup:
        """Build the labels below a picture of this axis."""
        return tag("div", join(_label(x, text) for x, text in self.ticks()), class_="axis")


def axis_of(times_ms: Iterable[int | None], now_ms: int) -> TimeAxis | None:
    """Return an axis over these times; times before 2000 or in the future only if there are no others."""
    known = [one for one in times_ms if one is not None and one >= 0]
    usual = [one for one in known if _EARLIEST_MS <= one <= now_ms] or known
    return TimeAxis(min(usual), max(usual)) if usual else None


def _label(x: float, text: str) -> Markup:
    edge = "first" if x < 0.06 * WIDTH else "last" if x > 0.94 * WIDTH else None
    return tag("span", text, class_=edge, style=f"left:{100 * x / WIDTH:.2f}%")


def _written(time_ms: int, step_ms: int) -> str:
    date, _t, rest = iso_time(time_ms).partition("T")
    if step_ms >= _DAY:
        return date if step_ms >= 91 * _DAY else date[5:]
    time = rest[:5] if step_ms >= _MINUTE else rest[:8]
    return f"{date[5:]} {time}" if time_ms % _DAY == 0 else time
