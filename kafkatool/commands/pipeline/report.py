"""`kafkatool pipeline report`: the results of an audit, and what is new in it."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import FailOnOpt, FormatOpt, RawOpt, TalkOptions, epilog, severity
from kafkatool.commands.rows.audit import NEW_FINDINGS, REPORTS, TOPIC_COLUMNS, TOPIC_REPORTS
from kafkatool.commands.screen.table import rows
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode

EPILOG = epilog(
    {
        "kafkatool pipeline report /srv/lake": "one line per topic, and what needs attention",
        "kafkatool pipeline report /srv/lake /srv/lake/run-000006": "what is new since an earlier run",
        "kafkatool pipeline report --format ndjson LAKE OLDER | grep new_finding": ("new damage"),
    },
    4,
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
            row = TOPIC_REPORTS.row(topic)
            out.write(row | {"remarks": ", ".join(topic.remarks)} if fmt is Format.table else row)
        if fmt is Format.ndjson:
            for row in found.new_findings:
                out.write(NEW_FINDINGS.row(**{name: row[name] for name in NEW_FINDINGS.keys}))
            out.write(REPORTS.row(found))
    if fmt is not Format.ndjson:
        for row in found.new_findings:
            talk.note(f"{row['severity']}: {row['class']} in {row['file']} at byte {row['position']}")
    for name in found.gone_topics:
        talk.note(f"{name}: is gone since then")
    if older is not None:
        talk.note(f"{len(found.new_findings)} findings are new, {found.mended} are gone")
    for failure in found.run.manifest["failures"]:
        talk.warn(f"in that run: {failure}")
    worst = found.worst
    raise typer.Exit(ExitCode.FOUND if worst is not None and worst >= least else ExitCode.OK)
