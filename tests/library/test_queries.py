"""Records, batches and findings of what was opened, as Python values and as Arrow."""

from __future__ import annotations

import logging
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import kafkatool
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message
from tests.cli import parse_rows, run
from tests.engine.transaction_logs import LogMaker, set_limits
from tests.fixtures_of_logs import LOG_DIRECTORIES
from tests.logs import TIME, batches, write_log
from tests.mutations import flipped


def asked(question: str, found: kafkatool.RecordQuery | kafkatool.BatchQuery) -> list[Any]:
    """Let DuckDB read the query by itself."""
    with duckdb.connect() as connection:
        connection.register("found", found)
        return connection.execute(question).fetchall()


def record_rows(query: kafkatool.RecordQuery) -> list[dict[str, Any]]:
    """The records as `cat --bytes hex` writes them."""
    return [
        {
            **record._asdict(),
            "key": None if record.key is None else record.key.hex(),
            "value": None if record.value is None else record.value.hex(),
            "headers": [
                [name.hex(), None if value is None else value.hex()] for name, value in record.headers
            ],
        }
        for record in query
    ]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("directory", LOG_DIRECTORIES, ids=str)
def test_records_are_those_of_cat(directory: Path, committed: bool) -> None:
    words = [] if committed else ["--all"]
    done = run("cat", *words, "-q", "--format", "ndjson", "--bytes", "hex", str(directory))
    query = kafkatool.open(directory).records(committed=committed, on_damage="skip")
    found = record_rows(query)
    shown = parse_rows(done.stdout)
    assert len(shown) == len(found)
    for row, record in zip(shown, found, strict=True):
        assert {name: value for name, value in row.items() if name in record} == {
            name: value for name, value in record.items() if name in row
        }


@pytest.mark.parametrize("directory", LOG_DIRECTORIES, ids=str)
def test_arrow_holds_the_same_records(directory: Path) -> None:
    query = kafkatool.open(directory).records(committed=False, on_damage="skip")
    rows = query.to_arrow().to_pylist()
    for row in rows:
        row["headers"] = tuple((one["key"], one["value"]) for one in row["headers"])
    assert rows == [record._asdict() for record in query]


@pytest.mark.parametrize("directory", LOG_DIRECTORIES, ids=str)
def test_batches_are_those_of_dump_log(directory: Path) -> None:
    logs = sorted(str(path) for path in directory.glob("*.log"))
    shown = [
        (row["position"], row["crc"])
        for row in parse_rows(run("dump-log", "--format", "ndjson", *logs).stdout)
        if row["kind"] == "batch" and row["is_valid"]
    ]
    query = kafkatool.open(*logs).batches(on_damage="skip")
    assert [(batch.position, batch.header.crc) for batch in query] == shown
    table = query.to_arrow()
    assert list(zip(table["position"].to_pylist(), table["crc"].to_pylist(), strict=True)) == shown
    assert table["max_timestamp"].to_pylist() == [batch.max_timestamp for batch in query]


def test_a_range_is_one_of_offsets_or_of_times(tmp_path: Path) -> None:
    logs = kafkatool.open(write_log(tmp_path / "t-0", b"".join(batches(10))).parent)

    def offsets(**bounds: Any) -> list[int]:
        return [record.offset for record in logs.records("t", 0, **bounds)]

    assert offsets(start=3, end=5) == [3, 4]
    time = datetime.fromtimestamp(TIME / 1000, UTC)
    assert offsets(start=time + timedelta(seconds=2), end=time + timedelta(seconds=4)) == [2, 3]
    elsewhere = (time + timedelta(seconds=28)).astimezone(timezone(timedelta(hours=5)))
    assert offsets(start=elsewhere) == [28, 29]
    assert [batch.header.base_offset for batch in logs.batches(start=4, end=8)] == [3, 6]
    with pytest.raises(kafkatool.UsageError, match="needs a time zone"):
        logs.records(start=datetime(2026, 1, 1))


def test_a_consumer_of_committed_records_gets_no_others(tmp_path: Path) -> None:
    maker = LogMaker().txn(1, 2).abort(1).txn(2, 2).commit(2).txn(3)
    write_log(tmp_path / "t-0", bytes(maker.data))
    logs = kafkatool.open(tmp_path)
    everything = list(logs.records(committed=False))
    assert [record.txn for record in everything] == [
        *("aborted", "aborted", "aborted", "committed", "committed", "committed", "open")
    ]
    assert [record.offset for record in logs.records()] == [3, 4]
    set_limits(tmp_path, high_watermark=4, log_start=4, name="t-0")
    assert list(kafkatool.open(tmp_path / "t-0").records()) == []
    set_limits(tmp_path, high_watermark=6, log_start=4, name="t-0")
    assert [record.offset for record in kafkatool.open(tmp_path / "t-0").records()] == [4]


def test_damage_raises_or_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    size = len(batches(1)[0])
    path = write_log(tmp_path / "t-0", flipped(b"".join(batches(3)), size + 70))
    logs = kafkatool.open(path.parent)
    for query in (logs.records(), logs.batches()):
        with pytest.raises(kafkatool.DamagedLog, match="on_damage='skip'") as raised:
            list(query)
        assert (raised.value.path, raised.value.damage.kind) == (str(path), kafkatool.FindingClass.BAD_CRC)
        with pytest.raises(kafkatool.DamagedLog, match="checksum does not match"):
            query.to_arrow()
    with caplog.at_level(logging.WARNING, "kafkatool"):
        assert [record.offset for record in logs.records(on_damage="skip")] == [0, 1, 2, 6, 7, 8]
    assert "checksum does not match" in caplog.text
    assert [one.damage.kind for one in logs.findings() if one.damage.severity is kafkatool.Severity.LOSS]


