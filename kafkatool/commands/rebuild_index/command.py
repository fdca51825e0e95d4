"""`kafkatool rebuild-index`: rebuild indexes and producer snapshots from the log."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    ConfigOpt,
    FailOnOpt,
    FormatOpt,
    JobsOpt,
    PathOptions,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format

EPILOG = epilog(
    {
        "kafkatool rebuild-index /var/lib/kafka/data/orders-0": (
            "what is wrong or missing, and the plan to rebuild it"
        ),
        "kafkatool rebuild-index --apply /var/lib/kafka/data/orders-0": (
            "rebuild; originals are kept beside the files"
        ),
        "kafkatool rebuild-index --apply --backup-dir /mnt/kept server.properties": (
            "all directories of a broker that is down"
        ),
        "kafkatool rebuild-index --undo <JOURNAL> --apply": "undo it",
    },
    4,
    5,
)


def rebuild_index(
    where: PathOptions,
    plan: PlanOptions,
    *,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also rewrite files that are correct but not identical, including good snapshots."
        ),
    ] = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    config: ConfigOpt = None,
    common: CommonOptions,
) -> None:
    """Rebuild .index, .timeindex, .txnindex and producer snapshots that do not match the log.

    Shows every file that is missing or does not match the log: WRONG counts entries that the log contradicts,
    MISSING those that it needs. Files whose entries are all correct and dense enough are kept, as a restarted
    broker keeps them. A snapshot with a correct checksum is trusted, and producers of later segments are
    counted from it. The log itself is never changed; see recover for that.
    """
    from kafkatool.commands.rebuild_index.telling import RebuildTelling
    from kafkatool.commands.rows.plans import now_ms
    from kafkatool.engine.cluster.topic_settings import read_numbers
    from kafkatool.engine.directory.selection import Selection, most_workers
    from kafkatool.engine.jobs.worker_pool import workers
    from kafkatool.engine.rebuild.run import INTERVAL, RebuildRun

    talk, outcome, least = common.talk(), RunOutcome(), severity(fail_on)
    if plan.undo_instead(where, "rebuild-index", talk, fmt):
        return
    guest, settings = common.guest(), read_numbers(plan.settings or (), config, [INTERVAL])
    run = RebuildRun(settings, plan.applying(now_ms()), plan.apply, guest, force)
    expansion = where.segment_files()
    found = Selection(expansion.targets, guest)
    outcome.fail(talk, [*expansion.problems, *found.problems])
    telling = RebuildTelling(run, talk, outcome, fmt)
    with workers(jobs, most_workers(found.homes)) as pool, telling.rows(raw=raw):
        for home in found.homes:
            telling.tell(home, pool)
    raise typer.Exit(outcome.exit_code(least))
