"""Decide which part of a log the cleaner may clean, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.compaction.cleanable_log import CleanableLog, SourceSegment
from kafkatool.engine.files.source import Guest, open_source


class Bound(StrEnum):
    """What ends the range."""

    ACTIVE = "active_segment"
    STABLE = "last_stable_offset"
    LAG = "min_compaction_lag"


class BadCheckpoint(StrEnum):
    """Why the checkpoint does not count, and the whole log is dirty."""

    BELOW_START = "below_log_start"
    ABOVE_END = "above_log_end"


@dataclass(frozen=True, slots=True)
class DirtyRange:
    """From `first_dirty` to `first_uncleanable`, the base offset of the segment that contains `bound`."""

    first_dirty: int
    first_uncleanable: int
    bound: int
    reason: Bound
    bad_checkpoint: BadCheckpoint | None
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    """How much longer than max.compaction.lag.ms the oldest dirty segment has waited."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def is_due(self, min_ratio: float) -> bool:
        """Return whether a broker would clean it now."""
        return self.cleanable_bytes > 0 and (self.overdue_ms > 0 or self.ratio > min_ratio)


def dirty_range(
    log: CleanableLog, checkpoint: int | None, config: TopicConfig, now_ms: int, guest: Guest | None = None
) -> DirtyRange:
    """Return the range as a broker would choose it at this time."""
    first, problem = _first_dirty(log, checkpoint)
    bound, reason = _bound(log, first, config.number("min.compaction.lag.ms"), now_ms)
    bound = max(first, bound)
    closed = log.closed_from(bound)
    uncleanable = closed[0].base_offset if closed else log.active.base_offset
    clean = [one for one in log.segments if one.base_offset < first]
    cleanable = log.from_floor(min(first, uncleanable), uncleanable)
    return DirtyRange(
        first_dirty=first,
        first_uncleanable=uncleanable,
        bound=bound,
        reason=reason,
        bad_checkpoint=problem,
        clean_bytes=sum(one.size for one in clean),
        cleanable_bytes=sum(one.size for one in cleanable),
        overdue_ms=_overdue(log.closed_from(first), config, now_ms, guest or Guest(cache_keep=True)),
    )


def _first_dirty(log: CleanableLog, checkpoint: int | None) -> tuple[int, BadCheckpoint | None]:
    if checkpoint is None:
        return log.log_start, None
    if checkpoint < log.log_start:
        return log.log_start, BadCheckpoint.BELOW_START
    if checkpoint > log.log_end:
        return log.log_start, BadCheckpoint.ABOVE_END
    return checkpoint, None


def _bound(log: CleanableLog, first: int, lag_ms: int, now_ms: int) -> tuple[int, Bound]:
    bounds = [(log.active.base_offset, Bound.ACTIVE), (log.last_stable_offset, Bound.STABLE)]
    if lag_ms > 0:
        young = (one for one in log.closed_from(first) if one.largest_timestamp_ms > now_ms - lag_ms)
        bounds += [(one.base_offset, Bound.LAG) for one in young][:1]
    return min(bounds, key=lambda one: one[0])


def _overdue(segments: list[SourceSegment], config: TopicConfig, now_ms: int, guest: Guest) -> int:
    lag_ms = config.number("max.compaction.lag.ms")
    if lag_ms > now_ms:
        return 0
    times = [time for one in segments if (time := _first_time(one, guest)) > 0]
    return max(0, now_ms - lag_ms - min(times, default=now_ms))


def _first_time(segment: SourceSegment, guest: Guest) -> int:
    """Return the largest timestamp of a segment's first batch."""
    with open_source(segment.path, guest) as source:
        first = next(iter(scan(source)), None)
    return first.header.max_timestamp if isinstance(first, Batch) else -1
