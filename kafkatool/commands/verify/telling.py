"""The output of `verify`: findings or one line per partition, the summary, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from kafkatool.commands.line.spark_options import RunningPool
from kafkatool.commands.rows.findings import (
    FINDING_COLUMNS,
    LIST_COLUMNS,
    PARTITION_COLUMNS,
    PartitionLine,
    finding_row,
    list_row,
    place_of,
    summary_row,
    summary_text,
    verified_row,
)
from kafkatool.commands.screen.table import Column, Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, stdout
from kafkatool.commands.verify.options import CheckOptions
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.verify.finding import Finding, VerifySummary
from kafkatool.engine.verify.verification import Verification
from kafkatool.errors import ExitCode


@dataclass(frozen=True, slots=True)
class VerifyTelling:
    """Rows go to stdout, sentences to stderr."""

    run: Verification
    check: CheckOptions
    fmt: Format
    raw: bool
    every: bool
    """Whether every finding is shown, instead of one line per partition."""

    def tell(self, running: RunningPool) -> None:
        """Show the findings as they come, then the summary; also after an interrupt."""
        summary, deep = self.run.summary, self.check.deep
        columns: tuple[Column, ...] = LIST_COLUMNS if self.every else PARTITION_COLUMNS
        if self.fmt is Format.csv:
            columns = FINDING_COLUMNS
        with rows(self.fmt, columns, raw=self.raw) as out:
            try:
                with running as (pool, advance):
                    self._write(until_interrupted(self.run.findings(pool, advance), summary), out)
                    if summary.is_interrupted:
                        raise KeyboardInterrupt  # ends the processes at once
            except KeyboardInterrupt:
                summary.is_interrupted = True
            if self.fmt is Format.ndjson and self.every and self.check.state is not None:
                for partition, segment, at_ms in self.run.verified_logs():
                    out.write(verified_row(partition, segment, at_ms))
            if self.fmt is Format.ndjson:
                out.write(summary_row(summary, deep=deep))
        if self.fmt is Format.table:
            print(summary_text(summary, deep=deep, raw=self.raw), file=stdout())

    def _write(self, findings: Iterator[Finding], out: Rows) -> None:
        if self.fmt is Format.table and not self.every:
            found = one_line_a_partition(findings)
        else:
            row_of = list_row if self.fmt is Format.table else finding_row
            found = (row_of(finding) for finding in findings)
        for row in found:
            out.write(row)


def until_interrupted(findings: Iterator[Finding], summary: VerifySummary) -> Iterator[Finding]:
    """Yield the findings; an interrupt ends them normally, so what was found until then is reported."""
    try:
        yield from findings
    except KeyboardInterrupt:
        summary.is_interrupted = True


def one_line_a_partition(findings: Iterator[Finding]) -> Iterator[dict[str, object]]:
    """Yield one row per partition that has something worse than a note."""
    for place, group in groupby(findings, place_of):
        line: PartitionLine | None = None
        for finding in group:
            if finding.damage.severity is Severity.NOTE:
                continue
            line = line or PartitionLine(place, finding)
            line.add(finding)
        if line is not None:
            yield line.row()


def tell_limits(summary: VerifySummary, talk: Talk) -> None:
    """Say on stderr what could not be read, and what limits the answer."""
    for failure in summary.failures:
        talk.warn(failure)
    for note in summary.notes:
        talk.note(note)
    if summary.is_empty_sample and not summary.is_interrupted:
        talk.warn("the sample is empty, no log was read: choose a larger share")
    talk.warn_of_bad_blocks(summary.unreadable_blocks)


def exit_code(summary: VerifySummary, fail_on: Severity) -> ExitCode:
    """Return the exit code that follows from what was found."""
    if summary.is_interrupted:
        return ExitCode.INTERRUPTED
    if summary.failures:
        return ExitCode.FAILED
    worst = summary.worst
    if worst is not None and worst >= fail_on:
        return ExitCode.FOUND
    return ExitCode.USAGE if summary.is_empty_sample else ExitCode.OK
