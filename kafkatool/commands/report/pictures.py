"""The pictures of `report`: where damage lies, segments over time, bytes per hour, and the forecast.

Each is one drawing that fills the available width; its text is placed beside and below it, so that it can be
read at any width. A drawing never has more pieces than it has room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kafkatool.commands.screen.page import Markup, join, markup, picture, rectangle, rectangles, tag
from kafkatool.commands.screen.time_axis import WIDTH, TimeAxis
from kafkatool.commands.screen.values import human_size, iso_time
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.jobs.sketches import Timeline
from kafkatool.engine.report.trouble import DamageMap
from kafkatool.engine.retention.forecast import Forecast
from kafkatool.engine.retention.rules import Decision, RetentionVerdict, SegmentFacts

_MOST_CUTS = 120
_LEAST = 2.0
"""Nothing is drawn narrower than this."""
_KINDS = ["", *(f"f-{severity.label}" for severity in Severity)]
_SAID = {
    "f-loss": "records lost or unreadable",
    "f-no_start": "a broker would not start",
    "f-degraded": "degraded",
}
SEGMENT_WORDS = {
    "kept": "closed",
    "open": "written to",
    "going": "retention would delete it now",
    "hurt": "damaged",
}


# --- one partition ------------------------------------------------------------------------------------


def damage_map(found: DamageMap) -> Markup:
    """Draw a log from first byte to last: its damage above, that of its other files below."""
    parts = [rectangle("ground", 0, 0, WIDTH, 20), rectangle("ground", 0, 24, WIDTH, 6)]
    if len(found.ends) <= _MOST_CUTS:
        parts += [rectangle("cut", WIDTH * end / found.size - 0.5, 0, 1.5, 30) for end in found.ends[:-1]]
    for cells, y, height in ((found.logs, 0, 20), (found.others, 24, 6)):
        parts += rectangles([_KINDS[one] for one in _widened(cells)], 0, y, WIDTH, height, _SAID)
    return picture(WIDTH, 30, *parts, label="where damage lies, from the first byte of the log to the last")


def _widened(cells: bytearray) -> bytearray:
    """Return the cells with marks of one cell widened to three, so that they are visible on a phone too."""
    found = bytearray(cells)
    for at, mark in enumerate(cells):
        if mark:
            for beside in (at - 1, at + 1):
                if 0 <= beside < len(cells) and found[beside] < mark and not cells[beside]:
                    found[beside] = mark
    return found


def segment_line(verdicts: Sequence[RetentionVerdict], hurt: set[int], axis: TimeAxis) -> Markup:
    """Draw the segments of one log, each from its first time to its greatest."""
    parts = [rectangle("ground", 0, 9.5, WIDTH, 1)]
    for piece in _merged(_Piece.of(verdict, axis) for verdict in verdicts):
        width = max(piece.end - piece.start, _LEAST)
        parts.append(rectangle(piece.kind, piece.start, 3, width, 14, piece.title))
    for verdict in verdicts:
        if verdict.segment.base_offset in hurt:
            piece = _Piece.of(verdict, axis)
            width = max(piece.end - piece.start, 2 * _LEAST)
            words = f"segment {verdict.segment.base_offset} is damaged"
            parts.append(rectangle("hurt", piece.start, 0, width, 3, words))
    return picture(WIDTH, 20, *parts, label="segments, from their first time to their greatest")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A segment, or neighbours that are too short to be drawn separately."""

    kind: str
    start: float
    end: float
    first: SegmentFacts
    last: SegmentFacts

    @classmethod
    def of(cls, verdict: RetentionVerdict, axis: TimeAxis) -> _Piece:
        segment = verdict.segment
        kind = "going" if verdict.decision is Decision.DELETE else "open" if verdict.is_active else "kept"
        first_ms = segment.largest_ms if segment.first_ms is None else segment.first_ms
        start, end = sorted((axis.x(first_ms), axis.x(segment.largest_ms)))
        return cls(kind, start, end, segment, segment)

    @property
    def title(self) -> str:
        one = self.first
        name = f"segment {one.base_offset}, {human_size(one.size)}"
        if one is not self.last:
            name = f"segments {one.base_offset} to {self.last.base_offset}"
        times = f"{iso_time(one.first_ms)} to {iso_time(self.last.largest_ms)}"
        return f"{name}, {SEGMENT_WORDS[self.kind]}: {times}"


