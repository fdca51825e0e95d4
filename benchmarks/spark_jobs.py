"""Compare jobs on Spark, in a warm session, with the same jobs in processes of this machine.

Both sides run commands inside this process, so the start of Python and of Spark is not counted. Logs are
`inputs.segments(8)`: 8 GiB at the default size.
"""

from __future__ import annotations

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from benchmarks.data import TIME, Inputs
from benchmarks.measure import Runner, Sample
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file

MASTER = "local[2]"
SMALL = 64 << 10
"""Bytes per segment, where there are very many."""
RECORDS = 140
TARGET = Path(gettempdir(), "kafkatool-benchmark-spark")


def command(*words: str, before: Callable[[], None] = lambda: None) -> Runner:
    """Run a command inside this process. The first one starts Spark, which then stays."""
    from tests.cli import run

    def timed() -> Sample:
        before()
        start = time.perf_counter()
        done = run(*words)
        seconds = time.perf_counter() - start
        if done.exit_code not in (0, 4):
            raise SystemExit(f"{' '.join(words)}: {done.stderr.decode()}")
        # The memory of this process only; Spark's belongs to the session.
        return Sample(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

    return timed


def session(cleanup: ExitStack) -> Any:
    """Return one session for all rows, warmed by a first command."""
    import kafkatool.spark
    from kafkatool.spark.session import open_session

    spark = cleanup.enter_context(open_session(MASTER, {"spark.driver.memory": "2g"}))
    kafkatool.spark.register(spark)
    return spark


def comparisons(inputs: Inputs, cleanup: ExitStack, make: Any, row: Any) -> Iterator[Any]:
    """Yield the comparisons; `make` and `row` are the table's Comparison and Row."""
    from kafkatool.spark.session import java_version

    if (java_version() or 0) < 17:
        return
    # In the table's order, but Spark starts only for its first row.
    started = partial(_started, cleanup, [])
    logs = [str(log) for log in inputs.segments(8)]
    size = f"{8 * inputs.size >> 30} GiB" if inputs.size >= 1 << 27 else f"{8 * inputs.size >> 20} MiB"
    on_spark = ("--spark", MASTER)
    yield make(
        "on two processes",
        command("verify", "--jobs", "2", *logs),
        [row(f"verify of {size} on Spark", command("verify", *on_spark, *logs, before=started), None, 1.5)],
    )
    yield _compaction(inputs, make, row, started)
    yield _export(inputs, make, row, started)
    yield from _growth(inputs, make, row, started)


def _started(cleanup: ExitStack, spark: list[Any]) -> Any:
    if not spark:
        spark.append(session(cleanup))
        # Run a first job of each kind: it starts the daemons and workers.
        spark[0].sparkContext.parallelize(range(4), 4).map(str).collect()
    return spark[0]


def _compaction(inputs: Inputs, make: Any, row: Any, started: Callable[[], Any]) -> Any:
    words = ["--set", "cleanup.policy=compact", str(keyed(inputs))]
    ours = command("compact", "--spark", MASTER, *words, before=started)
    return make(
        "without Spark",
        command("compact", *words),
        [row("compact a partition, plan, on Spark", ours, None, 1.5)],
    )


def keyed(inputs: Inputs) -> Path:
    """Compact eight segments: 1 GiB with a million keys at the default size."""
    return inputs.keyed_partition(inputs.size * 1_000_000 >> 30)


def _export(inputs: Inputs, make: Any, row: Any, started: Callable[[], Any]) -> Any:
    """Compare files that tasks write themselves with rows that go through the JVM."""
    directory = keyed(inputs)

    def fresh() -> None:
        started()
        shutil.rmtree(TARGET, ignore_errors=True)

    def through_the_source() -> Sample:
        fresh()
        frame = started().read.format("kafkalog").option("all", "true").load(str(directory))
        start = time.perf_counter()
        frame.write.option("compression", "zstd").parquet(str(TARGET))
        return Sample(time.perf_counter() - start, 0)

    ours = command("export", "--all", "--spark", MASTER, "-o", str(TARGET), str(directory), before=fresh)
    return make(
        "df.write.parquet of the data source", through_the_source, [row("export on Spark", ours, 2.0)]
    )


def _growth(inputs: Inputs, make: Any, row: Any, started: Callable[[], Any]) -> Iterator[Any]:
    """Measure time by size, and by number of segments: small ones must not cost a task each."""
    on_spark = ("verify", "--spark", MASTER)
    logs = inputs.segments(8)
    logs = [*logs, *linked(logs)]
    for number in (4, 8, 16):
        names = [str(log) for log in logs[:number]]
        yield make(
            f"{number} times that of {inputs.size >> 20} MiB",
            _times(number, command(*on_spark, names[0], before=started)),
            [row(f"verify {number * inputs.size >> 20} MiB on Spark", command(*on_spark, *names))],
        )
    for number in (10, 100, 1000, 10_000):
        directory = small_segments(inputs, number)
        yield make(
            "on two processes",
            command("verify", "--jobs", "2", str(directory)),
            [row(f"verify {number} segments on Spark", command(*on_spark, str(directory), before=started))],
        )


def _times(factor: int, runner: Runner) -> Runner:
    def run() -> Sample:
        sample = runner()
        return Sample(sample.seconds * factor, sample.peak_bytes)

    return run


def linked(logs: list[Path]) -> list[Path]:
    """Link the same files as another partition: every job reads them again, without more disk space."""
    directory = logs[0].parent.with_name("linked-segments-1")
    directory.mkdir(exist_ok=True)
    for path in (path for log in logs for path in log.parent.glob(f"{log.stem}.*")):
        link = directory / path.name
        if not (link.exists() and link.samefile(path)):
            link.unlink(missing_ok=True)
            link.hardlink_to(path)
    return [directory / log.name for log in logs]


def small_segments(inputs: Inputs, number: int) -> Path:
    """Make a partition of this many small segments, without indexes."""
    directory = inputs.directory / "many-files" / f"{number}-small-segments-0"
    done = directory.with_suffix(".complete")
    if not done.exists():
        directory.mkdir(parents=True, exist_ok=True)
        for at in range(number):
            base = at * RECORDS * (SMALL >> 14)
            batches = [_batch(base + RECORDS * one) for one in range(SMALL >> 14)]
            (directory / segment_file(base, ".log")).write_bytes(b"".join(batches))
        done.touch()
    return directory


def _batch(base: int) -> bytes:
    """Return a batch of about 16 KiB."""
    records = [NewRecord(None, bytes(100), TIME) for _ in range(RECORDS)]
    return write_batch(records, base_offset=base, partition_leader_epoch=0)
