"""`kafkatool compact`: what the log cleaner of a broker would keep, and the same done."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

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
from kafkatool.commands.screen.recorded_talk import RecordedRows, RecordedTalk
from kafkatool.commands.screen.table import Rows, rows
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import BytesFormat, Format
from kafkatool.errors import ExitCode, KafkatoolError, Refused, UsageError

if TYPE_CHECKING:
    from kafkatool.commands.compact.tasks import CompactTold
    from kafkatool.commands.compact.telling import CompactRequest
    from kafkatool.engine.batches.damage import Severity
    from kafkatool.engine.cluster.effective_settings import Sources, TopicSettings
    from kafkatool.engine.compaction.cleanable_log import CleanableLog
    from kafkatool.engine.compaction.key_room import KeyRoom
    from kafkatool.engine.compaction.passes import Compacted
    from kafkatool.engine.directory.selection import Home, NamedPartition, Selection
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.jobs.worker_pool import Workers

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
    from kafkatool.engine.directory.selection import most_workers

    speak = common.talk()
    if plan.undo_instead(where, "compact", speak, fmt):
        return
    how.refuse_nonsense(plan)
    if plan.apply and broker.at is not None:
        raise UsageError("--at is for telling: --apply goes by the clock")
    if plan.apply and where_to_run.spark is not None:
        raise UsageError("--spark tells and writes copies: --apply goes without it")
    work = _CompactRun(common.guest(), speak, plan, broker, how, fmt=fmt, raw=raw, bytes_as=bytes_as)
    work.fail_on = severity(fail_on)
    found = work.find(where)
    pool = where_to_run.workers(1 if plan.apply else jobs, most_workers(found.homes), speak, "compact", None)
    with pool as (workers, _advance):
        # Processes of this machine share the memory; on a cluster everyone has their own.
        sharing = workers.count if where_to_run.spark is None else 1
        work.run(found, workers, memory=how.memory_bytes // sharing)
    raise typer.Exit(work.exit_code)


class _CompactRun:
    def __init__(
        self,
        guest: Guest,
        speak: Talk,
        plan: PlanOptions,
        broker: BrokerOptions,
        how: PassOptions,
        *,
        fmt: Format,
        raw: bool,
        bytes_as: BytesFormat,
    ) -> None:
        from kafkatool.commands.rows.plans import now_ms

        self._guest, self._talk = guest, speak
        self._plan, self._broker, self._how = plan, broker, how
        self._fmt, self._raw, self._bytes_as = fmt, raw, bytes_as
        self._now_ms = now_ms()
        self._at_ms = broker.moment(self._now_ms)
        self.exit_code = ExitCode.OK
        self.fail_on: Severity

    def find(self, where: PathOptions) -> Selection:
        """The partitions that were named; what could not be read of them is said."""
        from kafkatool.engine.directory.selection import Selection

        expansion = where.directories()
        found = Selection(expansion.targets, self._guest)
        for problem in [*expansion.problems, *found.problems]:
            self._fail(problem)
        is_number = self._broker.watermark(None)[0] is not None
        if is_number and sum(len(home.partitions) for home in found.homes) != 1:
            raise UsageError("--high-watermark N takes one partition")
        self._named = expansion.named
        return found

    def run(self, found: Selection, pool: Workers, *, memory: int) -> None:
        from kafkatool.commands.compact.telling import CompactContext, Telling
        from kafkatool.commands.rows.compaction import PASS_COLUMNS, STAGE_COLUMNS, WASTE_COLUMNS
        from kafkatool.commands.rows.plans import name_leftovers
        from kafkatool.engine.compaction.key_room import KeyRoom
        from kafkatool.engine.transactions.verdicts import TransactionVerdicts

        log_dirs = [home.log_dir for home in found.homes]
        paths, at_ms = [*self._named, self._broker.config or ""], self._at_ms if self._broker.at else None
        verdicts = TransactionVerdicts(log_dirs, paths, self._guest, at_ms)
        is_all_counted = self._how.key is None and self._how.top is None
        self._room = KeyRoom(memory, is_all_counted=is_all_counted)
        self._guest = self._guest.one_of(pool.count)
        asking = CompactContext(self._at_ms, self._guest, verdicts)
        self._telling = Telling(asking, self._talk, self._fmt, self._bytes_as)
        columns = STAGE_COLUMNS if self._how.key is not None else PASS_COLUMNS
        with rows(self._fmt, WASTE_COLUMNS if self._how.top else columns, raw=self._raw) as out:
            asked = [self._compacted(home, found, self._named) for home in found.homes]
            for home, some in zip(found.homes, asked, strict=True):
                how = self._plan.applying(self._now_ms)
                name_leftovers(home, how, self._talk, do_apply=self._plan.apply)
                self._home(home, some, out, pool)

    def _fail(self, message: str) -> None:
        self._talk.warn(message)
        self.exit_code = ExitCode.FAILED

    def _found(self, message: str, severity: Severity) -> None:
        self._talk.warn(message)
        if self.exit_code is ExitCode.OK and severity >= self.fail_on:
            self.exit_code = ExitCode.FOUND

    def _compacted(self, home: Home, found: Selection, paths: list[str]) -> list[CompactRequest]:
        """The compacted partitions of a directory; with --apply, what must not be done is refused here."""
        from kafkatool.commands.compact.telling import OF_BROKERS, CompactRequest
        from kafkatool.engine.directory.log_dir import PartitionState

        sources = self._broker.sources(home, found, paths, self._plan.settings or [], self._guest)
        asked = []
        for named in home.partitions:
            if named.partition.state is not PartitionState.ACTIVE:
                continue
            try:
                settings = sources.of(named.partition.topic)
            except UsageError:
                raise
            except KafkatoolError as error:
                self._fail(f"{named.partition.path}: {error}; left as it is")
                continue
            if not settings.config.is_compacted:
                self._talk.note(f"{named.partition.directory}: is not compacted, by cleanup.policy")
                continue
            brokers = {name: sources.broker(name) for name in OF_BROKERS}
            asked.append(CompactRequest(named, settings, brokers))
        if self._plan.apply and asked:
            self._refuse(home, asked)
        self._warn_of_old_metadata(sources, asked)
        return asked

    def _warn_of_old_metadata(self, sources: Sources, asked: list[CompactRequest]) -> None:
        from kafkatool.commands.compact.telling import DECISIVE
        from kafkatool.commands.rows.settings import early_end_sentence

        topics = [one.settings.topic for one in asked if one.settings.uncertain(DECISIVE)]
        if sources.metadata_end is not None and topics:
            self._talk.warn(early_end_sentence(sources.metadata_end, topics))

    def _refuse(self, home: Home, asked: list[CompactRequest]) -> None:
        """Refuse before anything is read or written."""
        from kafkatool.engine.files.lock import refuse_if_in_use

        refuse_if_in_use(home.path, offline=self._plan.offline, now_ms=self._now_ms)
        for one in asked:
            _refuse_guesses(one.named.partition.directory, one.settings, self._watermark(home, one)[1])

    def _watermark(self, home: Home, one: CompactRequest) -> tuple[int | None, bool]:
        return self._broker.watermark(home.log_dir.high_watermarks.get(one.key))

    def _home(self, home: Home, asked: list[CompactRequest], out: Rows, pool: Workers) -> None:
        from kafkatool.commands.compact.tasks import CompactPartition, clean_on
        from kafkatool.engine.jobs.in_order import side_by_side

        told: set[str | None] = set()
        asks = [CompactPartition(self, home, one, self._room) for one in asked] if pool.count > 1 else []
        elsewhere = side_by_side(pool, [clean_on(pool, ask) for ask in asks])
        for one in asked:
            topic = one.named.partition.topic
            if topic not in told and self._how.key is None and self._how.top is None:
                self._telling.settings(one, out)
                told.add(topic)
            if asks:
                self._take_over(next(elsewhere), out)
            else:
                self.one_partition(home, one, out)

    def one_partition(self, home: Home, one: CompactRequest, out: Rows) -> None:
        """Clean one, and tell what stands in the way."""
        from kafkatool.engine.batches.damage import Severity
        from kafkatool.engine.compaction.cleanable_log import CleanerStops

        try:
            self._partition(home, one, out)
        except CleanerStops as error:
            self._found(f"{error}: the cleaner of a broker would give up here", Severity.DEGRADED)
        except (Refused, UsageError):
            raise
        except (FileNotFoundError, KafkatoolError) as error:
            self._fail(f"{one.named.partition.path}: {error}; left as it is")

    def told_of(self, home: Home, one: CompactRequest, room: KeyRoom) -> CompactTold:
        """Clean one with other room for keys, and keep what is said and written. Raises KeysDoNotFit."""
        from kafkatool.commands.compact.tasks import CompactTold

        talk, written = RecordedTalk(self._talk.quiet, self._talk.verbose), RecordedRows()
        self._talk, self._room, self.exit_code = talk, room, ExitCode.OK
        self._telling = self._telling.to(talk)
        self.one_partition(home, one, written)
        return CompactTold(talk, written, self.exit_code)

    def _take_over(self, told: CompactTold, out: Rows) -> None:
        told.talk.say_to(self._talk)
        told.written.write_to(out)
        if told.code is not ExitCode.OK and self.exit_code is not ExitCode.FAILED:
            self.exit_code = told.code

    def _partition(self, home: Home, one: CompactRequest, out: Rows) -> None:
        from kafkatool.engine.compaction.cleanable_log import open_cleanable

        partition = one.named.partition
        _refuse_leftovers(one.named)
        self._gather_evidence(home, one.named)
        watermark, is_assumed = self._watermark(home, one)
        if is_assumed:
            self._talk.note(f"{partition.directory}: no high watermark: the end of the log stands in")
        log = open_cleanable(
            partition.path,
            log_start=one.named.log_start,
            high_watermark=watermark,
            now_ms=self._at_ms,
            guest=self._guest,
        )
        self._clean(home, one, log, out)

    def _gather_evidence(self, home: Home, named: NamedPartition) -> None:
        """Remember what it is compacted from; the checkpoint as it is now, others may be applied already."""
        from kafkatool.engine.compaction.placing import CLEANER_CHECKPOINT
        from kafkatool.engine.plan.evidence import gather_evidence

        self._evidence = gather_evidence(
            home.log_dir, [named.partition], with_content=self._plan.apply
        ).instead(os.path.join(home.path, CLEANER_CHECKPOINT))

    def _clean(self, home: Home, one: CompactRequest, log: CleanableLog, out: Rows) -> None:
        from kafkatool.commands.line.arguments import parse_bytes
        from kafkatool.engine.compaction.cleaner import Cleaning
        from kafkatool.engine.compaction.key_life import KeyLife
        from kafkatool.engine.compaction.passes import PassWork, compact, drop
        from kafkatool.engine.compaction.placing import read_checkpoint
        from kafkatool.engine.compaction.waste import Waste
        from kafkatool.engine.files.disk import Disk

        name, cleaner = one.named.partition.directory, one.cleaner
        checkpoints = {(at.topic, at.partition): at.offset for at in read_checkpoint(home.path, self._guest)}
        how = Cleaning(one.settings.config, self._at_ms, cleaner.capacity, self._guest, self._room)
        life = KeyLife(parse_bytes(self._how.key)) if self._how.key is not None else None
        waste = Waste() if self._how.top is not None else None
        with self._work_directory(home, name) as parent:
            work = PassWork(Disk(), parent, name)
            watching = life or waste
            watch = watching.watch if watching is not None else None
            done = compact(log, checkpoints.get(one.key), how, work, self._how.most, watch)
            try:
                if life is not None:
                    self._telling.key(one.named, log, life, out)
                elif waste is not None:
                    self._telling.waste(one.named, waste, self._how.top or 0, out)
                else:
                    self._telling.passes(home, one, done, out)
                    self._place(home, one.named, done, out)
            finally:
                drop(work.files, done.directory)

    @contextmanager
    def _work_directory(self, home: Home, name: str) -> Iterator[str | None]:
        """Where passes write: where the copy is wanted, or beside the log directory."""
        from kafkatool.engine.plan.steps import new_run_id, refuse_backup_dir
        from kafkatool.engine.plan.work_directory import work_directory

        if self._how.write_to is not None:
            refuse_backup_dir(self._how.write_to, home.path)
            os.makedirs(self._how.write_to, exist_ok=True)
            if os.path.lexists(os.path.join(self._how.write_to, name)):
                raise Refused(f"{os.path.join(self._how.write_to, name)}: is there already")
            yield self._how.write_to
        elif self._plan.apply or self._how.most != 1:
            beside = work_directory(home.path, new_run_id()) if self._plan.apply else None
            with beside or tempfile.TemporaryDirectory(prefix="kafkatool-compact-") as directory:
                yield directory
        else:
            yield None

    # --- doing ----------------------------------------------------------------------------------------

    def _place(self, home: Home, named: NamedPartition, done: Compacted, out: Rows) -> None:
        from kafkatool.commands.rows.compaction import checksum_sentence
        from kafkatool.engine.batches.damage import Severity
        from kafkatool.engine.compaction.placing import write_partition
        from kafkatool.engine.files.disk import Disk

        partition = named.partition
        is_placed = self._how.write_to is not None or self._plan.apply
        found = (checksum_sentence(one.cleaned.counts) for one in done.passes)
        if (words := next(filter(None, found), None)) is not None:
            if is_placed:
                raise Refused(f"{words}; nothing was written")
            self._found(words, Severity.LOSS)
        if self._how.write_to is not None:
            target = os.path.join(self._how.write_to, partition.directory)
            write_partition(done, partition.path, target, Disk(), self._guest)
            self._talk.note(f"{partition.directory}: written to {target}")
        elif self._plan.apply and done.passes:
            self._apply(home, named, done, out)

    def _apply(self, home: Home, named: NamedPartition, done: Compacted, out: Rows) -> None:
        from kafkatool.commands.rows.plans import conclude
        from kafkatool.engine.compaction.placing import plan_swap

        partition = named.partition
        plan = plan_swap(done, partition.path, home.path, partition.key, self._guest)
        plan = replace(plan, evidence=self._evidence)
        conclude(plan, self._plan.applying(self._now_ms), self._talk, out, self._fmt, do_apply=True)


def _refuse_leftovers(named: NamedPartition) -> None:
    from kafkatool.engine.advice.table import Advice
    from kafkatool.engine.directory.log_dir import SegmentState

    unfinished = (SegmentState.CLEANED, SegmentState.SWAP)
    if any(one.state in unfinished for one in named.partition.segments):
        raise KafkatoolError(f"a cleaning was interrupted: {Advice.RECOVER(where=named.partition.path)}")


def _refuse_guesses(name: str, settings: TopicSettings, watermark_is_assumed: bool) -> None:
    """Nothing is removed by a mere default."""
    from kafkatool.commands.compact.telling import DECISIVE

    if guessed := settings.uncertain(DECISIVE):
        names = ", ".join(one.name for one in guessed)
        if settings.metadata_end is not None:
            raise Refused(f"{name}: {names}: {settings.metadata_end.reason}")
        raise Refused(f"{name}: {names}: only a default is known: say --set or --config")
    if watermark_is_assumed:
        raise Refused(f"{name}: the high watermark is not known: say --high-watermark N")
