"""`kafkatool compact`: what it tells, writes, applies, and refuses."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli import Run, run
from tests.commands.sure_options import CERTAIN, COMPACT
from tests.engine.compaction_logs import CleanLog
from tests.engine.transaction_logs import set_limits
from tests.engine.transaction_states import state, write_all_states, write_states
from tests.log_dirs import locked, read_tree
from tests.mutations import flip, put


@pytest.fixture
def log(tmp_path: Path) -> CleanLog:
    """Three closed segments with four keys, an open transaction behind them."""
    (tmp_path / "logs").mkdir()
    log = CleanLog(tmp_path / "logs" / "users-0")
    for number in range(9):
        log.put(f"user-{number % 2}=v{number}", f"team-{number % 2}=w{number}")
        if number % 3 == 2:
            log.roll()
    log.put("user-0=x", pid=5, txn=True).roll().put("user-1=last")
    log.close()
    return log


def told(done: Run, exit_code: int = 0) -> list[dict[str, Any]]:
    """All rows but those of settings."""
    assert done.exit_code == exit_code, done.stderr
    return [row for row in done.rows if row["kind"] != "setting"]


def test_a_pass_tells_its_range_and_what_it_removes(log: CleanLog) -> None:
    before = log.shown()
    row = told(run("compact", "--format", "ndjson", *COMPACT, "--at", "2000", str(log.directory)))[0]
    assert (row["pass"], row["first_dirty"], row["end_offset"], row["first_uncleanable"]) == (1, 0, 18, 18)
    assert row["bound"] == "last_stable_offset"
    assert (row["records_before"], row["records_after"], row["superseded"]) == (18, 4, 14)
    assert (row["segments_before"], row["segments_after"]) == (3, 1)
    assert log.shown() == before


def test_an_open_transaction_that_its_coordinator_may_know_is_not_to_be_aborted(log: CleanLog) -> None:
    txn = open_transaction(log, "--at", "2000")
    assert (txn["producer_id"], txn["first_offset"], txn["age_ms"]) == (5, 18, 1500)
    assert (txn["verdict"], txn["ends_by_ms"]) == ("ask_coordinator", None)
    assert "find-hanging" in txn["fix"]  # which only looks
    assert open_transaction(log)["verdict"] == "ask_coordinator"  # old, and its coordinator is not here
    said = run("compact", *COMPACT, str(log.directory)).stderr
    assert b" abort " not in said
    assert b"forceTerminate" not in said


def test_an_open_transaction_of_a_live_producer_ends_by_itself(log: CleanLog) -> None:
    fields = {"transactionStartTimestampMs": 500, "transactionLastUpdateTimestampMs": 500}
    write_all_states(log.directory.parent, state("payments-1", 5, **fields))
    txn = open_transaction(log, "--at", "5500")
    assert (txn["verdict"], txn["ends_by_ms"], txn["fix"]) == ("in_progress", 70_500, None)
    done = run("compact", *COMPACT, "--at", "5500", str(log.directory))
    assert b"in_progress: its coordinator knows it" in done.stderr
    assert b"kafka-transactions.sh" not in done.stderr
    assert "forceTerminateTransaction" in open_transaction(log, "--at", "60501")["fix"]


def test_a_hanging_transaction_is_named_with_the_way_to_end_it(log: CleanLog) -> None:
    write_all_states(log.directory.parent)
    txn = open_transaction(log)
    assert txn["verdict"] == "hanging"
    assert txn["fix"].endswith("abort --topic users --partition 0 --start-offset 18")
    done = run("compact", *COMPACT, str(log.directory))
    assert done.stderr.rstrip().endswith(txn["fix"].encode())


def open_transaction(log: CleanLog, *arguments: str) -> dict[str, Any]:
    row = told(run("compact", "--format", "ndjson", *COMPACT, *arguments, str(log.directory)))[0]
    (txn,) = cast(list[dict[str, Any]], row["open_transactions"])
    return txn


def test_an_open_transaction_is_named_with_its_transactional_id(log: CleanLog) -> None:
    assert transactional_ids(str(log.directory)) == [None]
    write_states(log.directory.parent, [state("payments-1", 5)])
    assert transactional_ids(str(log.directory)) == ["payments-1"]
    done = run("compact", *COMPACT, str(log.directory))
    assert b"the transaction of producer 5, epoch 0, transactional id 'payments-1', is open" in done.stderr


def test_the_transactional_id_may_be_known_to_another_directory_that_is_named(
    log: CleanLog, tmp_path: Path
) -> None:
    write_states(tmp_path / "more", [state("payments-1", 5)])
    server = tmp_path / "server.properties"
    server.write_text(f"log.dirs={log.directory.parent},{tmp_path / 'more'}\n")
    assert transactional_ids(str(log.directory)) == [None]
    for paths in (
        (str(server),),
        (str(log.directory), str(tmp_path / "more")),
        ("--config", str(server), str(log.directory)),
    ):
        assert transactional_ids(*paths) == ["payments-1"]


def test_the_state_of_transactions_is_read_only_where_one_is_open(
    log: CleanLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nobody should ask")

    log.put("user-0=y", pid=5, txn=True).abort(5).close()
    write_states(log.directory.parent, [state("payments-1", 5)])
    monkeypatch.setattr("kafkatool.engine.cluster.transactional_ids.read_transactional_ids", refuse)
    assert transactional_ids(str(log.directory)) == []


def transactional_ids(*arguments: str) -> list[object]:
    """Those of the open transactions of users-0, as told."""
    rows = told(run("compact", "--format", "ndjson", *COMPACT, "--at", "2000", *arguments))
    (row,) = [row for row in rows if row["topic"] == "users"]
    return [txn["transactional_id"] for txn in cast(list[dict[str, Any]], row["open_transactions"])]


def test_a_map_that_is_too_small_needs_more_passes(log: CleanLog) -> None:
    small = ("--set", "log.cleaner.io.buffer.load.factor=0.0000004")
    options = ("--format", "ndjson", *COMPACT, *small, "--at", "2000")
    first = told(run("compact", *options, str(log.directory)))
    assert [row["map_is_full"] for row in first] == [True]
    rows = told(run("compact", *options, "--until-stable", str(log.directory)))
    assert len(rows) > 1
    assert [row["first_dirty"] for row in rows[1:]] == [row["end_offset"] for row in rows[:-1]]
    assert rows[-1]["end_offset"] == 18
    assert len(told(run("compact", *options, "--passes", "2", str(log.directory)))) == 2


def test_the_life_of_a_key_names_the_fate_of_each_record(log: CleanLog) -> None:
    options = ("--format", "ndjson", *COMPACT, "--at", "2000", "--key", "user-1")
    rows = told(run("compact", *options, str(log.directory)))
    assert [(row["offset"], row["fate"]) for row in rows] == [
        (2, "superseded"),
        (6, "superseded"),
        (10, "superseded"),
        (14, "kept"),
        (19, "not_reached"),
    ]


def test_the_keys_that_waste_most_are_told_with_their_beginnings(log: CleanLog) -> None:
    rows = told(
        run("compact", "--format", "ndjson", *COMPACT, "--at", "2000", "--top", "2", str(log.directory))
    )
    assert [(row["what"], row["key"], row["keys"], row["records"]) for row in rows] == [
        ("prefix", "team-", 2, 7),
        ("prefix", "user-", 2, 7),
        ("key", "team-0", 1, 4),
        ("key", "user-0", 1, 4),
    ]


def test_a_compacted_copy_is_written_and_the_log_left_alone(log: CleanLog, tmp_path: Path) -> None:
    before = log.shown()
    target = tmp_path / "out"
    options = (*COMPACT, "--at", "2000", "--write-to", str(target))
    assert run("compact", *options, str(log.directory)).exit_code == 0
    assert log.shown() == before
    assert len(CleanLog(target / "users-0").offsets()) == 6
    assert run("compact", *options, str(log.directory)).exit_code == 5


def test_a_copy_is_never_written_into_the_log_directory(log: CleanLog) -> None:
    options = (*COMPACT, "--write-to", str(log.directory.parent / "out"))
    assert run("compact", *options, str(log.directory)).exit_code == 5


def test_little_memory_makes_no_difference(log: CleanLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkatool.engine.compaction.key_room.FEWEST_KEYS", 1)
    words = ("compact", "--format", "ndjson", "--set", "cleanup.policy=compact", "--at", "20000")
    whole, parts = (run(*words, "--memory", size, str(log.directory)) for size in ("1G", "41"))
    assert whole.exit_code == parts.exit_code == 0
    assert told(whole) == told(parts)
    assert run("compact", "--memory", "much", str(log.directory)).exit_code == 2


def test_apply_puts_the_result_in_place_and_undo_brings_the_log_back(log: CleanLog) -> None:
    before = log.shown()
    set_limits(log.directory.parent, 20, name="users-0")
    options = ("--format", "ndjson", *CERTAIN, "--offline", "--apply")
    *_passes, plan = told(run("compact", *options, str(log.directory)))
    assert len(log.offsets()) == 6
    checkpoint = (log.directory.parent / "cleaner-offset-checkpoint").read_text()
    assert "users 0 18" in checkpoint
    done = run("compact", "--undo", str(plan["journal"]), "--apply", "--offline")
    assert done.exit_code == 0, done.stderr
    assert log.shown() == before


@pytest.mark.parametrize("passes", [("--until-stable",), ("--passes", "3"), ("--passes", "2")])
def test_passes_after_a_merge_leave_a_partition_that_verify_finds_nothing_wrong_with(
    tmp_path: Path, passes: tuple[str, ...]
) -> None:
    """A map of two keys: the second pass merges, the third begins in what it left."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    log = CleanLog(log_dir / "users-0")
    log.put("a=1").put("b=1").roll().put("a=2").put("c=1").put("d=1").put("e=1").roll().put("z=1").close()
    before = read_tree(log_dir)
    set_limits(log_dir, 7, name="users-0")
    small = ("--set", "log.cleaner.dedupe.buffer.size=80", "--set", "log.cleaner.io.buffer.load.factor=0.7")
    options = ("--format", "ndjson", *CERTAIN, *small, *passes)
    rows = told(run("compact", *options, str(log.directory)))
    assert [row["segments_before"] for row in rows] == [1, 2, 1][: len(rows)]
    copied = run("compact", *options, "--write-to", str(tmp_path / "out"), str(log.directory))
    *applied, plan = told(run("compact", *options, "--offline", "--apply", str(log.directory)))
    assert [row["bytes_after"] for row in applied] == [row["bytes_after"] for row in told(copied)]
    for directory in (log.directory, tmp_path / "out" / "users-0"):
        after = CleanLog(directory).segments()
        assert after == {0: ["1:b=1", "2:a=2", "3:c=1", "4:d=1", "5:e=1"], 6: ["6:z=1"]}
        assert (directory / f"{0:020d}.log").stat().st_size == rows[-1]["bytes_after"]
        checked = run("verify", "--format", "ndjson", "--fail-on", "note", str(directory))
        assert (checked.exit_code, checked.stdout) == (0, b"") or b'"finding"' not in checked.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert run("compact", "--undo", str(plan["journal"]), "--apply", "--offline").exit_code == 0
    left = read_tree(log_dir)
    assert {name: left[name] for name in before} == before


