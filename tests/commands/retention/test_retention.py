"""`kafkatool retention` from the command line: what is said, refused, and done."""

from __future__ import annotations

import os
import shlex
import shutil
from functools import partial
from pathlib import Path

import pytest

from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import METADATA_PARTITION, segment_file
from kafkatool.format.time_index import TimeEntry, write_entries
from tests.cli import Run, rows_of, run
from tests.commands.sure_options import AT, EXPIRED, SURE
from tests.engine.disk import START_MS, write_mixed_log_dir
from tests.engine.remote_metadata import copied, write_remote_metadata
from tests.log_dirs import locked, read_tree
from tests.places import FIXTURES

NO_DELAY = ("--set", "file.delete.delay.ms=0")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_mixed_log_dir(tmp_path / "logs")


rows = partial(rows_of, "retention", codes=[0])


def verdicts(*arguments: str) -> list[tuple[object, object, object]]:
    return [
        (row["segment"], row["verdict"], row["rule"]) for row in rows(*arguments) if row["kind"] == "verdict"
    ]


def refused(done: Run, words: bytes) -> None:
    assert (done.exit_code, words in done.stderr) == (5, True), done.stderr


def test_every_segment_has_a_verdict_and_nothing_changes(log_dir: Path) -> None:
    before = read_tree(log_dir)
    assert verdicts(*EXPIRED, str(log_dir / "orders-0")) == [(0, "delete", "time"), (60, "keep", "time")]
    assert read_tree(log_dir) == before


TIERED = (
    *("--at", AT, "--set", "cleanup.policy=delete", "--set", "remote.storage.enable=true"),
    *("--set", "remote.log.copy.disable=false", "--set", "local.retention.ms=1"),
    *("--set", "local.retention.bytes=-1", "--set", "retention.ms=-1", "--set", "retention.bytes=-1"),
)


def test_what_is_copied_is_read_from_the_metadata_beside_a_tiered_log(log_dir: Path) -> None:
    path = str(log_dir / "orders-0")
    write_remote_metadata(log_dir, *copied(1, 0, 58))
    assert verdicts(*TIERED, path) == [(0, "keep", "remote"), (60, "keep", "time")]
    assert verdicts(*TIERED, "--remote-offset", "59", path)[0] == (0, "delete", "time")
    write_remote_metadata(log_dir, *copied(1, 0, 59))
    assert verdicts(*TIERED, path) == [(0, "delete", "time"), (60, "keep", "time")]
    assert [row["remote_offset"] for row in rows(*TIERED, path) if row["kind"] == "verdict"] == [59, 59]
    done = run("retention", *TIERED, "--apply", "--offline", path)
    assert done.exit_code == 0, done.stderr
    assert (log_dir / "orders-0" / f"{0:020d}.log.deleted").exists()


def test_the_metadata_may_lie_on_another_disk_of_the_broker(log_dir: Path, tmp_path: Path) -> None:
    write_remote_metadata(tmp_path / "more", *copied(1, 0, 59))
    server = tmp_path / "server.properties"
    server.write_text(f"node.id=7\nlog.dirs={log_dir},{tmp_path / 'more'}\n")
    path = str(log_dir / "orders-0")
    assert verdicts(*TIERED, "--config", str(server), path)[0] == (0, "delete", "time")
    assert verdicts(*TIERED, path, str(tmp_path / "more"))[0] == (0, "delete", "time")


def test_what_cannot_be_judged_is_counted_and_never_called_nothing(log_dir: Path) -> None:
    path, before = str(log_dir / "orders-0"), read_tree(log_dir)
    for options in ((), ("--apply", "--offline")):
        done = run("retention", *TIERED, *options, path)
        assert done.exit_code == 3, done.stderr
        assert f"{path}: 1 segment cannot be judged: how far".encode() in done.stderr
        assert b"nothing is known that would be deleted; 1 segment cannot be judged" in done.stderr
        assert b"nothing to do" not in done.stderr
        assert b"unknown" in done.stdout
    assert read_tree(log_dir) == before
    for options in (("--forecast", "1d"), ("--free", "1K")):
        done = run("retention", *TIERED, *options, path)
        assert (done.exit_code, b"1 segment cannot be judged" in done.stderr) == (3, True)


