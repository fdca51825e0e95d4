"""A row has the keys of its table, in their order, whoever says their values."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.batches.row_fields import inside, int64, size, text, time_ms, values

PLACE = (text("topic", "the topic"), int64("partition", "its number"))
TABLE = RowTable(
    "sample",
    "ls",
    "A sample.",
    *inside("place", *PLACE),
    size("size", "bytes", "log.size"),
    time_ms("age_ms", "its age", lambda one: one.now_ms - one.then_ms),
    text("note", "a remark", optional=True),
)
SUBJECT = SimpleNamespace(
    place=SimpleNamespace(topic="orders", partition=3), log=SimpleNamespace(size=7), now_ms=9, then_ms=4
)


def test_values_come_from_attributes_and_functions_of_the_subject() -> None:
    row = TABLE.row(SUBJECT)
    assert list(row.items()) == [
        ("kind", "sample"),
        ("topic", "orders"),
        ("partition", 3),
        ("size", 7),
        ("age_ms", 5),
    ]


def test_given_values_stand_in_their_place_and_are_not_asked_of_the_subject() -> None:
    row = TABLE.row(SimpleNamespace(place=None), note="new", age_ms=1, size=2)
    assert list(row.values()) == ["sample", None, None, 2, 1, "new"]


def test_without_a_subject_what_is_not_given_is_null() -> None:
    assert TABLE.row(size=1) == {
        "kind": "sample",
        "topic": None,
        "partition": None,
        "size": 1,
        "age_ms": None,
    }
    assert values(PLACE, None) == {"topic": None, "partition": None}


def test_a_key_that_the_table_does_not_have_is_refused() -> None:
    with pytest.raises(AssertionError, match="sizes"):
        TABLE.row(SUBJECT, sizes=1)


def test_columns_look_as_the_types_of_their_keys() -> None:
    blank = Column("note", "NOTE", blank="")
    assert TABLE.columns(size="SIZE", name="NAME", partition="NO", age_ms="AGE", note=blank) == (
        Column("size", "SIZE", Look.size),
        Column("name", "NAME"),
        Column("partition", "NO", Look.number),
        Column("age_ms", "AGE", Look.time),
        blank,
    )