@pytest.mark.parametrize("options", [COMPACT, (*CERTAIN, "--high-watermark", "end"), CERTAIN])
def test_apply_never_goes_by_a_default_or_an_assumed_high_watermark(
    log: CleanLog, options: tuple[str, ...]
) -> None:
    before = log.shown()
    done = run("compact", *options, "--offline", "--apply", str(log.directory))
    assert done.exit_code == 5
    assert log.shown() == before


def test_a_directory_in_use_is_refused(log: CleanLog) -> None:
    log_dir = log.directory.parent
    set_limits(log_dir, 20, name="users-0")
    with locked(log_dir):
        before = read_tree(log_dir)
        done = run("compact", *CERTAIN, "--apply", str(log.directory))
        assert (done.exit_code, b"a broker is running" in done.stderr) == (5, True)
        assert read_tree(log_dir) == before


def test_apply_goes_by_the_clock(log: CleanLog) -> None:
    assert run("compact", *CERTAIN, "--at", "now+1d", "--apply", str(log.directory)).exit_code == 2


def test_a_topic_that_is_not_compacted_is_left_alone(log: CleanLog) -> None:
    done = run("compact", "--set", "cleanup.policy=delete", str(log.directory))
    assert (done.exit_code, done.stdout) == (0, b"")
    assert b"is not compacted" in done.stderr


