"""List what is compared with what, and the ratios that are promised."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

from benchmarks import spark_jobs
from benchmarks.appending import appending
from benchmarks.cleaning import Cleaner
from benchmarks.data import LARGE, NARROW, WIDE, Inputs
from benchmarks.measure import Program, Runner, Sample, repeated, together
from benchmarks.recovery import RecoveryScan
from benchmarks.serving import MIB, Contestants
from kafkatool.format.batch import Codec
from tests.kafka.dump_tool import main_class
from tests.kafka.peers import NEWEST, classpath, require_java

PURE = (("KAFKATOOL_PURE", "1"),)
KINDS = {WIDE: "16 KiB batches", LARGE: "256 KiB batches", NARROW: "single records"}


class Row(NamedTuple):
    """One job of kafkatool. `at_least`: times as fast as the peer; `at_most`: share of the peer's time.

    `within`: both do the same work, and neither takes more than this share of the other's time.
    """

    title: str
    run: Runner
    at_least: float | None = None
    at_most: float | None = None
    memory: int = 150 << 20
    """Most bytes of memory that it may take."""
    within: float | None = None


class Comparison(NamedTuple):
    """A peer, or a limit, and the jobs that are compared with it."""

    peer: str
    run: Runner
    rows: list[Row]


def kafka_dump_log(log: Path, *flags: str) -> Program:
    """Return kafka-dump-log, started as Kafka's own script does."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    java = [require_java(), "-Xmx256M", "-server", quiet, "-cp", classpath(NEWEST), main_class(NEWEST)]
    return Program([*java, *flags, "--files", str(log)])


def kafkatool(*words: str, environment: tuple[tuple[str, str], ...] = ()) -> Program:
    installed = Path(sys.executable).with_name("kafkatool")
    start = [str(installed)] if installed.exists() else [sys.executable, "-m", "kafkatool"]
    return Program([*start, *words], environment=environment)


def one_pass(name: str, *logs: Path) -> Program:
    return Program([sys.executable, "-m", "benchmarks.passes", name, *map(str, logs)], tells_time=True)


def comparisons(inputs: Inputs, cleanup: ExitStack, parts: Sequence[str] = ()) -> Iterator[Comparison]:
    """Yield all comparisons, or those of some parts; make the input of each."""
    for name, part in PARTS.items():
        if not parts or name in parts:
            yield from part(inputs, cleanup)


def _against_dump_log(inputs: Inputs, _cleanup: ExitStack) -> Iterator[Comparison]:
    """Compare with kafka-dump-log; start-up is counted for both."""
    wanted = {WIDE: (2.5, 2.5, 20.0, 10.0), LARGE: (None,) * 4, NARROW: (10.0, 15.0, 15.0, 8.0)}
    for size, (listing, verify, deep, data) in wanted.items():
        log, kind = inputs.log(size), KINDS[size]
        ours = [
            Row(f"list, {kind}", kafkatool("dump-log", "--files", str(log)).run, listing),
            Row(f"verify, {kind}", kafkatool("verify", str(log)).run, verify),
            Row(f"stats, {kind}", kafkatool("stats", str(log)).run),
        ]
        if size != LARGE:
            pure = kafkatool("dump-log", "--files", str(log), environment=PURE)
            ours.append(Row(f"list without the kernel, {kind}", pure.run, 1.0))
        yield Comparison(f"kafka-dump-log {NEWEST}", kafka_dump_log(log).run, ours)
        if size == LARGE:
            continue
        yield _with_flag(
            "--deep-iteration",
            log,
            Row(f"decode every record, {kind}", kafkatool("verify", "--deep", str(log)).run, deep),
            Row(f"stats --deep, {kind}", kafkatool("stats", "--deep", str(log)).run),
        )
        printing = kafkatool("dump-log", "--print-data-log", "--files", str(log))
        yield _with_flag(
            "--print-data-log",
            log,
            Row(f"print every record, {kind}", printing.run, data),
            Row(f"cat, {kind}", kafkatool("cat", str(log)).run),
            Row(f"export to Parquet, {kind}", _export(log).run),
        )