def _merged(pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield overlapping neighbours of one kind as one piece; others with a small gap between them."""
    held: _Piece | None = None
    for piece in pieces:
        if held is None:
            held = piece
        elif held.kind == piece.kind and piece.end - held.start < 2 * _LEAST:
            held = replace(held, end=max(held.end, piece.end), last=piece.last)
        else:
            yield replace(held, end=min(held.end, max(held.start, piece.start - 1)))
            held = piece
    if held is not None:
        yield held


# --- all partitions -----------------------------------------------------------------------------------

_LEAST_BARS, _MOST_BARS = 24, 336


def histogram(timeline: Timeline, now_ms: int) -> tuple[Markup, Timeline, int]:
    """Draw the bytes per time span; also return the spans that were drawn, and the bytes outside them."""
    drawn = timeline.coarse(_MOST_BARS)
    width = drawn.width_ms
    stretches, sizes = drawn.stretches.tolist(), drawn.measures[:, 2].tolist()
    last = max((one for one in stretches if one * width <= now_ms), default=stretches[-1])
    first = min(one for one in stretches if last - _MOST_BARS < one <= last)
    first = min(first, last - _LEAST_BARS + 1)
    inside = [(at, size) for at, size in zip(stretches, sizes, strict=True) if first <= at <= last]
    greatest = max(size for _at, size in inside)
    step = WIDTH / (last - first + 1)
    parts = list(_grid())
    for at, size in inside:
        height = max(140 * size / greatest, 1)
        words = f"{iso_time(at * width)}: {human_size(size)}"
        parts.append(rectangle("value", (at - first) * step, 150 - height, step * 0.92, height, words))
    chart = picture(WIDTH, 150, *parts, label="bytes by the time of their batches")
    axis = TimeAxis(first * width, (last + 1) * width)
    outside = sum(sizes) - sum(size for _at, size in inside)
    return _chart(chart, axis, greatest), drawn, outside


def forecast_chart(found: Forecast) -> Markup:
    """Draw the bytes of all logs, from now on."""
    points = found.points
    greatest = max(max(point.size for point in points), 1)
    axis = TimeAxis(points[0].at_ms, points[-1].at_ms)
    parts = list(_grid())
    for one, two in pairwise(points):
        height = 140 * one.size / greatest
        words = f"{iso_time(one.at_ms)}: {human_size(one.size)}"
        if one.deleted:
            words += f", {human_size(one.deleted)} deleted since the step before"
        start = axis.x(one.at_ms)
        parts.append(rectangle("value", start, 150 - height, axis.x(two.at_ms) - start + 0.5, height, words))
        if one.deleted:
            mark = 140 * one.deleted / greatest
            parts.append(rectangle("going", start, max(150 - height - mark, 2), 4, mark, words))
    chart = picture(WIDTH, 150, *parts, label="bytes of all logs in the time to come")
    return _chart(chart, axis, greatest)


def _chart(drawing: Markup, axis: TimeAxis, greatest: int) -> Markup:
    top = tag("div", human_size(greatest), class_="most")
    return tag("div", top, drawing, axis.labels(), class_="chart")


def _grid() -> Iterator[Markup]:
    for y in (10, 45, 80, 115):
        yield rectangle("grid", 0, y, WIDTH, 0.7)


def bar(parts: Iterable[tuple[str, float]], label: str) -> Markup:
    """Draw shares of a whole; the bar's length is the whole."""
    drawn, at = [rectangle("ground", 0, 0, 100, 10)], 0.0
    for kind, share in parts:
        if share > 0:
            drawn.append(rectangle(kind, at, 0, max(100 * share, 0.8), 10))
            at += 100 * share
    return picture(100, 10, *drawn, label=label)


def row(name: object, drawing: object, number: object, says: object = None) -> Markup:
    """Build a strip with its name before it, a number after it, and its meaning below."""
    parts = [
        tag("div", name, class_="who"),
        tag("div", drawing, class_="map"),
        tag("div", number, class_="n"),
    ]
    if says is not None:
        parts.append(tag("div", says, class_="says"))
    return markup(tag("div", join(parts), class_="row"), Markup("\n"))