def test_a_future_time_is_told_with_its_offset_and_whom_it_holds(log_dir: Path) -> None:
    index = log_dir / "orders-0" / segment_file(0, ".timeindex")
    index.write_bytes(write_entries([TimeEntry(START_MS + 999_999_999, 37)]))
    done = run(
        "retention", "--at", str(START_MS + 600_000), "--set", "retention.ms=1", str(log_dir / "orders-0")
    )
    first, second = done.stdout.decode().splitlines()[1:]
    assert "its time at offset 37 is 11d13h in the future: holds itself and all behind it" in first
    assert (
        "its time index does not say so, but its records reach 2023-11-14T22:13:49.001Z at offset 59" in first
    )
    assert "after_kept" in second
    assert "segment 0 before it stays until" in second


def test_where_a_value_comes_from_is_told(log_dir: Path, tmp_path: Path) -> None:
    server = tmp_path / "server.properties"
    server.write_text(f"node.id=7\nlog.dirs={log_dir}\nlog.retention.minutes=5\n")
    topic = tmp_path / "topic.properties"
    topic.write_text("cleanup.policy=delete\n")
    found = rows("--config", str(topic), "--set", "retention.bytes=9", str(server))
    origins = {row["name"]: row["origin"] for row in found if row["kind"] == "setting"}
    assert origins == {
        "cleanup.policy": "--config",
        "retention.ms": "server.properties",
        "retention.bytes": "--set",
        "remote.storage.enable": "default",
    }


def test_nothing_is_deleted_by_a_default_or_an_assumed_high_watermark(log_dir: Path) -> None:
    before = read_tree(log_dir)
    refused(run("retention", *EXPIRED, "--apply", str(log_dir / "orders-0")), b"mere defaults")
    refused(run("retention", *SURE, "--apply", str(log_dir / "orders-2")), b"high watermark is not known")
    end = ("--high-watermark", "end")
    refused(
        run("retention", *SURE, *end, "--apply", str(log_dir / "orders-0")), b"high watermark is not known"
    )
    assert read_tree(log_dir) == before
    number = ("--high-watermark", "120")
    assert run("retention", *SURE, *number, "--apply", str(log_dir / "orders-2")).exit_code == 0


def test_a_directory_in_use_is_refused(log_dir: Path, tmp_path: Path) -> None:
    before = read_tree(log_dir)
    with locked(log_dir):
        refused(run("retention", *SURE, "--apply", str(log_dir / "orders-0")), b"a broker is running")
        moving = ("--move-to", str(tmp_path / "kept"))
        refused(
            run("retention", *SURE, *moving, "--apply", str(log_dir / "orders-0")), b"a broker is running"
        )
        refused(run("retention", "--purge", "--apply", *NO_DELAY, str(_with_deleted(log_dir))), b"running")
    assert not (tmp_path / "kept").exists()
    (log_dir / "orders-0" / f"{segment_file(0, '.log')}.deleted").unlink()
    assert read_tree(log_dir) == before


def test_what_is_applied_can_be_undone(log_dir: Path) -> None:
    before = {name: data for name, data in read_tree(log_dir).items() if name != ".kafka_cleanshutdown"}
    assert run("retention", *SURE, "--apply", str(log_dir / "orders-0")).exit_code == 0
    assert (log_dir / "orders-0" / f"{segment_file(0, '.log')}.deleted").exists()
    assert verdicts(*SURE, str(log_dir / "orders-0")) == [(60, "keep", "time")]
    (journal,) = log_dir.glob("retention.kafkatool-*")
    assert run("retention", "--undo", str(journal), "--apply", "--offline").exit_code == 0
    assert read_tree(log_dir) == before


