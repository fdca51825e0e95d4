"""The data source `kafkalog`: the rows of the engine, no column too many, no segment too many."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.files.source import Guest
from kafkatool.spark.planning import Wanted, find_subjects, plan
from kafkatool.spark.schemas import TYPES, Granularity
from tests.cli import rows_of


@pytest.fixture
def logs(spark: Any) -> Any:
    """`logs("batches", path, splitBytes=…)` is a DataFrame."""
    import kafkatool.spark

    kafkatool.spark.register(spark)

    def load(granularity: str, *paths: Path, schema: str | None = None, **options: object) -> Any:
        reader = spark.read.format("kafkalog").option("granularity", granularity)
        for name, value in options.items():
            reader = reader.option(name, value)
        reader = reader.schema(schema) if schema else reader
        return reader.load([str(path) for path in paths])

    return load


def rows(frame: Any, *order: str) -> list[dict[str, Any]]:
    return sorted(
        (row.asDict(recursive=True) for row in frame.collect()),
        key=lambda row: tuple(row[name] if row[name] is not None else -1 for name in order),
    )


@pytest.mark.parametrize("split_bytes", [150_000, 1 << 30])
def test_batches_are_those_of_dump_log(logs: Any, damaged: Path, split_bytes: int) -> None:
    for name in ("orders-none-0", "users-0"):
        partition = damaged / name
        told = rows_of("dump-log", *sorted(partition.glob("*.log")))
        expected = [row for row in told if row["kind"] == "batch" and row["is_valid"]]
        frame = logs("batches", partition, splitBytes=split_bytes, onDamage="rows")
        found = rows(frame, "segment", "position")
        good = [row for row in found if row["is_valid"]]
        keys = set(TYPES[Granularity.BATCHES]) - {"root", "error"}
        assert [{key: row[key] for key in keys} for row in good] == [
            {key: row[key] for key in keys} for row in expected
        ]
        bad = [row["error"].split(":")[0] for row in found if not row["is_valid"]]
        assert bad == (["bad_crc"] if name == "orders-none-0" else [])


@pytest.mark.parametrize("split_bytes", [200_000, 1 << 30])
def test_records_are_those_of_cat(logs: Any, damaged: Path, split_bytes: int) -> None:
    for words, options in ((["cat"], {}), (["cat", "--all"], {"all": "true"})):
        options["onDamage"] = "skip"
        for name in ("payments-0", "orders-none-0"):
            told = rows_of(*words, "--bytes", "hex", damaged / name)
            found = rows(logs("records", damaged / name, splitBytes=split_bytes, **options), "offset")
            assert [row["offset"] for row in found] == [row["offset"] for row in told]
            for row, other in zip(found, told, strict=True):
                assert (row["key"] or b"").hex() == (other["key"] or "")
                assert (row["value"] or b"").hex() == (other["value"] or "")
                assert row["timestamp_ms"] == other["timestamp_ms"]
                assert row["timestamp"].replace(tzinfo=UTC) == datetime.fromtimestamp(
                    other["timestamp_ms"] / 1000, UTC
                )
                headers = [[one["key"].hex(), one["value"].hex()] for one in row["headers"]]
                assert headers == other["headers"]
                for key in ("txn", "is_control", "producer_id", "sequence", "batch_position", "topic"):
                    assert row[key] == other[key], key


def test_segments_are_those_of_stats(logs: Any, damaged: Path) -> None:
    told = {
        row["file"]: row
        for row in rows_of("stats", "--by", "file", damaged)
        if row["kind"] == "stats" and row["by"] == "file"
    }
    found = rows(logs("segments", damaged, onDamage="rows"), "file")
    assert {row["file"] for row in found} == set(told)
    for row in found:
        other = told[row["file"]]
        assert (row["batches"], row["records"], row["damages"]) == (
            other["batches"],
            other["records"],
            other["damaged_places"] if "damaged_places" in other else row["damages"],
        )


def test_only_the_columns_that_are_named_are_there(logs: Any, good: Path) -> None:
    frame = logs("records", good / "users-0", schema="offset BIGINT, key BINARY")
    assert frame.columns == ["offset", "key"]
    assert frame.count() == logs("records", good / "users-0").count()


def test_a_column_that_is_not_there_is_told(logs: Any, good: Path) -> None:
    with pytest.raises(Exception, match="batches have no customer"):
        logs("batches", good, schema="customer STRING").count()


def test_roots_stand_side_by_side(logs: Any, spark: Any, good: Path, damaged: Path) -> None:
    frame = spark.read.format("kafkalog").option("granularity", "segments")
    frame = frame.option("onDamage", "skip").load([f"a={good}", f"b={damaged}"])
    assert {row["root"] for row in frame.select("root").distinct().collect()} == {"a", "b"}


def planned(path: Path, wanted: Wanted, split_size: int = 1 << 30) -> list[tuple[str, int, int]]:
    subjects = find_subjects([str(path)], Guest()).subjects
    tasks = plan(subjects, wanted, Guest(), split_size)
    return [(Path(one.path).parent.name, one.segment, one.start) for task in tasks for one in task]


def test_filters_leave_out_topics_partitions_and_segments(good: Path) -> None:
    everything = planned(good, Wanted())
    of_users = [one for one in everything if one[0].startswith("users-")]
    assert planned(good, Wanted(topics={"users"})) == of_users
    assert planned(good, Wanted(topics={"users"}, partitions={1})) == [
        one for one in of_users if one[0] == "users-1"
    ]
    bases = [base for name, base, _start in of_users if name == "users-0"]
    assert len(bases) > 1
    late = planned(good, Wanted(topics={"users"}, partitions={0}, first_offset=bases[1]))
    assert [base for _name, base, _start in late] == bases[1:]
    early = planned(good, Wanted(topics={"users"}, partitions={0}, last_offset=bases[1] - 1))
    assert [base for _name, base, _start in early] == bases[:1]
    assert planned(good, Wanted(first_ms=1 << 50, topics={"users"}, partitions={0})) == [
        ("users-0", bases[-1], 0)
    ]


def test_filters_leave_out_the_beginning_of_a_segment(good: Path) -> None:
    whole = planned(good / "users-0", Wanted(), 64 << 10)
    wanted = Wanted(first_offset=1000, last_offset=1100)
    part = planned(good / "users-0", wanted, 64 << 10)
    assert 0 < len(part) < len(whole) / 2


def test_a_filter_gives_what_spark_would_have_filtered(logs: Any, damaged: Path) -> None:
    everything = logs("records", damaged, onDamage="skip")
    everything = everything.select("topic", "partition", "offset", "timestamp_ms").collect()
    middle = sorted(row["timestamp_ms"] for row in everything)[len(everything) // 2]
    for condition, holds in (
        ("topic = 'users' AND partition = 1", lambda r: r["topic"] == "users" and r["partition"] == 1),
        ("offset BETWEEN 500 AND 700", lambda r: 500 <= r["offset"] <= 700),
        ("topic IN ('payments', 'users')", lambda r: r["topic"] in ("payments", "users")),
        (f"timestamp_ms >= {middle}", lambda r: r["timestamp_ms"] >= middle),
    ):
        frame = logs("records", damaged, splitBytes=400_000, onDamage="skip").where(condition)
        found = frame.select("topic", "partition", "offset", "timestamp_ms").collect()
        assert sorted(found) == sorted(row for row in everything if holds(row)), condition


def planned_tasks(spark: Any, frame: Any) -> int:
    """The number of tasks; no job is run.

    `rdd` plans by the settings of the session that is active in the thread of the JVM behind this connection,
    and after an interrupt pyspark may go on with another connection, where none is.
    """
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)
    return int(frame.rdd.getNumPartitions())


def test_what_a_filter_leaves_out_is_no_task(spark: Any, logs: Any, good: Path) -> None:
    """Through Spark itself: what is pushed down is what is planned."""
    frame = logs("records", good, splitBytes=100_000)
    everything = planned_tasks(spark, frame)
    one = planned_tasks(spark, frame.where("topic = 'users' AND partition = 1"))
    some = planned_tasks(spark, frame.where("topic = 'users' AND partition = 1 AND offset < 1000"))
    assert 0 < some < one < everything / 4


def test_a_session_without_push_down_can_read_too(spark: Any, logs: Any, good: Path) -> None:
    import kafkatool.spark

    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "false")
    try:
        kafkatool.spark.register(spark)
        frame = spark.read.format("kafkalog").option("granularity", "batches").load(str(good))
        assert frame.where("topic = 'users'").count() > 0
    finally:
        spark.conf.set(name, "true")


def run_stream(query: Any) -> Any:
    running = query.start()
    assert running.awaitTermination(120)
    return running


def until_connected(attempt: Callable[[], Any]) -> Any:
    """Spark gives a new Python worker ten seconds to call back, which a busy host may not: again, as a user.

    A stream that is started again goes on where it was.
    """
    for _ in range(4):
        try:
            return attempt()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
    return attempt()


def test_a_stream_gives_every_committed_record_once(
    spark: Any, logs: Any, good: Path, tmp_path: Path
) -> None:
    """The log grows between two runs of the stream: what has come since is all that the second gives."""
    source, target = tmp_path / "data", tmp_path / "out"
    names = sorted(path.name for path in (good / "payments-0").glob("*.log"))
    whole = (good / "payments-0" / names[0]).read_bytes()
    shutil.copytree(good / "users-0", source / "users-0")
    (source / "payments-0").mkdir()
    log = source / "payments-0" / names[0]
    log.write_bytes(whole[: len(whole) * 4 // 5])  # in the middle of a batch, and of a transaction

    def take() -> Any:
        stream = spark.readStream.format("kafkalog").option("maxRecordsPerTrigger", "3000").load(str(source))
        query = stream.select("topic", "partition", "offset", "value").writeStream.format("parquet")
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).option("path", str(target))
        return until_connected(lambda: run_stream(query.trigger(availableNow=True)))

    first = take()
    sizes = [progress["numInputRows"] for progress in first.recentProgress]
    assert max(sizes) <= 3000 < sum(sizes)
    log.write_bytes(whole)
    shutil.copytree(good / "users-1", source / "users-1")  # a partition that was not there
    for name in names[1:]:
        shutil.copy(good / "payments-0" / name, source / "payments-0" / name)
    take()
    keys = ("topic", "partition", "offset")
    found = sorted(tuple(row) for row in spark.read.parquet(str(target)).select(*keys).collect())
    told = [tuple(row[key] for key in keys) for row in rows_of("cat", source)]
    assert found == sorted(told)
    assert len({key[:2] for key in found}) == 3
