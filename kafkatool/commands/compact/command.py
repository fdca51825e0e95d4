"""`kafkatool compact`: show what a broker's log cleaner would keep, or compact the log."""

from __future__ import annotations

from dataclasses import replace

import typer

from kafkatool.commands.compact.options import PassOptions
from kafkatool.commands.line.broker_options import BrokerOptions
from kafkatool.commands.line.options import (
    BytesOpt,
    CommonOptions,
    FailOnOpt,
    FormatOpt,
    JobsOpt,
    PathOptions,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.plan_options import PlanOptions
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.errors import UsageError

EPILOG = epilog(
    {
        "kafkatool compact /var/lib/kafka/data/users-0": "what a pass of the cleaner would remove, and why",
        "kafkatool compact --key user-7 /var/lib/kafka/data/users-0": "the life of one key",
        "kafkatool compact --until-stable --write-to /mnt/out server.properties": "compacted copies",
        "kafkatool compact --set delete.retention.ms=0 /var/lib/kafka/data/users-0": (
            "what if tombstones were dropped at once"
        ),
        "kafkatool compact --apply --backup-dir /mnt/kept server.properties": (
            "compact now, while the broker is down"
        ),
    },
    4,
    5,
)


def compact(
    where: PathOptions,
    plan: PlanOptions,
    broker: BrokerOptions,
    how: PassOptions,
    *,
    fmt: FormatOpt = Format.table,
    bytes_as: BytesOpt = BytesFormat.utf8,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: CommonOptions,
) -> None:
    """Show what the log cleaner of a broker would remove from compacted partitions, or do it.

    Reports which offsets are cleaned and what ends the range, how many segments, bytes and records there are
    before and after, and why records go: superseded by a later one, a tombstone past its horizon, aborted, a
    transaction marker, no key. If the key map is too small for the range, the pass ends early, as in a
    broker; the memory it would need is reported, and -v shows which segments are merged. Settings come from
    --set, --config, the metadata on the same disk, a server.properties, or Kafka's defaults.

    --write-to writes the result as a separate partition. --apply replaces the old one, in a directory that no
    broker uses; it refuses to act on a mere default, or on metadata that ended more than a minute before the
    directory did, unless --set or --config repeats the setting. Exit code 4 means that a broker's cleaner
    would give up, and where, or that it would copy a batch with a wrong checksum.
    """
    from kafkatool.commands.compact.telling import Telling
    from kafkatool.engine.compaction.run import compact_partitions
    from kafkatool.engine.directory.selection import Selection, most_workers

    talk, outcome, least = common.talk(), RunOutcome(), severity(fail_on)
    if plan.undo_instead(where, "compact", talk, fmt):
        return
    how.refuse_nonsense(plan, broker, where_to_run)
    guest, expansion = common.guest(), where.directories()
    request = how.request(plan, broker, expansion.named)
    found = Selection(expansion.targets, guest)
    outcome.fail(talk, [*expansion.problems, *found.problems])
    if request.watermark is not None and sum(len(home.partitions) for home in found.homes) != 1:
        raise UsageError("--high-watermark N takes one partition")
    telling = Telling(request, talk, outcome, fmt, bytes_as)
    pool = where_to_run.workers(1 if plan.apply else jobs, most_workers(found.homes), talk, "compact", None)
    with pool as (workers, _advance), telling.rows(raw=raw):
        # Processes on this machine share its memory; on a cluster every executor has its own.
        sharing = workers.count if where_to_run.spark is None else 1
        share = replace(request, memory=request.memory // sharing)
        telling.tell(compact_partitions(found, share, guest, workers))
    raise typer.Exit(outcome.exit_code(least))
