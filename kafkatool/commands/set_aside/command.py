"""`kafkatool set-aside`: remove a partition from a stopped broker, so that it fetches the partition again."""

from __future__ import annotations

import typer

from kafkatool.commands.line.options import CommonOptions, FormatOpt, PathOptions, RawOpt, epilog
from kafkatool.commands.line.plan_options import ChangeOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format
from kafkatool.commands.set_aside.options import SetAsideOptions

EPILOG = epilog(
    {
        "kafka-topics.sh --bootstrap-server <HOST:PORT> --describe > cluster.txt": (
            "first: describe the cluster"
        ),
        "kafkatool set-aside --describe cluster.txt --move-to /aside DIR/orders-0": (
            "then: the plan, or why it is refused"
        ),
        "kafkatool set-aside --metadata /controller --move-to /aside --apply DIR/t-0": (
            "apply it, judged by a controller's disk"
        ),
        "kafkatool set-aside --undo <JOURNAL> --backup-dir /aside --apply": "undo it",
    },
    5,
)


def set_aside(
    where: PathOptions,
    plan: ChangeOptions,
    how: SetAsideOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    common: CommonOptions,
) -> None:
    """Move partitions out of the log directory of a stopped broker, so that it fetches them again.

    The mark of a clean shutdown is removed too: with it the broker would count as complete and could be
    elected with an empty log. That changes how the cluster sees all partitions of the broker, so all of them
    are judged, from a description of the cluster taken after the broker stopped: the output of
    kafka-topics.sh --describe, or the disk of a controller. The command refuses if acknowledged records could
    be lost; --accept-loss proceeds after saying what is at stake. The metadata of the cluster is never set
    aside.

    A broker that has a partition twice does not start. Name the copy that stays with --second-copy: the other
    one is moved if the copy that stays has every batch of it.
    """
    from kafkatool.commands.rows.plans import now_ms
    from kafkatool.commands.set_aside.telling import SetAsideTelling
    from kafkatool.engine.repair.run import SetAsideRun

    talk, outcome = common.talk(), RunOutcome()
    if plan.undo_instead(where, "set-aside", talk, fmt, how.move_to):
        return
    now = now_ms()
    request, guest = how.request(now, is_applied=plan.apply), common.guest()
    run = SetAsideRun([target.path for target in where.directories().targets], request, guest)
    SetAsideTelling(run, request, talk, outcome, fmt, raw).tell(plan.applying(now))
    raise typer.Exit(outcome.exit_code())
