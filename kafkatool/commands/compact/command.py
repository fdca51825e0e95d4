"""`kafkatool compact`: what the log cleaner of a broker would keep, and the same done."""

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
        "kafkatool compact --set delete.retention.ms=0 /var/lib/kafka/data/users-0": "what if",
        "kafkatool compact --apply --backup-dir /mnt/kept server.properties": "do it, a broker being down",
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
    """Run passes of the log cleaner over compacted partitions, as a broker would, without changing them.

    Tells which offsets are cleaned and what ends the range, how many segments, bytes and records are there
    before and after, and why records go: superseded by a later one, a tombstone past its horizon, aborted,
    a transaction's marker, without a key. A map of keys that is too small for the range ends a pass early, as
    it does in a broker; what it would need is told, and -v tells which segments become one. A setting comes
    from --set, --config, the metadata on the same disk, a server.properties, or Kafka's defaults. --write-to
    writes what is kept as a partition of its own; --apply puts it in the place of the old one, on a directory
    that no broker uses, never by a mere default, nor by metadata that ended more than a minute before the
    directory did, unless --set or --config says it again. Exit code 4 means that the cleaner of a broker
    would give up, and where, or that it would copy a batch with a wrong checksum.
    """
    from kafkatool.commands.compact.telling import Telling
    from kafkatool.engine.compaction.run import compact_partitions
    from kafkatool.engine.directory.selection import find_partitions, most_workers

    talk, outcome, least = common.talk(), RunOutcome(), severity(fail_on)
    if plan.undo_instead(where, "compact", talk, fmt):
        return
    how.refuse_nonsense(plan, broker, where_to_run)
    guest, expansion = common.guest(), where.directories()
    request = how.request(plan, broker, expansion.named)
    found = find_partitions(expansion.targets, guest)
    outcome.fail(talk, [*expansion.problems, *found.problems])
    if request.watermark is not None and sum(len(home.partitions) for home in found.homes) != 1:
        raise UsageError("--high-watermark N takes one partition")
    telling = Telling(request, talk, outcome, fmt, bytes_as)
    pool = where_to_run.workers(1 if plan.apply else jobs, most_workers(found.homes), talk, "compact", None)
    with pool as (workers, _advance), telling.rows(raw=raw):
        # Processes of this machine share the memory; on a cluster everyone has their own.
        sharing = workers.count if where_to_run.spark is None else 1
        share = replace(request, memory=request.memory // sharing)
        telling.tell(compact_partitions(found, share, guest, workers))
    raise typer.Exit(outcome.exit_code(least))
