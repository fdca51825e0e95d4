"""`kafkatool export`: the records of a log as files for other programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    JobsOpt,
    PathOptions,
    epilog,
    severity,
)
from kafkatool.commands.line.record_options import RecordOptions
from kafkatool.commands.line.spark_options import Advance, SparkOptions
from kafkatool.commands.records.visible_options import ExportFormat, VisibleOptions
from kafkatool.commands.screen.values import BytesFormat
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.export.runs import ExportTally
    from kafkatool.commands.records.reading import RecordReading
    from kafkatool.engine.jobs.worker_pool import Workers
    from kafkatool.engine.records.subject import Subject

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
    least = severity(fail_on)
    reading = visible.reading(chosen.filter(), common)
    wanted = _Wanted(output, _format(output, fmt), how, chosen.limit, chosen.tail)
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


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is to be written, and where."""

    output: str
    fmt: ExportFormat
    bytes_as: BytesFormat
    limit: int | None
    tail: int | None

    @property
    def is_part(self) -> bool:
        return self.limit is not None or self.tail is not None

    def export(
        self, where: PathOptions, reading: RecordReading, running: SparkOptions, jobs: int
    ) -> ExportTally:
        from kafkatool.commands.export.runs import refuse_inside_logs
        from kafkatool.commands.records.reading import log_bytes
        from kafkatool.engine.jobs.worker_pool import WORTH_A_WORKER

        self._refuse_nonsense(running)
        subjects = reading.subjects(where)
        refuse_inside_logs(subjects, self.output)
        size = log_bytes(subjects)
        segments = sum(len(subject.partition.live_segments) for subject in subjects)
        if is_one_file(self.output):
            jobs = 1
        # The pool comes first: it must not be forked where a library has started its threads.
        pool = running.workers(jobs, min(segments, size // WORTH_A_WORKER), reading.talk, "export", size)
        with pool as (workers, advance):
            return self._write(subjects, reading, workers, advance)

    def _refuse_nonsense(self, running: SparkOptions) -> None:
        if not self.output:
            raise UsageError("--output names no file and no directory")
        if self.output == "-":
            raise UsageError("export writes files; cat --format ndjson writes to standard output")
        if running.spark is not None and is_one_file(self.output):
            raise UsageError("--spark writes a file a segment: name a directory with -o")
        if self.is_part and not is_one_file(self.output):
            raise UsageError("--limit and --tail write one file: name it with -o, for example some.parquet")

    def _write(
        self, subjects: list[Subject], reading: RecordReading, pool: Workers, advance: Advance
    ) -> ExportTally:
        from kafkatool.commands.export.runs import Export
        from kafkatool.commands.export.tasks import ExportRequest, export_on
        from kafkatool.commands.export.writers import opener
        from kafkatool.commands.screen.csv_safety import CSV_SAFE, NAME
        from kafkatool.engine.files.disk import Disk

        topics = tuple(reading.topics(subjects))
        is_safe = CSV_SAFE.get()
        settings = repr(
            (str(self.fmt), str(self.bytes_as), reading.show_all, reading.high_watermark, reading.chosen)
            + ((NAME,) if is_safe else ())
            + (("mend-bits",) if reading.guest.mending is not None else ())
        )
        writers = opener(self.fmt, topics, self.bytes_as, reading, is_csv_safe=is_safe)
        export = Export(reading, Disk(), writers, str(self.fmt), settings, advance)
        if is_one_file(self.output):
            export.into_file(subjects, self.output, self.limit, self.tail)
        elif pool.count == 1:
            export.into_directory(subjects, self.output)
        else:
            how = ExportRequest.of(reading, pool.count, self.fmt, topics, self.bytes_as, settings, is_safe)
            export_on(pool, export, how, subjects, os.path.abspath(self.output))
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
