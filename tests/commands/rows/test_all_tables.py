"""No row has a key that kafkatool-ndjson(5) does not explain, and none lacks one that it promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from kafkatool.commands.rows.all_tables import ROW_TABLES
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.format.batch import Codec
from kafkatool.format.state.clean_shutdown import write_clean_shutdown
from kafkatool.format.state.quorum_state import QuorumState, write_quorum_state
from tests.cli import rows_of
from tests.engine.held_logs import HELD, LIMITS, write_log
from tests.places import ROOT
from tests.serving import served
from tests.transcripts import prepare

Row = dict[str, object]

# All rows are made once, which takes a while.
pytestmark = pytest.mark.xdist_group("ndjson keys")


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, with the files that a controller has besides."""
    directory = tmp_path_factory.mktemp("ndjson")
    prepare(directory)
    (directory / "sample" / ".kafka_cleanshutdown").write_bytes(write_clean_shutdown(7))
    state = QuorumState(1, 1, 2, -1, "AAAAAAAAAAAAAAAAAAAAAA", None)
    (directory / "sample" / "quorum-state").write_bytes(write_quorum_state(state))
    return directory / "sample"


@pytest.fixture(scope="module")
def rows(log_dir: Path) -> list[Row]:
    """Rows of everything there is to show, in every way."""
    return list(_rows(log_dir))


def _rows(log_dir: Path) -> Iterator[Row]:
    files = [str(path) for path in sorted(log_dir.rglob("*")) if path.is_file()]
    for options in ([], ["--deep-iteration"], ["--print-data-log"], ["--print-data-log", "--redact"]):
        yield from rows_of("dump-log", *options, *files)
    yield from rows_of("cat", "--all", str(log_dir))
    for view in ("--topics", "--partitions", "--segments", "--files", "--space"):
        yield from rows_of("ls", view, str(log_dir))
    yield from rows_of("stats", str(log_dir))
    yield from rows_of("stats", "--deep", "--what-if", "zstd", "--by", "topic", str(log_dir))
    yield from rows_of("verify", str(log_dir))
    yield from rows_of("verify", "-v", "--state", str(log_dir.parent / "state.json"), str(log_dir))
    yield from rows_of("doctor", str(log_dir))
    yield from rows_of("report", "--with-payloads", str(log_dir))
    for sought in (("--offset", "5"), ("--time", "2026-03-01T09:02:00Z")):
        yield from rows_of("lookup", "--explain", *sought, str(log_dir))
    yield from rows_of("rebuild-index", str(log_dir))
    yield from rows_of("recover", str(log_dir))
    for options in ([], ["--free", "500"], ["--forecast", "7d"]):
        yield from rows_of("retention", "--at", "2026-03-01T10:00:00Z", *options, str(log_dir))
    held = log_dir.parent / "held" / "orders-0"
    write_log(held, HELD)
    yield from rows_of("retention", "--free", "1", *LIMITS, str(held))
    for options in ([], ["--key", "order-6"], ["--top", "3"]):
        yield from rows_of("compact", "--set", "cleanup.policy=compact", *options, str(log_dir))
    yield from _cache_rows(log_dir)
    part = str(log_dir.parent / "part")
    for _ in range(2):
        yield from rows_of("pipeline", "collect", "--jobs", "1", "-o", part, f"a={log_dir}")
    yield from rows_of("pipeline", "report", part)
    yield from rows_of("pipeline", "report", part, part)
    bench = str(log_dir.parent / "bench")
    result = str(log_dir.parent / "bench.json")
    options = ["--num-records", "1000", "--no-limits", "--on-live-volume", "--out", result]
    yield from rows_of("bench", "append", *options, bench)
    yield from rows_of("bench", "compare", result, result)


def _cache_rows(log_dir: Path) -> Iterator[Row]:
    for view in ("--topics", "--partitions", "--segments", "--files"):
        yield from rows_of("cache-map", view, "--watch", "--rounds", "1", str(log_dir))
    yield from rows_of("cache-map", "--pages", "--groups", str(log_dir))
    yield from rows_of("cache-map", "--warm", str(log_dir))
    yield from rows_of("serve", "--list", str(log_dir))
    with served(log_dir) as running:
        yield running.row
    yield running.summary


def test_every_row_has_the_keys_of_its_kind_in_their_order(rows: list[Row]) -> None:
    for row in rows:
        fields = ROW_TABLES[str(row["kind"])].fields
        keys = [key for key in row if key != "kind"]
        known = [field.key for field in fields if field.key in row or not field.optional]
        if row["kind"] == "record":
            assert set(keys) == set(known), row  # `decoded` comes last, whatever else is there
        else:
            assert keys == known, row


def test_every_row_is_as_the_json_schema_says(rows: list[Row]) -> None:
    schema = json.loads((ROOT / "docs" / "ndjson.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for row in rows:
        assert [error.message for error in validator.iter_errors(row)] == [], row


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "total"}, {"kind": "record", "offset": None}, {"kind": "clean_shutdown", "file": 7}],
    ids=lambda row: str(row["kind"]),
)
def test_the_json_schema_refuses_what_no_row_is(wrong: Row) -> None:
    schema = json.loads((ROOT / "docs" / "ndjson.schema.json").read_text())
    assert not jsonschema.Draft202012Validator(schema).is_valid(wrong)


def test_every_kind_of_row_was_seen(rows: list[Row]) -> None:
    assert {row["kind"] for row in rows} == set(ROW_TABLES)


def test_every_key_was_seen(rows: list[Row]) -> None:
    for name, table in ROW_TABLES.items():
        seen = {key for row in rows if row["kind"] == name for key in row}
        assert set(table.keys) - seen == set(), name


def test_times_are_whole_milliseconds(rows: list[Row]) -> None:
    for row in rows:
        for key, value in row.items():
            assert not key.endswith("_ms") or value is None or isinstance(value, int), key


def test_the_manual_names_every_class_severity_and_codec() -> None:
    damage = {field.key: field.meaning for field in ROW_TABLES["damage"].fields}
    batch = {field.key: field.meaning for field in ROW_TABLES["batch"].fields}
    assert all(f"{finding}" in damage["class"] for finding in FindingClass)
    assert all(severity.label in damage["severity"] for severity in Severity)
    assert all(codec.label in batch["codec"] for codec in Codec)
