"""Summaries depend only on what went in, not on how it was cut; and are as exact as they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.jobs import sketches
from kafkatool.engine.jobs.sketches import (
    HOUR_MS,
    MOST_STRETCHES,
    WIDTHS_MS,
    Distinct,
    Lowest,
    Spread,
    Timeline,
    bucket_of,
    bucket_top,
    mix,
)
from kafkatool.engine.stats import keys as stats_keys
from kafkatool.engine.stats.keys import Keys, prefix_lengths, texts_of

values = st.integers(0, 2**31 - 1) | st.integers(0, 300)


def numbers(found: list[int]) -> Any:
    return np.array(found, dtype=np.int64)


def parts_of(data: st.DataObject, found: list[int]) -> list[list[int]]:
    """The same list, cut anywhere."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(found)), max_size=5)))
    return [found[a:b] for a, b in zip([0, *cuts], [*cuts, len(found)], strict=True)]


def state(summary: Any) -> list[Any]:
    found = [getattr(summary, name) for name in summary.__slots__]
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in found]


def joined(data: st.DataObject, parts: list[list[int]], make: Callable[[list[int]], Any]) -> Any:
    """All parts as one, joined in any grouping."""
    summaries = [make(part) for part in parts]
    while len(summaries) > 1:
        at = data.draw(st.integers(0, len(summaries) - 2))
        summaries[at].join(summaries.pop(at + 1))
    return summaries[0]


# --- spreads ------------------------------------------------------------------------------------------


def spread_of(found: list[int]) -> Spread:
    spread = Spread()
    spread.add(numbers(found))
    return spread


@given(values)
def test_a_bucket_holds_its_value_and_is_narrow(value: int) -> None:
    bucket = int(bucket_of(numbers([value]))[0])
    assert value <= bucket_top(bucket) <= value * 1.016
    assert bucket == 0 or bucket_top(bucket - 1) < value


