"""`kafkatool export`: the records of a log as files for other programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    PathOptions,
    RecordChoice,
    epilog,
    severity,
)
from kafkatool.commands.render import BytesFormat
from kafkatool.commands.spark_options import SparkOptions
from kafkatool.commands.visible_options import ExportFormat, VisibleOptions
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.export_runs import Tally
    from kafkatool.commands.record_reading import Reading
    from kafkatool.engine.read_subject import Subject

EPILOG = epilog(
    {
        "kafkatool export -o orders /var/lib/kafka/data/orders-*": "a Parquet file for every segment",
        "kafkatool export --all -o everything.parquet orders-0": (
            "the whole log in one file, with the fate of every transaction"
        ),
        "kafkatool export --from now-1d -o day.csv orders-0": "a day as CSV",
    },
    4,
    5,
)
_EXTENSIONS = {
    ".parquet": ExportFormat.parquet,
    ".arrow": ExportFormat.arrow,
    ".ipc": ExportFormat.arrow,
    ".feather": ExportFormat.arrow,
    ".csv": ExportFormat.csv,
    ".ndjson": ExportFormat.ndjson,
    ".jsonl": ExportFormat.ndjson,
    ".json": ExportFormat.ndjson,
}


def export(
    where: PathOptions,
    *,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            show_default=False,
            help="A directory, for a file a segment: an interrupted or later run goes on there; "
            "or, by its extension, one file.",
        ),
    ],
    fmt: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            show_default=False,
            help="By default what the extension of the output says, else parquet; "
            "parquet and arrow need the extra `arrow`.",
        ),
    ] = None,
    chosen: RecordChoice,
    visible: VisibleOptions,
    how: BytesOpt = BytesFormat.utf8,
    fail_on: FailOnOpt = "degraded",
    where_to_run: SparkOptions,
    common: CommonOptions,
) -> None:
    """Write records to Parquet, Arrow, CSV or NDJSON files, one row a record.

    By default what a consumer of committed records would get; --all writes the whole log, with columns that
    tell the fate of transactions. A file appears under its name only when it is whole. In a directory,
    segments that were exported before and have not changed since are skipped.
    """
    least = severity(fail_on)
    reading = visible.reading(chosen.filter(), common)
    tally = _export(where, output, _format(output, fmt), how, reading, where_to_run)
    reading.say_hidden()
    skipped = (
        f"; {_number(tally.skipped, 'file')} done before and unchanged: skipped" if tally.skipped else ""
    )
    written = f"{_number(reading.shown, 'record')} in {_number(tally.files, 'file')}"
    reading.talk.note(f"{output}: {written}{skipped}")
    if not (reading.shown or tally.skipped or reading.takes_everything or reading.outcome.failed):
        reading.talk.warn("nothing matches")
        raise typer.Exit(ExitCode.USAGE)
    raise typer.Exit(reading.outcome.exit_code(least))


def _export(
    where: PathOptions,
    output: str,
    fmt: ExportFormat,
    how: BytesFormat,
    reading: Reading,
    where_to_run: SparkOptions,
) -> Tally:
    from kafkatool.commands.export_runs import Export, refuse_inside_logs
    from kafkatool.commands.export_writers import opener
    from kafkatool.commands.record_reading import log_bytes
    from kafkatool.engine.fs import Disk

    if not output:
        raise UsageError("--output names no file and no directory")
    if output == "-":
        raise UsageError("export writes files; `kafkatool cat --format ndjson` writes to standard output")
    subjects = reading.subjects(where)
    refuse_inside_logs(subjects, output)
    open_writer = opener(fmt, reading.topics(subjects), how, reading)
    settings = repr((str(fmt), str(how), reading.show_all, reading.high_watermark, reading.chosen))
    if where_to_run.spark is not None:
        return _on_spark(subjects, output, fmt, how, reading, where_to_run, settings)
    with reading.talk.progress("export", log_bytes(subjects)) as advance:
        export = Export(reading, Disk(), open_writer, str(fmt), settings, advance)
        if is_one_file(output):
            export.into_file(subjects, output)
        else:
            export.into_directory(subjects, output)
    return export.tally


def _on_spark(
    subjects: list[Subject],
    output: str,
    fmt: ExportFormat,
    how: BytesFormat,
    reading: Reading,
    where_to_run: SparkOptions,
    settings: str,
) -> Tally:
    from kafkatool.commands.export_runs import Export
    from kafkatool.commands.export_tasks import How, export_on
    from kafkatool.commands.export_writers import opener
    from kafkatool.commands.record_reading import log_bytes
    from kafkatool.engine.fs import Disk

    if is_one_file(output):
        raise UsageError("--spark writes a file a segment: name a directory with -o")
    topics = tuple(reading.topics(subjects))
    export = Export(reading, Disk(), opener(fmt, topics, how, reading), str(fmt), settings, lambda size: None)
    shared = How(
        reading.chosen,
        reading.show_all,
        reading.max_batch_size,
        reading.high_watermark,
        reading.guest,
        fmt,
        topics,
        how,
        settings,
    )
    running = where_to_run.workers(0, None, reading.talk, "export", log_bytes(subjects))
    with running as (pool, _advance):
        export_on(pool, export, shared, subjects, os.path.abspath(output))
    return export.tally


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def is_one_file(output: str) -> bool:
    """Whether a path means a file: there is one, or its name has an extension of one and no directory has."""
    if os.path.isdir(output) or output.endswith(os.sep):
        return False
    return os.path.exists(output) or os.path.splitext(output)[1] in _EXTENSIONS


def _format(output: str, asked: ExportFormat | None) -> ExportFormat:
    """What was asked for, or what the name of the file says. Raises UsageError where they disagree."""
    named = _EXTENSIONS.get(os.path.splitext(output)[1]) if is_one_file(output) else None
    if asked is not None and named is not None and asked is not named:
        raise UsageError(
            f"{output}: is named like a file of {named}, but --format says {asked}: leave one of them out"
        )
    return asked or named or ExportFormat.parquet
