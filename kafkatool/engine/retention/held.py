"""Find expired data that only timestamps in the future hold back, and how to release it.

A check ends at the first segment that stays. One record with a timestamp in the future keeps its segment, and
everything after it, until that time plus `retention.ms`. No time limit helps: the log must begin after that
segment. Then the next check deletes it, and everything after it that has expired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.records import records_of
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.cluster.effective_settings import INTERNAL_TOPICS
from kafkatool.engine.directory.log_dir import PartitionState
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.retention.logs import JudgedLog
from kafkatool.engine.retention.rules import Decision, SegmentFacts, decide
from kafkatool.errors import FormatError


@dataclass(slots=True)
class FutureTimes:
    """The records of a log with a timestamp in the future."""

    count: int = 0
    latest_offset: int = -1
    """The record that holds longest: its own offset, not its batch's."""
    latest_ms: int = -1
    largest_past_ms: int = -1
    """The largest timestamp of all others; -1: there are none."""

    def take(self, offset: int, timestamp_ms: int, now_ms: int) -> None:
        if timestamp_ms <= now_ms:
            self.largest_past_ms = max(self.largest_past_ms, timestamp_ms)
            return
        self.count += 1
        if timestamp_ms > self.latest_ms:
            self.latest_offset, self.latest_ms = offset, timestamp_ms

    def add(self, other: FutureTimes) -> None:
        self.count += other.count
        self.largest_past_ms = max(self.largest_past_ms, other.largest_past_ms)
        if other.latest_ms > self.latest_ms:
            self.latest_offset, self.latest_ms = other.latest_offset, other.latest_ms


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What one log would free if its records below an offset were deleted."""

    judged: JudgedLog
    offset: int
    """The first offset that stays."""
    future: FutureTimes
    freed: int
    """Bytes on disk, beyond what is deleted anyway."""
    segments: int
    after: JudgedLog
    """The log after that, to see what else may be freed."""

    @property
    def first_offset(self) -> int:
        return self.judged.facts.log_start


def held_back(judged: Iterable[JudgedLog], now_ms: int, guest: Guest) -> list[HeldBack]:
    """Return the logs in which expired data is held back, those that free most first.

    Raises KafkatoolError if a file cannot be read.
    """
    found = [
        held for one in judged if _may_be_trimmed(one) and (held := _held(one, now_ms, guest)) is not None
    ]
    return sorted(found, key=lambda held: (-held.freed, held.judged.partition.path))


def _may_be_trimmed(one: JudgedLog) -> bool:
    """Return whether deleting records does what is wanted, and no more.

    Brokers refuse it for internal topics and without `delete` in the policy. In a tiered log it would also
    delete what is in remote storage.
    """
    limits = one.limits
    is_plain = one.partition.state is PartitionState.ACTIVE and one.partition.topic not in INTERNAL_TOPICS
    is_timed = limits.by_limits and limits.is_retained and limits.retention_ms >= 0
    return is_plain and is_timed and not limits.is_tiered


def _held(one: JudgedLog, now_ms: int, guest: Guest) -> HeldBack | None:
    offset, future = None, FutureTimes()
    for verdict in one.outcome.verdicts:
        if verdict.decision is Decision.DELETE:
            continue
        if verdict.is_active or verdict.upper_offset > one.facts.high_watermark:
            break  # deleting its records would free nothing, or is refused
        if now_ms - verdict.segment.largest_ms > one.limits.retention_ms:
            continue  # it follows by itself
        times = _future_times(one, verdict.segment, now_ms, guest)
        if times is None or not _has_expired_otherwise(times, one, now_ms):
            break
        offset = verdict.upper_offset
        future.add(times)
    return None if offset is None else _measured(one, offset, future, now_ms)


def _future_times(one: JudgedLog, segment: SegmentFacts, now_ms: int, guest: Guest) -> FutureTimes | None:
    """Read all records of a segment with a timestamp in the future; None: it has none, or is damaged."""
    files = next(it for it in one.partition.live_segments if it.base_offset == segment.base_offset)
    if segment.largest_ms <= now_ms or files.log is None:
        return None
    found = FutureTimes()
    try:
        with open_source(files.log.path, guest) as source:
            for item in scan(source):
                if isinstance(item, Damage) or not item.is_valid:
                    return None  # it would be unknown what is deleted
                _take_batch(found, item, now_ms)
    except FormatError:
        return None
    return found


def _take_batch(found: FutureTimes, batch: Batch, now_ms: int) -> None:
    """Add a batch; decode it only if it has such a timestamp."""
    header = batch.header
    if header.max_timestamp <= now_ms:
        found.take(header.last_offset, header.max_timestamp, now_ms)
    elif batch.data is None:
        raise FormatError("batch", batch.position, expected="one that fits into memory", found=header.size)
    else:
        for record in records_of(header, batch.data):
            found.take(record.offset, record.timestamp_ms, now_ms)


def _has_expired_otherwise(times: FutureTimes, one: JudgedLog, now_ms: int) -> bool:
    """Return whether a segment has other records than those of the future, and all of these have expired."""
    return times.count > 0 and 0 <= times.largest_past_ms < now_ms - one.limits.retention_ms


def _measured(one: JudgedLog, offset: int, future: FutureTimes, now_ms: int) -> HeldBack:
    facts = replace(one.facts, log_start=offset)
    outcome = decide(facts, one.limits, now_ms)
    freed = one.freed(outcome) - one.freed()
    segments = len(outcome.deleted) - len(one.outcome.deleted)
    return HeldBack(one, offset, future, freed, segments, replace(one, facts=facts, outcome=outcome))
