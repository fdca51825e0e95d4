"""kafkatool sql: questions over views, and what is decoded for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkatool.spark.schemas import Granularity
from tests.cli import rows_of, run


def test_all_messages_of_a_customer_in_one_line(spark: Any, good: Path) -> None:
    query = (
        "SELECT topic, `partition`, offset, json(value, 'customer_id') AS customer FROM records "
        "WHERE topic = 'orders-zstd' AND startswith(utf8(value), '{\"customer_id\": 42,')"
    )
    done = run("sql", "--format", "ndjson", query, str(good))
    assert done.exit_code == 0, done.stderr
    found = done.rows
    records = rows_of("cat", *sorted(good.glob("orders-zstd-*")))
    expected = [
        (row["partition"], row["offset"])
        for row in records
        if isinstance(row["value"], str) and row["value"].startswith('{"customer_id": 42,')
    ]
    assert sorted((row["partition"], row["offset"]) for row in found) == sorted(expected)
    assert expected


def test_records_are_the_committed_ones_unless_all_are_asked_for(spark: Any, good: Path) -> None:
    counts = []
    for more in ([], ["--all"]):
        query = "SELECT count(*) AS n FROM records WHERE topic = 'payments'"
        [line] = run("sql", "--format", "ndjson", *more, query, str(good)).stdout.splitlines()
        told = run("cat", "--format", "ndjson", *more, str(good / "payments-0")).stdout.splitlines()
        counts.append((json.loads(line)["n"], len(told)))
    assert all(here == there for here, there in counts)
    assert counts[0] < counts[1]


@pytest.mark.parametrize("fmt", ["table", "csv"])
def test_a_sum_as_a_table_and_as_csv(spark: Any, good: Path, fmt: str) -> None:
    query = "SELECT codec, count(*) AS batches FROM batches WHERE topic = 'orders-lz4' GROUP BY codec"
    done = run("sql", "--format", fmt, query, str(good))
    assert done.exit_code == 0
    head, line = done.stdout.decode().splitlines()
    assert head.replace(",", " ").lower().split() == ["codec", "batches"]
    assert line.startswith("lz4")


def test_a_result_as_parquet(spark: Any, good: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "out"
    query = "SELECT topic, segment, size FROM segments"
    assert run("sql", "--format", "parquet", "-o", str(out), query, str(good)).exit_code == 0
    assert pq.read_table(out).num_rows == sum(1 for _ in good.glob("*/*.log"))
    again = run("sql", "--format", "parquet", "-o", str(out), query, str(good))
    assert again.exit_code == 2
    assert b"already exists" in again.stderr


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT nonsense FROM batches", b"codec"),
        ("SELEKT 1", b"PARSE_SYNTAX_ERROR"),
        ("SELECT 1 +", b"PARSE_SYNTAX_ERROR"),
        ("SELECT * FROM nowhere", b"nowhere"),
    ],
)
def test_a_query_that_cannot_be_is_told_in_a_line(spark: Any, good: Path, query: str, said: bytes) -> None:
    done = run("sql", query, str(good))
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT count(*) FROM records", ["offset"]),
        ("SELECT Key FROM records WHERE topic = 'value'", ["topic", "key"]),
        ("SELECT r.* FROM records r", None),
        ("SELECT offset * 2 FROM records -- value", ["offset"]),
        ("SELECT count(1), * FROM records", None),
        ("DESCRIBE records", None),
        ("FROM records |> LIMIT 1", None),
        ("SELECT 1 UNION TABLE records", None),
        ("SELECT r'\\', key FROM records", ["key"]),
    ],
)
def test_only_columns_that_a_query_names_are_asked_for(query: str, columns: list[str] | None) -> None:
    from kafkatool.spark.query_text import columns_of, used_columns

    expected = columns_of(Granularity.RECORDS) if columns is None else columns
    assert used_columns(query, Granularity.RECORDS) == expected
