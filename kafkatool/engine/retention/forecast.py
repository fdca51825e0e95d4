"""Forecast how many bytes a log will have if records keep coming at the recent rate.

New records are assumed to come evenly, in segments that roll by size and age; retention is then checked at
every step as a broker does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kafkatool.engine.retention.logs import JudgedLog
from kafkatool.engine.retention.rules import (
    Decision,
    RetentionFacts,
    RetentionRule,
    SegmentFacts,
    TimeSource,
    decide,
)


@dataclass(frozen=True, slots=True)
class Point:
    """The size of all logs together at one time, after a check."""

    at_ms: int
    size: int
    segments: int
    deleted: int
    """Bytes deleted since the step before."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A current segment that is deleted within the forecast."""

    judged: JudgedLog
    segment: SegmentFacts
    rule: RetentionRule
    goes_ms: int
    """The step at which it is gone; by time alone, the exact time from which it may go."""


@dataclass(frozen=True, slots=True)
class Forecast:
    points: Sequence[Point]
    departures: Sequence[Departure]
    bytes_a_day: int


def forecast(judged: Iterable[JudgedLog], now_ms: int, duration_ms: int, steps: int) -> Forecast:
    """Forecast the logs whose retention a broker checks."""
    logs = [_GrowingLog(one, now_ms, duration_ms) for one in judged if one.is_asked and one.facts.segments]
    points: list[Point] = []
    departures: list[Departure] = []
    for step in range(steps + 1):
        at_ms = now_ms + duration_ms * step // steps
        deleted = 0
        for log in logs:
            gone = log.advance(at_ms)
            deleted += sum(segment.size for segment, _rule in gone)
            departures += [log.departure(*one, at_ms) for one in gone if one[0].base_offset in log.of_today]
        sizes, counts = sum(log.facts.size for log in logs), sum(len(log.facts.segments) for log in logs)
        points.append(Point(at_ms, sizes, counts, deleted))
    rate = sum(log.rate for log in logs)
    return Forecast(points, departures, int(rate * 86_400_000))


def ingest_rate(log: RetentionFacts, now_ms: int, window_ms: int) -> float:
    """Return bytes per millisecond within the window before now, by the segments' timestamps."""
    known = [one for one in log.segments if one.first_ms is not None and one.first_ms <= now_ms]
    if not known:
        return 0.0
    oldest_ms = min(one.first_ms for one in known if one.first_ms is not None)
    since_ms = max(now_ms - window_ms, oldest_ms)
    total = sum(one.size * _share(one, since_ms, now_ms) for one in known)
    return total / max(now_ms - since_ms, 1)


def _share(segment: SegmentFacts, since_ms: int, until_ms: int) -> float:
    """Return which part of a segment's time lies within a window."""
    assert segment.first_ms is not None
    last_ms = segment.largest_ms if segment.largest_from is not TimeSource.MTIME else segment.first_ms
    last_ms = max(last_ms, segment.first_ms)
    if last_ms == segment.first_ms:
        return float(since_ms <= last_ms <= until_ms)
    within = min(last_ms, until_ms) - max(segment.first_ms, since_ms)
    return max(within, 0) / (last_ms - segment.first_ms)


class _GrowingLog:
    """One log as time goes on."""

    def __init__(self, judged: JudgedLog, now_ms: int, window_ms: int) -> None:
        config = judged.settings.config
        self.judged = judged
        self.facts = judged.facts
        self.of_today = {segment.base_offset for segment in judged.facts.segments}
        self.rate = ingest_rate(judged.facts, now_ms, window_ms)
        self._segment_bytes, self._segment_ms = config.segment_bytes, config.max_segment_ms
        self._now_ms = now_ms
        self._owed = 0.0

    def advance(self, at_ms: int) -> list[tuple[SegmentFacts, RetentionRule]]:
        """Add records up to this time, and check retention; return deleted segments and the rules."""
        self._owed += self.rate * (at_ms - self._now_ms)
        self._now_ms = at_ms
        while self._owed >= 1:
            self._fill(at_ms)
        outcome = decide(self.facts, self.judged.limits, at_ms)
        gone = [(one.segment, one.rule) for one in outcome.verdicts if one.decision is Decision.DELETE]
        left = self.facts.segments[len(gone) :]
        if outcome.rolls_at is not None:
            left = (*left, SegmentFacts(outcome.rolls_at, 0, at_ms, TimeSource.RECORDS))
        self.facts = replace(self.facts, segments=left, log_start=outcome.log_start)
        return gone

    def departure(self, segment: SegmentFacts, rule: RetentionRule, at_ms: int) -> Departure:
        planned = {one.segment.base_offset: one.goes_ms for one in self.judged.outcome.verdicts}
        goes_ms = planned.get(segment.base_offset)
        is_timed = rule is RetentionRule.TIME and goes_ms is not None
        return Departure(self.judged, segment, rule, goes_ms if is_timed and goes_ms else at_ms)

    def _fill(self, at_ms: int) -> None:
        """Fill the last segment, and roll if it is full or old."""
        *before, last = self.facts.segments
        is_old = last.first_ms is not None and at_ms - last.first_ms > self._segment_ms
        end = self.facts.log_end + 1
        if last.size and (is_old or last.size >= self._segment_bytes):
            before, last = [*before, last], SegmentFacts(self.facts.log_end, 0, at_ms, TimeSource.RECORDS)
        taken = min(int(self._owed), max(self._segment_bytes - last.size, 1))
        self._owed -= taken
        last = replace(
            last,
            size=last.size + taken,
            largest_ms=max(last.largest_ms, at_ms) if last.size else at_ms,
            first_ms=at_ms if last.first_ms is None else last.first_ms,
        )
        self.facts = replace(
            self.facts,
            segments=(*before, last),
            log_end=end,
            high_watermark=max(self.facts.high_watermark, end),
        )
