"""Data that cannot be seen and data that is damaged: never fewer rows without a word."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kafkatool.engine.audit.batch_files import BatchFiles
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.walk import LogJob
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.spark.losses import DamageMet, DataLoss, OnDamage
from kafkatool.spark.planning import LogStretch, Wanted, find_subjects, plan
from kafkatool.spark.rows import RowReader
from kafkatool.spark.schemas import TYPES, Granularity
from kafkatool.spark.source import KafkaLogSource
from kafkatool.spark.workers import SparkWorkers, run_packs
from tests.cli import run
from tests.mutations import flip

SCHEMA = StructType([StructField("offset", LongType()), StructField("error", StringType())])
HOST = f"host {socket.gethostname()}"
GRANULARITIES = [Granularity.RECORDS, Granularity.BATCHES, Granularity.SEGMENTS]


@pytest.fixture
def users(good: Path, tmp_path: Path) -> Path:
    """One partition of three segments, to be changed."""
    return shutil.copytree(good / "users-0", tmp_path / "data" / "users-0")


def planned(*paths: Path) -> list[LogStretch]:
    subjects = find_subjects([str(path) for path in paths], Guest()).subjects
    return [stretch for pack in plan(subjects, Wanted(), Guest()) for stretch in pack]


def read(stretches: list[LogStretch], granularity: Granularity, **how: Any) -> list[dict[str, Any]]:
    reader = RowReader(granularity, list(TYPES[granularity]), **how)
    return [row for batch in reader.read(stretches) for row in batch.to_pylist()]


def logs_in(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def cut(log: Path, share: float) -> None:
    os.truncate(log, int(log.stat().st_size * share))


def flip_the_middle(log: Path) -> None:
    flip(log, log.stat().st_size // 2, 2)


# --- paths that a task does not see -----------------------------------------------------------------------


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_directory_that_a_task_does_not_see_is_an_error(users: Path, granularity: Granularity) -> None:
    stretches = planned(users)
    users.rename(users.with_name("elsewhere"))
    with pytest.raises(DataLoss) as loss:
        read(stretches, granularity)
    assert str(users) in str(loss.value)
    assert HOST in str(loss.value)
    users.mkdir()  # what nothing is mounted on
    with pytest.raises(DataLoss, match="it is empty there"):
        read(stretches, granularity)
    rows = read(stretches, granularity, fails_on_loss=False)
    assert len(rows) == (len(stretches) if granularity is Granularity.SEGMENTS else 0)


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_segment_that_a_broker_deleted_is_a_note(
    users: Path, granularity: Granularity, capfd: pytest.CaptureFixture[str]
) -> None:
    stretches = planned(users)
    everything = read(stretches, granularity)
    logs_in(users)[0].unlink()
    left = read(stretches, granularity)
    assert "deleted since its directory was listed" in capfd.readouterr().err
    assert left
    if granularity is Granularity.SEGMENTS:
        assert [row["error"] for row in left] == ["vanished"] + [None] * (len(stretches) - 1)
    else:
        assert left == [row for row in everything if row["segment"] != stretches[0].segment]


def test_a_log_that_is_not_the_one_that_was_planned_is_an_error(users: Path) -> None:
    """Compacted meanwhile, or another copy on another host; what is written to may grow."""
    stretches = planned(users)
    closed, active = logs_in(users)[0], logs_in(users)[-1]
    with active.open("ab") as file:
        file.write(bytes(5))
    assert read(stretches, Granularity.RECORDS)
    whole = closed.read_bytes()
    closed.write_bytes(whole * 2)
    with pytest.raises(DataLoss, match="when the read was planned"):
        read(stretches, Granularity.RECORDS)
    closed.write_bytes(whole)
    cut(active, 0.5)
    with pytest.raises(DataLoss, match="when the read was planned"):
        read(stretches, Granularity.BATCHES)
    assert read(stretches, Granularity.BATCHES, fails_on_loss=False, on_damage=OnDamage.SKIP)


def source(path: Path, **options: str) -> KafkaLogSource:
    return KafkaLogSource({"path": str(path), **options})


def test_a_plan_that_cannot_read_everything_is_an_error(users: Path) -> None:
    """Named by a configuration, one of two log directories is not there."""
    properties = users.parent.parent / "server.properties"
    properties.write_text(f"log.dirs={users.parent},{users.parent}-missing\n")
    with pytest.raises(DataLoss, match=r"cannot be read on host .*-missing"):
        source(properties).reader(SCHEMA).partitions()
    [task] = source(properties, failOnDataLoss="false").reader(SCHEMA).partitions()
    assert len(task.stretches) == len(logs_in(users))
    done = run("sql", "SELECT count(*) FROM segments", str(properties))
    assert (done.exit_code, done.stdout) == (3, b"")
    assert b"the answer would be incomplete" in done.stderr


def test_an_option_that_makes_no_sense_is_told(users: Path) -> None:
    with pytest.raises(UsageError, match=r"failOnDataLoss 'maybe' is not one of true, false"):
        source(users, failOnDataLoss="maybe").reader(SCHEMA)
    with pytest.raises(UsageError, match=r"onDamage 'row' is not one of fail, skip, rows"):
        source(users, onDamage="row").reader(SCHEMA)


def test_a_directory_that_is_renamed_between_two_counts_is_an_error(spark: Any, users: Path) -> None:
    import kafkatool.spark

    kafkatool.spark.register(spark)
    frame = spark.read.format("kafkalog").schema("offset BIGINT").load(str(users))
    assert frame.count() > 0
    users.rename(users.with_name("elsewhere"))
    with pytest.raises(Exception, match=f"DataLoss: .*users-0: cannot be read on {HOST}"):
        frame.count()


@pytest.mark.parametrize(
    "words", [["verify"], ["stats"], ["export", "-o", "OUT"]], ids=lambda words: words[0]
)
def test_a_job_whose_host_does_not_see_a_directory_fails(
    spark: Any, users: Path, tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is renamed when everything is planned, and nothing was read."""
    launch = SparkWorkers._launch

    def renamed(pool: SparkWorkers) -> None:
        if users.exists():
            users.rename(users.with_name("elsewhere"))
        launch(pool)

    monkeypatch.setattr(SparkWorkers, "_launch", renamed)
    words = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    done = run(*words, "--spark", "local[2]", str(users))
    assert done.exit_code == 3, done.stdout
    assert f"cannot be read on {HOST}".encode() in done.stderr


