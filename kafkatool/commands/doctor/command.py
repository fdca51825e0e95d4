"""`kafkatool doctor`: will a broker start on this, and if it does, what does it lose?"""

from __future__ import annotations

import typer

from kafkatool.commands.doctor.options import DoctorOptions, ExaminationOptions
from kafkatool.commands.line.options import FailOnOpt, FormatOpt, PathOptions, RawOpt, epilog, severity
from kafkatool.commands.screen.outcome import RunOutcome
from kafkatool.commands.screen.values import Format

EPILOG = epilog(
    {
        "kafkatool doctor /etc/kafka/server.properties": "a broker, with all its log directories together",
        "kafkatool doctor --user kafka /var/lib/kafka/data": "one log directory, for the user kafka",
        "kafkatool doctor --quick server.properties": "quickly, without scanning what was not flushed",
        "kafkatool doctor --elsewhere --nofile 100000 /mnt/copy": "a disk that was brought to another host",
        "kafkatool doctor --format ndjson DIR | jq -r '.verdict // empty'": "only the verdict",
    },
    4,
)


def doctor(
    where: PathOptions,
    how: ExaminationOptions,
    *,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    fail_on: FailOnOpt = "degraded",
    common: DoctorOptions,
) -> None:
    """Check whether a broker will start, what it would lose, and what to do about it.

    Looks at a whole broker: server.properties stands for all its log directories and the metadata log. The
    next start is simulated for all of them, as `recover` does it. Also checked: ids, checkpoints, unknown
    directories, partitions that will become stray, files that the broker's user cannot open, open files and
    memory maps against the host's limits, free space, mounts, and a sample of all logs. The verdict is one
    of: starts, starts and loses offsets, starts without a directory, starts but serves nothing, will not
    start; or that a broker is running there. Nothing is changed.
    """
    from kafkatool.commands.doctor.telling import DiagnosisTelling
    from kafkatool.engine.doctor.brokers import named_brokers
    from kafkatool.engine.doctor.examination import examine, log_size

    least, outcome = severity(fail_on), RunOutcome()
    talk, guest = common.talk(), common.guest()
    brokers = named_brokers(where.written(), guest)
    telling = DiagnosisTelling(talk, outcome, fmt, raw, common.verbose)
    for broker in brokers:
        request = how.request(guest, brokers)
        with talk.progress("reading", log_size(broker)) as advance:
            found = examine(broker, request, advance)
        telling.tell(found)
    raise typer.Exit(outcome.exit_code(least))
