"""Simulate a broker's start-up over log directories: what it would do, what it would lose, and the plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Severity, SeverityMet
from kafkatool.engine.cluster.broker_dirs import configured_brokers, siblings
from kafkatool.engine.cluster.topic_settings import NumberSettings
from kafkatool.engine.cluster.view import Replicas
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.directory.selection import Home, Selection
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.plan.evidence import gather_evidence
from kafkatool.engine.plan.in_order import plans_of
from kafkatool.engine.plan.leftovers import leftovers_named
from kafkatool.engine.plan.steps import Applying, Plan
from kafkatool.engine.recover.assignment import PartitionFate
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.recover.planning import RecoverRequest, as_plan
from kafkatool.engine.recover.result import Recovered
from kafkatool.engine.recover.salvage import Salvaged, salvage
from kafkatool.engine.recover.start_checks import StartChecks, check_start
from kafkatool.errors import KafkatoolError


class StartedDirectory(NamedTuple):
    """What a start does with one log directory, and the plan that does the same."""

    log_dir: LogDir
    checks: StartChecks
    start: BrokerStart
    partitions: list[Partition]
    done: list[Recovered]
    plan: Plan


class StartEnds(NamedTuple):
    """Why a broker does not start (`refuse`), or takes a log directory offline (`offline`)."""

    log_dir: str
    what: str
    reason: str


class PartitionRecovered(NamedTuple):
    """What a start does with one partition, and what the metadata says about it, if known."""

    recovered: Recovered
    fate: PartitionFate | None
    replicas: Replicas | None


class BetterElsewhere(NamedTuple):
    """Other nodes that have every committed record of a partition whose copy here is damaged."""

    path: str
    metadata_ms: int
    nodes: list[int]
    is_in_sync: bool


class PartitionSalvaged(NamedTuple):
    """What was copied of the end of a partition that a start would cut off."""

    path: str
    saved: Salvaged


RecoveryEvent = (
    Note | Caution | SeverityMet | StartEnds | PartitionRecovered | BetterElsewhere | PartitionSalvaged
)


@dataclass(frozen=True, slots=True)
class RecoveryRun:
    """Simulates brokers' start-ups for the partitions that were found."""

    found: Selection
    named: list[str]
    """The paths on the command line, which may include broker configuration files."""
    settings: NumberSettings
    how: Applying
    is_applied: bool
    guest: Guest
    keep: str | None = None
    """Where to copy what a start would discard after damage."""

    def start(
        self, home: Home, pool: Workers, advance: Callable[[int], None]
    ) -> Generator[Caution | Failure | StartedDirectory, None, None]:
        """Examine one log directory and its partitions as a start does."""
        log_dirs = [one.log_dir for one in self.found.homes]
        log_dirs, node_id = siblings(home.log_dir, log_dirs, configured_brokers(self.named))
        checks = check_start(home.log_dir, self.guest, log_dirs, node_id)
        start = BrokerStart(log_dirs, self.guest, self.how.now_ms, self.settings)
        looked_at = [named.partition.path for named in home.partitions]
        yield from leftovers_named(home.path, looked_at, self.how, is_applied=self.is_applied)
        partitions = _loaded(home)
        evidence = gather_evidence(home.log_dir, partitions, with_content=self.is_applied)
        asks = []
        for partition in partitions:
            try:
                asks.append(RecoverRequest(partition, start.how(partition, checks)))
            except KafkatoolError as error:
                yield Failure(f"{partition.path}: {error}; left as it is")
        done = yield from plans_of(pool, asks, self.guest, advance)
        plan = as_plan(home.path, [] if checks.is_in_vain else done)
        yield StartedDirectory(
            home.log_dir, checks, start, partitions, done, replace(plan, evidence=evidence)
        )

    def outcome(self, found: StartedDirectory) -> Generator[RecoveryEvent, None, None]:
        """Yield the result of each partition, and copy good batches after damage if `keep` is set."""
        log_dir, checks = found.log_dir, found.checks
        for what, reasons in (("refuse", checks.refusals), ("offline", checks.offline)):
            for reason in reasons:
                yield StartEnds(log_dir.path, what, reason)
                yield SeverityMet(Severity.NO_START)
        for note in checks.notes:
            yield Caution(note)
        if log_dir.was_shut_down_cleanly:
            yield Note(
                f"{log_dir.path}: has the mark of a clean shutdown, so a broker would check only its "
                "metadata log; this is what it would do without the mark, which --apply removes"
            )
        by_path = {os.path.normpath(one.path): one for one in found.partitions}
        for one in found.done:
            partition = by_path.get(os.path.normpath(one.path))
            fate = None if partition is None else found.start.fate(partition, log_dir)
            yield PartitionRecovered(one, fate, found.start.replicas_at(one.path))
            if fate is not None and fate.is_bad:
                yield SeverityMet(Severity.NO_START)
            yield from self._judged(one, found)
            if one.cuts and self.keep is not None:
                yield PartitionSalvaged(one.path, salvage(one, self.keep, Disk(), self.guest))

    def _judged(self, one: Recovered, found: StartedDirectory) -> Iterator[RecoveryEvent]:
        if one.first_damage is not None and one.first_damage.is_mendable:
            mending = Advice.RECOVER_MENDING(where=one.path)
            yield Caution(f"{one.path}: {one.first_damage.message}: nothing has to be cut there, {mending}")
        for mend in one.mends:
            yield Caution(f"{mend.path}: {mend.message}")
        if one.loses or one.mends or one.refusal is not None:
            yield from _better_elsewhere(one, found)
            # A problem that this run repairs is no longer a finding.
            if not self.is_applied or one.is_beyond_repair or found.checks.is_in_vain:
                yield SeverityMet(Severity.LOSS if one.loses or one.mends else Severity.NO_START)


def _loaded(home: Home) -> list[Partition]:
    """Return the partitions that a broker loads: with a whole directory, also those awaiting deletion."""
    meant = [named.partition for named in home.partitions]
    paths = {one.path for one in meant}
    listed = home.log_dir.partitions if home.is_whole else ()  # else do not list all of it
    deleted = [one for one in listed if one.state is PartitionState.DELETED]
    return [*meant, *(one for one in deleted if one.path not in paths)]


def _better_elsewhere(one: Recovered, found: StartedDirectory) -> Iterator[BetterElsewhere]:
    """Yield the other replicas that have every committed record: copying one is better than repair."""
    known = found.start.replicas_at(one.path)
    node_id = found.log_dir.meta.node_id if found.log_dir.meta else None
    if known is None:
        return
    in_sync, eligible = known.others_in_sync(node_id), known.others_eligible(node_id)
    if in_sync or eligible:
        yield BetterElsewhere(one.path, known.metadata_ms, list(in_sync or eligible), bool(in_sync))
