"""`kafkatool bench append`: measure the append path on this disk, and the bare disk for comparison."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.bench.output import BenchOptions, DirArg, number, sparkline, write_metrics
from kafkatool.commands.line.options import FormatOpt, epilog
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.screen.talk import Talk
    from kafkatool.engine.bench.append import Limit, Sample, WrittenLogs
    from kafkatool.engine.bench.compare import Metric
    from kafkatool.engine.bench.load import Load
    from kafkatool.engine.bench.place import BenchPlace

EPILOG = epilog(
    {
        "kafkatool bench append /var/lib/kafka/bench": "a million records of 100 bytes in 16 KiB batches",
        "kafkatool bench append --num-records 50000000 --flush-messages 10000 DIR": "with fsync",
        "kafkatool bench append --codec zstd --writers 2 --partitions 8 DIR": "two processes, compressed",
        "kafkatool bench append --pre-encoded --batches-per-append 64 DIR": "as a follower's fetches arrive",
        "kafkatool bench append --throughput 200000 DIR": (
            "at a fixed rate: latencies as clients would see them"
        ),
    },
    5,
)


class Codecs(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class Distribution(StrEnum):
    uniform = "uniform"
    zipf = "zipf"
    sequential = "sequential"


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What is written; named as in Kafka's perf tools."""

    num_records: Annotated[
        int, typer.Option("--num-records", metavar="N", min=1, help="Number of records.")
    ] = 1_000_000
    record_size: Annotated[
        int, typer.Option("--record-size", metavar="BYTES", min=1, help="Size of each value.")
    ] = 100
    batch_size: Annotated[
        str, typer.Option("--batch-size", metavar="SIZE", help="Size of a batch before compression.")
    ] = "16K"
    key_size: Annotated[
        int, typer.Option("--key-size", metavar="BYTES", min=0, help="Size of each key; 0: no keys.")
    ] = 16
    num_keys: Annotated[
        int,
        typer.Option(
            "--num-keys", metavar="N", min=0, help="Number of different keys; 0: a new key for every record."
        ),
    ] = 0
    key_distribution: Annotated[
        Distribution, typer.Option("--key-distribution", help="How keys repeat if --num-keys is set.")
    ] = Distribution.uniform
    compressible: Annotated[
        float,
        typer.Option(
            "--compressible",
            metavar="SHARE",
            min=0,
            max=1,
            help="Share of each value that compresses, 0 to 1.",
        ),
    ] = 0.0
    payload_file: Annotated[
        str | None,
        typer.Option(
            "--payload-file",
            metavar="FILE",
            help="Take values from random lines of this file.",
        ),
    ] = None
    codec: Annotated[Codecs, typer.Option("--codec", help="Compression codec.")] = Codecs.none
    throughput: Annotated[
        int, typer.Option("--throughput", metavar="N", help="Records per second; -1: as many as possible.")
    ] = -1
    reporting_interval: Annotated[
        int, typer.Option("--reporting-interval", metavar="MS", min=10, help="Time between two samples.")
    ] = 1000
    pre_encoded: Annotated[
        bool,
        typer.Option(
            "--pre-encoded", help="Encode before the clock starts; only offsets are set while it runs."
        ),
    ] = False
    batches_per_append: Annotated[
        int,
        typer.Option(
            "--batches-per-append",
            metavar="N",
            min=1,
            help="Batches per append: 1 as from a producer, more as from a follower's fetch.",
        ),
    ] = 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How the logs are kept."""

    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", min=1, help="Number of logs to write to.")
    ] = 1
    writers: Annotated[
        int, typer.Option("--writers", metavar="N", min=1, help="Number of writing processes.")
    ] = 1
    segment_size: Annotated[
        str, typer.Option("--segment-size", metavar="SIZE", help="Segment size (segment.bytes).")
    ] = "1G"
    index_interval: Annotated[
        str,
        typer.Option(
            "--index-interval", metavar="SIZE", help="Bytes per index entry (index.interval.bytes)."
        ),
    ] = "4K"
    flush_messages: Annotated[
        int,
        typer.Option("--flush-messages", metavar="N", min=0, help="Sync each log after N records; 0: never."),
    ] = 0
    flush_ms: Annotated[
        int, typer.Option("--flush-ms", metavar="MS", min=0, help="Sync each log after this time; 0: never.")
    ] = 0
    preallocate: Annotated[bool, typer.Option("--preallocate", help="Preallocate segment files.")] = False
    limits: Annotated[
        bool,
        typer.Option(
            "--limits/--no-limits", help="Also measure the bare disk, with sequential and random writes."
        ),
    ] = True


def bench_append(
    directory: DirArg,
    *,
    load: LoadOptions,
    logs: LogOptions,
    fmt: FormatOpt = Format.table,
    bench: BenchOptions,
) -> None:
    """Append real batches through the real log: encode, compress, checksum, write, index, roll, fsync.

    Records are made before the clock starts; encoding and checksums are part of what is measured, and the log
    checks them as a replica does. Latencies are also shown corrected for coordinated omission: with
    --throughput from the time an append was due, otherwise for the appends that a stall delayed. Then the
    same blocks are written to a plain file, and 4 KiB blocks at random positions: what the log could reach at
    most, and what it would reach if it wrote at random. Ctrl-C ends early and shows what was measured.
    """
    from kafkatool.engine.bench.place import take

    chosen = _load(load, logs)
    payload = _payload(chosen)
    each = chosen.record_size + chosen.key_size + 12
    needed = int(chosen.num_records * each * (2 if logs.limits else 1) * 1.05)
    if chosen.preallocate:
        needed = max(needed, chosen.partitions * chosen.segment_bytes)
    place = take(directory, needed, on_live_volume=bench.on_live_volume)
    place.clean_partitions()
    try:
        code = _run(chosen, place, payload, logs.limits, fmt, bench)
    finally:
        if not bench.keep:
            place.clean()
    raise typer.Exit(code)


def _load(load: LoadOptions, logs: LogOptions) -> Load:
    from kafkatool.commands.line.arguments import parse_size
    from kafkatool.engine.bench.load import Load

    if logs.writers > logs.partitions:
        raise UsageError(f"{logs.writers} writers need as many partitions: a log has one writer")
    return Load(
        num_records=load.num_records,
        record_size=load.record_size,
        batch_size=parse_size(load.batch_size),
        key_size=load.key_size,
        num_keys=load.num_keys,
        key_distribution=str(load.key_distribution),
        compressible=load.compressible,
        payload_file=load.payload_file,
        codec=str(load.codec),
        segment_bytes=min(parse_size(logs.segment_size), (1 << 31) - 1),
        index_interval_bytes=parse_size(logs.index_interval),
        flush_messages=logs.flush_messages,
        flush_ms=logs.flush_ms,
        partitions=logs.partitions,
        writers=logs.writers,
        preallocate=logs.preallocate,
        throughput=load.throughput,
        batches_per_append=load.batches_per_append,
        pre_encoded=load.pre_encoded,
        reporting_interval_ms=load.reporting_interval,
    )


def _payload(load: Load) -> bytes | None:
    if load.payload_file is None:
        return None
    from kafkatool.engine.files.source import Guest, read_small_file

    try:
        return read_small_file(load.payload_file, Guest(), limit=256 << 20)
    except FileNotFoundError as error:
        raise UsageError(f"--payload-file {load.payload_file}: {error.strerror}") from None


def _run(
    load: Load, place: BenchPlace, payload: bytes | None, with_limits: bool, fmt: Format, bench: BenchOptions
) -> ExitCode:
    from kafkatool.engine.bench.append import WrittenLogs, append, limits

    seed, total = 1, WrittenLogs()
    samples: list[Sample] = []
    live = _Live(bench.shows_progress)
    for message in append(load, place, payload, seed):
        if isinstance(message, WrittenLogs):
            total = message
        else:
            samples.append(message)
            live.show(samples)
    live.end()
    bare: list[Limit] = []
    talk = bench.talk()
    if with_limits and total.log_size and total.stopped is None:
        bare = list(limits(load, place, total.log_size, payload, seed))
    metrics = _metrics(total, samples, bare)
    write_metrics(metrics, fmt, raw=bench.raw)
    _tell(total, load, bare, talk)
    bench.finish("append", place, asdict(load), metrics, [asdict(sample) for sample in samples])
    return ExitCode.INTERRUPTED if total.stopped == "interrupted" else ExitCode.OK


class _Live:
    """One line on a terminal, rewritten with every sample."""

    def __init__(self, is_shown: bool) -> None:
        self._is_shown = is_shown

    def show(self, samples: list[Sample]) -> None:
        if self._is_shown:
            last = samples[-1]
            rates = [sample.records / sample.length for sample in samples if sample.length]
            text = (
                f"{sparkline(rates, 30)} {number(rates[-1])} records/s, "
                f"{number(last.size / last.length / 1e6)} MB/s, p99 {number(last.p99_ns / 1e6)} ms"
            )
            print(f"\r{text[:78]}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# --- numbers ------------------------------------------------------------------------------------------


def _metrics(total: WrittenLogs, samples: list[Sample], bare: list[Limit]) -> list[Metric]:
    from kafkatool.engine.bench.compare import Metric

    seconds = total.seconds or 1e-9
    whole = [sample for sample in samples if sample.length]
    found = [
        Metric(
            "records", "records/s", total.records / seconds, True, [one.records / one.length for one in whole]
        ),
        Metric(
            "log",
            "MB/s",
            total.log_size / seconds / 1e6,
            True,
            [one.size / one.length / 1e6 for one in whole],
        ),
        Metric("log, until synced", "MB/s", total.log_size / (total.closing_seconds or 1e-9) / 1e6, True),
        Metric("records in all", "records", total.records),
        Metric("bytes of the log", "bytes", total.log_size),
    ]
    found += _latencies(total, whole)
    found += [
        Metric("CPU", "cores", total.cpu_seconds / seconds, False),
        Metric("CPU a million records", "s", total.cpu_seconds * 1e6 / max(1, total.records), False),
        Metric("time in write", "share", total.write_seconds / seconds),
        Metric("time in fsync", "share", total.sync_seconds / seconds),
        Metric("log bytes a payload byte", "ratio", total.log_size / max(1, total.payload_size), False),
        Metric("dirtied bytes a log byte", "ratio", total.kernel_size / max(1, total.log_size), False),
        Metric("device bytes a log byte", "ratio", (total.device_size or 0) / max(1, total.log_size)),
        Metric("dirty memory, most", "MB", max((one.dirty for one in samples), default=0) / 1e6),
    ]
    if total.syncs.total:
        found += [
            Metric("fsync calls", "calls", total.syncs.total),
            Metric("fsync p50", "ms", total.syncs.percentile(50) / 1e6, False),
            Metric("fsync p99", "ms", total.syncs.percentile(99) / 1e6, False),
            Metric("fsync max", "ms", total.syncs.max / 1e6, False),
        ]
    for limit in bare:
        found.append(Metric(limit.name, "MB/s", limit.size / (limit.seconds or 1e-9) / 1e6, True))
        found.append(
            Metric(
                f"{limit.name}, until synced", "MB/s", limit.size / (limit.synced_seconds or 1e-9) / 1e6, True
            )
        )
    return found


def _latencies(total: WrittenLogs, samples: list[Sample]) -> list[Metric]:
    """Return append times as the writer measured them, and as independent clients would have seen them."""
    from kafkatool.engine.bench.compare import Metric
    from kafkatool.engine.jobs.histogram import PERCENTILES

    paced = total.response.counts != total.service.counts
    corrected = total.response if paced else total.service.corrected(total.service.percentile(50))
    found = []
    for percent in PERCENTILES:
        name = f"append p{percent:g}"
        each = [one.p99_ns / 1e6 for one in samples] if percent == 99 else []
        found.append(Metric(name, "ms", total.service.percentile(percent) / 1e6, False, each))
        found.append(Metric(f"{name}, corrected", "ms", corrected.percentile(percent) / 1e6, False))
    found.append(Metric("append max", "ms", total.service.max / 1e6, False))
    return found


def _tell(total: WrittenLogs, load: Load, bare: list[Limit], talk: Talk) -> None:
    """Say what the numbers mean."""
    if total.stopped:
        talk.warn(f"stopped early: {total.stopped}; the numbers are those of {total.records:,} records")
    if total.is_cycled:
        talk.note("more records than fit into memory: keys and payloads repeat")
    in_disk = (total.write_seconds + total.sync_seconds) / (total.seconds * load.writers or 1e-9)
    if load.throughput > 0 and total.cpu_seconds < 0.8 * total.seconds * load.writers:
        talk.note(
            f"the pace of --throughput was the limit: {100 * in_disk:.0f}% of the time in write and fsync"
        )
    elif in_disk < 0.5:
        talk.note(
            f"the limit was this program, not the disk: only {100 * in_disk:.0f}% of the time in write and "
            "fsync; --pre-encoded, --batches-per-append and --writers ask more of the disk"
        )
    else:
        talk.note(f"the limit was the disk: {100 * in_disk:.0f}% of the time in write and fsync")
    if len(bare) == 2 and total.seconds and bare[0].seconds:
        share = (total.log_size / total.seconds) / (bare[0].size / bare[0].seconds)
        talk.note(f"the log reached {100 * share:.0f}% of bare sequential writes of the same blocks")
