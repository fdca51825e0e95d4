"""`kafkatool stats`: the logs of a disk in numbers."""

from __future__ import annotations

import typer

from kafkatool.commands.line.options import (
    BytesOpt,
    FailOnOpt,
    FileOptions,
    FormatOpt,
    JobsOpt,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.commands.stats.options import CountOptions, StatsOptions
from kafkatool.errors import UsageError

EPILOG = epilog(
    {
        "kafkatool stats /var/lib/kafka/data": "one line per partition, and a sheet for the total",
        "kafkatool stats -v --deep orders-0": "one partition in detail, including its keys",
        "kafkatool stats --by topic --what-if zstd,lz4,gzip:9 server.properties": (
            "what other codecs would save"
        ),
        "kafkatool stats --from now-1d --by topic server.properties": "the last day",
        "kafkatool stats --format ndjson DIR | jq 'select(.future_batches > 0)'": ("where clocks are ahead"),
        "kafkatool stats --by topic --format csv DIR > topics.csv": "for a spreadsheet",
    },
    4,
)


def stats(
    where: FileOptions,
    *,
    count: CountOptions,
    fmt: FormatOpt = Format.table,
    how: BytesOpt = BytesFormat.utf8,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: StatsOptions,
) -> None:
    """Count batches, records, codecs, producers, times and gaps; with --deep also keys.

    By default only headers and checksums are read. Damaged batches are left out and reported. Percentiles are
    exact below 128 and at most 1.6 % too high above. Up to 65,536 different keys or producers are counted
    exactly; beyond that their number is an estimate (0.8 % standard error), and frequent keys come from a
    sample of 16,384 records. The output says which. Nothing is changed, and the page cache is left as it was.

    With --from and --to a batch counts as a whole if any of its offsets, or its greatest time, is in the
    range. With --deep every record is checked, and a batch counts if one of its records is in the range.
    Segments outside the range are not read.
    """
    from kafkatool.commands.stats.sheet import Style
    from kafkatool.commands.stats.telling import StatsTelling
    from kafkatool.engine.directory.named_file import LOGS
    from kafkatool.engine.stats.statistics import Statistics

    least, choices = severity(fail_on), count.codecs()
    talk, expansion = common.talk(), where.expand(readable=LOGS)
    wanted = count.wanted()
    run = Statistics(expansion.targets, common.guest(), wanted)
    run.summary.failures += expansion.problems
    if not run.has_logs:
        raise UsageError(next(iter(run.summary.failures), "no log to read there"))
    style = Style(raw, how, count.redact, count.top)
    telling = StatsTelling(run, count.request(), choices, style, talk)
    pool = where_to_run.workers(jobs, run.most_workers, talk, "stats", run.size)
    telling.show(fmt, pool, sheets=common.verbose)
    raise typer.Exit(telling.conclude(least))
