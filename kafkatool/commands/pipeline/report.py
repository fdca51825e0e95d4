"""`kafkatool pipeline report`: what an audit says, and what is new in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import FailOnOpt, FormatOpt, RawOpt, TalkOptions, epilog, severity
from kafkatool.commands.screen.table import Column, Look, rows
from kafkatool.commands.screen.values import Format, Row
from kafkatool.errors import ExitCode

if TYPE_CHECKING:
    from kafkatool.engine.audit.run_report import Report, TopicReport

EPILOG = epilog(
    {
        "kafkatool pipeline report /srv/lake": "one line per topic, and what needs attention",
        "kafkatool pipeline report /srv/lake /srv/lake/run-000006": "what is new since an earlier run",
        "kafkatool pipeline report --format ndjson LAKE OLDER | grep new_finding": ("new damage"),
    },
    4,
)

FINDING_KEYS = (
    *("root", "topic", "partition", "file", "position", "end_position", "first_offset", "last_offset"),
    *("next_good_offset", "class", "severity", "expected", "found", "message", "fix"),
    *("replicas", "isr", "leader"),
)
TOPIC_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("size", "SIZE", Look.size),
    Column("growth", "GROWTH", Look.size),
    Column("partitions", "PARTITIONS", Look.number),
    Column("records", "RECORDS", Look.number),
    Column("skew", "SKEW", Look.number),
    Column("old_format_batches", "MAGIC 0/1", Look.number),
    Column("single_record_share", "SINGLE", Look.number),
    Column("findings", "FINDINGS", Look.number),
    Column("new_findings", "NEW", Look.number),
    Column("retention_delete_bytes", "RETENTION", Look.size),
    Column("compaction_removed_bytes", "COMPACTION", Look.size),
    Column("remarks", "LOOK AT"),
)


def pipeline_report(
    *,
    lake: Annotated[str, typer.Argument(metavar="LAKE", help="A lake, or one of its runs.")],
    older: Annotated[
        str | None,
        typer.Argument(metavar="OLDER", help="An earlier lake or run to compare with."),
    ] = None,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    common: TalkOptions,
) -> None:
    """Summarise an audit per topic; with OLDER, show what has changed since.

    SKEW is the largest partition divided by the mean; SINGLE the share of data batches with one record;
    RETENTION and COMPACTION what would be freed. Exit code 4 means findings; with OLDER, new findings.
    """
    from kafkatool.engine.audit.lake import read_run
    from kafkatool.engine.audit.run_report import make_report

    least, talk = severity(fail_on), common.talk()
    found = make_report(read_run(lake), None if older is None else read_run(older))
    with rows(fmt, TOPIC_COLUMNS, raw=raw) as out:
        for topic in found.topics:
            out.write(topic_row(topic, people=fmt is Format.table))
        if fmt is Format.ndjson:
            for row in found.new_findings:
                out.write({"kind": "new_finding", **{name: row[name] for name in FINDING_KEYS}})
            out.write(report_row(found))
    if fmt is not Format.ndjson:
        for row in found.new_findings:
            talk.note(f"{row['severity']}: {row['class']} in {row['file']} at byte {row['position']}")
    for name in found.gone_topics:
        talk.note(f"{name}: was there, and is gone")
    if older is not None:
        talk.note(f"{len(found.new_findings)} findings are new, {found.mended} are gone")
    for failure in found.run.manifest["failures"]:
        talk.warn(f"in that run: {failure}")
    worst = found.worst
    raise typer.Exit(ExitCode.FOUND if worst is not None and worst >= least else ExitCode.OK)


def topic_row(one: TopicReport, *, people: bool) -> Row:
    remarks: object = ", ".join(one.remarks) if people else one.remarks
    return {
        "kind": "topic_report",
        "topic": one.topic,
        "size": one.size,
        "older_size": one.older_size,
        "growth": one.growth,
        "partitions": one.partitions,
        "records": one.records,
        "skew": one.skew,
        "old_format_batches": one.old_format_batches,
        "single_record_share": one.single_record_share,
        "future_segments": one.future_segments,
        "findings": one.findings,
        "new_findings": one.new_findings,
        "retention_delete_bytes": one.retention_delete_bytes,
        "compaction_removed_bytes": one.compaction_removed_bytes,
        "remarks": remarks,
    }


def report_row(found: Report) -> Row:
    manifest = found.run.manifest
    return {
        "kind": "report",
        "run": found.run.directory,
        "older": None if found.older is None else found.older.directory,
        "now_ms": manifest["now_ms"],
        **{
            name: manifest[name] for name in ("roots", "partitions", "segments", "size", "batches", "records")
        },
        "new_findings": len(found.new_findings),
        "mended_findings": found.mended,
        "gone_topics": found.gone_topics,
        "failures": manifest["failures"],
    }
