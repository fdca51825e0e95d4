"""`kafkatool report`: one file for the ticket, with what is wrong, where, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    FailOnOpt,
    FileOptions,
    JobsOpt,
    SampleOpt,
    epilog,
    severity,
    share,
)
from kafkatool.commands.report.options import JudgedBy, ReportFormat
from kafkatool.errors import UsageError

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
    from kafkatool.commands.report.writing import ReportRequest, conclude, write_report

    least, part = severity(fail_on), None if sample is None else share(sample)
    if fmt is ReportFormat.html and out is None:
        raise UsageError("name the file to write: -o report.html, or -o - for standard output")
    talk, run = common.talk(), judged_by.gathering(where, common, part=part, deep=deep)
    if out not in (None, "-"):
        run.refuse_inside(str(out))
    asked = ReportRequest(run, judged_by.forecast, deep=deep, with_payloads=with_payloads)
    write_report(asked, out, fmt, jobs, talk)
    raise typer.Exit(conclude(asked, out, talk, least))
