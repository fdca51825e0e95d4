"""Simulate a broker's start on all its directories and partitions: what stops it, and what it loses."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import CHECKPOINTS, Effect
from kafkatool.engine.directory.log_dir import LogDir, Partition
from kafkatool.engine.doctor.absences import absence_symptoms, no_directory_is_lost
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.doctor.partition_case import PartitionCase
from kafkatool.engine.doctor.remedies import for_the_top, format_directory
from kafkatool.engine.doctor.symptoms import Chart, Symptom
from kafkatool.engine.files.source import Guest
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.recover.planning import plan_recover
from kafkatool.engine.recover.result import Recovered
from kafkatool.engine.recover.start_checks import StartChecks, StartProblem, check_start
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.log_dir import read_checkpoint
from kafkatool.engine.verify.side_files import state_damage
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.kinds import kind_of

_BY_EFFECT = {
    Effect.REFUSE: Severity.NO_START,
    Effect.LEADERLESS: Severity.NO_START,
    Effect.OFFLINE: Severity.NO_START,
    Effect.NOTE: Severity.DEGRADED,
}


@dataclass(slots=True)
class Scans:
    """What a start scans in one log directory: bytes per partition that it does not trust."""

    log_dir: str
    sizes: list[int] = field(default_factory=list)
    segments: list[tuple[str, int]] = field(default_factory=list)
    """Path and size of each scanned segment."""


class BrokerLoading:
    """A simulated start on all directories of one broker."""

    def __init__(
        self, broker: Broker, start: BrokerStart, chart: Chart, guest: Guest, *, is_quick: bool
    ) -> None:
        self.scans: list[Scans] = []
        self._broker = broker
        self._start = start
        self._chart = chart
        self._guest = guest
        self._is_quick = is_quick

    def follow(self, advance: Callable[[int], None]) -> None:
        """Go through everything as a broker does, and add what is found to the chart."""
        self._missing_directories()
        self._chart.symptoms += absence_symptoms(self._broker, self._start)
        for log_dir in self._broker.log_dirs:
            node_id = self._broker.node_id
            release = self._start.cluster.registered_release(node_id)
            checks = check_start(log_dir, self._guest, self._broker.log_dirs, node_id, release)
            self._chart.notes += checks.remarks
            for problem in checks.problems:
                self._tell_top(log_dir, problem)
            scans = Scans(log_dir.path)
            self.scans.append(scans)
            cleaner = read_checkpoint(log_dir.files, kinds.CLEANER_OFFSETS, self._guest)
            for partition in log_dir.partitions:
                one = self._load(log_dir, checks, partition)
                if one is not None:
                    self._remember_scans(scans, one)
                    PartitionCase(self._broker, self._start, self._chart, log_dir, partition).judge(
                        one, checks, cleaner
                    )
                advance(_log_size(partition))

    # --- directories --------------------------------------------------------------------------------------

    def _missing_directories(self) -> None:
        """Report configured directories that are missing or empty: KRaft needs meta.properties in each."""
        if self._broker.configuration is None:
            return
        bare = [one.path for one in self._broker.log_dirs if not one.files and not one.partitions]
        for path, why in [*self._broker.missing.items(), *((path, "is empty") for path in bare)]:
            if why == os.strerror(13):
                self._chart.failures.append(f"{path}: {why}")
                continue
            is_kraft = self._broker.setting("process.roles") is not None
            text = f"{why}: there is no meta.properties: a KRaft node does not start without it"
            is_new = no_directory_is_lost(self._broker, self._start)
            if not is_new:
                text += "; is its volume mounted? The cluster may count on what it holds"
            damage = state_damage(
                FindingClass.MISSING_FILE, text, "a log directory", why, severity=Severity.NO_START
            )
            advice = format_directory(self._broker) if is_new else None
            finding = Finding(path, None, None, damage, advice)
            if is_kraft:
                self._chart.symptoms.append(Symptom(finding, Effect.REFUSE, path))

    def _tell_top(self, log_dir: LogDir, problem: StartProblem) -> None:
        kind = kind_of(os.path.basename(problem.path)).kind
        what = FindingClass.BAD_CHECKPOINT if kind in CHECKPOINTS else FindingClass.BAD_METADATA
        if problem.other is not None:
            what = FindingClass.OVERLAP
        damage = state_damage(what, problem.message, "", "", severity=_BY_EFFECT[problem.effect])
        finding = Finding(problem.path, None, None, damage, for_the_top(problem, self._broker, self._start))
        self._chart.symptoms.append(Symptom(finding, problem.effect, log_dir.path))

    # --- partitions ---------------------------------------------------------------------------------------

    def _load(self, log_dir: LogDir, checks: StartChecks, partition: Partition) -> Recovered | None:
        is_clean = log_dir.was_shut_down_cleanly or self._is_quick
        try:
            how = self._start.how(partition, checks, is_clean=is_clean)
            return plan_recover(partition, how, self._guest)
        except (FileNotFoundError, KafkatoolError) as error:
            text = str(error)
            is_named = partition.path in text
            self._chart.failures.append(text if is_named else f"{partition.path}: {text}")
            return None

    def _remember_scans(self, scans: Scans, one: Recovered) -> None:
        events = [event for event in one.events if event.what == "scan"]
        if events:
            scans.sizes.append(sum(event.position or 0 for event in events))
        for event in events:
            name = event.message.partition(":")[0]
            scans.segments.append((os.path.join(one.path, name), event.position or 0))


def _log_size(partition: Partition) -> int:
    return sum(segment.log.size for segment in partition.live_segments if segment.log)