def test_a_function_is_not_run_where_its_log_cannot_be_seen() -> None:
    import pickle

    split = Split("/nowhere/at-all-0/00000000000000000000.log", 0, 1, 1)
    pack = pickle.dumps((os.getcwd(), [(LogJob(0).map, (split, None))]))
    [ended] = [pickle.loads(bytes(blob)) for blob in run_packs(iter([bytearray(pack)]))]
    [(is_good, error)] = ended
    assert not is_good
    assert isinstance(error, DataLoss)


def test_a_lake_that_is_not_mounted_is_no_log_that_is_gone(users: Path) -> None:
    log = logs_in(users)[0]
    size = log.stat().st_size
    job = LogJob(0, observers=(BatchFiles(Disk(), str(users / "not-mounted"), "part"),))
    facts: LogFacts = job.map(Split(str(log), 0, size, size), None)
    assert not facts.vanished
    assert facts.failure is not None
    assert "cannot be written here" in facts.failure


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_damage_is_an_error_nothing_or_a_row(users: Path, granularity: Granularity) -> None:
    flip_the_middle(logs_in(users)[0])
    stretches = planned(users)
    with pytest.raises(DamageMet, match="onDamage=skip") as met:
        read(stretches, granularity)
    assert str(logs_in(users)[0]) in str(met.value)
    skipped = read(stretches, granularity, on_damage=OnDamage.SKIP)
    shown = read(stretches, granularity, on_damage=OnDamage.ROWS)
    if granularity is Granularity.SEGMENTS:
        assert [row["damages"] for row in skipped] == [1] + [0] * (len(stretches) - 1)
        return
    [damage] = [row for row in shown if row["error"] is not None]
    assert damage["error"].startswith("bad_crc: ")
    assert damage["segment"] == stretches[0].segment
    assert [row for row in shown if row["error"] is None] == skipped
    assert read(stretches, granularity, on_damage=OnDamage.ROWS, only_damage=True) == [damage]


