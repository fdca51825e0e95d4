"""`kafkatool recover`: show what a broker would do at its next start and, if requested, do it."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    ConfigOpt,
    FailOnOpt,
    FormatOpt,
    JobsOpt,
    MendBitsOpt,
    PathOptions,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format
from kafkatool.errors import UsageError

EPILOG = epilog(
    {
        "kafkatool recover /var/lib/kafka/data": (
            "what the next start would scan, truncate, delete or refuse"
        ),
        "kafkatool recover /var/lib/kafka/data/orders-0": "the same for one partition",
        "kafkatool recover --apply --backup-dir /mnt/kept /var/lib/kafka/data": (
            "do it, and keep what is truncated"
        ),
        "kafkatool recover --keep-after-damage /mnt/saved /var/lib/kafka/data/orders-0": (
            "save the good batches after the damage"
        ),
        "kafkatool recover --mend-bits --apply /var/lib/kafka/data/orders-0": "flip single flipped bits back",
        "kafkatool recover --undo <JOURNAL> --apply": "undo it",
    },
    4,
    5,
)


def recover(
    where: PathOptions,
    plan: PlanOptions,
    *,
    keep_after_damage: Annotated[
        str | None,
        typer.Option(
            "--keep-after-damage",
            metavar="DIR",
            show_default=False,
            help="Copy the good batches after the damage into this new directory. It is for reading, not a "
            "replica.",
        ),
    ] = None,
    mend_bits: MendBitsOpt = False,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    config: ConfigOpt = None,
    common: CommonOptions,
) -> None:
    """Show what a broker does at start-up after an unclean shutdown; with --apply, do it.

    Shows which segments it scans, where it truncates, which segments after the damage it deletes, and what
    happens to .cleaned, .swap and .deleted files, to the metadata log and its snapshots, and to partitions
    that wait to be deleted; or that it refuses to start or takes the log directory offline, and why. A
    server.properties names all directories of a broker, and they are judged together.

    A broker discards what it truncates; here it is kept. --mend-bits first corrects batches with one flipped
    bit, so that nothing is truncated at them; it reads every log. If another replica is in sync, it is better
    to set this copy aside and let the broker fetch it again. -v shows the steps file by file.
    """
    from kafkatool.commands.recover.telling import RecoveryTelling
    from kafkatool.commands.rows.plans import now_ms
    from kafkatool.engine.cluster.topic_settings import read_numbers
    from kafkatool.engine.directory.selection import Selection, most_workers
    from kafkatool.engine.jobs.worker_pool import workers
    from kafkatool.engine.recover.broker_start import SETTINGS
    from kafkatool.engine.recover.run import RecoveryRun

    talk, outcome, least = common.talk(), RunOutcome(), severity(fail_on)
    if plan.undo_instead(where, "recover", talk, fmt):
        return
    guest, settings = common.guest(mends_bits=mend_bits), read_numbers(plan.settings or (), config, SETTINGS)
    how, expansion = plan.applying(now_ms()), where.directories()
    found = Selection(expansion.targets, guest)
    outcome.fail(talk, [*expansion.problems, *found.unread])
    if keep_after_damage is not None and sum(len(home.partitions) for home in found.homes) != 1:
        raise UsageError("--keep-after-damage takes one partition")
    run = RecoveryRun(found, expansion.named, settings, how, plan.apply, guest, keep_after_damage)
    telling = RecoveryTelling(run, talk, outcome, fmt, raw)
    with workers(jobs, most_workers(found.homes)) as pool:
        for home in found.homes:
            telling.tell(home, pool)
    raise typer.Exit(outcome.exit_code(least))
