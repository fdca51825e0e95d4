"""What `export` is to write, and where."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kafkatool.commands.export.runs import Export, ExportTally, refuse_inside_logs
from kafkatool.commands.export.tasks import ExportRequest, export_on
from kafkatool.commands.export.writers import opener
from kafkatool.commands.line.options import PathOptions
from kafkatool.commands.line.spark_options import Advance, SparkOptions
from kafkatool.commands.records.reading import RecordReading, log_bytes
from kafkatool.commands.records.visible_options import ExportFormat
from kafkatool.commands.screen.csv_safety import CSV_SAFE, NAME
from kafkatool.commands.screen.values import BytesFormat
from kafkatool.engine.jobs.worker_pool import WORTH_A_WORKER, Workers
from kafkatool.engine.records.subject import Subject
from kafkatool.errors import UsageError

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


@dataclass(frozen=True, slots=True)
class WantedExport:
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
        self._refuse_nonsense(running)
        subjects = reading.subjects(where)
        refuse_inside_logs(subjects, self.output)
        size = log_bytes(subjects)
        segments = sum(len(subject.partition.live_segments) for subject in subjects)
        if is_one_file(self.output):
            jobs = 1
        # The pool comes first: it must not be forked after a library has started threads.
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


def is_one_file(output: str) -> bool:
    """Return whether a path means a file: it exists as one, or has a file's extension and is no directory."""
    if os.path.isdir(output) or output.endswith(os.sep):
        return False
    return os.path.exists(output) or os.path.splitext(output)[1] in _EXTENSIONS


def format_of(output: str, asked: ExportFormat | None) -> ExportFormat:
    """Return the requested format, or that of the file name. Raises UsageError if they disagree."""
    named = _EXTENSIONS.get(os.path.splitext(output)[1]) if is_one_file(output) else None
    if asked is not None and named is not None and asked is not named:
        raise UsageError(
            f"{output}: is named like a file of {named}, but --format says {asked}: leave one of them out"
        )
    return asked or named or ExportFormat.parquet
