"""Functions come back with what they gave, whatever that is, and no worker is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.jobs.worker_pool import Pending, WorkerPool, Workers, workers
from kafkatool.errors import KafkatoolError, Truncated


def finished(pool: Workers, pending: Sequence[Pending[Any]]) -> None:
    while not all(one.is_done for one in pending):
        pool.wait()


def raised(pending: Pending[Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        pending.result()
    return caught.value


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def fail(kind: str) -> None:
    raise {"value": ValueError("no"), "format": Truncated("a field", 3, expected=8, found=2)}[kind]


def sleep_until_there(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def double(data: bytes) -> bytes:
    return data + data


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_every_function_gets_its_own_result(jobs: int) -> None:
    with workers(jobs) as pool:
        pending = [pool.submit(pow, base, 2) for base in range(100)]
        finished(pool, pending)
        assert [one.result() for one in pending] == [base**2 for base in range(100)]


def test_messages_may_be_larger_than_a_pipe_in_both_directions() -> None:
    with workers(2) as pool:
        pending = [pool.submit(double, bytes([at]) * 3_000_000) for at in range(8)]
        finished(pool, pending)
        assert [one.result()[-1] for one in pending] == list(range(8))
        assert {len(one.result()) for one in pending} == {6_000_000}


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_raised_there_is_raised_here(jobs: int) -> None:
    with workers(jobs) as pool:
        pending = [pool.submit(fail, kind) for kind in ("value", "format")]
        finished(pool, pending)
        assert [str(raised(one))[-2:] for one in pending] == ["no", " 2"]
        assert isinstance(raised(pending[0]), ValueError)
        assert isinstance(raised(pending[1]), KafkatoolError)


def test_what_is_cancelled_does_not_begin(tmp_path: Path) -> None:
    with workers(2) as pool:
        busy = [pool.submit(sleep_until_there, tmp_path / "go on") for _ in range(2)]
        late = pool.submit(os.getpid)
        late.cancel()
        (tmp_path / "go on").touch()
        finished(pool, busy)
        assert not late.is_done


def test_a_killed_worker_is_a_clear_error() -> None:
    with workers(2) as pool:
        assert isinstance(pool, WorkerPool)
        pids = pool.pids
        pool.submit(os.kill, pids[0], signal.SIGKILL)
        pool.submit(os.kill, pids[1], signal.SIGKILL)
        with pytest.raises(KafkatoolError, match="worker process died"):
            pool.wait()
    assert all(map(is_gone, pids))


def test_no_worker_is_left_when_the_block_ends_in_the_middle_of_their_work() -> None:
    with workers(3) as pool:
        assert isinstance(pool, WorkerPool)
        pids = pool.pids
        for _ in range(5):
            pool.submit(time.sleep, 60)
    assert all(map(is_gone, pids))


SCRIPT = """
import time
from kafkatool.engine.jobs.worker_pool import workers
with workers(3) as pool:
    for _ in range(5):
        pool.submit(time.sleep, 60)
    print("ready", flush=True)
    pool.wait()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.kill(process.pid, how)
    process.wait(60)
    deadline = time.monotonic() + 60
    while _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _group_lives(process.pid)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