def test_where_the_cleaner_would_give_up_is_told(log: CleanLog) -> None:
    path = log.directory / f"{6:020d}.log"
    put(path, 8, (1 << 30).to_bytes(4, "big"))
    done = run("compact", *COMPACT, str(log.directory))
    assert done.exit_code == 4
    assert f"{path} at byte 0: ".encode() in done.stderr
    assert b"the cleaner of a broker would give up here" in done.stderr


def test_a_wrong_checksum_is_told_as_what_a_cleaner_walks_over_and_never_written(
    log: CleanLog, tmp_path: Path
) -> None:
    path = log.directory / f"{6:020d}.log"
    flip(path, -2)
    set_limits(log.directory.parent, 20, name="users-0")
    before = read_tree(log.directory)
    done = run("compact", "--format", "ndjson", *CERTAIN, str(log.directory))
    (row,) = told(done, 4)
    assert (row["records_before"], row["records_after"], row["bad_checksums"]) == (18, 4, 1)
    last = read_positions(path)[-1]
    assert f"{path} at byte {last}: checksum does not match".encode() in done.stderr
    assert b"would give up" not in done.stderr
    for options in (("--write-to", str(tmp_path / "out")), ("--offline", "--apply")):
        done = run("compact", *CERTAIN, *options, str(log.directory))
        assert (done.exit_code, b"nothing was written" in done.stderr) == (5, True), done.stderr
    assert read_tree(log.directory) == before
    assert list((tmp_path / "out").iterdir()) == []


