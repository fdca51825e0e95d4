"""`kafkatool recover`: what a broker would do at its next start, told beforehand and, if wanted, done."""

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
from kafkatool.commands.screen.told import told
from kafkatool.commands.screen.values import Format
from kafkatool.errors import UsageError

EPILOG = epilog(
    {
        "kafkatool recover /var/lib/kafka/data": "what the next start would scan, cut, delete, or refuse",
        "kafkatool recover /var/lib/kafka/data/orders-0": "the same for one partition",
        "kafkatool recover --apply --backup-dir /mnt/kept /var/lib/kafka/data": "do it, and keep what is cut",
        "kafkatool recover --keep-after-damage /mnt/saved /var/lib/kafka/data/orders-0": "save what it cuts",
        "kafkatool recover --mend-bits --apply /var/lib/kafka/data/orders-0": "flip single flipped bits back",
        "kafkatool recover --undo <JOURNAL> --apply": "go back",
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
            help="Copy the good batches behind the damage into this new directory: for reading, no replica.",
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
    """Tell what a broker does at start-up after an unclean shutdown, and with --apply do it here.

    Which segments it scans, where it cuts, which segments behind the damage it deletes, what becomes of
    .cleaned, .swap and .deleted files, of the metadata log and its snapshots, and of partitions that wait to
    be deleted; or that it refuses to start, or leaves the log directory out, and why. A server.properties
    tells all directories of a broker, and they are judged together. A broker throws away what it cuts; here
    it is kept. --mend-bits mends batches with one flipped bit first, so that nothing is cut at them; it reads
    every log. With another replica in sync it is better to set this copy aside and let the broker fetch it
    anew. -v shows the steps file by file.
    """
    from kafkatool.commands.recover.telling import RecoveryTelling
    from kafkatool.commands.rows.plans import now_ms
    from kafkatool.engine.cluster.topic_settings import read_numbers
    from kafkatool.engine.directory.selection import find_partitions, most_workers
    from kafkatool.engine.jobs.worker_pool import workers
    from kafkatool.engine.recover.broker_start import SETTINGS
    from kafkatool.engine.recover.run import RecoveryRun

    talk, outcome, least = common.talk(), RunOutcome(), severity(fail_on)
    if plan.undo_instead(where, "recover", talk, fmt):
        return
    guest, settings = common.guest(mends_bits=mend_bits), read_numbers(plan.settings or (), config, SETTINGS)
    how, expansion = plan.applying(now_ms()), where.directories()
    found = find_partitions(expansion.targets, guest)
    outcome.fail(talk, [*expansion.problems, *found.unread])
    if keep_after_damage is not None and sum(len(home.partitions) for home in found.homes) != 1:
        raise UsageError("--keep-after-damage takes one partition")
    run = RecoveryRun(found, expansion.named, settings, how, plan.apply, guest, keep_after_damage)
    telling = RecoveryTelling(run, talk, outcome, fmt, raw)
    with workers(jobs, most_workers(found.homes)) as pool:
        for home in found.homes:
            with talk.progress("reading", sum(named.log_bytes for named in home.partitions)) as advance:
                [started] = told(run.start(home, pool, advance), talk, outcome)
            telling.tell(started)
    raise typer.Exit(outcome.exit_code(least))
