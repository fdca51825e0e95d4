"""Percentiles within a hundredth, and stalls counted for everybody whom they would have held up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.jobs.histogram import Histogram


@given(
    st.lists(st.integers(0, 1 << 45), min_size=1, max_size=200), st.sampled_from([50.0, 90.0, 99.0, 100.0])
)
def test_a_percentile_is_that_of_the_sorted_values_to_within_a_hundredth(
    values: list[int], percent: float
) -> None:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    wanted = sorted(values)[max(1, -int(-len(values) * percent // 100)) - 1]
    assert wanted <= histogram.percentile(percent) <= wanted * 1.01 + 1
    at_once = Histogram()
    at_once.record_all(values)
    assert at_once.counts == histogram.counts
    assert histogram.total == len(values)


def test_a_stall_counts_for_those_who_would_have_come_meanwhile() -> None:
    histogram = Histogram()
    for _ in range(99):
        histogram.record(100)
    histogram.record(10_000)
    assert histogram.percentile(90) == 100
    corrected = histogram.corrected(100)
    assert corrected.total == 99 + 100
    assert corrected.percentile(90) == pytest.approx(8000, rel=0.02)
    assert corrected.max == histogram.max


def test_nothing_has_no_percentiles() -> None:
    assert (Histogram().percentile(99), Histogram().max, Histogram().total) == (0, 0, 0)
    assert Histogram().corrected(0).total == 0