def read_positions(path: Path) -> list[int]:
    """Where batches begin, by their lengths."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        found.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return found


def test_every_value_is_told_with_where_it_comes_from(log: CleanLog, tmp_path: Path) -> None:
    server = tmp_path / "server.properties"
    server.write_text(f"log.dirs={log.directory.parent}\nlog.cleaner.threads=2\nlog.segment.bytes=2097152\n")
    words = ("--config", str(server), *COMPACT, "--at", "2000")
    done = run("compact", "--format", "ndjson", *words, str(log.directory))
    rows = done.of("setting")
    origins = {row["name"]: (row["value"], row["origin"]) for row in rows}
    assert origins["cleanup.policy"] == ("compact", "--set")
    assert origins["segment.bytes"] == ("2097152", "server.properties")
    assert origins["log.cleaner.threads"] == ("2", "server.properties")
    assert origins["delete.retention.ms"] == ("86400000", "default")
    assert {"log.cleaner.dedupe.buffer.size", "min.cleanable.dirty.ratio"} <= origins.keys()
    short = run("compact", *words, str(log.directory)).stderr.decode()
    assert "users: cleanup.policy=compact (--set), segment.bytes=2097152 (server.properties, " in short
    assert "the rest by default, -v tells" in short
    table = run("compact", "-v", *words, str(log.directory)).stderr.decode()
    assert "users: cleanup.policy=compact (--set), delete.retention.ms=86400000 (default)" in table


def test_a_row_tells_which_segments_become_one_and_the_bytes_that_go_by_reason(log: CleanLog) -> None:
    (row,) = told(run("compact", "--format", "ndjson", *COMPACT, "--at", "2000", str(log.directory)))
    (group,) = row["groups"]
    assert group["segments"] == [0, 6, 12]
    assert (group["bytes_before"], group["bytes_after"]) == (row["bytes_before"], row["bytes_after"])
    assert (row["kept_size"], row["superseded_size"]) == (4 * 8, 14 * 8)
    assert row["marker_size"] == row["aborted_size"] == 0
    done = run("compact", "-v", *COMPACT, "--at", "2000", str(log.directory))
    assert b"users-0: segments 0, 6, 12 become 0: " in done.stderr


def test_what_the_map_would_need_is_told_where_it_is_too_small(log: CleanLog) -> None:
    buffer = ("--set", "log.cleaner.dedupe.buffer.size=80", "--set", "log.cleaner.io.buffer.load.factor=0.7")
    options = ("--format", "ndjson", *COMPACT, "--at", "2000")
    done = run("compact", *options, *buffer, str(log.directory))
    (row,) = told(done)
    assert (row["map_capacity"], row["map_is_full"], row["dirty_keys"]) == (2, True, 4)
    needed = row["dedupe_buffer_needed"]
    assert (
        f"4 are dirty: log.cleaner.dedupe.buffer.size={needed} would take them at once".encode()
        in done.stderr
    )
    for size, is_full in ((needed, False), (needed - 1, True)):
        buffer = ("--set", f"log.cleaner.dedupe.buffer.size={size}", *buffer[2:])
        (row,) = told(run("compact", *options, *buffer, str(log.directory)))
        assert row["map_is_full"] is is_full


def test_without_a_cleaner_nothing_is_ever_due(log: CleanLog) -> None:
    for off in ("log.cleaner.enable=false", "log.cleaner.threads=0"):
        words = ("--format", "ndjson", *COMPACT, "--set", off, "--at", "2000", str(log.directory))
        done = run("compact", *words)
        (row,) = told(done)
        assert (row["is_due"], row["has_cleaner"], row["is_uncleanable"]) == (False, False, None)
        assert b"nobody would ever clean this" in done.stderr


def test_what_a_killed_run_left_is_named(log: CleanLog, tmp_path: Path) -> None:
    left = tmp_path / "out" / ".users-0.kafkatool-pass-0"
    left.mkdir(parents=True)
    done = run("compact", *COMPACT, "--write-to", str(tmp_path / "out"), str(log.directory))
    assert (done.exit_code, f"{left}: is left of a run".encode() in done.stderr) == (3, True)
    assert left.exists()


def test_the_life_of_a_key_ends_where_the_active_segment_is_torn(log: CleanLog) -> None:
    path = log.directory / f"{19:020d}.log"
    path.write_bytes(path.read_bytes()[:-3])
    options = ("--format", "ndjson", *COMPACT, "--at", "2000", "--key", "user-1")
    assert [row["offset"] for row in told(run("compact", *options, str(log.directory)))] == [2, 6, 10, 14]


def test_a_high_watermark_in_numbers_is_that_of_one_partition(log: CleanLog) -> None:
    CleanLog(log.directory.parent / "users-1").put("a=1").close()
    done = run("compact", *COMPACT, "--high-watermark", "5", str(log.directory.parent))
    assert (done.exit_code, b"takes one partition" in done.stderr) == (2, True)


def test_nothing_is_done_to_any_partition_where_one_must_be_refused(log: CleanLog) -> None:
    """The high watermark of the second one is not known."""
    CleanLog(log.directory.parent / "users-1").put("a=1").roll().close()
    set_limits(log.directory.parent, 20, name="users-0")
    before = read_tree(log.directory.parent)
    done = run("compact", *CERTAIN, "--offline", "--apply", str(log.directory.parent))
    assert (done.exit_code, b"users-1: the high watermark" in done.stderr) == (5, True), done.stderr
    assert read_tree(log.directory.parent) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_is_swapped_in_belongs_to_whom_the_log_belongs(log: CleanLog) -> None:
    set_limits(log.directory.parent, 20, name="users-0")
    for path in log.directory.iterdir():
        os.chown(path, 1234, 4321)
        path.chmod(0o640)
    times = [path.stat().st_mtime_ns // 10**6 for path in sorted(log.directory.glob("*.log"))]
    assert run("compact", *CERTAIN, "--offline", "--apply", str(log.directory)).exit_code == 0
    assert list(log.directory.glob(f"{0:020d}.log.kafkatool-*"))
    for path in log.directory.iterdir():
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 4321, 0o640), path.name
    new = log.directory / f"{0:020d}.log"
    assert new.stat().st_mtime_ns // 10**6 == times[2]


def test_what_an_interrupted_cleaning_left_is_for_recover(log: CleanLog) -> None:
    (log.directory / f"{0:020d}.log.swap").write_bytes(b"")
    done = run("compact", *COMPACT, str(log.directory))
    assert done.exit_code == 3
    assert b"recover" in done.stderr
