"""`kafkatool rebuild-index`: indexes and producer snapshots from the log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

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
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.told import told
from kafkatool.commands.screen.values import Format

if TYPE_CHECKING:
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.rebuild.planning import Rebuilt

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
    from kafkatool.commands.rows.plans import STEP_COLUMNS, conclude, now_ms
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
    with workers(jobs, most_workers(found.homes)) as pool, rows(fmt, STEP_COLUMNS, raw=raw) as out:
        for home in found.homes:
            with talk.progress("reading", sum(named.log_bytes for named in home.partitions)) as advance:
                [done] = told(run.rebuild(home, pool, advance), talk, outcome)
            for part in done.parts:
                _tell(part, guest, out, talk, fmt)
                for _path, damage in part.damage:
                    outcome.met(damage)
            talk.warn_of_bad_blocks(guest.errors.count)
            conclude(done.plan, run.how, talk, out, fmt, do_apply=plan.apply)
    raise typer.Exit(outcome.exit_code(least))


def _tell(part: Rebuilt, guest: Guest, out: Rows, talk: Talk, fmt: Format) -> None:
    """Show what is not right in one partition, and why some of it cannot be made so."""
    from kafkatool.commands.rows.batches import LogPlace, damage_row, damage_sentence
    from kafkatool.commands.rows.plans import step_row, write_row

    for difference in part.differences:
        counts = (difference.entries, difference.only_there, difference.only_here)
        write_row(out, step_row(difference.step, difference.size_before, counts), fmt)
    for path, damage in part.damage:
        place = LogPlace.of(path, guest)
        if fmt is Format.ndjson:
            out.write(damage_row(place, damage))
        else:
            talk.warn(damage_sentence(place, damage))
    if part.damage:
        directory = os.path.basename(os.path.abspath(part.partition.path))
        talk.warn(f"{directory}: transactions and snapshots behind the damage are left as they are")
