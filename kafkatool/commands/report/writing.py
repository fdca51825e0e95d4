"""How a report is written: to standard output as it is made, or to a file that appears only when complete."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socket import gethostname

from kafkatool.commands.report.cache import gather_cache
from kafkatool.commands.report.options import ReportFormat
from kafkatool.commands.report.words import verdict
from kafkatool.commands.rows.findings import summary_text
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.talk import Advance, Talk
from kafkatool.commands.screen.terminal_text import guarded
from kafkatool.commands.screen.values import ndjson_encoder, stdout
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.jobs.worker_pool import Workers, workers
from kafkatool.engine.report.gathering import Gathering
from kafkatool.errors import ExitCode, KafkatoolError, UsageError

Write = Callable[[Iterable[str]], None]


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What goes into a report."""

    run: Gathering
    forecast: str
    deep: bool
    with_payloads: bool

    def lines(self, pool: Workers, advance: Advance) -> Iterator[str]:
        """Return the report as lines of NDJSON."""
        from kafkatool.commands.report.rows import report_rows

        encode = ndjson_encoder()
        rows = report_rows(self.run, pool, advance, with_payloads=self.with_payloads)
        return (encode(row) + "\n" for row in rows)

    def page(self, pool: Workers, advance: Advance) -> Iterator[str]:
        """Return the pieces of the HTML page, once everything is gathered."""
        from kafkatool.commands.report.page import Told, report_page

        run = self.run
        cache = gather_cache(run.cache_maps())
        deque(run.findings(pool, advance), maxlen=0)  # they are kept with their partitions
        run.look_ahead(pool)
        records = list(run.payloads()) if self.with_payloads else None
        return report_page(Told(run, cache, gethostname(), self.forecast, self.deep, records))


def write_report(report: ReportRequest, out: str | None, fmt: ReportFormat, jobs: int, talk: Talk) -> None:
    """Gather everything and write it: the whole file, or none."""
    verification = report.run.verification
    # The pool comes first: processes must be forked before any thread starts.
    with (
        opened(out) as write,
        workers(jobs, verification.most_workers) as pool,
        talk.progress("report", verification.size) as advance,
    ):
        write(report.lines(pool, advance) if fmt is ReportFormat.ndjson else report.page(pool, advance))


def conclude(report: ReportRequest, out: str | None, talk: Talk, least: Severity) -> ExitCode:
    """Print the verdict, and what could not be read."""
    summary, outcome = report.run.summary, RunOutcome()
    outcome.fail(talk, summary.failures)
    for note in summary.notes:
        talk.detail(note)
    where = "" if out in (None, "-") else f"{out}: "
    talk.note(f"{where}{verdict(report.run).sentence}")
    talk.note(summary_text(summary, deep=report.deep, raw=False))
    if summary.worst is not None:
        outcome.met_severity(summary.worst)
    found = outcome.exit_code(least)
    return ExitCode.USAGE if found is ExitCode.OK and summary.is_empty_sample else found


@contextmanager
def opened(out: str | None) -> Iterator[Write]:
    """Yield a function that writes pieces of text. Raises KafkatoolError before anything is read in vain."""
    if out in (None, "-"):
        yield guarded(stdout()).writelines
        return
    from kafkatool.engine.files.disk import Disk
    from kafkatool.engine.files.whole_files import Replacement, remove_leftovers

    path = os.path.realpath(str(out))
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UsageError(f"{out}: is no plain file; -o - writes to standard output")
    try:
        remove_leftovers(Disk(), os.path.dirname(path), re.escape(os.path.basename(path)))
        new = Replacement(Disk(), path)
    except OSError as error:
        raise KafkatoolError(f"{out}: {error.strerror}") from None
    with new:

        def write(pieces: Iterable[str]) -> None:
            for piece in pieces:
                new.write(piece.encode("utf-8", "backslashreplace"))
            new.commit()

        yield write