def test_a_log_that_cannot_be_opened_is_not_passed_over_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "t-0", b"".join(batches(3)))
    logs = kafkatool.open(path.parent)

    def refuse(*_arguments: object) -> None:
        raise kafkatool.KafkatoolError(f"{path}: Permission denied")

    monkeypatch.setattr("kafkatool.engine.batches.partition_walk.open_source", refuse)
    monkeypatch.setattr("kafkatool.library.batch_query.open_source", refuse)
    for query in (logs.records(), logs.batches()):
        with pytest.raises(kafkatool.KafkatoolError, match="Permission denied"):
            list(query)
    assert list(logs.records(on_damage="skip")) == []


def test_times_that_no_date_can_hold_are_none_and_their_number_stays(tmp_path: Path) -> None:
    times = [-1, TIME, 253_402_300_799_999, 253_402_300_800_000, (1 << 62)]
    batch = write_batch([NewRecord(None, b"", time) for time in times])
    logs = kafkatool.open(write_log(tmp_path / "t-0", batch).parent)
    query = logs.records()
    known = [record.timestamp for record in query]
    assert [time is not None for time in known] == [False, True, True, False, False]
    assert [record.timestamp_ms for record in query] == times
    table = query.to_arrow()
    assert table["timestamp_ms"].to_pylist() == times
    assert table["timestamp"].to_pylist() == known
    assert pl.DataFrame(query)["timestamp_ms"].to_list() == times
    assert asked("select epoch_ms(max(timestamp)) from found", query) == [(times[2],)]


def test_old_messages_have_no_producers(tmp_path: Path) -> None:
    log = write_message(0, b"k", b"v", magic=0) + write_message(1, None, b"w", timestamp_ms=TIME)
    logs = kafkatool.open(write_log(tmp_path / "t-0", log).parent)
    first, second = logs.records()
    assert (first.producer_id, first.sequence, first.timestamp, first.timestamp_type) == (
        *(None, None, None),
        "NoTimestampType",
    )
    assert (second.timestamp_ms, second.key) == (TIME, None)
    assert logs.records().to_arrow()["producer_id"].to_pylist() == [None, None]
    assert [batch.header.magic for batch in logs.batches()] == [0, 1]


def test_arrow_readers_take_a_query_as_it_is(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "b-0"):
        write_log(tmp_path / name, b"".join(batches(4)))
    query = kafkatool.open(tmp_path).records()
    assert pl.DataFrame(query).group_by("topic").len().sort("topic").rows() == [("a", 24), ("b", 12)]
    counts = asked("select topic, count(*) from found group by topic order by topic", query)
    assert counts == [("a", 24), ("b", 12)]
    assert pa.table(query).num_rows == pa.RecordBatchReader.from_stream(query).read_all().num_rows == 36
    frame = query.to_pandas()
    assert frame["timestamp"].dt.tz is not None
    assert list(frame["value"][:2]) == [b"value 0", b"value 1"]
    of_batches = kafkatool.open(tmp_path).batches("a")
    assert asked("select sum(records_count) from found", of_batches) == [(24,)]


def test_what_is_not_there_is_named_with_its_neighbour(tmp_path: Path) -> None:
    write_log(tmp_path / "orders-0", b"".join(batches(1)))
    logs = kafkatool.open(tmp_path)
    assert [(one.topic, one.partition) for one in logs.partitions] == [("orders", 0)]
    with pytest.raises(kafkatool.UsageError, match="did you mean 'orders'"):
        logs.records("order")
    with pytest.raises(kafkatool.UsageError, match="no partition 7 of orders"):
        logs.batches("orders", 7)
    with pytest.raises(kafkatool.UsageError, match="No such file"):
        kafkatool.open(tmp_path / "nowhere")
    with pytest.raises(kafkatool.UsageError, match="'fail' or 'skip'"):
        logs.records(on_damage="rows")  # type: ignore[arg-type]


_PEAK = """
import resource, sys, kafkatool, pyarrow as pa
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
path = sys.argv[1]
next(iter(kafkatool.open(path).records()))
base = peak()
rows = sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(kafkatool.open(path).records()))
rows += sum(1 for _ in kafkatool.open(path).records(end=200_000))
rows += sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(kafkatool.open(path).batches()))
print(rows, peak() - base)
"""


@pytest.mark.long
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    count = 10_000
    batch = write_batch([NewRecord(b"key", b"%0200d" % at, TIME) for at in range(100)])
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    with path.open("wb") as file:
        for at in range(count):
            file.write((at * 100).to_bytes(8, "big") + batch[8:])
    assert path.stat().st_size > 200 << 20
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path.parent)], capture_output=True, text=True, check=True
    )
    rows, grown = map(int, done.stdout.split())
    assert rows == count * 100 + 200_000 + count
    assert grown < 100 << 10, f"{grown} KiB"