def test_the_way_back_that_is_told_can_be_pasted_anywhere(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = log_dir.rename(tmp_path / "logs of 'kafka'")
    (log_dir / "replication-offset-checkpoint").write_text("0\n2\norders 0 120\norders 2 120\n")
    before = {name: data for name, data in read_tree(log_dir).items() if name != ".kafka_cleanshutdown"}
    monkeypatch.chdir(tmp_path)
    paths = [str(log_dir / name) for name in ("orders-0", "orders-2")]
    done = run("retention", *SURE, "--offline", "--apply", "--move-to", "moved away", *paths)
    assert done.exit_code == 0, done.stderr
    assert {path.name for path in (tmp_path / "moved away").iterdir()} == {"orders-0", "orders-2"}
    monkeypatch.chdir("/")
    words = shlex.split(done.stderr.decode().rpartition("to go back: kafkatool ")[2])
    assert run(*words, "--offline").exit_code == 0
    assert read_tree(log_dir) == before
    assert not (tmp_path / "moved away").exists()


def test_segments_can_be_moved_away_but_not_into_the_log_directory(log_dir: Path, tmp_path: Path) -> None:
    inside = ("--move-to", str(log_dir / "kept"))
    refused(run("retention", *SURE, *inside, "--apply", str(log_dir / "orders-0")), b"must not lie inside")
    assert not (log_dir / "kept").exists()
    kept = tmp_path / "kept"
    assert (
        run("retention", *SURE, "--move-to", str(kept), "--apply", str(log_dir / "orders-0")).exit_code == 0
    )
    assert sorted(os.listdir(kept / "orders-0")) == [
        segment_file(0, end) for end in (".index", ".log", ".timeindex")
    ]
    assert verdicts("--at", AT, str(kept / "orders-0"))[0][0] == 0


def _with_deleted(log_dir: Path) -> Path:
    (log_dir / "orders-0" / f"{segment_file(0, '.log')}.deleted").write_bytes(b"x")
    return log_dir / "orders-0"


def test_purge_unlinks_only_what_was_deleted_long_enough_ago(log_dir: Path) -> None:
    partition = _with_deleted(log_dir)
    assert run("retention", "--purge", "--apply", str(partition)).exit_code == 0
    assert (partition / f"{segment_file(0, '.log')}.deleted").exists()
    before = read_tree(log_dir)
    done = run("retention", "--purge", "--apply", *NO_DELAY, str(partition))
    assert done.exit_code == 0
    assert b"1 step applied; there is no way back" in done.stderr
    gone = {f"orders-0/{segment_file(0, '.log')}.deleted", ".kafka_cleanshutdown"}
    assert before.keys() - read_tree(log_dir).keys() <= gone
    assert not (partition / f"{segment_file(0, '.log')}.deleted").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "retention.ms"), b"write KEY=VALUE"),
        (("--set", "retention.ms=x"), b"must be a number"),
        (("--high-watermark", "top"), b"checkpoint, end, an offset"),
        (("--high-watermark", "5"), b"takes one partition"),
        (("--remote-offset", "5"), b"takes one partition"),
        (("--forecast", "soon"), b"not a duration"),
        (("--forecast", "1ms"), b"too short"),
        (("--free", "much"), b"not a size"),
        (("--free", "0"), b"that is nothing"),
        (("--free", "1G", "--apply"), b"exclude each other"),
        (("--purge", "--move-to", "x"), b"exclude each other"),
        (("--at", "now+1d", "--apply"), b"only shows what would happen"),
        (("--kafka-version", "2.0"), b"is not one of 3.9"),
        (("--config", "/nonexistent"), b"No such file"),
    ],
)
def test_what_makes_no_sense_is_usage(log_dir: Path, arguments: tuple[str, ...], words: bytes) -> None:
    done = run("retention", *arguments, str(log_dir))
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr


def test_the_default_release_is_that_of_the_broker_not_of_the_cluster(tmp_path: Path) -> None:
    """The records of a real 4.3, in a cluster that is said to be at 3.9: a setting of 3.9 is none of its."""
    log_dir = tmp_path / "logs1"
    shutil.copytree(FIXTURES / "log-dir" / "clean-4.3" / "logs1", log_dir)
    log = log_dir / METADATA_PARTITION / segment_file(0, ".log")
    older = b"\x01\x0c\x00\x11metadata.version" + (21).to_bytes(2, "big") + b"\x00"
    log.write_bytes(log.read_bytes() + write_batch([NewRecord(None, older, 0)], base_offset=1000))
    words = ("retention", "--set", "message.format.version=3.0", str(log_dir))
    assert run(*words).exit_code == 2
    assert run(*words, "--kafka-version", "3.9").exit_code == 0
    (log_dir / "meta.properties").unlink()  # whose it is nobody knows: then the cluster decides
    assert run(*words).exit_code == 0


def test_directories_that_nobody_asks_about_are_left_alone(log_dir: Path) -> None:
    stray = "lost-3.0123456789abcdef0123456789abcdef-stray"
    assert verdicts("--set", "retention.ms=1", str(log_dir / stray)) == [(0, "keep", "policy")]
    gone = "gone-0.0123456789abcdef0123456789abcdef-delete"
    assert verdicts("--set", "retention.ms=1", str(log_dir / gone)) == [(0, "keep", "policy")]


def test_a_partition_that_cannot_be_read_does_not_hide_the_others(log_dir: Path) -> None:
    (log_dir / "orders-2" / segment_file(0, ".timeindex")).unlink()
    os.mkfifo(log_dir / "orders-2" / segment_file(0, ".timeindex"))
    done = run("retention", "--format", "ndjson", *EXPIRED, str(log_dir))
    partitions = {row.get("partition") for row in done.rows}
    assert {0, 10} <= partitions
    assert done.exit_code == 3
