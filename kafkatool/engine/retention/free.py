"""Find the smallest change of a topic's retention that frees a number of bytes.

Expired data that is only held back comes before any change: see `held`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkatool.engine.cluster.effective_settings import INTERNAL_TOPICS, Setting, SettingOrigin
from kafkatool.engine.retention.held import HeldBack
from kafkatool.engine.retention.logs import JudgedLog
from kafkatool.engine.retention.rules import RetentionLimits, decide


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A changed setting of one topic, and its effect on this disk."""

    topic: str
    setting: Setting
    """The current setting."""
    value: int
    freed: int
    """Bytes on disk, beyond what is deleted anyway."""
    segments: int

    @property
    def undo_value(self) -> str | None:
        """Value to set to revert; None: the topic had no value of its own."""
        return self.setting.text if self.setting.origin is SettingOrigin.TOPIC else None


Way = tuple["SettingChange | HeldBack", ...]


def ways_to_free(
    judged: Sequence[JudgedLog], held: Sequence[HeldBack], wanted: int, now_ms: int
) -> list[Way]:
    """Return the ways to free that much: first what is held back, then changes of settings instead.

    If what is held back is not enough, the smallest change that frees the rest is added to it.
    """
    ways: list[Way] = list(changes_that_free(judged, wanted, now_ms))
    chosen: list[HeldBack] = []
    left = wanted
    for one in held:
        if left > 0:
            chosen.append(one)
            left -= one.freed
    if not chosen:
        return ways
    first: Way = tuple(chosen)
    if left > 0:
        trimmed = {id(one.judged): one.after for one in chosen}
        rest = changes_that_free([trimmed.get(id(one), one) for one in judged], left, now_ms)
        first += rest[0] if rest else ()
    return [first, *ways]


def changes_that_free(
    judged: Sequence[JudgedLog], wanted: int, now_ms: int
) -> list[tuple[SettingChange, ...]]:
    """Return the ways to free that much, the one that frees the least first.

    One topic alone if any can free it; else topics together, starting with those that free most, which may
    still be too little.
    """
    topics: dict[str, list[JudgedLog]] = {}
    for one in judged:
        if one.partition.topic is not None and _can_change(one):
            topics.setdefault(one.partition.topic, []).append(one)
    knobs = [
        _Knob(topic, logs, unit, now_ms) for topic, logs in sorted(topics.items()) for unit in ("ms", "bytes")
    ]
    alone = [change for knob in knobs if (change := knob.least(wanted)) is not None]
    if alone:
        return [
            (change,) for change in sorted(alone, key=lambda one: (one.freed, one.topic, one.setting.name))
        ]
    together = _together(knobs, wanted)
    return [together] if together else []


def _can_change(one: JudgedLog) -> bool:
    limits = one.limits
    is_known = not limits.copies or limits.remote_offset is not None
    if one.partition.topic in INTERNAL_TOPICS:  # their data is indispensable
        return False
    return one.is_asked and limits.by_limits and limits.is_retained and is_known and bool(one.facts.segments)


def _together(knobs: Sequence[_Knob], wanted: int) -> tuple[SettingChange, ...]:
    """Turn one knob per topic, strongest first, until it is enough; the last only as far as needed."""
    strongest: dict[str, _Knob] = {}
    for knob in knobs:
        if knob.topic not in strongest or knob.most > strongest[knob.topic].most:
            strongest[knob.topic] = knob
    chosen: list[SettingChange] = []
    left = wanted
    for knob in sorted(strongest.values(), key=lambda one: -one.most):
        change = knob.least(min(left, knob.most)) if knob.most > 0 and left > 0 else None
        if change is not None:
            chosen.append(change)
            left -= change.freed
    return tuple(chosen)


class _Knob:
    """One retention limit of one topic, to be lowered."""

    def __init__(self, topic: str, logs: Sequence[JudgedLog], unit: str, now_ms: int) -> None:
        self.topic = topic
        self._logs = logs
        self._unit = unit
        self._now_ms = now_ms
        prefix = "local.retention" if logs[0].limits.copies else "retention"
        self.setting = logs[0].settings.settings[f"{prefix}.{unit}"]
        self._values = sorted(self._thresholds(), reverse=True)
        self.most = self._freed(self._values[-1])[0] if self._values else 0

    def least(self, wanted: int) -> SettingChange | None:
        """Return the highest limit that frees this much; None if none does."""
        if not self._values or self.most < wanted:
            return None
        low, high = 0, len(self._values) - 1  # the value at `high` is low enough
        while low < high:
            middle = (low + high) // 2
            if self._freed(self._values[middle])[0] >= wanted:
                high = middle
            else:
                low = middle + 1
        value = self._values[high]
        return SettingChange(self.topic, self.setting, value, *self._freed(value))

    def _thresholds(self) -> set[int]:
        """Return the limits below the current one at which one more segment is deleted."""
        found: set[int] = set()
        for one in self._logs:
            left = one.facts.size
            now = self._limit(one.limits)
            for segment in one.facts.segments:
                left -= segment.size
                value = self._now_ms - segment.largest_ms - 1 if self._unit == "ms" else left
                if value >= 0 and (now < 0 or value < now):
                    found.add(value)
        return found

    def _limit(self, limits: RetentionLimits) -> int:
        return limits.retention_ms if self._unit == "ms" else limits.retention_bytes

    def _freed(self, value: int) -> tuple[int, int]:
        """Return bytes and segments deleted with this limit, beyond those deleted without it."""
        freed = segments = 0
        for one in self._logs:
            if self._unit == "ms":
                limits = replace(one.limits, retention_ms=value)
            else:
                limits = replace(one.limits, retention_bytes=value)
            outcome = decide(one.facts, limits, self._now_ms)
            freed += one.freed(outcome) - one.freed()
            segments += len(outcome.deleted) - len(one.outcome.deleted)
        return freed, segments
