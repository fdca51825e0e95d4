"""`kafkatool pipeline collect`: the part of an audit that a broker can do by itself, without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    FailOnOpt,
    FormatOpt,
    JobsOpt,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.pipeline.options import AuditOptions, RootOptions
from kafkatool.commands.screen.values import Format

EPILOG = epilog(
    {
        "kafkatool pipeline collect -o part broker-1=/var/lib/kafka/data": "on the broker itself",
        "kafkatool pipeline collect --max-rate 50M -o part b1=server.properties": "at a limited rate",
        "kafkatool pipeline collect --format ndjson -o part b1=/var/lib/kafka/data": "for scripts",
    },
    4,
    5,
)


def pipeline_collect(
    where: RootOptions,
    *,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PART",
            help="Directory for the result. A later run into it reads only what has changed.",
        ),
    ],
    audit: AuditOptions,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    common: CommonOptions,
) -> None:
    """Audit the logs of one broker on the broker itself, into a small directory for `pipeline run`.

    Needs no Spark and no JVM, and leaves the page cache as it was. PART holds the same tables as a LAKE of
    this broker alone. Copied to one place, the parts of all brokers give the tables that reading all their
    disks would give.
    """
    from kafkatool.commands.pipeline.options import tell_run
    from kafkatool.engine.jobs.worker_pool import workers

    least, talk = severity(fail_on), common.talk()
    prepared = audit.prepared(where.written(), output, common)
    with workers(jobs) as pool, talk.progress("collect", None) as advance:
        summary = prepared.run(pool, advance)
    raise typer.Exit(tell_run(summary, fmt, talk, least, raw=raw))
