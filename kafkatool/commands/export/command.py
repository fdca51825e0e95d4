"""`kafkatool export`: write the records of a log to files for other programs."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    JobsOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.commands.records.visible_options import ExportFormat, VisibleOptions
from kafkatool.commands.screen.values import BytesFormat
from kafkatool.errors import ExitCode

EPILOG = epilog(
    {
        "kafkatool export -o orders /var/lib/kafka/data/orders-*": "one Parquet file per segment",
        "kafkatool export --all -o everything.parquet orders-0": (
            "the whole log in one file, with the fate of every transaction"
        ),
        "kafkatool export --from now-1d -o day.csv orders-0": "a day as CSV",
    },
    4,
    5,
)


def export(
    where: FileOptions,
    *,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="A directory for one file per segment, where an interrupted or later run continues; or, "
            "with an extension, one file.",
        ),
    ],
    fmt: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            help="Output format. By default the extension of the output decides, else parquet. parquet and "
            "arrow need the extra `arrow`.",
        ),
    ] = None,
    chosen: RecordOptions,
    visible: VisibleOptions,
    how: BytesOpt = BytesFormat.utf8,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: CommonOptions,
) -> None:
    """Write records to Parquet, Arrow, CSV or NDJSON files, one row per record.

    By default writes what a read_committed consumer would get; --all writes the whole log, with columns for
    the outcome of transactions. A file appears under its name only when it is complete. In a directory,
    segments that were exported before and have not changed since are skipped. --limit counts all records,
    --tail those of each partition; both write one file.
    """
    from kafkatool.commands.export.wanted import WantedExport, format_of

    least = severity(fail_on)
    reading = visible.reading(chosen.filter(), common)
    wanted = WantedExport(output, format_of(output, fmt), how, chosen.limit, chosen.tail)
    tally = wanted.export(where, reading, where_to_run, jobs)
    reading.conclude()
    skipped = (
        f"; {_number(tally.skipped, 'file')} done before and unchanged: skipped" if tally.skipped else ""
    )
    written = f"{_number(reading.shown, 'record')} in {_number(tally.files, 'file')}"
    reading.talk.note(f"{output}: {written}{skipped}")
    takes_everything = reading.takes_everything and not wanted.is_part
    if not (reading.shown or tally.skipped or takes_everything or reading.outcome.failed):
        reading.talk.warn("nothing matches")
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(reading.outcome.exit_code(least))


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
