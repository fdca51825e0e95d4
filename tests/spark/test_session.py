"""Spark that is not there, that is interrupted, whose workers die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.jobs.survey import Split
from kafkatool.errors import KafkatoolError
from kafkatool.spark.session import open_session
from kafkatool.spark.workers import SparkWorkers
from tests.cli import run
from tests.kafka.librdkafka import wait_until


def test_without_java_a_sentence_says_what_to_install(good: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkatool", "verify", "--spark", "local[2]", str(good)]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        command, env={**environment, "PATH": str(tmp_path)}, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"kafkatool: Spark needs Java 17 or newer, and there is none on the PATH")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [["verify", "--spark", "local[2]"], ["sql", "SELECT 1"]])
def test_without_pyspark_a_sentence_says_what_to_install(good: Path, words: list[str]) -> None:
    program = "import sys; sys.modules['pyspark'] = None; from kafkatool.__main__ import main; main()"
    command = [sys.executable, "-c", program, *words, str(good)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"pip install 'kafkatool[spark]'" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_an_interrupt_cancels_the_job_and_leaves_the_session(spark: Any, good: Path) -> None:
    """At this rate it would take hours."""
    tracker = spark.sparkContext.statusTracker()

    def interrupt() -> None:
        with suppress(TimeoutError):  # or it is never interrupted
            wait_until(lambda: bool(tracker.getActiveJobsIds()), "the job to begin")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    began = time.monotonic()
    done = run("verify", "--max-rate", "1K", "--spark", "local[2]", str(good))
    interrupting.join()
    assert done.exit_code == 130
    assert time.monotonic() - began < 180
    wait_until(lambda: not tracker.getActiveJobsIds(), "the job to end")
    assert spark.range(10).count() == 10


def test_a_session_of_another_thread_is_used_and_left(spark: Any) -> None:
    found: list[Any] = []

    def use() -> None:
        with open_session("local[2]", {}) as session:
            found.append(session)

    using = threading.Thread(target=use)
    using.start()
    using.join()
    assert found == [spark]
    assert spark.range(10).count() == 10


def die(split: Split) -> None:
    os._exit(1)


def test_a_task_whose_worker_dies_names_its_file_and_bytes(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "where.log"
    log.touch()
    with SparkWorkers(spark) as pool:
        pending = pool.submit(die, Split(str(log), 4096, 8192, 8192))
        while not pending.is_done:
            pool.wait()
    with pytest.raises(KafkatoolError, match=r"/where\.log from byte 4096 to 8192: Spark gave up"):
        pending.result()
