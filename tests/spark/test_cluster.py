"""On clusters: executors of their own, packages that are sent to them, workers that die."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.jobs.survey import SPLIT_SIZE
from kafkatool.engine.jobs.worker_pool import Workers, workers
from kafkatool.spark.workers import SparkWorkers
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import free_ports
from tests.kafka.librdkafka import wait_until
from tests.log_dirs import read_tree
from tests.places import ROOT
from tests.spark.fleet import damage, write_fleet
from tests.spark.lakes import tables
from tests.spark.matrix import DEEP, NOW, answers, commands, verified, without_free_space

MASTER = "local-cluster[2,1,1024]"
QUERY = "SELECT topic, count(*) AS n FROM batches GROUP BY topic ORDER BY topic"


# What Spark loads for its first query takes it longer than all jobs together.
@pytest.mark.parametrize("queries", [[], pytest.param([QUERY], marks=pytest.mark.soak)])
def test_every_job_says_the_same_on_a_cluster(
    spark: Any, damaged: Path, tmp_path: Path, queries: list[str]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    words = [[one[0], "--spark", MASTER, *one[1:]] for one in commands(damaged, there)]
    shared = [["sql", "--format", "ndjson", query, str(damaged)] for query in queries]
    lakes = [
        ["pipeline", "run", "--spark", MASTER, "--now", NOW, "--out", str(there / "lake"), f"x={damaged}"]
    ]
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.on_cluster", MASTER, str(tmp_path / "told.json")],
        input=json.dumps([*words, *shared, *lakes]),
        text=True,
        cwd=ROOT,
        timeout=600,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads((tmp_path / "told.json").read_text())
    expected = [run(*one) for one in [*commands(damaged, here), *shared]]
    for one, other in zip(told, expected, strict=False):
        assert one[0] == other.exit_code, one
        assert without_free_space(one[1].encode()) == without_free_space(other.stdout)
    for name in ("export", "compact"):
        assert read_tree(here / name, ours=True) == read_tree(there / name, ours=True)
    run("pipeline", "collect", "--now", NOW, "-q", "-o", str(here / "lake"), f"x={damaged}")
    assert tables(there / "lake") == tables(here / "lake")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_random_directories_give_the_same_for_every_split_size(spark: Any, tmp_path: Path, seed: int) -> None:
    """On processes, on `local[2]`, and on executors of their own; directories of two releases."""
    version = (peers.NEWEST, peers.OLDEST)[seed % 2]
    written = write_fleet(tmp_path, seed, version=version, copies=2)
    directories = [*written, *(damage(one, seed) for one in written)]
    with workers(2) as processes:
        here = answers(directories, processes, None)
    for directory in directories:
        for deep in (False, True):
            assert here[directory, "verify", DEEP if deep else None] == verified(
                directory, Workers(), SPLIT_SIZE, deep=deep
            )
    with SparkWorkers(spark) as pool:
        assert_same(answers(directories, pool, "local[2]"), here)
    told = tmp_path / "told"
    command = [sys.executable, "-m", "tests.spark.matrix", MASTER, told, *directories]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, timeout=900, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert_same(pickle.loads(told.read_bytes()), here)


def assert_same(there: dict[tuple[object, ...], Any], here: dict[tuple[object, ...], Any]) -> None:
    assert list(there) == list(here)
    assert [job for job in here if there[job] != here[job]] == []


# --- a standalone cluster -----------------------------------------------------------------------------


@contextmanager
def standalone(python: Path, scratch: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and two workers from a pip package, as separate processes on loopback."""
    found = subprocess.run(
        [python, "-c", "import pyspark, os; print(os.path.dirname(pyspark.__file__))"],
        capture_output=True,
        text=True,
        check=True,
    )
    home = Path(found.stdout.strip())
    [port, *ports] = free_ports(6)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
    master = f"spark://127.0.0.1:{port}"
    runs = [
        ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)),
        *(
            (
                *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", str(number)),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(scratch / f"work-{number}"), master),
            )
            for number in ports[:2]
        ),
    ]
    processes = []
    up = (b"New state: ALIVE", b"Successfully registered with master")
    try:
        for number, words in enumerate(runs):
            with (scratch / f"spark-{number}.log").open("wb") as log:
                ui = ("--webui-port", str(ports[2 + number]))
                command = [str(home / "bin" / "spark-class"), words[0], *ui, *words[1:]]
                processes.append(
                    subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
                )
            wait_until(partial(_says, scratch / f"spark-{number}.log", up[min(number, 1)]), words[0])
        yield master, processes[1:]
    finally:
        for process in processes:
            _kill(process)


