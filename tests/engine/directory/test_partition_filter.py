"""Which partitions `--topic`, `--partition` and `--exclude-topic` mean."""

from __future__ import annotations

import pytest

from kafkatool.engine.directory.partition_filter import EVERYTHING, parse_partition_filter
from kafkatool.errors import UsageError


def test_without_a_word_everything_is_meant() -> None:
    assert parse_partition_filter() == EVERYTHING
    assert EVERYTHING.takes("orders", 0)
    assert EVERYTHING.takes(None, None)


def test_a_name_is_exact_and_a_regular_expression_matches_all_of_a_name() -> None:
    exact = parse_partition_filter(["orders", "a.b"])
    assert [exact.takes(topic, 0) for topic in ("orders", "a.b", "axb", "orders-2", None)] == [
        *(True, True, False, False, False)
    ]
    found = parse_partition_filter(["re:ord.*|pay"])
    assert [found.takes(topic, 0) for topic in ("orders", "pay", "payments", "reorder")] == [
        *(True, True, False, False)
    ]


def test_what_is_excluded_is_not_meant_whatever_else_is_asked_for() -> None:
    found = parse_partition_filter(["re:.*"], excluded=["re:__.*", "orders"])
    assert [found.takes(topic, 0) for topic in ("__consumer_offsets", "orders", "clicks")] == [
        *(False, False, True)
    ]


def test_partitions_are_numbers_and_ranges_with_both_ends() -> None:
    found = parse_partition_filter(partitions=["0,3,5-9", "12"])
    assert [number for number in range(14) if found.takes("orders", number)] == [0, 3, 5, 6, 7, 8, 9, 12]
    assert not found.takes(None, None)


@pytest.mark.parametrize("text", ["", "a", "1,", "-1", "3-1", "1-2-3", "١"])
def test_what_is_no_number_of_a_partition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not numbers of partitions"):
        parse_partition_filter(partitions=[text])


def test_a_regular_expression_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"re:\(: not a regular expression"):
        parse_partition_filter(["re:("])
