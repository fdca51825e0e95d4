"""`kafkatool retention`: what a broker would delete, why the rest stays, and how to free space."""

from __future__ import annotations

import typer

from kafkatool.commands.line.broker_options import BrokerOptions
from kafkatool.commands.line.options import CommonOptions, FormatOpt, JobsOpt, PathOptions, RawOpt, epilog
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.commands.retention.options import AskOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format

EPILOG = epilog(
    {
        "kafkatool retention /var/lib/kafka/data/orders-0": "every segment: deleted or not, and why",
        "kafkatool retention --at now+3d /var/lib/kafka/data": "the same in three days",
        "kafkatool retention --set retention.ms=3600000 /var/lib/kafka/data": (
            "what if retention.ms were one hour"
        ),
        "kafkatool retention --forecast 7d server.properties": "forecast the bytes over the next week",
        "kafkatool retention --free 200G server.properties": "the smallest changes that free 200 GiB",
        "kafkatool retention --apply --move-to /mnt/kept server.properties": (
            "delete now, while the broker is down"
        ),
        "kafkatool retention --purge --apply /var/lib/kafka/data": (
            "remove files that were deleted long enough ago"
        ),
    },
    5,
)


def retention(
    where: PathOptions,
    plan: PlanOptions,
    broker: BrokerOptions,
    ask: AskOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: CommonOptions,
) -> None:
    """Show what the next retention check of a broker deletes, segment by segment, and why the rest stays.

    Decides as a broker does: first what lies below the log start offset, then by retention.bytes, then by
    retention.ms, oldest first, until the first segment that stays. Settings come from --set, --config, the
    metadata on the same disk, a server.properties, or Kafka's defaults; the ones that decide are shown with
    their source.

    With --apply, in a directory that no broker uses, files are renamed to .deleted as a broker does. That
    frees nothing yet: a broker removes them when it starts, or --purge does. It refuses to act on a mere
    default, or on metadata that ended more than a minute before the directory did, unless --set or --config
    repeats the setting, and never deletes up to an assumed high watermark.

    Whether the cleaner has given up a compacted topic cannot be read from a disk, so nothing of it is deleted
    until a restart. How far a tiered topic is copied to remote storage is read from __remote_log_metadata on
    the same disks; without it, segments that depend on it are unknown: they stay, and the exit code is 3.
    --free first lists what has expired but is held back by a record with a time in the future, with the
    command to delete it.
    """
    from kafkatool.commands.retention.telling import RetentionTelling
    from kafkatool.commands.rows.plans import now_ms
    from kafkatool.engine.directory.selection import Selection, most_workers
    from kafkatool.engine.retention.run import RetentionRun

    talk, outcome = common.talk(), RunOutcome()
    if plan.undo_instead(where, "retention", talk, fmt, ask.move_to):
        return
    ask.refuse_nonsense(plan)
    guest, how = common.guest(), plan.applying(now_ms())
    judging, expansion = ask.judging(plan, broker, how.now_ms), where.directories()
    found = Selection(expansion.targets, guest)
    outcome.fail(talk, [*expansion.problems, *found.problems])
    ask.refuse_many(judging, sum(len(home.partitions) for home in found.homes))
    settings = broker.settings(expansion.named, plan.settings)
    run = RetentionRun(found, settings, judging, how, plan.apply, guest)
    telling = RetentionTelling(run, talk, outcome, fmt, raw)
    if ask.purge:
        telling.purge(run.purge())
        raise typer.Exit(outcome.exit_code())
    # Without --check-times hardly anything is read: more workers would cost more to start than they save.
    most = most_workers(found.homes) if ask.check_times else 1
    size = sum(named.log_bytes for home in found.homes for named in home.partitions)
    with where_to_run.workers(jobs, most, talk, "reading", size) as (pool, advance):
        if ask.forecast is not None:
            telling.forecast(run.forecast(pool, advance, ask.duration_ms()), ask.forecast)
        elif ask.free is not None:
            telling.free(run.free(pool, advance, ask.wanted()))
        else:
            telling.delete(run.delete(pool, advance, ask.move_to))
    raise typer.Exit(outcome.exit_code())
