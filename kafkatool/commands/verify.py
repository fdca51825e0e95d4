"""`kafkatool verify`: is what is on this disk what a broker wrote?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    FailOnOpt,
    FileOptions,
    FormatOpt,
    JobsOpt,
    RawOpt,
    SampleOpt,
    epilog,
    severity,
    share,
)
from kafkatool.commands.line.recheck_options import RecheckOptions
from kafkatool.commands.line.spark_options import RunningPool, SparkOptions
from kafkatool.commands.screen.table import Rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.verify.finding import Finding, VerifySummary
    from kafkatool.engine.verify.state_file import Scrub
    from kafkatool.engine.verify.verification import Verification

EPILOG = epilog(
    {
        "kafkatool verify /var/lib/kafka/data": "everything in a log directory, on all cores",
        "kafkatool verify -v --deep orders-0": "every finding of one partition, including its records",
        "kafkatool verify --state /var/lib/scrub.json --max-rate 50M server.properties": (
            "a nightly check that reads new data, and the rest in turn"
        ),
        "kafkatool verify --sample 5% --fail-on loss /var/lib/kafka/data": "a quick look at a large disk",
        "kafkatool verify --spark spark://head:7077 /mnt/brokers/*/data": "many brokers' disks, on a cluster",
        "kafkatool verify --format ndjson DIR | jq 'select(.severity == \"loss\")'": "only what is lost",
    },
    4,
    5,
)


@dataclass(frozen=True, slots=True)
class VerifyOptions(CommonOptions):
    verbose: Annotated[
        bool,
        typer.Option(
            "-v", "--verbose", help="Show every finding, including notes, instead of one line per partition."
        ),
    ] = False


def verify(
    where: FileOptions,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Decompress every batch and decode every record.")
    ] = False,
    sample: SampleOpt = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="Remember in FILE what was found good, and when. Closed segments that have not changed "
            "since are skipped until they are due to be read again.",
        ),
    ] = None,
    rechecking: RecheckOptions,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: VerifyOptions,
) -> None:
    """Check every batch, and every other file against the logs; exit 4 if something is wrong.

    Checks lengths, checksums, offsets and leader epochs of every batch; and indexes, snapshots, checkpoints
    and topic ids against the logs and the cluster's metadata. Each damaged partition gets one line with the
    offsets lost and what to do. Nothing is changed and a running broker is not disturbed; what it is still
    writing is only noted.
    """
    from kafkatool.engine.verify.verification import Verification, VerifyRequest

    least = severity(fail_on)
    part = None if sample is None else share(sample)
    if state is not None and part is not None:
        raise UsageError("--state remembers whole segments, --sample reads parts of them: choose one")
    if state is None and rechecking.is_given:
        raise UsageError("--recheck-older-than and --recheck-share are about what --state remembers")
    speak, expansion = common.talk(), where.expand()
    request = VerifyRequest(deep=deep, sample=part, guest=common.guest())
    run = Verification(expansion.targets, request, _scrub(state, rechecking, deep))
    run.summary.failures += expansion.problems
    if not run.places and not run.log_dirs:
        raise UsageError("nothing to verify there")
    pool = where_to_run.workers(jobs, run.most_workers, speak, "verify", run.size)
    _show(run, fmt, pool, every=common.verbose, raw=raw, deep=deep, has_state=state is not None)
    _talk_of(run.summary, speak)
    raise typer.Exit(_exit_code(run.summary, least))


def _scrub(path: str | None, rechecking: RecheckOptions, deep: bool) -> Scrub | None:
    """Return the state file of a nightly check. Raises Refused if it lies in a log directory."""
    if path is None:
        return None
    from kafkatool.engine.verify.state_file import Scrub, lies_in_a_log_dir
    from kafkatool.errors import Refused

    if lies_in_a_log_dir(path):
        raise Refused(f"{path}: --state lies in a log directory; put it somewhere else")
    from time import time_ns

    return Scrub(path, rechecking.recheck(time_ns() // 1_000_000), deep=deep)


def _show(
    run: Verification,
    fmt: Format,
    running: RunningPool,
    *,
    every: bool,
    raw: bool,
    deep: bool,
    has_state: bool,
) -> None:
    from kafkatool.commands.rows import findings as verify_rows
    from kafkatool.commands.screen.table import Column, rows
    from kafkatool.commands.screen.values import stdout

    columns: tuple[Column, ...] = verify_rows.LIST_COLUMNS if every else verify_rows.PARTITION_COLUMNS
    if fmt is Format.csv:
        columns = verify_rows.FINDING_COLUMNS
    with rows(fmt, columns, raw=raw) as out:
        try:
            with running as (pool, advance):
                _write(until_interrupted(run.findings(pool, advance), run.summary), out, fmt, every=every)
                if run.summary.is_interrupted:
                    raise KeyboardInterrupt  # ends the processes at once
        except KeyboardInterrupt:
            run.summary.is_interrupted = True
        if fmt is Format.ndjson and every and has_state:
            for partition, segment, at_ms in run.verified_logs():
                out.write(verify_rows.verified_row(partition, segment, at_ms))
        if fmt is Format.ndjson:
            out.write(verify_rows.summary_row(run.summary, deep=deep))
    if fmt is Format.table:
        print(verify_rows.summary_text(run.summary, deep=deep, raw=raw), file=stdout())


def until_interrupted(findings: Iterator[Finding], summary: VerifySummary) -> Iterator[Finding]:
    """Yield the findings; an interrupt ends them normally, so what was found until then is reported."""
    try:
        yield from findings
    except KeyboardInterrupt:
        summary.is_interrupted = True


def _write(findings: Iterator[Finding], out: Rows, fmt: Format, *, every: bool) -> None:
    from kafkatool.commands.rows import findings as verify_rows

    if fmt is not Format.table:
        for finding in findings:
            out.write(verify_rows.finding_row(finding))
    elif every:
        for finding in findings:
            out.write(verify_rows.list_row(finding))
    else:
        for line in one_line_a_partition(findings):
            out.write(line)


def one_line_a_partition(findings: Iterator[Finding]) -> Iterator[dict[str, object]]:
    """Yield one row per partition that has something worse than a note."""
    from itertools import groupby

    from kafkatool.commands.rows.findings import PartitionLine, place_of
    from kafkatool.engine.batches.damage import Severity

    for place, group in groupby(findings, place_of):
        line: PartitionLine | None = None
        for finding in group:
            if finding.damage.severity is Severity.NOTE:
                continue
            line = line or PartitionLine(place, finding)
            line.add(finding)
        if line is not None:
            yield line.row()


def _talk_of(summary: VerifySummary, speak: Talk) -> None:
    for failure in summary.failures:
        speak.warn(failure)
    for note in summary.notes:
        speak.note(note)
    if summary.is_empty_sample and not summary.is_interrupted:
        speak.warn("the sample is empty, no log was read: choose a larger share")
    speak.warn_of_bad_blocks(summary.unreadable_blocks)


def _exit_code(summary: VerifySummary, fail_on: Severity) -> ExitCode:
    if summary.is_interrupted:
        return ExitCode.INTERRUPTED
    if summary.failures:
        return ExitCode.FAILED
    worst = summary.worst
    if worst is not None and worst >= fail_on:
        return ExitCode.FOUND
    return ExitCode.USAGE if summary.is_empty_sample else ExitCode.OK
