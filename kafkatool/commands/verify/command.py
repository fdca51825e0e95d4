"""`kafkatool verify`: is what is on this disk what a broker wrote?"""

from __future__ import annotations

import typer

from kafkatool.commands.line.options import (
    FailOnOpt,
    FileOptions,
    FormatOpt,
    JobsOpt,
    RawOpt,
    epilog,
    severity,
)
from kafkatool.commands.line.recheck_options import RecheckOptions
from kafkatool.commands.line.spark_options import SparkOptions
from kafkatool.commands.screen.values import Format
from kafkatool.commands.verify.options import CheckOptions, VerifyOptions
from kafkatool.errors import UsageError

EPILOG = epilog(
    {
        "kafkatool verify /var/lib/kafka/data": "everything in a log directory, on all cores",
        "kafkatool verify -v --deep orders-0": "every finding of one partition, including its records",
        "kafkatool verify --state /var/lib/scrub.json --max-rate 50M server.properties": (
            "a nightly check that reads new data, and the rest in turn"
        ),
        "kafkatool verify --sample 5% --fail-on loss /var/lib/kafka/data": "a quick look at a large disk",
        "kafkatool verify --spark spark://head:7077 /mnt/brokers/*/data": "many brokers' disks, on a cluster",
        "kafkatool verify --format ndjson DIR | jq 'select(.severity == \"loss\")'": "only what is lost",
    },
    4,
    5,
)


def verify(
    where: FileOptions,
    check: CheckOptions,
    rechecking: RecheckOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    jobs: JobsOpt = 0,
    where_to_run: SparkOptions,
    common: VerifyOptions,
) -> None:
    """Check every batch, and every other file against the logs; exit 4 if something is wrong.

    Checks lengths, checksums, offsets and leader epochs of every batch; and indexes, snapshots, checkpoints
    and topic ids against the logs and the cluster's metadata. Each damaged partition gets one line with the
    offsets lost and what to do. Nothing is changed and a running broker is not disturbed; what it is still
    writing is only noted.
    """
    from kafkatool.commands.verify.telling import VerifyTelling, exit_code, tell_limits
    from kafkatool.engine.verify.verification import Verification, VerifyRequest

    least, part = severity(fail_on), check.share(rechecking)
    talk, expansion = common.talk(), where.expand()
    request = VerifyRequest(deep=check.deep, sample=part, guest=common.guest())
    run = Verification(expansion.targets, request, check.scrub(rechecking))
    run.summary.failures += expansion.problems
    if not run.places and not run.log_dirs:
        raise UsageError("nothing to verify there")
    pool = where_to_run.workers(jobs, run.most_workers, talk, "verify", run.size)
    VerifyTelling(run, check, fmt, raw, common.verbose).tell(pool)
    tell_limits(run.summary, talk)
    raise typer.Exit(exit_code(run.summary, least))
