"""`kafkatool recover`: what a broker would do at its next start, told beforehand and, if wanted, done."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

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
from kafkatool.commands.screen.table import Column, Look, Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import Format, Row, iso_time
from kafkatool.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.cluster.view import Replicas
    from kafkatool.engine.directory.log_dir import Partition
    from kafkatool.engine.directory.selection import Home
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.jobs.worker_pool import Workers
    from kafkatool.engine.recover.assignment import PartitionFate
    from kafkatool.engine.recover.planning import RecoverRequest
    from kafkatool.engine.recover.result import Recovered
    from kafkatool.engine.recover.start_checks import StartChecks

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

EVENT_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("segment", "SEGMENT", Look.number),
    Column("what", "WHAT"),
    Column("first_offset", "FROM", Look.number),
    Column("last_offset", "TO", Look.number),
    Column("message", "WHY"),
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
    from kafkatool.engine.directory.selection import most_workers
    from kafkatool.engine.jobs.worker_pool import workers

    speak = common.talk()
    if plan.undo_instead(where, "recover", speak, fmt):
        return
    work = _RecoverRun(
        common.guest(mends_bits=mend_bits), speak, plan, keep_after_damage, config, severity(fail_on)
    )
    work.find(where)
    with workers(jobs, most_workers(work.homes)) as pool:
        for home in work.homes:
            work.recover(home, pool, fmt, raw)
    raise typer.Exit(work.exit_code)


class _RecoverRun:
    def __init__(
        self,
        how: Guest,
        speak: Talk,
        plan: PlanOptions,
        keep: str | None,
        config: str | None,
        fail_on: Severity,
    ) -> None:
        from kafkatool.commands.rows.plans import now_ms, parse_settings
        from kafkatool.engine.recover.broker_start import SETTINGS

        self._guest = how
        self._talk = speak
        self._plan = plan
        self._settings = parse_settings(plan.settings or [], config, SETTINGS)
        self._keep = keep
        self._fail_on = fail_on
        self._now_ms = now_ms()
        self.homes: list[Home] = []
        self.exit_code = ExitCode.OK

    def find(self, where: PathOptions) -> None:
        from kafkatool.engine.cluster.broker_dirs import configured_brokers
        from kafkatool.engine.directory.selection import Selection

        expansion = where.directories()
        found = Selection(expansion.targets, self._guest)
        for problem in [*expansion.problems, *found.unread]:
            self._talk.warn(problem)
            self.exit_code = ExitCode.FAILED
        if self._keep is not None and sum(len(home.partitions) for home in found.homes) != 1:
            raise UsageError("--keep-after-damage takes one partition")
        self.homes = found.homes
        self._brokers = configured_brokers(expansion.named)

    def recover(self, home: Home, pool: Workers, fmt: Format, raw: bool) -> None:
        from kafkatool.commands.rows.plans import (
            STEP_COLUMNS,
            conclude,
            name_leftovers,
            step_row,
            write_row,
        )
        from kafkatool.engine.cluster.broker_dirs import siblings
        from kafkatool.engine.plan.evidence import gather_evidence
        from kafkatool.engine.recover.broker_start import BrokerStart
        from kafkatool.engine.recover.planning import as_plan
        from kafkatool.engine.recover.start_checks import check_start

        log_dirs, node_id = siblings(home.log_dir, [one.log_dir for one in self.homes], self._brokers)
        checks = check_start(home.log_dir, self._guest, log_dirs, node_id)
        self._start = BrokerStart(log_dirs, self._guest, self._now_ms, self._settings)
        self._node = home.log_dir.meta.node_id if home.log_dir.meta else None
        partitions = [named.partition for named in home.partitions] + _deleted(home)
        self._fates = {os.path.normpath(one.path): self._start.fate(one, home.log_dir) for one in partitions}
        how = self._plan.applying(self._now_ms)
        name_leftovers(home, how, self._talk, do_apply=self._plan.apply)
        evidence = gather_evidence(home.log_dir, partitions, with_content=self._plan.apply)
        done = self._all(partitions, checks, pool)
        with rows(fmt, EVENT_COLUMNS, raw=raw) as out:
            self._tell_directory(home, checks, out, fmt)
            for one in done:
                self._tell(one, out, fmt, is_in_vain=checks.is_in_vain)
        plan = replace(as_plan(home.path, [] if checks.is_in_vain else done), evidence=evidence)
        show_steps = fmt is Format.ndjson or (fmt is Format.table and self._talk.verbose)
        with rows(fmt, STEP_COLUMNS, raw=raw) if fmt is not Format.csv else _silence() as out:
            for step in plan.steps if show_steps else ():
                size = os.path.getsize(step.path) if os.path.lexists(step.path) else None
                write_row(out, step_row(step, size), fmt)
            self._talk.warn_of_bad_blocks(self._guest.errors.count)
            conclude(plan, how, self._talk, out, fmt, do_apply=self._plan.apply)

    def _advise(self, one: Recovered) -> None:
        """Where another replica has every committed record, surgery is the second best."""
        known = self._start.replicas_at(one.path)
        if known is None:
            return
        in_sync, eligible = known.others_in_sync(self._node), known.others_eligible(self._node)
        if not in_sync and not eligible:
            return
        nodes = ", ".join(map(str, in_sync or eligible))
        has_it = "has it in sync" if in_sync else "is eligible to lead it"
        self._talk.warn(
            f"{one.path}: by the metadata of {iso_time(known.metadata_ms)} node {nodes} {has_it}: better set "
            "this copy aside and let the broker fetch it anew"
        )

    def _all(self, partitions: list[Partition], checks: StartChecks, pool: Workers) -> list[Recovered]:
        from kafkatool.commands.rows.plans import plans_of

        asks = [ask for one in partitions if (ask := self._ask(one, checks)) is not None]
        return plans_of(asks, pool, self._guest, self._talk, self._leave)

    def _ask(self, partition: Partition, checks: StartChecks) -> RecoverRequest | None:
        from kafkatool.engine.recover.planning import RecoverRequest
        from kafkatool.errors import KafkatoolError

        try:
            return RecoverRequest(partition, self._start.how(partition, checks))
        except KafkatoolError as error:
            self._leave(partition.path, error)
            return None

    def _leave(self, path: str, why: object) -> None:
        self._talk.warn(f"{path}: {why}; left as it is")
        self.exit_code = ExitCode.FAILED

    def _tell_directory(self, home: Home, checks: StartChecks, out: Rows, fmt: Format) -> None:
        for what, reasons in (("refuse", checks.refusals), ("offline", checks.offline)):
            for reason in reasons:
                self._found(no_start=True)
                out.write(_row(home.path, what, None, reason, fmt))
        for note in checks.notes:
            self._talk.warn(note)
        if home.log_dir.was_shut_down_cleanly:
            self._talk.note(
                f"{home.path}: there is a mark of a clean shutdown: a broker would check nothing but "
                "its metadata log; this is what it would do without, and --apply takes the mark away"
            )

    def _tell(self, one: Recovered, out: Rows, fmt: Format, *, is_in_vain: bool) -> None:
        from kafkatool.engine.advice.table import Advice

        replicas = self._start.replicas_at(one.path)
        for event in one.events:
            if event.what == "scan" and fmt is Format.table and not self._talk.verbose:
                continue
            row = _row(one.path, event.what, event.segment, event.message, fmt, replicas)
            last = one.lost_to if event.what == "cut" else event.last_offset
            out.write(
                {**row, "position": event.position, "first_offset": event.first_offset, "last_offset": last}
            )
        if (fate := self._fates.get(os.path.normpath(one.path))) is not None:
            out.write(_row(one.path, fate.what, None, _fate_sentence(one.path, fate), fmt))
            if fate.is_bad:
                self._found(no_start=True)
        if one.first_damage is not None and one.first_damage.is_mendable:
            self._talk.warn(
                f"{one.path}: {one.first_damage.message}: nothing has to be cut there, "
                f"{Advice.RECOVER_MENDING(where=one.path)}"
            )
        for mend in one.mends:
            self._talk.warn(f"{mend.path}: {mend.message}")
        if one.loses or one.mends or one.refusal is not None:
            self._advise(one)
            # What --apply does away with is no finding any more.
            if not self._plan.apply or one.is_beyond_repair or is_in_vain:
                self._found(no_start=not one.loses and not one.mends)
        if one.cuts and self._keep is not None:
            self._salvage(one, out, fmt)

    def _salvage(self, one: Recovered, out: Rows, fmt: Format) -> None:
        from kafkatool.engine.files.disk import Disk
        from kafkatool.engine.recover.salvage import salvage

        assert self._keep is not None
        saved = salvage(one, self._keep, Disk(), self._guest)
        text = f"{saved.batches} good batches in {saved.directory}: for reading, they are no replica"
        row = _row(one.path, "salvage", None, text, fmt)
        out.write({**row, "first_offset": saved.first_offset, "last_offset": saved.last_offset})
        for txn in saved.transactions:
            row = _row(
                one.path, "unprovable", None, f"transaction of producer {txn.producer_id}: {txn.message}", fmt
            )
            out.write({**row, "first_offset": txn.first_offset, "last_offset": txn.last_offset})

    def _found(self, *, no_start: bool) -> None:
        """Records would be lost; or nothing but a start, or the use of a directory."""
        from kafkatool.engine.batches.damage import Severity

        found = Severity.NO_START if no_start else Severity.LOSS
        if self.exit_code is ExitCode.OK and found >= self._fail_on:
            self.exit_code = ExitCode.FOUND


def _fate_sentence(path: str, fate: PartitionFate) -> str:
    from kafkatool.engine.advice.table import Advice

    if fate.home is None:
        return fate.message
    return f"{fate.message}; first: {Advice.MOVE_COPY_HOME(where=path, home=fate.home)}"


def _deleted(home: Home) -> list[Partition]:
    """Partitions that wait to be deleted: a broker loads them too, and may fail on them."""
    from kafkatool.engine.directory.log_dir import PartitionState

    named = {one.partition.path for one in home.partitions}
    return [
        one
        for one in (home.log_dir.partitions if home.is_whole else ())
        if one.state is PartitionState.DELETED and one.path not in named
    ]


def _row(
    path: str,
    what: str,
    segment: int | None,
    message: str,
    fmt: Format,
    replicas: Replicas | None = None,
) -> Row:
    from kafkatool.commands.rows.plans import RECOVERIES, topic_in
    from kafkatool.engine.batches.row_fields import REPLICAS, values

    where = {"directory": path, **topic_in(path), "segment": segment, **values(REPLICAS, replicas)}
    row = RECOVERIES.row(**where, what=what, message=message)
    name = os.path.basename(os.path.normpath(path))
    return row if fmt is Format.ndjson else {**row, "partition_name": name}


class _silence:  # noqa: N801
    """Where rows go that have no place in a CSV of other columns."""

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...
