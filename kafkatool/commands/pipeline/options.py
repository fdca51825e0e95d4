"""What `pipeline run` and `pipeline collect` share: settings, and how a run is reported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import ConfigOpt, KafkaVersionOpt, PathOptions, SetOpt
from kafkatool.commands.line.recheck_options import RecheckOptions
from kafkatool.commands.rows.audit import RUN_COLUMNS, RUNS
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row
from kafkatool.errors import ExitCode

if TYPE_CHECKING:
    from kafkatool.commands.line.options import CommonOptions
    from kafkatool.engine.audit.run import PipelineRun, RunSummary
    from kafkatool.engine.batches.damage import Severity


@dataclass(frozen=True, slots=True)
class RootOptions(PathOptions):
    """The roots to audit; they may have labels."""

    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROOT...",
            help="A log directory, server.properties, a quoted glob, or what `pipeline collect` wrote; "
            "LABEL=ROOT names it in the tables.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class AuditOptions(RecheckOptions):
    """How logs are checked, what is kept, and when data is reread."""

    deep: Annotated[bool, typer.Option("--deep", help="Decompress every batch and decode every record.")] = (
        False
    )
    now: Annotated[
        str | None,
        typer.Option(
            "--at",
            "--now",
            metavar="TIME",
            help="Judge retention and compaction as of this time. By default now.",
        ),
    ] = None
    config: ConfigOpt = None
    settings: SetOpt = None
    kafka_version: KafkaVersionOpt = None
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="Number of runs to keep in the directory.")
    ] = 2

    def prepared(self, paths: list[str], out: str, common: CommonOptions) -> PipelineRun:
        """Return a run that is ready to start. Raises UsageError and Refused."""
        from time import time_ns

        from kafkatool.commands.line.arguments import parse_time
        from kafkatool.commands.line.broker_options import BrokerOptions
        from kafkatool.engine.audit.run import PipelineRun, RunRequest
        from kafkatool.engine.verify.verification import VerifyRequest

        clock = time_ns() // 1_000_000
        broker = BrokerOptions(config=self.config, kafka_version=self.kafka_version)
        guest = common.guest()
        request = RunRequest(
            tuple(paths),
            out,
            clock if self.now is None else parse_time(self.now, clock),
            VerifyRequest(deep=self.deep, guest=guest),
            broker.settings(paths, self.settings),
            self.recheck(clock),
            self.keep,
        )
        return PipelineRun(request)


def tell_run(summary: RunSummary, fmt: Format, talk: Talk, least: Severity, *, raw: bool) -> ExitCode:
    """Write the row of a run, report what failed, and return the exit code."""
    with rows(fmt, RUN_COLUMNS, raw=raw) as out:
        out.write(run_row(summary))
    for failure in summary.failures:
        talk.warn(failure)
    for note in summary.notes:
        talk.note(note)
    if summary.failures:
        return ExitCode.FAILED
    return ExitCode.FOUND if summary.worst is not None and summary.worst >= least else ExitCode.OK


def run_row(summary: RunSummary) -> Row:
    more = sum(count for severity, count in summary.findings.items() if severity)
    counts = {severity.label: count for severity, count in summary.findings.items()}
    return RUNS.row(summary, **counts, findings=more)