def _says(log: Path, words: bytes) -> bool:
    return words in log.read_bytes()


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait(30)


def _reads(worker: subprocess.Popen[bytes], directory: Path) -> bool:
    """Whether a process of its session has a log of this directory open."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            session = int((process / "stat").read_text().rpartition(")")[2].split()[3])
            if session == worker.pid and any(
                os.readlink(one).startswith(f"{directory}/") for one in (process / "fd").iterdir()
            ):
                return True
    return False


@pytest.mark.soak
def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    """From a clean environment, with executors that have no kafkatool of their own."""
    [good] = write_fleet(tmp_path / "data", seed=11)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"{ROOT}[spark]"], check=True, timeout=1500)
    base = subprocess.run(
        [sys.executable, "-c", "import sys; print(sys._base_executable)"], capture_output=True, text=True
    ).stdout.strip()

    def audit(name: str, *more: str) -> subprocess.Popen[bytes]:
        words = ["pipeline", "run", "--now", NOW, "--out", str(tmp_path / name), *more, f"x={good}"]
        command = [str(python), "-m", "kafkatool", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)

    quiet = audit("quiet", "--spark", "local[2]")
    _out, err = quiet.communicate(timeout=600)
    assert quiet.returncode == 0, err
    with standalone(python, tmp_path) as (master, workers):
        bare = ["--spark", master, "--conf", f"spark.pyspark.python={base}"]
        sent = audit("sent", *bare)
        _out, err = sent.communicate(timeout=900)
        assert sent.returncode == 0, err
        assert b"packed" in err
        assert tables(tmp_path / "sent") == tables(tmp_path / "quiet")
        # So slowly that there is a middle to be killed in.
        run_ = audit("disturbed", "--spark", master, "--max-rate", "500K")
        deadline = time.monotonic() + 300
        while not (busy := [one for one in workers if _reads(one, good)]):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        _kill(busy[0])
        _out, err = run_.communicate(timeout=900)
        assert run_.returncode == 0, err
    assert tables(tmp_path / "disturbed") == tables(tmp_path / "quiet")


@pytest.mark.soak
@pytest.mark.parametrize("on_spark", [False, True], ids=["collect", "run"])
def test_an_audit_that_is_killed_and_run_again_ends_as_if_nothing_had_been(
    tmp_path: Path, on_spark: bool
) -> None:
    [good] = write_fleet(tmp_path / "data", seed=13)
    target = damage(good, 13)
    words = ["pipeline", "run", "--spark", "local[2]", "--out"] if on_spark else ["pipeline", "collect", "-o"]

    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "kafkatool", *words, str(tmp_path / name), "--now", NOW]
        return subprocess.Popen(
            [*command, "--max-rate", "8M", f"x={target}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )

    began = time.monotonic()
    undisturbed = start("undisturbed")
    _out, err = undisturbed.communicate(timeout=600)
    assert undisturbed.returncode == 4, err
    took = time.monotonic() - began
    chance = random.Random(17)
    for _ in range(6 if on_spark else 25):
        process = start("killed")
        time.sleep(chance.uniform(0.1, 1.1 * took))
        process.kill()
        process.communicate(timeout=60)
    process = start("killed")
    _out, err = process.communicate(timeout=600)
    assert process.returncode == 4, err
    assert tables(tmp_path / "killed") == tables(tmp_path / "undisturbed")
    names = {path.name for path in (tmp_path / "killed").iterdir()}
    assert not [name for name in names if re.match(r"\.run-|\.current", name)]
