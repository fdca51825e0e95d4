"""Provide a Spark session: quiet, with this package wherever tasks run, and stopped at the end."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafkatool.errors import KafkatoolError, UsageError

LEAST_JAVA = 17
_OF_ONE_HOST = re.compile(r"local(\[.*\])?$|local-cluster\[")
_KNOWN = re.compile(
    r"local(\[(\*|\d+)(,\s*\d+)?\])?$|local-cluster\[\d+,\s*\d+,\s*\d+\]$|spark://|yarn$|k8s://"
)
_UNTESTED = re.compile(r"yarn$|k8s://")
_ENVIRONMENT = "kafkatool_env"
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Through TCP every task of a Python worker wastes some 20 ms.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.maxResultSize": "0",
}

Say = Callable[[str], None]


@contextmanager
def open_session(master: str, conf: Mapping[str, str], say: Say = lambda message: None) -> Iterator[Any]:
    """Provide a session on this master; an existing one is used, and left running. Raises KafkatoolError."""
    if not _KNOWN.match(master):
        raise UsageError(
            f"--spark {master!r} is no master: local[*], local-cluster[2,1,1024], spark://HOST:PORT, "
            "yarn or k8s://…"
        )
    _be_quiet()
    from_elsewhere = _active_session()
    if from_elsewhere is not None:
        yield from_elsewhere
        return
    _need_java()
    if _UNTESTED.match(master):
        say(f"--spark {master}: passed on to Spark as it is; not tested")
    handler = signal.getsignal(signal.SIGINT)
    with tempfile.TemporaryDirectory(prefix="kafkatool-spark-") as scratch:
        session = _start_where_it_works(master, conf, scratch, say)
        # pyspark's own handler cancels on a busy connection, and the job goes on.
        signal.signal(signal.SIGINT, handler)
        try:
            yield session
        finally:
            with suppress(Exception):
                session.stop()


def _active_session() -> Any:
    from pyspark.sql import SparkSession

    # "Active" is per thread: another thread, or this one after an interrupt, has no active session.
    session = SparkSession.getActiveSession() or getattr(SparkSession, "_instantiatedSession", None)
    return None if session is None or session.sparkContext._jsc is None else session


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None or not os.path.exists(java):
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found.group(1)) if found else None


def _need_java() -> None:
    version = java_version()
    if version is None or version < LEAST_JAVA:
        what = "there is none on the PATH" if version is None else f"this one is {version}"
        raise KafkatoolError(
            f"Spark needs Java {LEAST_JAVA} or newer, and {what} "
            "(Debian: apt install openjdk-17-jre-headless); everything else works without"
        )


# --- where tasks run ----------------------------------------------------------------------------------


def _start_where_it_works(master: str, conf: Mapping[str, str], scratch: str, say: Say) -> Any:
    """Return a session whose executors have this package: installed there, or packed and sent."""
    chosen = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    python = chosen or sys.executable
    session = _start(master, {"spark.pyspark.python": python, **conf}, scratch)
    if _OF_ONE_HOST.match(master) or _has_all(session):
        return session
    session.stop()
    from kafkatool.spark.packing import packed_environment

    say("the executors have no matching kafkatool; it is packed and sent to them")
    archive = packed_environment(scratch)
    archives = ",".join(filter(None, [conf.get("spark.archives"), f"{archive}#{_ENVIRONMENT}"]))
    sent = {"spark.archives": archives, "spark.executorEnv.PYTHONPATH": _ENVIRONMENT}
    session = _start(master, {"spark.pyspark.python": chosen or "python3", **conf, **sent}, scratch)
    if not _has_all(session):
        session.stop()
        raise KafkatoolError(
            f"--spark {master}: its executors cannot run kafkatool: they need a Python "
            f"{sys.version_info.major}.{sys.version_info.minor}, which --conf spark.pyspark.python=… names"
        )
    return session


def _has_all(session: Any) -> bool:
    """Return whether every executor can import what we need, in the same release."""
    from kafkatool.spark.packing import release, release_there

    context = session.sparkContext
    count = max(2, context.defaultParallelism)
    try:
        found = context.parallelize(range(count), count).mapPartitions(_by_value(release_there)).collect()
    except Exception:
        return False
    return set(found) == {release()}


def _by_value(function: Any) -> Any:
    """Return a function that is sent by value, as its module may be missing there."""
    from pyspark import cloudpickle as typed

    cloudpickle: Any = typed

    module = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        sent = cloudpickle.dumps(function)
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    return _Sent(sent)


class _Sent:
    """Something pickled in advance, and unpickled at the receiver, without this class."""

    def __init__(self, pickled: bytes) -> None:
        self.pickled = pickled

    def __reduce__(self) -> Any:
        import pickle

        return pickle.loads, (self.pickled,)

    def __call__(self, *_arguments: object) -> Any:
        raise AssertionError("is called where it was sent to")


# --- a session ----------------------------------------------------------------------------------------


def _be_quiet() -> None:
    # pyspark logs kilobytes of Java for every query that it does not understand.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    warnings.filterwarnings("ignore", message=".*pandas.*")


def _start(master: str, conf: Mapping[str, str], scratch: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("kafkatool")
    settings = {**_SETTINGS, "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse")}
    if _OF_ONE_HOST.match(master) or re.match(r"spark://(127\.|localhost)", master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for key, value in {**settings, **conf}.items():
        builder = builder.config(key, value)
    # Spark reads the environment first, for the driver's own Python workers too.
    os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    log = os.path.join(scratch, "spark.log")
    try:
        with _output_to(log):
            return builder.getOrCreate()
    except Exception as error:
        raise KafkatoolError(f"--spark {master}: Spark does not start: {_reason(error, log)}") from None


def _reason(error: Exception, log: str) -> str:
    """Return the last reason in Spark's log, or else Python's message."""
    with suppress(OSError), open(log, errors="replace") as file:
        lines = [line.strip() for line in file if "Exception" in line or "ERROR" in line]
        if lines:
            return lines[-1]
    return str(error).splitlines()[0] if str(error) else type(error).__name__


@contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Redirect output to a file: the JVM and workers started meanwhile keep it."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    out, err = os.dup(1), os.dup(2)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(out, 1)
        os.dup2(err, 2)
        for fd in (target, out, err):
            os.close(fd)
