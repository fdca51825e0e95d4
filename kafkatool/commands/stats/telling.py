"""The output of `stats`: a row or a sheet per group, the total, what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

from kafkatool.commands.line.spark_options import RunningPool
from kafkatool.commands.rows import stats as stats_rows
from kafkatool.commands.screen.table import Csv, Ndjson, Table
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, stdout
from kafkatool.commands.stats.sheet import Style, write_sheet
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.stats.recompress import CodecChoice, WhatIf, what_if
from kafkatool.engine.stats.statistics import Statistics, StatsGroup, StatsRequest, StatsSummary
from kafkatool.errors import ExitCode


@dataclass(frozen=True, slots=True)
class StatsTelling:
    """Writes the results of a run."""

    run: Statistics
    request: StatsRequest
    choices: list[CodecChoice]
    style: Style
    talk: Talk

    def show(self, fmt: Format, running: RunningPool, *, sheets: bool) -> None:
        """Show the results; on an interrupt, those of what was read until then."""
        run = self.run
        try:
            with running as (pool, advance):
                groups = self._told(self._until_interrupted(run.groups(self.request, pool, advance)))
                self._tables(groups, sheets=sheets) if fmt is Format.table else self._rows(groups, fmt)
                if run.summary.is_interrupted:
                    raise KeyboardInterrupt  # ends the processes at once
        except KeyboardInterrupt:
            run.summary.is_interrupted = True

    def _until_interrupted(self, groups: Iterator[StatsGroup]) -> Iterator[StatsGroup]:
        """Yield the groups; on an interrupt, the total of what was read until then."""
        try:
            yield from groups
        except KeyboardInterrupt:
            self.run.summary.is_interrupted = True
            yield self.run.so_far()

    def _told(self, groups: Iterator[StatsGroup]) -> Iterator[StatsGroup]:
        """Yield the same groups; report what was left out of each."""
        for group in groups:
            damages = group.stats.damages
            if group.by is not None and damages.places:
                classes = ", ".join(f"{name} {count}" for name, count in sorted(damages.classes.items()))
                self.talk.warn(
                    f"{stats_rows.name_of(group)}: damage, left out: {classes}; verify shows what is lost"
                )
            yield group

    def _what_if(self, group: StatsGroup) -> list[WhatIf]:
        if not self.choices:
            return []
        return what_if(self.run.sample_of(group), self.choices, self.run.guest, perf_counter)

    def _rows(self, groups: Iterator[StatsGroup], fmt: Format) -> None:
        out = stdout()
        csv: Csv | None = None
        lines = Ndjson(out, how=self.style.how)
        for group in groups:
            row = stats_rows.stats_row(group)
            if fmt is Format.csv:
                csv = csv or Csv(stats_rows.csv_columns(row), out, how=self.style.how)
                csv.write(stats_rows.csv_row(row))
                continue
            lines.write(row)
            style = self.style
            for more in (
                *stats_rows.time_rows(group, group.stats.timeline),
                *stats_rows.key_rows(group, style.top, redact=style.redact),
                *(() if style.redact else stats_rows.prefix_rows(group, style.top)),
                *stats_rows.what_if_rows(group, self._what_if(group)),
            ):
                lines.write(more)

    def _tables(self, groups: Iterator[StatsGroup], *, sheets: bool) -> None:
        """Write one line per group and a sheet for the total; or only sheets."""
        out = stdout()
        by, is_single = self.request.by, self.run.group_count(self.request.by) == 1
        lines = Table(stats_rows.LINE_COLUMNS[by], out, raw=self.style.raw, how=self.style.how)
        is_first = True
        for group in groups:
            is_total = group.by is None
            if is_total and is_single and not is_first and not self.run.summary.is_interrupted:
                continue  # shown already
            if not (is_total or is_single or sheets):
                lines.write(stats_rows.line_row(group, self.run.size))
                is_first = False
                continue
            lines.close()
            out.write("" if is_first else "\n")
            is_first = False
            write_sheet(group, self._what_if(group), self.style, out)

    def conclude(self, fail_on: Severity) -> ExitCode:
        """Report what is known at the end, and return the exit code."""
        summary = self.run.summary
        if summary.is_interrupted:
            self.talk.warn("interrupted: the total is that of what was read until then")
        for failure in summary.failures:
            self.talk.warn(failure)
        for note in summary.notes:
            self.talk.note(note)
        if summary.left_out:
            what = "directory that waits" if summary.left_out == 1 else "directories that wait"
            self.talk.note(f"{summary.left_out} {what} to be deleted left out")
        self.talk.warn_of_bad_blocks(summary.unreadable_blocks)
        code = _exit_code(summary, fail_on)
        if code is ExitCode.OK and self.run.is_nothing_there:
            self.talk.warn("nothing matches")
            return ExitCode.USAGE
        return code


def _exit_code(summary: StatsSummary, fail_on: Severity) -> ExitCode:
    if summary.is_interrupted:
        return ExitCode.INTERRUPTED
    if summary.failures:
        return ExitCode.FAILED
    return ExitCode.FOUND if summary.worst is not None and summary.worst >= fail_on else ExitCode.OK