def _with_flag(flag: str, log: Path, *rows: Row) -> Comparison:
    return Comparison(f"kafka-dump-log {NEWEST} {flag}", kafka_dump_log(log, flag).run, list(rows))


def _export(log: Path) -> Program:
    """Export to a new file each time: one that exists would be skipped."""
    target = Path(gettempdir(), "kafkatool-benchmark.parquet")
    return _anew(target, "export", "-o", str(target), str(log))


def _anew(target: Path, *words: str) -> Program:
    """Return a command that removes `target` first, because it must not exist."""
    ours = " ".join(map(shlex.quote, kafkatool(*words).command))
    return Program(["sh", "-c", f"rm -rf {shlex.quote(str(target))} && exec {ours}"])


def _against_limits(inputs: Inputs, _cleanup: ExitStack) -> Iterator[Comparison]:
    """Compare with the limits of the machine; start-up is not counted on either side."""
    for size, most in ((WIDE, 1.5), (LARGE, None), (NARROW, 2.0)):
        log = inputs.log(size)
        row = Row(f"verify, {KINDS[size]}", one_pass("verify", log).run, None, most)
        yield Comparison("read and crc32c, 1 MiB at a time", one_pass("checksum", log).run, [row])
        yield Comparison("read, 1 MiB at a time", one_pass("read", log).run, [row._replace(at_most=None)])
    for size in (WIDE, NARROW):
        log = _small(inputs).log(size)
        row = Row(f"decode every record in memory, {KINDS[size]}", one_pass("parse", log).run, 5.0)
        yield Comparison("aiokafka's parser", one_pass("aiokafka", log).run, [row])


def _codecs(inputs: Inputs, _cleanup: ExitStack) -> Iterator[Comparison]:
    plain = one_pass("decode", inputs.text_log(Codec.NONE))
    for codec in (Codec.ZSTD, Codec.LZ4, Codec.SNAPPY, Codec.GZIP):
        log = inputs.text_log(codec)
        most = 1.25 if codec in (Codec.ZSTD, Codec.LZ4) else None
        row = Row(f"decode every record, {codec.label}", one_pass("decode", log).run, None, most)
        peer = "decompression alone, plus decoding the same uncompressed"
        yield Comparison(peer, together(one_pass("inflate", log), plain), [row])


def _recovery(inputs: Inputs, cleanup: ExitStack) -> Iterator[Comparison]:
    log = inputs.log(WIDE)
    broker = RecoveryScan(log)
    cleanup.callback(broker.close)
    row = Row("rebuild-index, plan, 16 KiB batches", one_pass("rebuild", log).run, 2.0)
    yield Comparison(f"recovery scan of a broker {NEWEST}", broker.run, [row])


def _compaction(inputs: Inputs, cleanup: ExitStack) -> Iterator[Comparison]:
    """Compare whole runs on a million keys at 1 GiB with the time that the broker's cleaner logs."""
    partition = inputs.keyed_partition(inputs.size * 1_000_000 >> 30)
    broker = Cleaner(partition)
    cleanup.callback(broker.close)
    words = ["compact", "--set", "cleanup.policy=compact", str(partition)]
    target = Path(gettempdir(), "kafkatool-benchmark-compacted")
    rows = [
        Row("compact into another directory", _anew(target, *words, "--write-to", str(target)).run, 3.0),
        Row("compact, plan", kafkatool(*words).run, 5.0),
    ]
    # This includes 40 bytes for each of a million keys.
    rows = [row._replace(memory=300 << 20) for row in rows]
    yield Comparison(f"cleaner of a broker {NEWEST}", broker.run, rows)


