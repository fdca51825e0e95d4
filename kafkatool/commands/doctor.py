"""`kafkatool doctor`: will a broker start on this, and if it does, what does it lose?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import (
    CommonOptions,
    FailOnOpt,
    FormatOpt,
    PathOptions,
    RawOpt,
    SampleOpt,
    epilog,
    severity,
    share,
)
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.directory.log_dir import LogDir
    from kafkatool.engine.doctor.brokers import Broker
    from kafkatool.engine.doctor.examination import Diagnosis, DoctorRequest
    from kafkatool.engine.files.source import Guest

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


@dataclass(frozen=True, slots=True)
class DoctorOptions(CommonOptions):
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show every finding, including notes.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The host and user to check for, and their limits."""

    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="USER",
            help="User that the broker runs as, by name or number. By default the owner of the log "
            "directory.",
        ),
    ] = None
    elsewhere: Annotated[
        bool,
        typer.Option(
            "--elsewhere", help="This is not the broker's host: do not check user, limits, volumes and speed."
        ),
    ] = False
    nofile: Annotated[
        int | None,
        typer.Option(
            "--nofile",
            metavar="N",
            min=1,
            help="The broker's limit of open files. By default that of the running broker, or of this shell.",
        ),
    ] = None
    max_map_count: Annotated[
        int | None,
        typer.Option(
            "--max-map-count",
            metavar="N",
            min=1,
            help="vm.max_map_count of the broker's host. By default that of this host.",
        ),
    ] = None


def doctor(
    where: PathOptions,
    host: HostOptions,
    *,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Do not scan logs. It is then not known what a start would truncate."),
    ] = False,
    sample: SampleOpt = None,
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
    least = severity(fail_on)
    speak, guest = common.talk(), common.guest()
    brokers = _brokers(where, guest)
    code = ExitCode.OK
    for broker in brokers:
        beside = [log_dir for one in brokers for log_dir in one.log_dirs]
        found = _examine(broker, _asked(host, guest, quick, sample, beside), speak)
        _show(found, fmt, every=common.verbose, raw=raw)
        _talk_of(found, speak, fmt)
        code = max(code, _exit_code(found, least), key=_rank)
    raise typer.Exit(code)


def _brokers(where: PathOptions, guest: Guest) -> list[Broker]:
    import os

    from kafkatool.engine.directory.targets import NO_FILES, expand, is_configuration
    from kafkatool.engine.doctor.brokers import find_brokers

    paths = where.written()
    servers = [path for path in paths if os.path.isfile(path) and is_configuration(path)]
    others = [path for path in paths if path not in servers]
    targets = []
    if others:
        expansion = expand(others, allow_stdin=False, files=NO_FILES)
        if expansion.problems:
            raise UsageError(expansion.problems[0])
        targets = expansion.targets
    return find_brokers(servers, targets, guest)


def _asked(
    host: HostOptions, guest: Guest, quick: bool, sample: str | None, beside: list[LogDir]
) -> DoctorRequest:
    import time

    from kafkatool.engine.doctor.examination import DoctorRequest

    return DoctorRequest(
        now_ms=time.time_ns() // 1_000_000,
        guest=guest,
        user=host.user,
        sample=None if sample is None else share(sample),
        is_quick=quick,
        is_elsewhere=host.elsewhere,
        nofile=host.nofile,
        max_map_count=host.max_map_count,
        beside=beside,
    )


def _examine(broker: Broker, asked: DoctorRequest, speak: Talk) -> Diagnosis:
    from kafkatool.engine.doctor.examination import examine, log_size

    with speak.progress("reading", log_size(broker)) as advance:
        return examine(broker, asked, advance)


def _show(found: Diagnosis, fmt: Format, *, every: bool, raw: bool) -> None:
    from kafkatool.commands.rows import diagnosis as doctor_rows
    from kafkatool.commands.rows.findings import FINDING_COLUMNS, finding_row
    from kafkatool.commands.screen.table import painted_heading, painted_severity, rows
    from kafkatool.commands.screen.values import printable, stdout

    findings = found.chart.findings
    if fmt is not Format.table:
        with rows(fmt, FINDING_COLUMNS, raw=raw) as written:
            for finding in findings:
                written.write(finding_row(finding))
            if fmt is Format.ndjson:
                written.write(doctor_rows.diagnosis_row(found))
        return
    out = stdout()
    verdict = f"{found.broker.name}: {doctor_rows.verdict_text(found)}"
    print(painted_heading(printable(verdict), out), file=out)
    for severity_label, text in doctor_rows.finding_lines(findings, every=every):
        label = painted_severity(f"{severity_label:<10}", severity_label, out)
        print(f"{label}{printable(text)}", file=out)
    # Flushed, so that later messages on stderr do not come before it.
    print(printable(doctor_rows.summary_text(found, raw=raw, every=every)), file=out, flush=True)


def _talk_of(found: Diagnosis, speak: Talk, fmt: Format) -> None:
    from kafkatool.commands.rows.diagnosis import verdict_text

    if fmt is Format.csv:
        speak.warn(f"{found.broker.name}: {verdict_text(found)}")
    for failure in found.chart.failures:
        speak.warn(failure)
    for note in found.chart.notes:
        speak.note(note)


def _exit_code(found: Diagnosis, fail_on: Severity) -> ExitCode:
    if found.chart.failures:
        return ExitCode.FAILED
    return ExitCode.FOUND if found.worst is not None and found.worst >= fail_on else ExitCode.OK


def _rank(code: ExitCode) -> int:
    """Rank exit codes by how much a script needs to know them."""
    return (ExitCode.OK, ExitCode.FOUND, ExitCode.FAILED).index(code)
