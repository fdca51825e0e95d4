"""Retention by examples.

That a broker does the same is proven in tests/kafka/writing/test_retention_parity.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.retention.rules import (
    Decision,
    RetentionFacts,
    RetentionLimits,
    RetentionOutcome,
    RetentionRule,
    SegmentFacts,
    TimeSource,
    decide,
    limits_of,
)
from kafkatool.format.release import Release

U = 100  # bytes of one record; five records a segment
NOW = 1_000_000


def segments(*largest_ms: int, size: int = 5 * U) -> tuple[SegmentFacts, ...]:
    return tuple(SegmentFacts(5 * at, size, ms) for at, ms in enumerate(largest_ms))


def three(*, high_watermark: int = 15, log_start: int = 0, largest_ms: int = NOW) -> RetentionFacts:
    return RetentionFacts(segments(largest_ms, largest_ms, largest_ms), 15, high_watermark, log_start)


def kept(outcome: RetentionOutcome) -> list[int]:
    left = [one.segment.base_offset for one in outcome.verdicts if one.decision is Decision.KEEP]
    return left if outcome.rolls_at is None else [*left, outcome.rolls_at]


def rules(outcome: RetentionOutcome) -> list[tuple[str, str]]:
    return [(str(one.decision), str(one.rule)) for one in outcome.verdicts]


# --- the worked cases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("log_start", "left"), [(1, [0, 5, 10]), (6, [5, 10]), (15, [10])])
def test_r1_what_lies_below_the_log_start_goes_but_never_the_active_segment(
    log_start: int, left: list[int]
) -> None:
    outcome = decide(three(log_start=log_start), RetentionLimits(), NOW)
    assert kept(outcome) == left
    assert outcome.log_start == log_start
    if log_start == 15:
        assert rules(outcome)[-1] == ("keep", "active")


def test_r2_a_segment_goes_when_the_log_is_large_enough_without_it() -> None:
    outcome = decide(three(), RetentionLimits(retention_bytes=10 * U), NOW)
    assert kept(outcome) == [5, 10]
    assert outcome.log_start == 5
    assert outcome.verdicts[0].excess == 5 * U


def test_r3_a_log_of_just_the_limit_is_left_alone() -> None:
    assert kept(decide(three(), RetentionLimits(retention_bytes=15 * U), NOW)) == [0, 5, 10]


def test_r4_less_than_a_segment_too_much_is_kept() -> None:
    outcome = decide(three(), RetentionLimits(retention_bytes=11 * U), NOW)
    assert kept(outcome) == [0, 5, 10]
    assert (outcome.verdicts[0].rule, outcome.verdicts[0].excess) == (RetentionRule.SIZE, 4 * U)


def test_r5_where_all_is_expired_an_empty_segment_begins_and_all_others_go() -> None:
    outcome = decide(three(largest_ms=10), RetentionLimits(retention_ms=10_000), NOW)
    assert kept(outcome) == [15]
    assert (outcome.rolls_at, outcome.log_start) == (15, 15)
    assert rules(outcome) == [("delete", "time")] * 3


def test_r6_the_segment_of_the_high_watermark_stays() -> None:
    outcome = decide(three(largest_ms=10, high_watermark=12), RetentionLimits(retention_ms=10_000), NOW)
    assert kept(outcome) == [10]
    assert outcome.log_start == 10
    assert rules(outcome)[-1] == ("keep", "high_watermark")


def test_r7_without_a_high_watermark_nothing_goes() -> None:
    outcome = decide(three(largest_ms=10, high_watermark=0), RetentionLimits(retention_ms=10_000), NOW)
    assert kept(outcome) == [0, 5, 10]
    assert {one.rule for one in outcome.verdicts} == {RetentionRule.HIGH_WATERMARK}


def test_r8_a_time_in_the_future_holds_all_behind_it_until_the_log_start_passes_it() -> None:
    log = RetentionFacts(segments(NOW + 1, 10, NOW), 15, 15, 0)
    outcome = decide(log, RetentionLimits(retention_ms=10_000), NOW)
    assert rules(outcome) == [("keep", "time"), ("keep", "after_kept"), ("keep", "time")]
    assert outcome.verdicts[1].held_by == log.segments[0]
    outcome = decide(replace(log, log_start=5), RetentionLimits(retention_ms=10_000), NOW)
    assert rules(outcome) == [("delete", "start_offset"), ("delete", "time"), ("keep", "time")]
    again = RetentionFacts(log.segments[2:], 15, 15, outcome.log_start)
    assert decide(again, RetentionLimits(retention_ms=10_000), NOW).deleted == []


def test_r9_an_empty_active_segment_stays_and_no_other_is_begun() -> None:
    log = RetentionFacts((*segments(10, 10, 10), SegmentFacts(15, 0, 10)), 15, 15, 0)
    outcome = decide(log, RetentionLimits(retention_ms=10_000), NOW)
    assert kept(outcome) == [15]
    assert outcome.rolls_at is None
    assert rules(outcome)[-1] == ("keep", "active")


def test_r10_a_limit_of_no_bytes_takes_the_active_segment_too() -> None:
    outcome = decide(three(), RetentionLimits(retention_bytes=0), NOW)
    assert kept(outcome) == [15]
    assert rules(outcome) == [("delete", "size")] * 3


def test_r11_leading_segments_without_bytes_go_with_the_size_pass() -> None:
    log = RetentionFacts(
        (SegmentFacts(0, 0, NOW), SegmentFacts(5, 0, NOW), SegmentFacts(10, 5 * U, NOW)), 15, 15, 0
    )
    assert kept(decide(log, RetentionLimits(retention_bytes=5 * U), NOW)) == [10]
    assert kept(decide(log, RetentionLimits(retention_bytes=5 * U + 1), NOW)) == [0, 5, 10]


def test_r12_without_timestamps_the_files_time_counts() -> None:
    log = RetentionFacts(
        (SegmentFacts(0, U, 10, TimeSource.MTIME), SegmentFacts(5, U, NOW, TimeSource.MTIME)), 10, 10, 0
    )
    assert rules(decide(log, RetentionLimits(retention_ms=10_000), NOW)) == [
        ("delete", "time"),
        ("keep", "time"),
    ]


def test_r13_a_compacted_log_loses_only_what_lies_below_its_start() -> None:
    limits = limits_of(read_config({"cleanup.policy": "compact", "retention.ms": "10"}))
    log = three(largest_ms=10)
    assert rules(decide(log, limits, NOW)) == [("keep", "policy")] * 3
    assert kept(decide(replace(log, log_start=5), limits, NOW)) == [5, 10]


def test_r14_at_the_very_moment_a_segment_is_still_kept() -> None:
    log = three(largest_ms=NOW - 10_000)
    assert kept(decide(log, RetentionLimits(retention_ms=10_000), NOW)) == [0, 5, 10]
    assert {one.goes_ms for one in decide(log, RetentionLimits(retention_ms=10_000), NOW).verdicts} == {
        NOW + 1
    }
    assert kept(decide(log, RetentionLimits(retention_ms=10_000), NOW + 1)) == [15]


def tiered(**extra: str) -> RetentionLimits:
    return limits_of(read_config({"remote.storage.enable": "true", **extra}), remote_offset=1)


def test_r15_of_a_tiered_log_only_what_is_copied_goes_and_the_log_start_stays() -> None:
    log = RetentionFacts(tuple(SegmentFacts(at, U, NOW) for at in range(6)), 6, 6, 0)
    outcome = decide(log, tiered(**{"local.retention.bytes": "1"}), NOW)
    assert kept(outcome) == [2, 3, 4, 5]
    assert (outcome.log_start, outcome.local_start) == (0, 2)
    assert outcome.verdicts[2].rule is RetentionRule.REMOTE


def test_r16_an_expired_active_segment_of_a_tiered_log_is_closed_and_goes_when_it_is_copied() -> None:
    limits = replace(tiered(**{"local.retention.ms": "10"}), remote_offset=-1)
    log = RetentionFacts((SegmentFacts(0, 5 * U, 10),), 5, 5, 0)
    outcome = decide(log, limits, NOW)
    assert (kept(outcome), outcome.rolls_at) == ([0, 5], 5)
    rolled = replace(log, segments=(*log.segments, SegmentFacts(5, 0, NOW)))
    assert kept(decide(rolled, replace(limits, remote_offset=4), NOW)) == [5]


def test_r17_a_tiered_log_that_copies_no_more_goes_by_the_plain_limits() -> None:
    limits = tiered(
        **{"remote.log.copy.disable": "true", "retention.bytes": "1000", "local.retention.bytes": "1"}
    )
    outcome = decide(three(), limits, NOW)
    assert kept(outcome) == [5, 10]
    assert (outcome.log_start, outcome.local_start) == (5, 5)


# --- what the cases leave open ------------------------------------------------------------------------------


def test_what_hangs_on_an_unknown_remote_offset_is_unknown() -> None:
    log = RetentionFacts(tuple(SegmentFacts(at, U, ms) for at, ms in enumerate((10, 10, NOW, NOW))), 4, 4, 1)
    limits = replace(tiered(**{"local.retention.ms": "10"}), remote_offset=None)
    outcome = decide(log, limits, NOW)
    assert [str(one.decision) for one in outcome.verdicts] == ["delete", "unknown", "keep", "keep"]
    assert outcome.verdicts[1].rule is RetentionRule.TIME
    assert outcome.log_start == 1


@pytest.mark.parametrize(("release", "by_limits"), [(Release.V4_1, False), (Release.V4_2, True)])
def test_from_4_2_on_a_tiered_topic_without_a_policy_goes_by_its_local_limits(
    release: Release, by_limits: bool
) -> None:
    settings = {"cleanup.policy": "", "remote.storage.enable": "true"}
    assert limits_of(read_config(settings, release)).by_limits is by_limits
    assert not limits_of(read_config({"cleanup.policy": ""}, release)).by_limits


def test_without_a_cleaner_a_compacted_topic_is_never_asked() -> None:
    config = read_config({"cleanup.policy": "compact,delete", "retention.ms": "1"})
    log = three(largest_ms=10, log_start=5)
    assert kept(decide(log, limits_of(config), NOW)) == [15]
    outcome = decide(log, limits_of(config, has_cleaner=False), NOW)
    assert rules(outcome) == [("keep", "policy")] * 3


def test_size_is_looked_at_before_time() -> None:
    log = RetentionFacts(segments(10, 10, NOW), 15, 15, 0)
    outcome = decide(log, RetentionLimits(retention_ms=10_000, retention_bytes=10 * U), NOW)
    assert rules(outcome) == [("delete", "size"), ("delete", "time"), ("keep", "time")]


def test_when_a_segment_goes_is_when_the_last_of_those_before_it_does() -> None:
    log = RetentionFacts(segments(NOW + 500, NOW - 5, NOW), 15, 15, 0)
    goes = [one.goes_ms for one in decide(log, RetentionLimits(retention_ms=10_000), NOW).verdicts]
    assert goes == [NOW + 10_501] * 3


def test_a_log_without_segments_has_no_verdicts() -> None:
    assert (
        decide(RetentionFacts((), 0, 0, 0), RetentionLimits(retention_bytes=0, retention_ms=0), NOW).verdicts
        == []
    )


sizes = st.lists(st.tuples(st.integers(0, 4), st.integers(-50, 50)), min_size=1, max_size=6)


@given(
    sizes,
    st.integers(0, 35),
    st.integers(0, 35),
    st.integers(-1, 12),
    st.integers(-1, 60),
    st.sampled_from([(), ("delete",), ("compact",), ("compact", "delete")]),
    st.none() | st.integers(-1, 35),
)
def test_what_goes_is_a_prefix_below_the_high_watermark_and_a_second_check_finds_nothing(
    made: list[tuple[int, int]],
    high_watermark: int,
    log_start: int,
    in_bytes: int,
    in_ms: int,
    policy: tuple[str, ...],
    remote_offset: int | None,
) -> None:
    log = RetentionFacts(
        tuple(SegmentFacts(5 * at, size, NOW + ms) for at, (size, ms) in enumerate(made)),
        5 * len(made),
        min(high_watermark, 5 * len(made)),
        min(log_start, high_watermark, 5 * len(made)),
    )
    copies = remote_offset is not None
    limits = RetentionLimits(policy, in_ms, in_bytes, copies, copies, remote_offset, "delete" in policy)
    outcome = decide(log, limits, NOW)
    gone = [one.decision is Decision.DELETE for one in outcome.verdicts]
    assert gone == sorted(gone, reverse=True)
    left = log.segments[sum(gone) :]
    if outcome.rolls_at is not None:
        left = (*left, SegmentFacts(outcome.rolls_at, 0, NOW))
    assert left
    assert left[0].base_offset <= max(log.high_watermark, log.segments[0].base_offset)
    again = RetentionFacts(left, log.log_end, log.high_watermark, max(outcome.log_start, log.log_start))
    if in_bytes < 0:  # else a segment of no bytes may have come to the front
        assert decide(again, limits, NOW).deleted == []