def test_a_log_that_cannot_be_opened_is_damage(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_more: object) -> None:
        raise KafkatoolError(f"{path}: Permission denied")

    stretches = planned(users)
    for module in ("spark.rows", "engine.batches.partition_walk", "engine.batches.segment_job"):
        monkeypatch.setattr(f"kafkatool.{module}.open_source", refuse)
    for granularity in GRANULARITIES:
        with pytest.raises(DamageMet, match="Permission denied"):
            read(stretches, granularity)
        rows = read(stretches, granularity, on_damage=OnDamage.ROWS)
        assert ["Permission denied" in row["error"] for row in rows] == [True] * len(stretches)


def test_what_a_broker_still_writes_is_no_damage(users: Path) -> None:
    """A torn tail of a log that grows, and zeros that are reserved; but not where it has stopped growing."""
    log = logs_in(users)[-1]
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) - 30])
    torn = planned(users)
    with pytest.raises(DamageMet, match="torn_tail"):
        read(torn, Granularity.RECORDS)
    log.write_bytes(whole[: len(whole) - 10])
    for granularity in (Granularity.RECORDS, Granularity.BATCHES):
        assert all(row["error"] is None for row in read(torn, granularity, on_damage=OnDamage.ROWS))
    log.write_bytes(whole + bytes(1 << 16))
    reserved = planned(users)
    for granularity in GRANULARITIES:
        assert read(reserved, granularity)


def test_records_whose_transaction_damage_may_have_ended_are_told_of(good: Path, tmp_path: Path) -> None:
    """Only what lies before the damage is asked for: the damage itself is not read."""
    payments = shutil.copytree(good / "payments-0", tmp_path / "payments-0")
    [first, *_others] = [one for one in planned(payments) if one.segment == 0]
    rows = read([first], Granularity.RECORDS)
    for log in logs_in(payments)[1:]:
        raw = log.read_bytes()
        log.write_bytes(bytes(len(raw) // 2) + raw[len(raw) // 2 :])
    few = read([first], Granularity.RECORDS, on_damage=OnDamage.SKIP)
    if len(few) < len(rows):
        with pytest.raises(DamageMet, match="records are hidden"):
            read([first], Granularity.RECORDS)


def test_sql_answers_from_what_is_sound_and_tells_of_the_rest(
    spark: Any, damaged: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    partition = damaged / "orders-none-0"
    told = run("cat", "--format", "ndjson", str(partition))
    assert told.exit_code == 4
    out = tmp_path / "out"
    done = run("sql", "--format", "parquet", "-o", str(out), "SELECT * FROM records", str(partition))
    assert done.exit_code == 4
    assert b"1 damaged place in 1 log that the query reads" in done.stderr
    assert b"orders-none-0, segment 0, byte " in done.stderr
    assert b"bad_crc: " in done.stderr
    answer = pq.read_table(out)
    assert answer.num_rows == len(told.stdout.splitlines())
    assert "error" not in answer.column_names


# --- streams ----------------------------------------------------------------------------------------------


def take(path: Path, start: dict[str, int], **options: str) -> tuple[dict[str, int], list[int]]:
    """One micro-batch of all that is new: where it ends, and its offsets."""
    reader = source(path, **options).streamReader(SCHEMA)
    end = reader.latestOffset(start, ReadAllAvailable())
    batches = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
    return end, [row["offset"] for batch in batches for row in batch.to_pylist()]


def test_a_stream_fails_where_a_partition_is_gone(users: Path, good: Path) -> None:
    shutil.copytree(good / "users-1", users.with_name("users-1"))
    end, offsets = take(users.parent, {})
    assert offsets
    users.rename(users.with_name("users-2"))
    with pytest.raises(DataLoss, match="users-0: read before, and not there any more"):
        take(users.parent, end)
    assert take(users.parent, end, failOnDataLoss="false")[1]


def test_a_stream_fails_at_damage_and_waits_at_a_torn_tail(users: Path) -> None:
    first, last = logs_in(users)[0], logs_in(users)[-1]
    whole, tail = first.read_bytes(), last.read_bytes()
    last.write_bytes(tail[: len(tail) - 30])
    flip_the_middle(first)
    with pytest.raises(DamageMet, match="bad_crc"):
        take(users.parent, {})
    skipped = take(users.parent, {}, onDamage="skip")[1]
    first.write_bytes(whole)
    end, offsets = take(users.parent, {})
    assert set(skipped) < set(offsets)
    last.write_bytes(tail)
    more = take(users.parent, end)[1]
    assert more
    assert sorted(offsets + more) == list(range(len(offsets) + len(more)))
