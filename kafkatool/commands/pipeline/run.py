"""`kafkatool pipeline run`: the audit of a fleet, on Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import CommonOptions, FailOnOpt, FormatOpt, RawOpt, epilog, severity
from kafkatool.commands.line.spark_options import EMBEDDED, ConfOpt, MasterOpt, SparkOptions
from kafkatool.commands.pipeline.options import AuditOptions, RootOptions
from kafkatool.commands.screen.values import Format

EPILOG = epilog(
    {
        "kafkatool pipeline run -o /srv/lake a=/mnt/a/data b=/mnt/b/data": "two brokers' disks",
        "kafkatool pipeline run -o /srv/lake '/mnt/brokers/*/data'": "many brokers, each named by its path",
        "kafkatool pipeline run -o /srv/lake /srv/parts/*": "what brokers collected themselves",
        "kafkatool pipeline run --spark spark://head:7077 -o /srv/lake /mnt/*/data": "on a cluster",
    },
    4,
    5,
)


def pipeline_run(
    where: RootOptions,
    *,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            "--out",
            metavar="LAKE",
            help="Directory of the tables. Each run adds to it.",
        ),
    ],
    audit: AuditOptions,
    spark: MasterOpt = EMBEDDED,
    conf: ConfOpt = None,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    common: CommonOptions,
) -> None:
    """Check the logs of many brokers and write what they hold to Parquet tables, partitioned by topic.

    The tables are segments, batches, findings, producers, and topics, with sizes, codecs, formats, times, and
    what retention would delete and compaction would save. A later run into the same LAKE reads segments that
    are new or have changed, and rereads the others in turn (--recheck-share): bit rot changes neither size
    nor time. LAKE/current is the last complete run; a run that is killed changes nothing, and the next one
    cleans up after it. On a cluster, roots and LAKE must be paths that every executor sees. Exit code 4 means
    findings, as for `verify`.
    """
    from kafkatool.commands.pipeline.options import tell_run

    least, talk = severity(fail_on), common.talk()
    prepared = audit.prepared(where.written(), output, common)
    with SparkOptions(spark, conf).workers(0, None, talk, "audit", None) as (pool, advance):
        summary = prepared.run(pool, advance)
    raise typer.Exit(tell_run(summary, fmt, talk, least, raw=raw))
