"""kafkatool verify: what it prints, how it ends, and what it remembers from one night to the next."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkatool.commands.verify.telling import one_line_a_partition, until_interrupted
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.jobs.worker_pool import Workers, workers
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.rechecking import DAY_MS, Recheck
from kafkatool.engine.verify.state_file import TAIL, Scrub
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from kafkatool.format.names import segment_file
from tests.cli import rows_of, run
from tests.engine.partitions_to_verify import SEGMENT, batch, log_of, write_healthy_log_dir, write_partition
from tests.log_dirs import locked
from tests.mutations import flip

SIZE = len(batch(0))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_healthy_log_dir(tmp_path / "logs", isr=[1, 2])


rows = partial(rows_of, "verify")


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
    assert f"kafkatool set-aside {log_dir}/orders-0" in lines[1]


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
    assert b"sampled: 30% of the data asked for, " in first.stdout
    assert run("verify", "--sample", "0.3", str(log_dir)).stdout == first.stdout
    row = summary("--sample", "30%", log_dir)
    assert row["sample"] == 0.3
    assert 0 < row["size"] < row["total_size"]
    assert 0 < row["segments"] < 23


def test_a_sample_is_sure_only_of_itself(log_dir: Path) -> None:
    done = run("verify", "--sample", "50%", str(log_dir))
    assert done.exit_code == 0
    assert done.stdout.endswith(b"; nothing is wrong in the sample\n")


def test_a_sample_of_everything_finds_what_there_is(log_dir: Path) -> None:
    flip(log_of(log_dir, 1), 3 * SIZE + 100)
    found = rows("--sample", "100%", log_dir)
    assert [row.get("class") for row in found] == ["bit_flip", None]


def test_a_sample_in_which_there_is_nothing_proves_nothing(log_dir: Path) -> None:
    done = run("verify", "--sample", "0.0001%", str(log_dir))
    assert done.exit_code == 2
    assert b"the sample is empty" in done.stderr


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
    done = run("verify", "--state", str(state), str(log_dir))
    assert done.exit_code == 3
    assert b"not a state file" in done.stderr
    assert state.read_text() == "dear diary"


def test_an_empty_file_is_a_state_that_knows_nothing(log_dir: Path, state: Path) -> None:
    state.touch()
    assert summary("--state", state, log_dir)["skipped_segments"] == 0
    assert summary("--state", state, log_dir)["skipped_segments"] == 2


def test_a_damaged_state_is_told_and_made_anew(log_dir: Path, state: Path) -> None:
    summary("--state", state, log_dir)
    os.truncate(state, state.stat().st_size // 2)
    done = run("verify", "--state", str(state), str(log_dir))
    assert done.exit_code == 0
    assert b"damaged: everything is read anew" in done.stderr
    assert summary("--state", state, log_dir)["skipped_segments"] == 2


def test_a_number_that_changed_in_the_state_is_not_believed(log_dir: Path, state: Path) -> None:
    summary("--state", state, log_dir)
    state.write_text(state.read_text().replace(f'"batches": {SEGMENT}', '"batches": "x"', 1))
    assert summary("--state", state, log_dir)["skipped_segments"] == 1


def test_a_place_for_the_state_that_cannot_be_written_is_told_at_once(log_dir: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "nowhere" / "state.json", Path("/proc/state.json"), tmp_path):
        done = run("verify", "--state", str(place), str(log_dir))
        assert (done.exit_code, done.stdout) == (3, b"")
        assert str(place) in done.stderr.decode()


def test_a_state_that_cannot_be_saved_at_the_end_hides_no_finding(log_dir: Path, state: Path) -> None:
    flip(log_of(log_dir, 0), 100)
    scrub = Scrub(str(state), Recheck(time.time_ns() // 1_000_000), deep=False)
    shutil.rmtree(state.parent)
    check = Verification(expand([str(log_dir)]).targets, VerifyRequest(), scrub)
    with workers(1) as pool:
        assert len(list(check.findings(pool))) == 1
    [failure] = check.summary.failures
    assert failure.startswith(f"{state}: the state could not be saved: ")


def test_a_state_is_on_the_disk_before_it_takes_the_place_of_the_old_one(
    log_dir: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, really = os.fsync, os.rename

    def sync(fd: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    def rename(source: str, target: str, **within: None) -> None:
        assert done[-1:] == [source]
        done.append(target)
        really(source, target, **within)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "rename", rename)
    summary("--state", state, log_dir)
    assert done[-2:] == [str(state), str(state.parent)]


def test_two_runs_with_one_state_lose_nothing_of_each_other(log_dir: Path, state: Path) -> None:
    write_partition(log_dir / "other-0", segments=4)
    scrub = Scrub(str(state), Recheck(time.time_ns() // 1_000_000), deep=False)
    check = Verification(expand([str(log_dir / "orders-0")]).targets, VerifyRequest(), scrub)
    summary("--state", state, log_dir / "other-0")  # begins later and ends earlier
    with workers(1) as pool:
        assert list(check.findings(pool)) == []
    assert summary("--state", state, log_dir)["skipped_segments"] == 5


def test_a_link_to_the_state_stays_one(log_dir: Path, state: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(state)
    summary("--state", link, log_dir)
    assert link.is_symlink()
    assert summary("--state", state, log_dir)["skipped_segments"] == 2


def rot(log: Path) -> None:
    """Flip a bit as a disk does: size, time and inode stay."""
    before = log.stat()
    with open(log, "r+b") as file:
        file.seek(100)
        [byte] = file.read(1)
        file.seek(100)
        file.write(bytes([byte ^ 4]))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def closed_log(log_dir: Path) -> Path:
    """A closed segment whose last 4 KiB are not all of it; the metadata is not asked."""
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    log = log_of(log_dir, 0)
    assert log.stat().st_size > TAIL + SIZE
    return log


def age(state: Path, days: int | None) -> None:
    """Date what a state remembers back, or take its date away as an older release left it."""
    content = json.loads(state.read_text())
    for row in content["segments"].values():
        at_ms = row.pop("verified_at_ms")
        if days is not None:
            row["verified_at_ms"] = at_ms - days * DAY_MS
    state.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("days", "options"),
    [
        (31, ["--recheck-share", "0"]),
        (2, []),
        (None, []),
        (0, ["--recheck-older-than", "0s"]),
        (2, ["--recheck-older-than", "1d", "--recheck-share", "0%"]),
        (-3, []),
    ],
)
def test_rot_in_a_closed_segment_is_found_though_size_and_time_are_the_same(
    closed_log: Path, state: Path, days: int | None, options: list[str]
) -> None:
    summary("--state", state, closed_log.parent)
    age(state, days)
    rot(closed_log)
    *findings, last = rows("--state", state, *options, closed_log.parent)
    assert [row["class"] for row in findings if row["severity"] == "loss"] == ["bit_flip"]
    assert last["rechecked_segments"] >= 1
    assert any(row.get("class") == "bit_flip" for row in rows("--state", state, closed_log.parent)), (
        "every time"
    )


@pytest.mark.parametrize(
    ("days", "options"),
    [(0, []), (2, ["--recheck-share", "0"]), (99, ["--recheck-older-than", "never", "--recheck-share", "0"])],
)
def test_what_is_not_due_is_not_read_again(
    closed_log: Path, state: Path, days: int, options: list[str]
) -> None:
    summary("--state", state, closed_log.parent)
    age(state, days)
    last = summary("--state", state, *options, closed_log.parent)
    assert (last["skipped_segments"], last["rechecked_segments"]) == (2, 0)


def test_the_time_of_the_last_check_is_told_for_each_segment(closed_log: Path, state: Path) -> None:
    summary("--state", state, closed_log.parent)
    age(state, 2)
    before = rows("-v", "--state", state, "--recheck-share", "0", closed_log.parent)
    after = rows("-v", "--state", state, closed_log.parent)
    was, now = (
        {row["segment"]: row["verified_at_ms"] for row in found if row["kind"] == "verified"}
        for found in (before, after)
    )
    assert now[0] - was[0] >= 2 * DAY_MS
    assert (was[2 * SEGMENT], now[2 * SEGMENT]) == (None, None), "an active segment is read every time"


@pytest.mark.parametrize("words", [["--recheck-older-than", "1d"], ["--recheck-share", "5%"]])
def test_rechecking_needs_a_state(closed_log: Path, words: list[str]) -> None:
    assert run("verify", *words, str(closed_log)).exit_code == 2


@pytest.mark.parametrize("words", [["--recheck-older-than", "soon"], ["--recheck-share", "120%"]])
def test_what_is_no_age_and_no_share_is_refused(closed_log: Path, state: Path, words: list[str]) -> None:
    done = run("verify", "--state", str(state), *words, str(closed_log))
    assert done.exit_code == 2
    assert words[1].encode() in done.stderr


def test_a_sample_is_not_remembered(log_dir: Path, state: Path) -> None:
    done = run("verify", "--sample", "5%", "--state", str(state), str(log_dir))
    assert done.exit_code == 2
    assert not state.exists()


@pytest.mark.long
def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, state: Path) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs")
    for name in ("first-0", "second-0"):
        write_partition(log_dir / name, segments=150)
    flip(log_dir / "first-0" / segment_file(0, ".log"), 100)
    terminal, its_end = os.openpty()  # on which every line comes at once
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "kafkatool", "verify", "--format", "ndjson", "--state", str(state)),
            *("--jobs", "2", "--max-rate", "200K", "--cache", "keep", str(log_dir)),
        ],
        stdout=its_end,
        stderr=subprocess.DEVNULL,
    )
    os.close(its_end)
    with os.fdopen(terminal, "rb", buffering=0) as lines:
        assert b"bit_flip" in lines.readline()
        process.send_signal(signal.SIGINT)
        last = json.loads(lines.readline())
    assert process.wait(20) == 130
    assert (last["kind"], last["interrupted"], last["loss"]) == ("summary", True, 1)
    done = summary("--state", state, log_dir)
    assert 148 <= done["skipped_segments"] < 2 * 148
    assert (done["interrupted"], done["loss"]) == (False, 1)


def test_what_was_found_before_an_interrupt_is_in_the_table(log_dir: Path) -> None:
    flip(log_of(log_dir, 1), 100)
    check = Verification(expand([str(log_dir)]).targets, VerifyRequest())

    def interrupted(pool: Workers) -> Iterator[Finding]:
        yield from check.findings(pool)
        raise KeyboardInterrupt

    with workers(1) as pool:
        [line] = one_line_a_partition(until_interrupted(interrupted(pool), check.summary))
    assert (line["place"], line["severity"]) == ("orders-0", "loss")
    assert check.summary.is_interrupted


# --- beside a broker ---------------------------------------------------------------------------------------


def test_a_tail_is_in_flight_only_while_the_lock_is_held(log_dir: Path) -> None:
    log = log_of(log_dir, 2)
    (log_dir / "orders-0" / segment_file(3 * SEGMENT, ".snapshot")).unlink()
    os.truncate(log, log.stat().st_size - 5)
    assert "torn_tail" in [row.get("class") for row in rows(log_dir)]
    with locked(log_dir):
        found = rows(log_dir)
        assert [row["class"] for row in found[:-1]] == ["in_flight"]
        assert found[-1]["worst"] == "note"
        assert run("verify", str(log_dir)).exit_code == 0
