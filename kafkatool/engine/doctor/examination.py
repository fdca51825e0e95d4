"""Examine one broker's directories and its host, and give a verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.broker.owner_checks import holds_metadata
from kafkatool.engine.directory.log_dir import LogDir, tell_problems
from kafkatool.engine.directory.targets import LogDirTarget
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.doctor.limits import limit_symptoms, read_limits
from kafkatool.engine.doctor.loading import BrokerLoading, Scans
from kafkatool.engine.doctor.partition_case import is_spare
from kafkatool.engine.doctor.permissions import find_user, permission_symptoms
from kafkatool.engine.doctor.recovery_time import RecoveryTime, estimate, measured_rate
from kafkatool.engine.doctor.symptoms import Chart, StartVerdict, Symptom
from kafkatool.engine.doctor.volumes import mount_symptoms, space_symptoms
from kafkatool.engine.files.lock import lock_holder
from kafkatool.engine.files.object_storage import is_remote
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.transactions.verdicts import TransactionVerdicts
from kafkatool.engine.verify.verification import Verification, VerifyRequest

_SAMPLE = 64 << 20
"""Bytes to sample if no share is given."""
_LEAST_TAIL = 1 << 20
"""Bytes at the end of each log that are always searched for transactions."""


@dataclass(frozen=True, slots=True)
class DoctorRequest:
    """What to examine, and how."""

    now_ms: int
    guest: Guest = field(default_factory=Guest)
    user: str | None = None
    sample: float | None = None
    """Share of the logs to sample; None: as much as takes little time."""
    is_quick: bool = False
    """Scan nothing: what a scan would cut stays unknown."""
    is_elsewhere: bool = False
    """This is not the broker's host."""
    nofile: int | None = None
    max_map_count: int | None = None
    beside: Sequence[LogDir] = ()
    """Log directories named together with this broker's: they may show how a transaction ended."""


@dataclass(slots=True)
class Diagnosis:
    """The result of an examination."""

    broker: Broker
    verdict: StartVerdict
    chart: Chart
    pid: int | None = None
    """The process that holds the directories; 0 if it cannot be determined."""
    partitions: int = 0
    size: int = 0
    sampled_size: int = 0
    read_rate: float | None = None
    recovery: RecoveryTime | None = None
    """None if nothing has to be scanned."""
    offline: list[str] = field(default_factory=list)

    def count(self, severity: Severity) -> int:
        return sum(one.finding.damage.severity is severity for one in self.chart.symptoms)

    @property
    def worst(self) -> Severity | None:
        return max((one.finding.damage.severity for one in self.chart.symptoms), default=None)


def log_size(broker: Broker) -> int:
    """Return the size of all logs, the unit of progress."""
    return sum(
        segment.log.size
        for log_dir in broker.log_dirs
        for partition in log_dir.partitions
        for segment in partition.live_segments
        if segment.log is not None
    )


def examine(
    broker: Broker, asked: DoctorRequest, advance: Callable[[int], None] = lambda size: None
) -> Diagnosis:
    """Run all checks; raise UsageError for an unknown user."""
    chart = Chart()
    holders = {one.path: lock_holder(one.path) for one in broker.log_dirs if not is_remote(one.path)}
    pid = next((holder for holder in holders.values() if holder is not None), None)
    scans: list[Scans] = []
    for log_dir in broker.log_dirs:
        tell_problems(log_dir.problems, chart.notes, chart.failures)
    # Measured first: whatever is read before may then come from a cache of the volume.
    rate = None if asked.is_elsewhere or pid is not None else measured_rate(_logs(broker), asked.guest)
    if pid is None:
        scans = _follow(broker, asked, chart, advance)
    sampled = _sample(broker, asked, chart, is_alive=pid is not None)
    _transactions(broker, asked, chart, is_alive=pid is not None)
    _look_around(broker, asked, chart, scans, pid)
    found = Diagnosis(broker, _verdict(broker, chart, pid), chart, pid)
    found.partitions = sum(len(one.partitions) for one in broker.log_dirs)
    found.size, found.sampled_size = log_size(broker), sampled
    found.offline = chart.offline(broker.paths)
    found.read_rate = rate
    if any(one.sizes for one in scans):
        found.recovery = estimate(scans, broker.recovery_threads, rate)
    return found


def _verdict(broker: Broker, chart: Chart, pid: int | None) -> StartVerdict:
    return StartVerdict.RUNNING if pid is not None else chart.verdict([*broker.paths, *broker.missing])


