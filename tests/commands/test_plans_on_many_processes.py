"""`rebuild-index` and `recover` plan on several processes: what they say and do is what one would."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkatool.format.names import segment_file
from tests.cli import Run, run_without_privileges
from tests.cli import run as run_here
from tests.engine.disk import write_partition
from tests.failing_disk import on_failing_disk
from tests.kafka.librdkafka import wait_until
from tests.log_dirs import read_tree
from tests.mutations import flip
from tests.processes import wait_until_open
from tests.transcripts import mask

PLANNERS = ["rebuild-index", "recover"]
COMMANDS = ["rebuild-index", "recover", "recover -v", "rebuild-index --force --fail-on loss"]
FORMATS = ["table", "ndjson", "csv"]
FIRST, SECOND = segment_file(0, ".log"), segment_file(60, ".log")
SEVERAL = ("2", "3", "0")


def run(*arguments: str) -> Run:
    """As it is, but for the free space, which may change between two runs."""
    done = run_here(*arguments)
    return Run(done.exit_code, mask(done.stdout.decode()).encode(), mask(done.stderr.decode()).encode())


def write_many(log_dir: Path, count: int = 8) -> Path:
    for number in range(count):
        write_partition(log_dir, f"orders-{number}", segments=2)
    return log_dir


def damage(log_dir: Path) -> None:
    """Something else in each: no index, a lying one, a torn end, a flipped bit, garbled epochs, leftovers."""
    first, second, third, fourth, fifth, sixth = (log_dir / f"orders-{number}" for number in range(6))
    (first / segment_file(0, ".index")).unlink()
    (second / segment_file(0, ".timeindex")).write_bytes(b"\1" * 24)
    os.truncate(third / SECOND, (third / SECOND).stat().st_size - 100)
    flip(fourth / FIRST, (fourth / FIRST).stat().st_size // 2 + 300)
    (fifth / "leader-epoch-checkpoint").write_text("nonsense")
    shutil.copy(sixth / FIRST, sixth / f"{FIRST}.cleaned")
    # One that waits to be deleted comes behind all others.
    shutil.copytree(first, log_dir / "gone-0.0123456789abcdef0123456789abcdef-delete")
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\norders 7 100\n")


@pytest.fixture(params=["healthy", "damaged"])
def log_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = write_many(tmp_path / "logs")
    if request.param == "damaged":
        damage(made)
    return made


@pytest.mark.long
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("words", COMMANDS)
def test_any_number_of_processes_says_the_same(words: str, fmt: str, log_dir: Path) -> None:
    command = [*words.split(), "--format", fmt, str(log_dir)]
    alone = run(*command, "--jobs", "1")
    assert [run(*command, "--jobs", jobs) for jobs in SEVERAL] == [alone] * len(SEVERAL)
    assert b"orders-" in alone.stdout or (alone.exit_code, words) == (0, "recover")


def test_what_is_wrong_with_each_is_told_in_the_order_of_the_partitions(tmp_path: Path) -> None:
    damage(log_dir := write_many(tmp_path / "logs"))
    told = run("recover", "--jobs", "3", str(log_dir))
    names = [line.split()[0] for line in told.stdout.decode().splitlines()[1:]]
    assert told.exit_code == 4
    assert names == sorted(names, key=lambda name: (name.endswith("-delete"), name))
    assert {"orders-2", "orders-3", "orders-4", "orders-5"} <= set(names)


@pytest.mark.long
@pytest.mark.parametrize("command", PLANNERS)
def test_what_is_planned_elsewhere_is_applied_here_as_ever(command: str, tmp_path: Path) -> None:
    damage(log_dir := write_many(tmp_path / "logs"))
    before, trees = tmp_path / "before", []
    shutil.copytree(log_dir, before)
    for jobs in ("1", "3"):
        shutil.rmtree(log_dir)
        shutil.copytree(before, log_dir)
        done = run(command, "--apply", "--offline", "--jobs", jobs, str(log_dir))
        assert b"steps applied" in done.stderr
        [journal] = log_dir.glob(f"{command}.kafkatool-*")
        run_id = journal.name.rpartition("-")[2]
        trees.append({name.replace(run_id, ""): data for name, data in read_tree(log_dir, ours=True).items()})
        trees[-1].pop(f"{command}.kafkatool-")  # it holds the time
        assert run(command, "--undo", str(journal), "--apply", "--offline").exit_code == 0
        assert read_tree(log_dir) == read_tree(before)
    assert trees[0] == trees[1] != read_tree(before)


# --- what cannot be read ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("command", PLANNERS)
def test_a_log_that_may_not_be_read_costs_its_partition_alone(command: str, tmp_path: Path) -> None:
    damage(log_dir := write_many(tmp_path / "logs"))
    for number in (1, 6):
        (log_dir / f"orders-{number}" / FIRST).chmod(0)
    told = [forbidden(command, "--jobs", jobs, str(log_dir)) for jobs in ("1", "2", "3")]
    assert told[0] == told[1] == told[2]
    code, out, err = told[0]
    assert code == 3
    for number in (1, 6):
        path = log_dir / f"orders-{number}"
        assert err.count(f"{path}: {path / FIRST}: Permission denied; left as it is") == 1
    assert "orders-2" in out + err


def forbidden(*arguments: str) -> tuple[int, str, str]:
    done = run_without_privileges(*arguments)
    return done.returncode, mask(done.stdout), mask(done.stderr)


@pytest.fixture
def failing_dir(tmp_path: Path) -> Iterator[Path]:
    """Of eight partitions, four have bad blocks: one, two, none and so on, nine in all."""
    log_dir = write_many(tmp_path / "logs")
    blocks = {0: [(4096, 8192)], 2: [(8192, 16384)], 3: [(0, 8192), (16384, 20480)], 6: [(4096, 16384)]}
    with ExitStack() as stack:
        for number, bad in blocks.items():
            stack.enter_context(
                on_failing_disk(log_dir / f"orders-{number}", tmp_path / f"{number}", FIRST, *bad)
            )
        yield log_dir


@pytest.mark.parametrize("command", PLANNERS)
def test_bad_blocks_are_counted_once_whoever_meets_them(command: str, failing_dir: Path) -> None:
    told = [run(command, "--jobs", jobs, str(failing_dir)) for jobs in ("1", "2", "3")]
    assert told[0] == told[1] == told[2]
    assert told[0].exit_code == 4
    assert b"the disk does not give 9 blocks of 4 KiB: image it" in told[0].stderr


@pytest.mark.long
@pytest.mark.parametrize("limit", range(10))
@pytest.mark.parametrize("command", PLANNERS)
def test_too_many_bad_blocks_stop_at_the_same_one(command: str, limit: int, failing_dir: Path) -> None:
    words = [command, "--max-errors", str(limit), "--format", "ndjson", str(failing_dir)]
    told = [run(*words, "--jobs", jobs) for jobs in ("1", "2", "3")]
    assert told[0] == told[1] == told[2]
    stopped = f"more than {limit} bad blocks, stopped".encode()
    assert (stopped in told[0].stderr) == (told[0].exit_code == 3) == (limit < 9)


# --- interrupted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", PLANNERS)
def test_an_interrupt_is_130_and_leaves_nobody(command: str, tmp_path: Path) -> None:
    log_dir = write_many(tmp_path / "logs", 4)
    words = [command, "--jobs", "3", "--max-rate", "4K", str(log_dir)]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkatool", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    children = wait_for_readers(process.pid, 3, log_dir)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert b"applied" not in out
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def wait_for_readers(pid: int, count: int, directory: Path) -> list[str]:
    """So many children, each of which has begun to read."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    wait_until(lambda: len(listed.read_text().split()) >= count, f"{count} children of {pid}")
    found = listed.read_text().split()
    for child in found:
        wait_until_open(int(child), directory)
    return found
