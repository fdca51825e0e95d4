"""`kafkatool recover`: what a broker would do at its next start, told beforehand and, if wanted, done."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.options import (
    ApplyOpt,
    BackupDirOpt,
    CacheOpt,
    DebugOpt,
    FilesFromOpt,
    FormatOpt,
    MaxRateOpt,
    NoProgressOpt,
    NulOpt,
    OfflineOpt,
    PathsArg,
    QuietOpt,
    RawOpt,
    SetOpt,
    UndoOpt,
    VerboseOpt,
    epilog,
    guest,
    talk,
)
from kafkatool.commands.render import Column, Format, Look, Row, Rows, Talk, iso_time, rows
from kafkatool.errors import ExitCode, UsageError
from kafkatool.format.names import parse_partition_directory

if TYPE_CHECKING:
    from kafkatool.engine.cluster_view import Replicas
    from kafkatool.engine.partitions import Home, NamedPartition
    from kafkatool.engine.recover import Recovered, Recovering
    from kafkatool.engine.source import Guest
    from kafkatool.engine.start_checks import StartChecks

EPILOG = epilog(
    {
        "kafkatool recover /var/lib/kafka/data": "what the next start would scan, cut, delete, or refuse",
        "kafkatool recover /var/lib/kafka/data/orders-0": "the same for one partition",
        "kafkatool recover --apply --backup-dir /mnt/kept /var/lib/kafka/data": "do it, and keep what is cut",
        "kafkatool recover --keep-after-damage /mnt/saved /var/lib/kafka/data/orders-0": "save what it cuts",
        "kafkatool recover --undo /mnt/kept/recover.kafkatool-1 --apply": "go back",
    },
    4,
    5,
)

_SETTINGS = ("index.interval.bytes", "segment.index.bytes")
EVENT_COLUMNS = (
    Column("partition_name", "PARTITION"),
    Column("segment", "SEGMENT", Look.number),
    Column("what", "WHAT"),
    Column("first_offset", "FROM", Look.number),
    Column("last_offset", "TO", Look.number),
    Column("message", "WHY"),
)


def recover(
    paths: PathsArg = None,
    apply: ApplyOpt = False,
    offline: OfflineOpt = False,
    backup_dir: BackupDirOpt = None,
    undo: UndoOpt = None,
    keep_after_damage: Annotated[
        str | None,
        typer.Option(
            "--keep-after-damage",
            metavar="DIR",
            show_default=False,
            help="Copy the good batches behind the damage into this new directory: for reading, no replica.",
        ),
    ] = None,
    settings: SetOpt = None,
    fmt: FormatOpt = Format.table,
    raw: RawOpt = False,
    files_from: FilesFromOpt = None,
    nul: NulOpt = False,
    max_rate: MaxRateOpt = None,
    cache: CacheOpt = None,
    quiet: QuietOpt = False,
    verbose: VerboseOpt = False,
    no_progress: NoProgressOpt = False,
    debug: DebugOpt = False,
) -> None:
    """Tell what a broker does at start-up after an unclean shutdown, and with --apply do it here.

    Which segments it scans, where it cuts, which segments behind the damage it deletes, what becomes of
    .cleaned, .swap and .deleted files, or that it refuses to start, and why. A broker throws away what it
    cuts; here it is kept. With another replica in sync it is better to set this copy aside and let the broker
    fetch it anew. -v shows the steps file by file.
    """
    from kafkatool.commands.plan_rows import undo_journal

    speak = talk(quiet, verbose, no_progress)
    if undo is not None:
        if paths or files_from:
            raise UsageError("--undo takes no PATH: the journal knows what was changed")
        undo_journal(undo, "recover", speak, fmt, offline=offline, do_apply=apply)
        return
    work = _Work(guest(cache, max_rate), speak, settings or [], keep_after_damage)
    homes = work.find(paths or [], files_from, nul)
    for home in homes:
        work.recover(home, fmt, raw, do_apply=apply, offline=offline, backup_dir=backup_dir)
    raise typer.Exit(work.exit_code)


class _Work:
    def __init__(self, how: Guest, speak: Talk, settings: Iterable[str], keep: str | None) -> None:
        from kafkatool.commands.plan_rows import now_ms, parse_settings

        self._guest = how
        self._talk = speak
        self._settings = parse_settings(list(settings), _SETTINGS)
        self._keep = keep
        self._now_ms = now_ms()
        self.exit_code = ExitCode.OK

    def find(self, paths: list[str], files_from: str | None, nul: bool) -> list[Home]:
        from kafkatool.engine.partitions import find_partitions
        from kafkatool.engine.paths import FileTarget, expand

        expansion = expand(paths, files_from=files_from, nul=nul, allow_stdin=False)
        for target in expansion.targets:
            if isinstance(target, FileTarget):
                raise UsageError(f"{target.path}: name the partition or the log directory, not a file")
        found = find_partitions(expansion.targets, self._guest)
        for problem in expansion.problems:
            self._talk.warn(problem)
            self.exit_code = ExitCode.FAILED
        if self._keep is not None and sum(len(home.partitions) for home in found.homes) != 1:
            raise UsageError("--keep-after-damage takes one partition")
        return found.homes

    def recover(
        self, home: Home, fmt: Format, raw: bool, *, do_apply: bool, offline: bool, backup_dir: str | None
    ) -> None:
        from kafkatool.commands.plan_rows import STEP_COLUMNS, conclude, step_row, write_row
        from kafkatool.engine.plan import Applying
        from kafkatool.engine.recover import as_plan
        from kafkatool.engine.start_checks import check_start

        checks = check_start(home.log_dir, self._guest)
        self._read_cluster(home)
        done = self._all(home, checks)
        with rows(fmt, EVENT_COLUMNS, raw=raw) as out:
            self._tell_directory(home, checks, out, fmt)
            for one in done:
                self._tell(one, out, fmt)
        plan = as_plan(home.path, [] if checks.refusals else done)
        show_steps = fmt is Format.ndjson or (fmt is Format.table and self._talk.verbose)
        with rows(fmt, STEP_COLUMNS, raw=raw) if fmt is not Format.csv else _silence() as out:
            for step in plan.steps if show_steps else ():
                size = os.path.getsize(step.path) if os.path.lexists(step.path) else None
                write_row(out, step_row(step, size), fmt)
            how = Applying(self._now_ms, offline, backup_dir)
            conclude(plan, how, self._talk, out, fmt, do_apply=do_apply)

    def _read_cluster(self, home: Home) -> None:
        """Who else has these partitions, by the metadata in this log directory."""
        from kafkatool.engine.cluster_view import read_cluster_view
        from kafkatool.engine.logdir import PartitionState

        partitions = home.log_dir.partitions
        metadata = [one for one in partitions if one.state is PartitionState.METADATA]
        self._cluster = read_cluster_view(metadata, self._guest)
        self._node = home.log_dir.meta.node_id if home.log_dir.meta else None
        self._topic_ids = {os.path.normpath(one.path): one.topic_id for one in partitions}

    def _replicas(self, path: str) -> Replicas | None:
        named = parse_partition_directory(os.path.basename(os.path.normpath(path)))
        if named is None:
            return None
        topic_id = self._topic_ids.get(os.path.normpath(path))
        return self._cluster.replicas_of(named.topic, topic_id, named.partition)

    def _advise(self, one: Recovered) -> None:
        """Where another replica is in sync, surgery is the second best."""
        known = self._replicas(one.path)
        others = [node for node in known.isr if node != self._node] if known else []
        if known and others:
            age = iso_time(known.metadata_ms)
            nodes = ", ".join(map(str, others))
            self._talk.warn(
                f"{one.path}: by the metadata of {age} node {nodes} has it in sync: better set this copy "
                "aside and let the broker fetch it anew"
            )

    def _all(self, home: Home, checks: StartChecks) -> list[Recovered]:
        from kafkatool.engine.logdir import PartitionState
        from kafkatool.engine.recover import plan_recover
        from kafkatool.engine.topic_settings import topic_settings
        from kafkatool.errors import KafkatoolError

        known = topic_settings(home.path, self._guest)
        done = []
        with self._talk.progress("reading", sum(named.log_bytes for named in home.partitions)) as advance:
            for named in home.partitions:
                if named.partition.state in (PartitionState.METADATA, PartitionState.DELETED):
                    continue
                try:
                    done.append(plan_recover(named.partition, self._how(named, known, checks), self._guest))
                except (FileNotFoundError, KafkatoolError) as error:
                    self._talk.warn(f"{named.partition.path}: {error}; left as it is")
                    self.exit_code = ExitCode.FAILED
                advance(named.log_bytes)
        return done

    def _how(
        self, named: NamedPartition, known: dict[str, dict[str, str]], checks: StartChecks
    ) -> Recovering:
        from kafkatool.engine.recover import Recovering
        from kafkatool.engine.topic_settings import setting

        partition = named.partition
        key = (partition.topic or "", partition.partition or 0)
        interval, index_bytes = (
            self._settings.get(name) or setting(known, partition.topic, name) for name in _SETTINGS
        )
        return Recovering(
            now_ms=self._now_ms,
            recovery_point=checks.recovery_points.get(key, 0),
            log_start=checks.log_starts.get(key, 0),
            interval=int(interval or 4096),
            max_index_bytes=int(index_bytes or 10 << 20),
        )

    def _tell_directory(self, home: Home, checks: StartChecks, out: Rows, fmt: Format) -> None:
        for reason in checks.refusals:
            self._found()
            out.write(_row(home.path, "refuse", None, reason, fmt))
        for note in checks.notes:
            self._talk.warn(note)
        if home.log_dir.was_shut_down_cleanly:
            self._talk.note(
                f"{home.path}: there is a mark of a clean shutdown: a broker would check nothing; this is "
                "what it would do without, and --apply takes the mark away"
            )

    def _tell(self, one: Recovered, out: Rows, fmt: Format) -> None:
        for event in one.events:
            if event.what == "scan" and fmt is Format.table and not self._talk.verbose:
                continue
            row = _row(one.path, event.what, event.segment, event.message, fmt, self._replicas(one.path))
            last = one.lost_to if event.what == "cut" else event.last_offset
            out.write(
                {**row, "position": event.position, "first_offset": event.first_offset, "last_offset": last}
            )
        if one.loses or one.refusal is not None:
            self._found()
            self._advise(one)
        if one.loses and self._keep is not None:
            self._salvage(one, out, fmt)

    def _salvage(self, one: Recovered, out: Rows, fmt: Format) -> None:
        from kafkatool.engine.fs import Disk
        from kafkatool.engine.salvage import salvage

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

    def _found(self) -> None:
        if self.exit_code is ExitCode.OK:
            self.exit_code = ExitCode.FOUND


def _row(
    path: str,
    what: str,
    segment: int | None,
    message: str,
    fmt: Format,
    replicas: Replicas | None = None,
) -> Row:
    name = os.path.basename(os.path.normpath(path))
    named = parse_partition_directory(name)
    row: Row = {
        "kind": "recovery",
        "directory": path,
        "topic": named.topic if named else None,
        "partition": named.partition if named else None,
        "segment": segment,
        "what": what,
        "position": None,
        "first_offset": None,
        "last_offset": None,
        "message": message,
        "replicas": list(replicas.replicas) if replicas else None,
        "isr": list(replicas.isr) if replicas else None,
        "leader": replicas.leader if replicas else None,
        "metadata_ms": replicas.metadata_ms if replicas else None,
    }
    return row if fmt is Format.ndjson else {**row, "partition_name": name}


class _silence:  # noqa: N801
    """Where rows go that have no place in a CSV of other columns."""

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...