def _follow(
    broker: Broker, asked: DoctorRequest, chart: Chart, advance: Callable[[int], None]
) -> list[Scans]:
    start = BrokerStart(broker.log_dirs, asked.guest, asked.now_ms, is_alone=broker.is_alone)
    if not any(map(holds_metadata, broker.log_dirs)):
        chart.notes.append(
            "no metadata log is among these directories: whose partitions these are is not known"
        )
    elif not (start.cluster_left.is_known and start.cluster_left.is_complete):
        chart.notes.append("the metadata log has gaps: what would become stray hangs on other controllers")
    if asked.is_quick:
        chart.unscanned = [one.path for one in broker.log_dirs if not one.was_shut_down_cleanly]
    loading = BrokerLoading(broker, start, chart, asked.guest, is_quick=asked.is_quick)
    loading.follow(advance)
    return loading.scans


def _sample(broker: Broker, asked: DoctorRequest, chart: Chart, *, is_alive: bool) -> int:
    """Verify a sample of all logs, leaving out what the simulated start reported; return its size."""
    size = log_size(broker)
    share = asked.sample if asked.sample is not None else min(1.0, _SAMPLE / max(1, size))
    request = VerifyRequest(sample=share, guest=asked.guest, partitions_only=not is_alive)
    run = Verification([LogDirTarget(path) for path in broker.paths], request)
    known = {os.path.normpath(one.finding.file) for one in chart.symptoms}
    spare = {
        os.path.normpath(one.path)
        for log_dir in broker.log_dirs
        for one in log_dir.partitions
        if is_spare(one, broker)
    }
    for finding in run.findings(Workers()):
        file = os.path.normpath(finding.file)
        if not is_alive and (file in known or finding.damage.severity is Severity.NO_START):
            continue  # the simulated start has reported this already, and knows more
        if os.path.dirname(file) in spare:
            less = min(finding.damage.severity, Severity.DEGRADED)
            finding = replace(finding, damage=replace(finding.damage, severity=less))
        # A start that was not simulated may also cut what follows the damage.
        is_open = bool(chart.unscanned) and not finding.below_recovery_point
        chart.symptoms.append(Symptom(finding, is_open=is_open))
    chart.failures += [failure for failure in run.summary.failures if failure not in chart.failures]
    chart.notes += [note for note in run.summary.notes if note not in chart.notes]
    return run.summary.size


def _transactions(broker: Broker, asked: DoctorRequest, chart: Chart, *, is_alive: bool) -> None:
    """Report what holds back last stable offsets; a simulated start has read the ends of the logs already."""
    beside = [one for one in asked.beside if one.path not in broker.paths]
    verdicts = TransactionVerdicts([*broker.log_dirs, *beside], [], asked.guest)
    count, unread = sum(len(one.partitions) for one in broker.log_dirs), 0
    most = max(_LEAST_TAIL, _SAMPLE // max(1, count)) if is_alive or asked.is_quick else None
    for log_dir in broker.log_dirs:
        for partition in log_dir.partitions:
            start = log_dir.log_starts.get(partition.key, 0)
            found = verdicts.findings(partition, log_dir, log_start=start, most_bytes=most)
            unread += found is None
            chart.symptoms += map(Symptom, found or ())
    if unread:
        chart.notes.append(f"open transactions: the ends of {unread} logs are too long to be looked at")


def _look_around(
    broker: Broker, asked: DoctorRequest, chart: Chart, scans: list[Scans], pid: int | None
) -> None:
    """Check the host; for another host, only the limits that were given."""
    here = [one for one in broker.log_dirs if not is_remote(one.path)]
    if not here:
        return
    limits = read_limits(pid, asked.nofile, asked.max_map_count, is_elsewhere=asked.is_elsewhere)
    chart.symptoms += limit_symptoms(here, limits, scans)
    if asked.is_elsewhere:
        chart.notes.append("not the broker's host: its user, limits, volumes and speed were not asked")
        return
    user = find_user(asked.user, here)
    if user is not None and user.name is None:
        chart.notes.append(
            f"{here[0].path} belongs to user {user.uid}, who has no name here: --elsewhere if this is a copy"
        )
    if user is not None:
        chart.symptoms += permission_symptoms(here, user)
    chart.symptoms += space_symptoms(here, scans, is_root=user is not None and user.uid == 0)
    chart.symptoms += mount_symptoms(here)


def _logs(broker: Broker) -> list[str]:
    """Return the logs, largest first: one long read measures better than many short ones."""
    logs = [
        segment.log
        for log_dir in broker.log_dirs
        for partition in log_dir.partitions
        for segment in partition.live_segments
        if segment.log is not None and not is_remote(segment.log.path)
    ]
    return [log.path for log in sorted(logs, key=lambda log: -log.size)]
