"""`kafkatool report`: one file for the ticket, with what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    ConfigOpt,
    FailOnOpt,
    FileOptions,
    JobsOpt,
    KafkaVersionOpt,
    PathOptions,
    SampleOpt,
    SetOpt,
    epilog,
    severity,
    share,
)
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.report.page import Told
    from kafkatool.commands.screen.values import Row
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.jobs.worker_pool import Workers
    from kafkatool.engine.report.gathering import Gathering

EPILOG = epilog(
    {
        "kafkatool report -o report.html /var/lib/kafka/data": (
            "everything about a log directory on one page"
        ),
        "kafkatool report -o report.html --config server.properties orders-0": "one partition",
        "kafkatool report -o report.html --sample 5% server.properties": "a quick look at a large broker",
        "kafkatool report -o report.html --with-payloads /mnt/copy/orders-0": (
            "with records before and after the damage"
        ),
        "kafkatool report --format ndjson DIR | jq 'select(.kind == \"incident\")'": "the facts, for scripts",
    },
    4,
    5,
)


class ReportFormat(StrEnum):
    """How the report is written."""

    html = "html"
    ndjson = "ndjson"


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """What retention and compaction are judged by, and when."""

    now: Annotated[
        str | None,
        typer.Option(
            "--at",
            "--now",
            metavar="TIME",
            help="Report as of this time. By default now.",
        ),
    ] = None
    forecast: Annotated[
        str, typer.Option("--forecast", metavar="DURATION", help="How far to forecast: 12h, 7d.")
    ] = "7d"
    config: ConfigOpt = None
    settings: SetOpt = None
    kafka_version: KafkaVersionOpt = None


def report(
    where: FileOptions,
    *,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            "--out",
            metavar="FILE",
            help="File to write; - is stdout.",
        ),
    ] = None,
    with_payloads: Annotated[
        bool,
        typer.Option(
            "--with-payloads", help="Show keys and values of a few records before and after the damage."
        ),
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="Decompress every batch and decode every record.")
    ] = False,
    sample: SampleOpt = None,
    judged_by: JudgedBy,
    fmt: Annotated[ReportFormat, typer.Option("--format", help="Output format.")] = ReportFormat.html,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    common: CommonOptions,
) -> None:
    """Write one file for the ticket of an incident: what is wrong, what to do, and the facts behind it.

    Every log is read once. The page shows the findings of verify with a map of the damage; sizes per topic,
    segments over time, bytes per hour, codecs; what retention would delete now and in the coming days, what
    compaction would save, what is in the page cache, and the settings that decide. It has no script, loads
    nothing from the network, and contains no key or value of a record unless --with-payloads is given.
    """
    from kafkatool.commands.line.arguments import parse_duration

    least = severity(fail_on)
    part = None if sample is None else share(sample)
    ahead_ms = parse_duration(judged_by.forecast)
    if fmt is ReportFormat.html and out is None:
        raise UsageError("name the file to write: -o report.html, or -o - for standard output")
    work = _ReportRun(common, judged_by, fmt, with_payloads=with_payloads, deep=deep)
    run = work.gathering(where, part, ahead_ms)
    if out not in (None, "-"):
        _refuse_log_dirs(str(out), run)
    work.write(run, out, jobs)
    raise typer.Exit(work.conclude(run, out, least))


def _refuse_log_dirs(out: str, run: Gathering) -> None:
    """A broker may trip over what is not its own. Raises Refused."""
    from kafkatool.engine.records.subject import is_inside
    from kafkatool.engine.verify.state_file import lies_in_a_log_dir
    from kafkatool.errors import Refused

    if lies_in_a_log_dir(out) or any(is_inside(out, one.path) for one in run.all_log_dirs):
        raise Refused(f"{out}: lies in a log directory; put the report somewhere else")


class _ReportRun:
    """One report, from the options to the file."""

    def __init__(
        self,
        common: CommonOptions,
        judged_by: JudgedBy,
        fmt: ReportFormat,
        *,
        with_payloads: bool,
        deep: bool,
    ) -> None:
        self._talk, self._guest = common.talk(), common.guest()
        self._judged_by, self._fmt = judged_by, fmt
        self._with_payloads, self._deep = with_payloads, deep

    def gathering(self, where: PathOptions, part: float | None, ahead_ms: int) -> Gathering:
        """What there is to read. Raises UsageError where that is nothing."""
        from kafkatool.commands.line.broker_options import BrokerOptions
        from kafkatool.engine.report.gathering import Gathering, GatheringRequest
        from kafkatool.engine.verify.verification import VerifyRequest

        guest, judged_by = self._guest, self._judged_by
        broker = BrokerOptions(config=judged_by.config, kafka_version=judged_by.kafka_version)
        expansion = where.expand()
        settings = broker.settings(expansion.named, judged_by.settings)
        now_ms = _now(judged_by.now)
        request = GatheringRequest(
            now_ms,
            VerifyRequest(deep=self._deep, sample=part, guest=guest),
            lambda home, found: settings.sources(home, found, guest),
            ahead_ms,
            at_ms=None if judged_by.now is None else now_ms,
        )
        run = Gathering(expansion.targets, request)
        run.summary.failures += expansion.problems
        if not run.places and not run.log_dirs:
            raise UsageError("nothing to report of there")
        return run

    def write(self, run: Gathering, out: str | None, jobs: int) -> None:
        """Gather everything and write it: the whole file, or none."""
        from kafkatool.commands.report.output import opened
        from kafkatool.engine.jobs.worker_pool import workers

        # The pool comes first: processes are forked before anything starts a thread.
        with (
            opened(out) as write,
            workers(jobs, run.verification.most_workers) as pool,
            self._talk.progress("report", run.verification.size) as advance,
        ):
            if self._fmt is ReportFormat.ndjson:
                from kafkatool.commands.report.rows import report_rows

                write(_lines(report_rows(run, pool, advance, with_payloads=self._with_payloads)))
            else:
                from kafkatool.commands.report.page import report_page

                write(report_page(self._told(run, pool, advance)))

    def _told(self, run: Gathering, pool: Workers, advance: Callable[[int], None]) -> Told:
        from collections import deque
        from socket import gethostname

        from kafkatool.commands.report.cache import gather_cache
        from kafkatool.commands.report.page import Told

        cache = gather_cache(run.cache_maps())
        deque(run.findings(pool, advance), maxlen=0)  # they are kept with their partitions
        run.look_ahead(pool)
        records = list(run.payloads()) if self._with_payloads else None
        return Told(run, cache, gethostname(), self._judged_by.forecast, self._deep, records)

    def conclude(self, run: Gathering, out: str | None, least: Severity) -> ExitCode:
        """Say how it is, and what could not be read."""
        from kafkatool.commands.report.words import verdict
        from kafkatool.commands.rows.findings import summary_text

        summary, talk = run.summary, self._talk
        for failure in summary.failures:
            talk.warn(failure)
        for note in summary.notes:
            talk.detail(note)
        where = "" if out in (None, "-") else f"{out}: "
        talk.note(f"{where}{verdict(run).sentence}")
        talk.note(summary_text(summary, deep=self._deep, raw=False))
        if summary.failures:
            return ExitCode.FAILED
        if summary.worst is not None and summary.worst >= least:
            return ExitCode.FOUND
        return ExitCode.USAGE if summary.is_empty_sample else ExitCode.OK


def _now(text: str | None) -> int:
    from time import time_ns

    from kafkatool.commands.line.arguments import parse_time

    clock = time_ns() // 1_000_000
    return clock if text is None else parse_time(text, clock)


def _lines(rows: Iterable[Row]) -> Iterator[str]:
    from kafkatool.commands.screen.values import ndjson_encoder

    encode = ndjson_encoder()
    return (encode(row) + "\n" for row in rows)
