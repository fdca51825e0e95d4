"""`kafkatool bench read`: how fast a log goes from the disk, or from memory, to a socket."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.bench.output import BenchOptions, DirArg, write_metrics
from kafkatool.commands.line.options import FormatOpt, epilog
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, KafkatoolError

if TYPE_CHECKING:
    from kafkatool.engine.bench.compare import Metric
    from kafkatool.engine.bench.place import BenchPlace
    from kafkatool.engine.bench.read import ReadResult

EPILOG = epilog(
    {
        "kafkatool bench read /var/lib/kafka/bench": "write 1 GiB, then read it back with every method",
        "kafkatool bench read --size 8G --rounds 5 --out read.json DIR": (
            "a larger log and more rounds, for a comparison"
        ),
        "kafkatool bench read --keep DIR": "what `bench append --keep` left, if anything; leave it there",
    },
    5,
)


def bench_read(
    directory: DirArg,
    *,
    size: Annotated[
        str, typer.Option("--size", metavar="SIZE", help="Size of the log to write if none was kept.")
    ] = "1G",
    rounds: Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Passes per method.")] = 3,
    fmt: FormatOpt = Format.table,
    bench: BenchOptions,
) -> None:
    """Send a log over a loopback socket with sendfile, pread, mmap and TLS, cold and warm.

    Cold means that the pages of the log, and of nothing else, are dropped from the page cache first. CPU is
    the sender's time per GiB. TLS is AES-128-GCM, which most clients choose. The log is what `bench append
    --keep` left in the directory, or is written first.
    """
    from kafkatool.commands.line.arguments import parse_size
    from kafkatool.engine.bench.place import take
    from kafkatool.engine.bench.read import read_back

    wanted = parse_size(size)
    place = take(directory, 0 if _logs(directory) else wanted, on_live_volume=bench.on_live_volume)
    results: list[ReadResult] = []
    code = ExitCode.OK
    try:
        if not _logs(place.path):
            _write(place, wanted)
        try:
            results.extend(read_back(_logs(place.path), rounds))
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
            bench.talk().warn("interrupted: the numbers are those of the passes that were finished")
        metrics = _metrics(results)
        write_metrics(metrics, fmt, raw=bench.raw)
        bench.finish("read", place, {"size": wanted, "rounds": rounds}, metrics, [])
    finally:
        if not bench.keep:
            place.clean()
    raise typer.Exit(code)


def _logs(directory: str) -> list[str]:
    if not os.path.isdir(directory):
        return []
    partitions = [
        os.path.join(directory, name) for name in sorted(os.listdir(directory)) if name.startswith("bench-")
    ]
    return [
        os.path.join(path, name)
        for path in partitions
        if os.path.isdir(path)
        for name in sorted(os.listdir(path))
        if name.endswith(".log")
    ]


def _write(place: BenchPlace, size: int) -> None:
    from kafkatool.engine.bench.append import WrittenLogs, append
    from kafkatool.engine.bench.load import Load

    load = Load(num_records=max(1, size // 126), batches_per_append=64)
    for message in append(load, place, None, 1):
        if isinstance(message, WrittenLogs) and message.stopped:
            raise KafkatoolError(f"{place.path}: {message.stopped}")


def _metrics(results: list[ReadResult]) -> list[Metric]:
    from statistics import median

    from kafkatool.engine.bench.compare import Metric

    found: dict[tuple[str, bool], list[ReadResult]] = defaultdict(list)
    for result in results:
        found[result.way, result.is_cold].append(result)
    metrics = []
    for (way, is_cold), passes in found.items():
        name = f"{way}, {'cold' if is_cold else 'warm'}"
        rates = [one.rate / 1e6 for one in passes]
        used = [one.cpu_per_gib for one in passes]
        metrics.append(Metric(name, "MB/s", median(rates), True, rates))
        metrics.append(Metric(f"{name}, CPU", "s/GiB", median(used), False, used))
    return metrics
