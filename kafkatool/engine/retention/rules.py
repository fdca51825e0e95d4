"""Decide which segments of a log a broker would delete now, and why the others stay.

A broker makes three passes over a log, oldest segment first, and each ends at the first segment it keeps:

    start offset   the whole segment lies below the log start offset; never the active segment
    size           without the segment the log would still have at least `retention.bytes`
    time           the segment's largest timestamp is more than `retention.ms` ago

Segments that reach above the high watermark stay. If all segments go, an empty one is created first, at the
log end offset. Without `delete` in `cleanup.policy` there is only the first pass. A tiered topic that copies
uses `local.retention.*`, and only what is in remote storage may be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.format.release import Release

_NOTHING_COPIED, _ALL_COPIED = -1, 1 << 63
UNLIMITED = -1


class TimeSource(StrEnum):
    """The source of a segment's largest timestamp."""

    TIME_INDEX = "time_index"
    RECORDS = "records"
    MTIME = "mtime"


class Decision(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    UNKNOWN = "unknown"


class RetentionRule(StrEnum):
    """Why a segment is deleted or kept."""

    START_OFFSET = "start_offset"
    SIZE = "size"
    TIME = "time"
    ACTIVE = "active"
    HIGH_WATERMARK = "high_watermark"
    AFTER_KEPT = "after_kept"
    POLICY = "policy"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What a broker knows about a segment when it decides."""

    base_offset: int
    size: int
    """Bytes of its records, without indexes and preallocated room."""
    largest_ms: int
    largest_from: TimeSource = TimeSource.TIME_INDEX
    largest_offset: int | None = None
    """Offset of the largest timestamp, if known."""
    first_ms: int | None = None
    log_largest_ms: int | None = None
    """The records' largest timestamp, if known and not the one that the broker uses."""
    log_largest_offset: int | None = None


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """One log: its segments in order, and its three offsets."""

    segments: tuple[SegmentFacts, ...]
    log_end: int
    high_watermark: int
    log_start: int
    """In a tiered log this may lie far below the first segment."""
    damage: str | None = None
    """Damage in the active segment that puts the log end offset in doubt."""

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def local_start(self) -> int:
        return max(self.log_start, self.segments[0].base_offset) if self.segments else self.log_start


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The retention limits that follow from a log's settings."""

    policy: tuple[str, ...] = ("delete",)
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    is_tiered: bool = False
    copies: bool = False
    """Tiered, and segments are still copied: then the limits are those of the local part."""
    remote_offset: int | None = None
    """Highest offset in remote storage; None: unknown."""
    by_limits: bool = True
    """Whether size and time count at all."""
    is_retained: bool = True
    """False if retention is never checked: a compacted topic on a broker without a cleaner."""


def limits_of(
    config: TopicConfig,
    *,
    remote_offset: int | None = None,
    has_cleaner: bool = True,
    is_internal: bool = False,
) -> RetentionLimits:
    """Return the limits of a topic; an internal topic is never tiered, whatever its settings."""
    policy = config.values["cleanup.policy"]
    assert isinstance(policy, tuple)
    can_be_tiered = not is_internal and "compact" not in policy
    is_tiered = can_be_tiered and config.values["remote.storage.enable"] is True
    copies = is_tiered and config.values["remote.log.copy.disable"] is not True
    in_ms, in_bytes = config.number("retention.ms"), config.number("retention.bytes")
    if copies:
        local_ms, local_bytes = config.number("local.retention.ms"), config.number("local.retention.bytes")
        in_ms = in_ms if local_ms == -2 else local_ms
        in_bytes = in_bytes if local_bytes == -2 else local_bytes
    # From 4.2 on, a topic without a policy keeps all, but local copies of tiered data only by local limits.
    by_limits = "delete" in policy or (not policy and copies and config.release >= Release.V4_2)
    return RetentionLimits(
        policy=policy,
        retention_ms=in_ms,
        retention_bytes=in_bytes,
        is_tiered=is_tiered,
        copies=copies,
        remote_offset=remote_offset,
        by_limits=by_limits,
        is_retained=has_cleaner or "compact" not in policy,
    )


@dataclass(frozen=True, slots=True)
class RetentionVerdict:
    """What happens to one segment."""

    segment: SegmentFacts
    decision: Decision
    rule: RetentionRule
    upper_offset: int
    """Base of the next segment, or the log end: deletion requires the high watermark to have reached it."""
    is_active: bool
    excess: int | None = None
    """Bytes of the log above `retention.bytes` when this segment's size was checked."""
    held_by: SegmentFacts | None = None
    """The older segment that is kept, and keeps this one."""
    goes_ms: int | None = None
    """When time alone lets it go, without the wait for the next check; None: never, or unknown."""


@dataclass(slots=True)
class RetentionOutcome:
    """The result of the next check of one log."""

    verdicts: list[RetentionVerdict] = field(default_factory=list)
    rolls_at: int | None = None
    """Base of the empty segment created first; None: no roll."""
    log_start: int = 0
    local_start: int = 0

    @property
    def deleted(self) -> list[SegmentFacts]:
        return [one.segment for one in self.verdicts if one.decision is Decision.DELETE]

    @property
    def freed(self) -> int:
        return sum(segment.size for segment in self.deleted)


def decide(log: RetentionFacts, limits: RetentionLimits, now_ms: int) -> RetentionOutcome:
    """Decide what the broker's next check at this time does to a log."""
    if not limits.copies or limits.remote_offset is not None:
        return _Check(log, limits, now_ms).run()
    least = _Check(log, replace(limits, remote_offset=_NOTHING_COPIED), now_ms).run()
    most = _Check(log, replace(limits, remote_offset=_ALL_COPIED), now_ms).run()
    for at, (low, high) in enumerate(zip(least.verdicts, most.verdicts, strict=True)):
        if low.decision is not high.decision:
            least.verdicts[at] = replace(high, decision=Decision.UNKNOWN)
    return least


_Predicate = Callable[[SegmentFacts, SegmentFacts | None], bool]


class _Check:
    """One run of the three passes."""

    def __init__(self, log: RetentionFacts, limits: RetentionLimits, now_ms: int) -> None:
        self.log = log
        self.limits = limits
        self.now_ms = now_ms
        self.left = list(log.segments)
        self.log_start, self.local_start = log.log_start, log.local_start
        self.rolls_at: int | None = None
        self.taken: dict[int, RetentionRule] = {}
        self.excess: dict[int, int] = {}
        self.not_copied: set[int] = set()

    def run(self) -> RetentionOutcome:
        if self.limits.is_retained and self.left:
            self._pass(RetentionRule.START_OFFSET, self._is_below_start)
            if self.limits.by_limits:
                self._size_pass()
                self._time_pass()
        return RetentionOutcome(list(self._verdicts()), self.rolls_at, self.log_start, self.local_start)

    # --- the passes -----------------------------------------------------------------------------------

    def _is_below_start(self, _segment: SegmentFacts, following: SegmentFacts | None) -> bool:
        start = self.local_start if self.limits.is_tiered else self.log_start
        return following is not None and following.base_offset <= start

    def _size_pass(self) -> None:
        limit = self.limits.retention_bytes
        excess = sum(segment.size for segment in self.left) - limit
        if limit < 0 or excess < 0:
            return

        def is_too_much(segment: SegmentFacts, _following: SegmentFacts | None) -> bool:
            nonlocal excess
            self.excess[segment.base_offset] = excess
            if excess < segment.size:
                return False
            excess -= segment.size
            return True

        self._pass(RetentionRule.SIZE, is_too_much)

    def _time_pass(self) -> None:
        if self.limits.retention_ms >= 0:
            self._pass(RetentionRule.TIME, lambda segment, _following: self._is_expired(segment))

    def _is_expired(self, segment: SegmentFacts) -> bool:
        limit = self.limits.retention_ms
        return limit >= 0 and self.now_ms - segment.largest_ms > limit

    def _pass(self, rule: RetentionRule, predicate: _Predicate) -> None:
        count = 0
        rolls = False
        for at, segment in enumerate(self.left):
            following = self.left[at + 1] if at + 1 < len(self.left) else None
            upper = following.base_offset if following else self.log.log_end
            if self.log.high_watermark < upper or not predicate(segment, following):
                break
            # In a tiered log the active segment is rolled first, so that it can be copied.
            rolls = rolls or (self.limits.is_tiered and following is None and segment.size > 0)
            if following is None and segment.size == 0:
                break
            if not self._may_go(following, upper):
                self.not_copied.add(segment.base_offset)
                break
            count += 1
        if rolls or count == len(self.left):
            self._roll()
        self._take(count, rule)

    def _may_go(self, following: SegmentFacts | None, upper: int) -> bool:
        if not self.limits.copies:
            return True
        assert self.limits.remote_offset is not None
        is_copied = 0 < upper <= self.limits.remote_offset + 1
        return is_copied or (following is not None and self.log_start >= following.base_offset)

    def _roll(self) -> None:
        self.rolls_at = self.log.log_end
        self.left.append(SegmentFacts(self.log.log_end, 0, self.now_ms, TimeSource.MTIME))

    def _take(self, count: int, rule: RetentionRule) -> None:
        if not count:
            return
        self.taken.update({segment.base_offset: rule for segment in self.left[:count]})
        self.left = self.left[count:]
        start = self.left[0].base_offset
        self.local_start = max(self.local_start, start)
        if not self.limits.copies:
            self.log_start = max(self.log_start, start)

    # --- the reasons ----------------------------------------------------------------------------------

    def _verdicts(self) -> Iterator[RetentionVerdict]:
        segments = self.log.segments
        first_kept = next((one for one in segments if one.base_offset not in self.taken), None)
        goes_ms: int | None = 0
        for at, segment in enumerate(segments):
            is_active = at + 1 == len(segments)
            upper = self.log.log_end if is_active else segments[at + 1].base_offset
            excess = self.excess.get(segment.base_offset)
            if segment.base_offset in self.taken:
                rule = self.taken[segment.base_offset]
                yield RetentionVerdict(
                    segment, Decision.DELETE, rule, upper, is_active, excess, None, self.now_ms
                )
                continue
            goes_ms = self._goes_ms(segment, goes_ms, is_active=is_active)
            rule = self._why_kept(segment, upper, is_first=segment is first_kept, is_active=is_active)
            held_by = first_kept if segment is not first_kept else None
            yield RetentionVerdict(segment, Decision.KEEP, rule, upper, is_active, excess, held_by, goes_ms)

    def _goes_ms(self, segment: SegmentFacts, before_ms: int | None, *, is_active: bool) -> int | None:
        """Return when this segment and all kept before it have expired."""
        limit = self.limits.retention_ms
        is_empty = is_active and segment.size == 0
        if (
            before_ms is None
            or limit < 0
            or is_empty
            or not (self.limits.by_limits and self.limits.is_retained)
        ):
            return None
        return max(before_ms, segment.largest_ms + limit + 1)

    def _why_kept(
        self, segment: SegmentFacts, upper: int, *, is_first: bool, is_active: bool
    ) -> RetentionRule:
        limits = self.limits
        if not limits.is_retained:
            return RetentionRule.POLICY
        if is_active and (segment.size == 0 or self.log.log_start >= self.log.log_end):
            return RetentionRule.ACTIVE
        if not limits.by_limits:
            return RetentionRule.POLICY
        if self.log.high_watermark < upper:
            return RetentionRule.HIGH_WATERMARK
        if segment.base_offset in self.not_copied:
            return RetentionRule.REMOTE
        if not is_first and self._is_expired(segment):
            return RetentionRule.AFTER_KEPT
        if limits.retention_ms >= 0:
            return RetentionRule.TIME
        return RetentionRule.SIZE if limits.retention_bytes >= 0 else RetentionRule.POLICY
