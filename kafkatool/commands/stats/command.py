"""`kafkatool stats`: the logs of a disk in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FileOptions,
    FormatOpt,
    JobsOpt,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.record_options import FromOpt, ToOpt, parse_range
from kafkatool.commands.line.spark_options import RunningPool, SparkOptions
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.engine.stats.grouping import By
from kafkatool.errors import ExitCode, UsageError, unknown_word

if TYPE_CHECKING:
    from kafkatool.commands.stats.sheet import Style
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.stats.recompress import CodecChoice, WhatIf
    from kafkatool.engine.stats.statistics import Statistics, StatsGroup, StatsRequest, StatsSummary

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
_LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}


@dataclass(frozen=True, slots=True)
class StatsOptions(CommonOptions):
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show a sheet per row instead of one line each.")
    ] = False


@dataclass(frozen=True, slots=True)
class CountOptions:
    """What is counted, and how much of it is shown."""

    by: Annotated[By, typer.Option("--by", help="What each row describes.")] = By.PARTITION
    deep: Annotated[
        bool,
        typer.Option(
            "--deep", help="Also decode every record: keys, sizes, tombstones, ratios, exact times."
        ),
    ] = False
    from_: FromOpt = None
    to: ToOpt = None
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="CODECS",
            help="Recompress a sample of the batches and show what that would save: "
            "zstd,lz4,gzip,snappy,none; zstd:9 is level 9. In tables and NDJSON.",
        ),
    ] = None
    now: Annotated[
        str | None,
        typer.Option(
            "--at",
            "--now",
            metavar="TIME",
            help="Count later timestamps as in the future. By default now.",
        ),
    ] = None
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=0, max=1000, help="Number of keys and prefixes to list.")
    ] = 10
    redact: Annotated[
        bool, typer.Option("--redact", help="Show hashes instead of keys, and no prefixes.")
    ] = False

    def now_ms(self) -> int:
        """Return the time that counts as now; the clock is read after listing, so that no file is newer."""
        from time import time_ns

        from kafkatool.commands.line.arguments import parse_time

        clock = time_ns() // 1_000_000
        return clock if self.now is None else parse_time(self.now, clock)

    def codecs(self) -> list[CodecChoice]:
        """Parse --what-if. Raises UsageError."""
        return [] if self.what_if is None else _choices(self.what_if)


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
    from kafkatool.engine.directory.named_file import LOGS
    from kafkatool.engine.stats.statistics import Statistics, StatsRequest

    least = severity(fail_on)
    choices = count.codecs()
    speak, expansion = common.talk(), where.expand(readable=LOGS)
    wanted = parse_range(count.from_, count.to)
    run = Statistics(expansion.targets, common.guest(), wanted)
    run.summary.failures += expansion.problems
    if not run.has_logs:
        raise UsageError(next(iter(run.summary.failures), "no log to read there"))
    request = StatsRequest(count.now_ms(), count.by, count.deep)
    view = _View(run, request, choices, Style(raw, how, count.redact, count.top), speak)
    pool = where_to_run.workers(jobs, run.most_workers, speak, "stats", run.size)
    view.show(fmt, pool, sheets=common.verbose)
    _talk_of(run.summary, speak)
    code = _exit_code(run.summary, least)
    if code is ExitCode.OK and run.is_nothing_there:
        speak.warn("nothing matches")
        code = ExitCode.USAGE
    raise typer.Exit(code)


def _choices(text: str) -> list[CodecChoice]:
    """Parse --what-if. Raises UsageError."""
    from kafkatool.engine.stats.recompress import CodecChoice
    from kafkatool.format.batch import Codec

    codecs = {codec.label: codec for codec in Codec}
    choices = []
    for word in text.split(","):
        name, colon, level = word.strip().partition(":")
        if name not in codecs:
            raise unknown_word("--what-if", word, codecs)
        choices.append(CodecChoice(codecs[name], _level(name, level) if colon else None))
    return list(dict.fromkeys(choices))


def _level(name: str, text: str) -> int:
    least, greatest = _LEVELS.get(name, (0, -1))
    try:
        level = int(text)
    except ValueError:
        level = greatest + 1
    if not least <= level <= greatest:
        known = f"has levels {least} to {greatest}" if name in _LEVELS else "has no levels"
        raise UsageError(f"--what-if {name}:{text}: {name} {known}")
    return level


class _View:
    """Writes the results of a run."""

    def __init__(
        self, run: Statistics, request: StatsRequest, choices: list[CodecChoice], style: Style, speak: Talk
    ) -> None:
        self._run = run
        self._request = request
        self._choices = choices
        self._style = style
        self._speak = speak

    def show(self, fmt: Format, running: RunningPool, *, sheets: bool) -> None:
        run = self._run
        try:
            with running as (pool, advance):
                groups = self._told(self._until_interrupted(run.groups(self._request, pool, advance)))
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
            self._run.summary.is_interrupted = True
            yield self._run.so_far()

    def _told(self, groups: Iterator[StatsGroup]) -> Iterator[StatsGroup]:
        """Yield the same groups; report what was left out of each."""
        from kafkatool.commands.rows.stats import name_of

        for group in groups:
            damages = group.stats.damages
            if group.by is not None and damages.places:
                classes = ", ".join(f"{name} {count}" for name, count in sorted(damages.classes.items()))
                self._speak.warn(f"{name_of(group)}: damage, left out: {classes}; verify shows what is lost")
            yield group

    def _what_if(self, group: StatsGroup) -> list[WhatIf]:
        if not self._choices:
            return []
        from time import perf_counter

        from kafkatool.engine.stats.recompress import what_if

        return what_if(self._run.sample_of(group), self._choices, self._run.guest, perf_counter)

    def _rows(self, groups: Iterator[StatsGroup], fmt: Format) -> None:
        from kafkatool.commands.rows import stats as stats_rows
        from kafkatool.commands.screen.table import Csv, Ndjson
        from kafkatool.commands.screen.values import stdout

        out = stdout()
        csv: Csv | None = None
        lines = Ndjson(out, how=self._style.how)
        for group in groups:
            row = stats_rows.stats_row(group)
            if fmt is Format.csv:
                csv = csv or Csv(stats_rows.csv_columns(row), out, how=self._style.how)
                csv.write(stats_rows.csv_row(row))
                continue
            lines.write(row)
            style = self._style
            for more in (
                *stats_rows.time_rows(group, group.stats.timeline),
                *stats_rows.key_rows(group, style.top, redact=style.redact),
                *(() if style.redact else stats_rows.prefix_rows(group, style.top)),
                *stats_rows.what_if_rows(group, self._what_if(group)),
            ):
                lines.write(more)

    def _tables(self, groups: Iterator[StatsGroup], *, sheets: bool) -> None:
        """Write one line per group and a sheet for the total; or only sheets."""
        from kafkatool.commands.rows.stats import LINE_COLUMNS, line_row
        from kafkatool.commands.screen.table import Table
        from kafkatool.commands.screen.values import stdout
        from kafkatool.commands.stats.sheet import write_sheet

        out = stdout()
        by, is_single = self._request.by, self._run.group_count(self._request.by) == 1
        lines = Table(LINE_COLUMNS[by], out, raw=self._style.raw, how=self._style.how)
        is_first = True
        for group in groups:
            is_total = group.by is None
            if is_total and is_single and not is_first and not self._run.summary.is_interrupted:
                continue  # shown already
            if not (is_total or is_single or sheets):
                lines.write(line_row(group, self._run.size))
                is_first = False
                continue
            lines.close()
            out.write("" if is_first else "\n")
            is_first = False
            write_sheet(group, self._what_if(group), self._style, out)


def _talk_of(summary: StatsSummary, speak: Talk) -> None:
    if summary.is_interrupted:
        speak.warn("interrupted: the total is that of what was read until then")
    for failure in summary.failures:
        speak.warn(failure)
    for note in summary.notes:
        speak.note(note)
    if summary.left_out:
        what = "directory that waits" if summary.left_out == 1 else "directories that wait"
        speak.note(f"{summary.left_out} {what} to be deleted left out")
    speak.warn_of_bad_blocks(summary.unreadable_blocks)


def _exit_code(summary: StatsSummary, fail_on: Severity) -> ExitCode:
    if summary.is_interrupted:
        return ExitCode.INTERRUPTED
    if summary.failures:
        return ExitCode.FAILED
    return ExitCode.FOUND if summary.worst is not None and summary.worst >= fail_on else ExitCode.OK
