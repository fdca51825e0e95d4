"""`kafkatool bench lookup`: offset and time lookups per second, as logs grow."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.bench.output import BenchOptions, DirArg, write_metrics
from kafkatool.commands.line.options import FormatOpt, epilog
from kafkatool.commands.screen.values import Format, human_size
from kafkatool.errors import ExitCode

if TYPE_CHECKING:
    from kafkatool.engine.bench.compare import Metric
    from kafkatool.engine.bench.lookup import LookupResult

EPILOG = epilog(
    {
        "kafkatool bench lookup /var/lib/kafka/bench": "seven days at 1 MB/s in segments of 1 GB",
        "kafkatool bench lookup --days 30 --rate 5M --lookups 2000 DIR": "a longer log and more lookups",
        "kafkatool bench lookup --out lookup.json DIR": "for a comparison",
    },
    5,
)


def bench_lookup(
    directory: DirArg,
    *,
    days: Annotated[
        float, typer.Option("--days", metavar="DAYS", min=0.001, help="Days of records in the log.")
    ] = 7.0,
    rate: Annotated[
        str, typer.Option("--rate", metavar="SIZE", help="Bytes written per second.")
    ] = "1000000",
    segment_size: Annotated[
        str, typer.Option("--segment-size", metavar="SIZE", help="Segment size (segment.bytes).")
    ] = "1G",
    lookups: Annotated[
        int, typer.Option("--lookups", metavar="N", min=10, help="Lookups of each kind.")
    ] = 500,
    fmt: FormatOpt = Format.table,
    bench: BenchOptions,
) -> None:
    """Find offsets and times in logs of one segment, ten, a hundred and all, cold and warm.

    The log has complete indexes and holes where nothing is looked up, so it takes little space. Cold means
    that the three files of the segment are dropped from the page cache before each lookup.
    """
    from kafkatool.commands.line.arguments import parse_rate, parse_size
    from kafkatool.engine.bench.lookup import Textbook, Week
    from kafkatool.engine.bench.place import take

    week = Week(days, parse_rate(rate), min(parse_size(segment_size), (1 << 31) - 16384), lookups)
    place = take(directory, week.index_size, on_live_volume=bench.on_live_volume)
    place.clean_partitions()
    code = ExitCode.OK
    results: list[LookupResult] = []
    try:
        try:
            results.extend(Textbook(place, week, 1).measure())
        except KeyboardInterrupt:
            code = ExitCode.INTERRUPTED
            bench.talk().warn("interrupted: the numbers are those that were finished")
        metrics = [_metric(result) for result in results]
        write_metrics(metrics, fmt, raw=bench.raw)
        bench.finish("lookup", place, asdict(week), metrics, [])
    finally:
        if not bench.keep:
            place.clean()
    raise typer.Exit(code)


def _metric(result: LookupResult) -> Metric:
    from kafkatool.engine.bench.compare import Metric

    state = "cold" if result.is_cold else "warm"
    name = f"{result.what}, {state}, {result.segments} segments, {human_size(result.log_size)}"
    return Metric(name, "look-ups/s", median(result.rates), True, result.rates)