def _serving(inputs: Inputs, cleanup: ExitStack) -> Iterator[Comparison]:
    """Compare servers of the same directory, as far as possible one at a time."""
    with ExitStack() as running:
        cleanup.push(running)
        all_of_them = Contestants(inputs, running)
        ours, broker = all_of_them.ours, all_of_them.broker
        for size, least in ((MIB, 0.5), (8 * MIB, 0.8)):
            title = f"{size // MIB} MiB per request"
            plain = all_of_them.fetch(ours.port, size)
            copied = all_of_them.fetch(all_of_them.copying.port, size)
            rows = [
                Row(f"serve, Fetch loop, {title}", plain, 1.0),
                Row(f"serve without sendfile, {title}", copied),
            ]
            if all_of_them.tls is not None:
                encrypted = all_of_them.fetch(all_of_them.tls.port, size, tls=True)
                rows.append(Row(f"serve with TLS, {title}", encrypted))
            theirs = all_of_them.fetch(all_of_them.port, size)
            yield Comparison(f"Fetch loop from a broker {NEWEST}", theirs, rows)
            row = Row(f"serve, Fetch loop, {title}", plain, least)
            yield Comparison("bare sockets: request, header, sendfile", all_of_them.pingpong(size), [row])
            row = Row(f"processor time of serve, {title}", all_of_them.cpu(ours.process.pid, plain))
            yield Comparison(f"of a broker {NEWEST}", all_of_them.cpu(broker.pid, theirs), [row])
        row = Row("kcat reads all from serve", all_of_them.kcat(ours.bootstrap), 0.95)
        yield Comparison(f"from a broker {NEWEST}", all_of_them.kcat(broker.bootstrap), [row])
        row = Row(
            "a fetch of 64 KiB beside 20 busy and 500 idle clients, p99",
            all_of_them.crowd(ours.port, ours.process.pid),
        )
        yield Comparison(f"of a broker {NEWEST}", all_of_them.crowd(all_of_them.port, broker.pid), [row])


def _two_jobs(inputs: Inputs, _cleanup: ExitStack) -> Iterator[Comparison]:
    """Compare one process with two; no other work can gain more from two than bare reading."""
    logs = inputs.segments(4)
    for title, flags in (("verify", []), ("verify --deep", ["--deep"])):
        verify = ["verify", *flags, *map(str, logs), "--jobs"]
        # Both start up once, so the next row, without start-up, shows and promises what two jobs gain.
        row = Row(f"{title} of 4 segments on two jobs", kafkatool(*verify, "2").run)
        yield Comparison("on one job", kafkatool(*verify, "1").run, [row])
        name = "-".join(["verify", *(flag.strip("-") for flag in flags)])
        row = Row(
            f"{title} of 4 segments on two jobs, start-up aside", one_pass(f"{name}-by-two", *logs).run, 1.6
        )
        yield Comparison("on one job, start-up aside", one_pass(name, *logs).run, [row])
    row = Row("bare reading of 4 segments by two processes", one_pass("read-by-two", *logs).run)
    yield Comparison("by one process", one_pass("read", *logs).run, [row])


def _growth(inputs: Inputs, _cleanup: ExitStack) -> Iterator[Comparison]:
    """Check that time grows with the size, and memory does not."""
    small = _small(inputs)
    row = Row(
        f"verify {4 * inputs.size >> 20} MiB in 4 segments",
        one_pass("verify", *inputs.segments(4)).run,
        None,
        1.1,
    )
    peer = f"64 times that of {small.size >> 20} MiB"
    yield Comparison(peer, repeated(one_pass("verify", small.log(WIDE)), 64), [row])


def _small(inputs: Inputs) -> Inputs:
    """Return inputs that fit into memory."""
    return Inputs(inputs.directory.parent, inputs.size // 16)


def _spark(inputs: Inputs, cleanup: ExitStack) -> Iterator[Comparison]:
    yield from spark_jobs.comparisons(inputs, cleanup, Comparison, Row)


PARTS: dict[str, Callable[[Inputs, ExitStack], Iterator[Comparison]]] = {
    "dump-log": _against_dump_log,
    "limits": _against_limits,
    "codecs": _codecs,
    "recovery": _recovery,
    "compaction": _compaction,
    "appending": appending,
    "serving": _serving,
    "jobs": _two_jobs,
    "growth": _growth,
    "spark": _spark,
}


def help_time() -> Sample:
    return kafkatool("--help").run()