@given(st.lists(values, min_size=1, max_size=200), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_percentiles_are_those_of_the_sorted_values(found: list[int], share: float) -> None:
    exact = sorted(found)[max(1, -int(-share * len(found) // 1)) - 1]
    told = spread_of(found).percentile(share)
    assert told is not None
    assert exact <= told <= exact * 1.016


def test_a_batch_beyond_all_bounds_is_in_the_last_bucket() -> None:
    spread = spread_of([5, 2**31 + 11])
    assert (spread.greatest, spread.percentile(1.0)) == (2**31 + 11, 2**31 - 1)


@given(st.lists(values, max_size=100), st.data())
def test_spreads_do_not_depend_on_cuts(found: list[int], data: st.DataObject) -> None:
    assert state(joined(data, parts_of(data, found), spread_of)) == state(spread_of(found))


# --- distinct -----------------------------------------------------------------------------------------


def distinct_of(found: list[int]) -> Distinct:
    distinct = Distinct()
    distinct.add(np.array(found, dtype=np.uint64))
    return distinct


@given(st.lists(st.integers(0, 60), max_size=100), st.data())
def test_distinct_counts_do_not_depend_on_cuts(found: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketches, "MOST_EXACT", 20)
        whole = distinct_of(found)
        assert state(joined(data, parts_of(data, found), distinct_of)) == state(whole)
        assert whole.is_exact == (len(set(found)) <= 20)
        if whole.is_exact:
            assert whole.count == len(set(found))


@pytest.mark.parametrize("count", [70_000, 500_000, 2_000_000])
def test_estimates_are_within_some_standard_errors(count: int) -> None:
    distinct = Distinct()
    for start in range(0, count, 100_000):
        distinct.add(np.arange(start, min(start + 100_000, count), dtype=np.uint64))
    assert not distinct.is_exact
    assert distinct.count == pytest.approx(count, rel=0.03)


def test_mixing_loses_nothing() -> None:
    assert len(np.unique(mix(np.arange(100_000, dtype=np.uint64)))) == 100_000


# --- timelines ----------------------------------------------------------------------------------------


def timeline_of(times: list[int]) -> Timeline:
    timeline = Timeline()
    timeline.add(numbers(times), numbers(times) % 7, numbers(times) % 11)
    return timeline


times = st.integers(0, 2000).map(lambda hour: hour * HOUR_MS + 17) | st.integers(0, 2**63 - 1)


@given(st.lists(times, max_size=60), st.data())
def test_timelines_do_not_depend_on_cuts(found: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketches, "MOST_STRETCHES", 12)
        assert state(joined(data, parts_of(data, found), timeline_of)) == state(timeline_of(found))


@given(st.lists(times, min_size=1, max_size=60))
def test_every_time_falls_into_its_stretch(found: list[int]) -> None:
    timeline = timeline_of(found)
    width = timeline.width_ms
    assert timeline.stretches.tolist() == sorted({time // width for time in found})
    assert timeline.measures.sum(axis=0).tolist() == [
        len(found),
        sum(time % 7 for time in found),
        sum(time % 11 for time in found),
    ]


def test_long_ranges_come_in_longer_stretches() -> None:
    timeline = timeline_of([hour * HOUR_MS for hour in range(MOST_STRETCHES + 1)])
    assert timeline.width_ms == 6 * HOUR_MS
    assert timeline.coarse(10).width_ms == 7 * 24 * HOUR_MS
    assert all(b % a == 0 for a, b in itertools.pairwise(WIDTHS_MS))
    assert (2**63 - 1) // WIDTHS_MS[-1] < MOST_STRETCHES


# --- samples ------------------------------------------------------------------------------------------


def lowest_of(found: list[int]) -> Lowest:
    lowest = Lowest(10)
    for start in range(0, len(found), 7):
        ranks = np.array(found[start : start + 7], dtype=np.uint64)
        kept = lowest.wanted(ranks)
        lowest.add(ranks[kept], ranks[kept].astype(np.int64))
    lowest.settle()
    return lowest


@given(st.lists(st.integers(0, 1000), max_size=80), st.data())
def test_samples_do_not_depend_on_cuts(found: list[int], data: st.DataObject) -> None:
    whole = joined(data, parts_of(data, found), lowest_of)
    assert whole.ranks.tolist() == sorted(found)[:10]
    if found:
        assert whole.columns[0].tolist() == sorted(found)[:10]


# --- keys ---------------------------------------------------------------------------------------------


def keys_of(found: list[int]) -> Keys:
    """Records whose keys are these numbers, each at an offset of its own."""
    keys = Keys()
    for start in range(0, len(found), 9):
        part = [b"key-%d" % number for number in found[start : start + 9]]
        sizes = numbers([len(key) for key in part])
        starts = np.cumsum(sizes) - sizes
        ranks = mix(np.array(found[start : start + 9], dtype=np.uint64))
        keys.add(memoryview(b"".join(part)), starts, sizes, sizes + 100, ranks)
    keys.settle()
    return keys


def keys_state(keys: Keys) -> list[Any]:
    hashes = None if keys.hashes is None else keys.hashes.tolist()
    registers = None if keys.registers is None else keys.registers.tolist()
    sample = [column.tolist() for column in keys.sample.columns]
    return [keys.records, hashes, keys.measures.tolist(), keys.texts.tolist(), registers, sample]


@given(st.lists(st.integers(0, 60), max_size=100), st.data())
def test_keys_do_not_depend_on_cuts(found: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats_keys, "MOST_EXACT", 20)
        patch.setattr(stats_keys, "_SETTLE", 8)
        whole = keys_of(found)
        parts = joined(data, parts_of(data, found), keys_of)
        assert keys_state(parts) == keys_state(whole)
        assert whole.is_exact == (len(set(found)) <= 20)
        assert (parts.top(5), parts.prefixes(5)) == (whole.top(5), whole.prefixes(5))


@given(st.lists(st.integers(0, 60), min_size=1, max_size=100))
def test_few_keys_are_counted_one_by_one(found: list[int]) -> None:
    from collections import Counter

    top = keys_of(found).top(100)
    expected = Counter(b"key-%d" % number for number in found)
    assert {key.key: key.records for key in top} == expected
    assert [key.records for key in top] == sorted(expected.values(), reverse=True)
    assert all(key.bytes == key.records * (100 + key.size) for key in top)


def test_the_frequent_among_very_many_keys_are_found_in_the_sample() -> None:
    source = np.random.default_rng(3)
    found = np.where(source.random(300_000) < 0.1, 7, source.integers(100, 10**9, 300_000))
    keys = Keys()
    part = [b"user-%d" % number for number in found.tolist()]
    sizes = numbers([len(key) for key in part])
    ranks = mix(np.arange(len(part), dtype=np.uint64))
    keys.add(memoryview(b"".join(part)), np.cumsum(sizes) - sizes, sizes, sizes, ranks)
    keys.settle()
    assert not keys.is_exact
    assert keys.count == pytest.approx(len(set(found.tolist())), rel=0.03)
    [first] = keys.top(1)
    assert first.key == b"user-7"
    assert first.records == pytest.approx(30_000, rel=0.1)
    [prefix] = keys.prefixes(10)
    assert (prefix.prefix, prefix.records) == (b"user-", 300_000)


def test_long_keys_are_cut_and_still_told_apart() -> None:
    part = [b"x" * 100 + b"a", b"x" * 100 + b"b"]
    sizes = numbers([101, 101])
    keys = Keys()
    keys.add(memoryview(b"".join(part)), numbers([0, 101]), sizes, sizes, mix(np.arange(2, dtype=np.uint64)))
    keys.settle()
    assert [(key.key, key.size) for key in keys.top(5)] == [(b"x" * 64, 101)] * 2


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        (b"user:17", b"user:"),
        (b"order-5-x", b"order-"),
        (b"/a/b", b"/"),
        (b"\0\0\0\0\x05abc", b"\0\0\0\0\x05"),
        (b"plain", None),
        (b"", None),
        (b"x" * 40 + b"-", None),
    ],
)
def test_a_prefix_ends_with_a_separator(key: bytes, prefix: bytes | None) -> None:
    sizes = numbers([len(key)])
    [length] = prefix_lengths(texts_of(memoryview(key), numbers([0]), sizes), sizes)
    assert (key[:length] or None) == prefix
