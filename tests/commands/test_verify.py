"""kafkatool verify: what it prints, how it ends, and what it remembers from one night to the next."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine import verify_log, verify_partition
from kafkatool.engine.source import BLOCK, FileSource, Guest
from kafkatool.format.names import segment_file
from tests.cli import run
from tests.engine.partitions_to_verify import SEGMENT, batch, flip, write_log_dir, write_partition

SIZE = len(batch(0))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_log_dir(tmp_path / "logs", isr=[1, 2])


def log_of(log_dir: Path, number: int) -> Path:
    return log_dir / "orders-0" / segment_file(number * SEGMENT, ".log")


def rows(*arguments: object) -> list[dict[str, Any]]:
    done = run("verify", "--format", "ndjson", *map(str, arguments))
    return [json.loads(line) for line in done.stdout.splitlines()]


def summary(*arguments: object) -> dict[str, Any]:
    last = rows(*arguments)[-1]
    assert last["kind"] == "summary"
    return last


def test_a_healthy_directory_ends_with_0_and_one_line(log_dir: Path) -> None:
    done = run("verify", str(log_dir))
    assert done.exit_code == 0
    [line] = done.stdout.decode().splitlines()
    assert line.startswith("2 partitions, 4 segments, 37 batches, ")
    assert line.endswith("; nothing is wrong")


def test_a_damaged_partition_is_one_line_with_the_offsets_lost(log_dir: Path) -> None:
    flip(log_of(log_dir, 1), 3 * SIZE + 100)
    flip(log_of(log_dir, 2), 5 * SIZE + 100)
    done = run("verify", str(log_dir))
    assert done.exit_code == 4
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 3
    assert lines[1].split()[:5] == ["orders-0", "loss", "2", "15,", "29"]
    assert "it fetches the partition again from 2" in lines[1]


def test_every_finding_is_told_with_v(log_dir: Path) -> None:
    flip(log_of(log_dir, 1), 3 * SIZE + 100)
    flip(log_of(log_dir, 2), 5 * SIZE + 100)
    lines = run("verify", "-v", str(log_dir)).stdout.decode().splitlines()
    assert [line.rstrip().rpartition("  ")[2] for line in lines[1:3]] == ["not looked at", "found"]


def test_fail_on_decides_about_the_exit_code(log_dir: Path) -> None:
    (log_dir / "orders-0" / segment_file(0, ".timeindex")).unlink()
    assert run("verify", str(log_dir)).exit_code == 4
    assert run("verify", "--fail-on", "loss", str(log_dir)).exit_code == 0
    (log_dir / "orders-0" / f"{segment_file(0, '.log')}.deleted").write_bytes(b"")
    assert run("verify", "--fail-on", "no_start", str(log_dir)).exit_code == 0
    assert run("verify", "--fail-on", "note", str(log_dir)).exit_code == 4


def test_what_cannot_be_read_ends_with_3_and_the_rest_is_told(log_dir: Path, tmp_path: Path) -> None:
    flip(log_of(log_dir, 1), 100)
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={log_dir},{tmp_path / 'gone'}\n")
    done = run("verify", str(config))
    assert done.exit_code == 3
    assert b"orders-0" in done.stdout
    assert b"gone" in done.stderr


def test_nothing_to_verify_is_an_error(tmp_path: Path) -> None:
    assert run("verify", str(tmp_path)).exit_code == 2
    assert run("verify", "--sample", "x%", str(tmp_path)).exit_code == 2


@pytest.mark.parametrize("jobs", ["2", "3"])
def test_any_number_of_jobs_prints_the_same(log_dir: Path, jobs: str) -> None:
    for number in range(3):
        write_partition(log_dir / f"other-{number}", segments=4)
        flip(log_dir / f"other-{number}" / segment_file(0, ".log"), 700 + number)
    flip(log_of(log_dir, 1), 3 * SIZE + 100)
    expected = run("verify", "--jobs", "1", "-v", "--deep", str(log_dir))
    assert run("verify", "--jobs", jobs, "-v", "--deep", str(log_dir)) == expected


# --- samples ----------------------------------------------------------------------------------------------


def test_a_sample_says_that_it_is_one_and_is_the_same_every_time(log_dir: Path) -> None:
    write_partition(log_dir / "other-0", segments=20)
    first = run("verify", "--sample", "30%", str(log_dir))
    assert b"sampled: 30% of the data" in first.stdout
    assert run("verify", "--sample", "0.3", str(log_dir)).stdout == first.stdout
    row = summary("--sample", "30%", log_dir)
    assert row["sample"] == 0.3
    assert 0 < row["segments"] < 23


def test_a_sample_of_everything_finds_what_there_is(log_dir: Path) -> None:
    flip(log_of(log_dir, 1), 3 * SIZE + 100)
    found = rows("--sample", "100%", log_dir)
    assert [row.get("class") for row in found] == ["bit_flip", None]


# --- the nightly state ------------------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state" / "scrub.json"


def test_closed_segments_are_skipped_the_second_time(log_dir: Path, state: Path) -> None:
    assert summary("--state", state, log_dir)["skipped_segments"] == 0
    second = summary("--state", state, log_dir)
    assert second["skipped_segments"] == 2
    assert second["worst"] is None
    assert [name.name for name in state.parent.iterdir()] == ["scrub.json"]


@pytest.mark.parametrize("what", ["time", "size", "tail", "inode", "index"])
def test_a_segment_that_changed_is_read_again(log_dir: Path, state: Path, what: str) -> None:
    summary("--state", state, log_dir)
    log = log_of(log_dir, 1)
    found = log.stat()
    if what == "size":
        os.truncate(log, found.st_size - 1)
    elif what == "tail":
        flip(log, found.st_size - 1)
    elif what == "inode":
        raw = log.read_bytes()
        log.rename(log.with_suffix(".other"))
        log.write_bytes(raw)
        (log.with_suffix(".other")).unlink()
    if what == "index":
        index = log.with_suffix(".index")
        flip(index, 7)
        os.utime(index, ns=(1, 1))
    else:
        offset = 10**9 if what == "time" else 0
        os.utime(log, ns=(found.st_atime_ns, found.st_mtime_ns + offset))
    assert summary("--state", state, log_dir)["skipped_segments"] == 1


def test_a_damaged_segment_is_told_every_night(log_dir: Path, state: Path) -> None:
    flip(log_of(log_dir, 0), 100)
    for _ in range(2):
        assert [row["class"] for row in rows("--state", state, log_dir)[:-1]] == ["bit_flip"]


def test_what_was_skipped_still_counts_for_what_files_say_of_each_other(log_dir: Path, state: Path) -> None:
    summary("--state", state, log_dir)
    snapshot = log_dir / "orders-0" / segment_file(2 * SEGMENT, ".snapshot")
    snapshot.write_bytes((log_dir / "orders-0" / segment_file(SEGMENT, ".snapshot")).read_bytes())
    found = rows("--state", state, log_dir)
    assert found[-1]["skipped_segments"] == 2
    assert [row["class"] for row in found[:-1]] == ["bad_snapshot"]


def test_a_shallow_run_does_not_count_for_a_deep_one(log_dir: Path, state: Path) -> None:
    summary("--state", state, log_dir)
    assert summary("--state", state, "--deep", log_dir)["skipped_segments"] == 0
    assert summary("--state", state, log_dir)["skipped_segments"] == 2


def test_a_state_file_among_a_brokers_files_is_refused(log_dir: Path) -> None:
    for path in (log_dir / "state.json", log_dir / "orders-0" / "state.json"):
        assert run("verify", "--state", str(path), str(log_dir)).exit_code == 5
        assert not path.exists()


def test_a_file_that_is_no_state_is_not_overwritten(log_dir: Path, state: Path) -> None:
    state.write_text("dear diary")
    assert run("verify", "--state", str(state), str(log_dir)).exit_code == 3
    assert state.read_text() == "dear diary"


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, state: Path) -> None:
    log_dir = write_log_dir(tmp_path / "logs")
    write_partition(log_dir / "large-0", segments=150)
    rate = "200K"
    command = [sys.executable, "-m", "kafkatool", "verify", "--jobs", "2", "--state", str(state)]
    process = subprocess.Popen(
        [*command, "--max-rate", rate, "--cache", "keep", str(log_dir)], stdout=subprocess.DEVNULL
    )
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    done = summary("--state", state, log_dir)
    assert 0 < done["skipped_segments"] < 150
    assert done["worst"] is None


# --- beside a broker, and on a bad disk -------------------------------------------------------------------


def test_a_tail_is_in_flight_only_while_the_lock_is_held(log_dir: Path) -> None:
    log = log_of(log_dir, 2)
    (log_dir / "orders-0" / segment_file(3 * SEGMENT, ".snapshot")).unlink()
    os.truncate(log, log.stat().st_size - 5)
    assert "torn_tail" in [row.get("class") for row in rows(log_dir)]
    lock = log_dir / ".lock"
    lock.touch()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import fcntl, sys; f = open({str(lock)!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
            "print('held', flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        found = rows(log_dir)
        assert [row["class"] for row in found[:-1]] == ["in_flight"]
        assert found[-1]["worst"] == "note"
        assert run("verify", str(log_dir)).exit_code == 0
    finally:
        holder.communicate()


@pytest.fixture
def bad_block(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The second block of the second segment cannot be read."""
    bad = log_of(log_dir, 1)

    def pread(fd: int, size: int, position: int) -> bytes:
        if position < 2 * BLOCK and position + size > BLOCK:
            raise OSError(errno.EIO, "Input/output error")
        return os.pread(fd, size, position)

    def open_source(path: str, guest: Guest) -> FileSource:
        fd = os.open(path, os.O_RDONLY)
        return FileSource(fd, path, guest, pread if path == str(bad) else os.pread)

    monkeypatch.setattr(verify_log, "open_source", open_source)
    return bad


def test_a_block_that_the_disk_does_not_give_is_told_and_the_walk_goes_on(
    log_dir: Path, bad_block: Path
) -> None:
    done = run("verify", "--jobs", "1", "--format", "ndjson", str(log_dir))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["class"] for row in found[:-1]} == {"unreadable"}
    assert found[-1]["unreadable_blocks"] == 1
    assert found[-1]["batches"] > 30 - 1
    assert done.exit_code == 4
    assert b"image it before doing anything else" in done.stderr


def test_an_index_that_the_disk_does_not_give_is_told(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = log_of(log_dir, 1).with_suffix(".index")

    def pread(fd: int, size: int, position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    def open_source(path: str, guest: Guest) -> FileSource:
        return FileSource(os.open(path, os.O_RDONLY), path, guest, pread if path == str(bad) else os.pread)

    monkeypatch.setattr(verify_partition, "open_source", open_source)
    assert [row.get("class") for row in rows("--jobs", "1", log_dir)] == ["unreadable", None]


def test_max_errors_stops(log_dir: Path, bad_block: Path) -> None:
    assert run("verify", "--jobs", "1", "--max-errors", "0", str(log_dir)).exit_code == 3
