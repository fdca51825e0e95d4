"""Judge one partition after a simulated start: what it loses, what stops the start, and what to know."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.doctor.remedies import do_without, for_a_file, write_topic_id
from kafkatool.engine.doctor.symptoms import Chart, Symptom
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.recover.result import Event, Recovered
from kafkatool.engine.recover.segments import NOT_FLUSHED
from kafkatool.engine.recover.start_checks import StartChecks
from kafkatool.engine.verify.log_dir import checkpoint_problems
from kafkatool.engine.verify.place import CheckedPlace, place_finding
from kafkatool.engine.verify.side_files import state_damage
from kafkatool.format import kinds
from kafkatool.format.java_text import LONG_MAX
from kafkatool.format.kinds import kind_of
from kafkatool.format.names import TopicPartition, segment_file


def is_spare(partition: Partition, broker: Broker) -> bool:
    """Return whether this is a future replica, and its current replica is there."""
    if partition.state is not PartitionState.FUTURE:
        return False
    return any(
        one.state is PartitionState.ACTIVE and one.key == partition.key
        for log_dir in broker.log_dirs
        for one in log_dir.partitions
    )


class PartitionCase:
    """One partition, and the meaning of how it loads."""

    def __init__(
        self, broker: Broker, start: BrokerStart, chart: Chart, log_dir: LogDir, partition: Partition
    ) -> None:
        self._broker = broker
        self._start = start
        self._chart = chart
        self._log_dir = log_dir
        self._partition = partition
        self._place = CheckedPlace(partition, log_dir, start.cluster)
        self._is_spare = is_spare(partition, broker)

    def judge(self, one: Recovered, checks: StartChecks, cleaner: dict[TopicPartition, int]) -> None:
        if one.refusal is not None:
            self._refused(one)
            return
        is_lost = self._lost_by_cutting(one, checks)
        self._above_the_watermark(one)
        self._unread(one.events)
        self._rebuilt(one.events)
        is_lost = self._fate(one) or is_lost
        self._note_of_state()
        key = self._place.key
        if key is not None and one.log_end is not None and not is_lost:
            for problem in checkpoint_problems(key, self._log_dir, cleaner, one.log_end):
                self._tell(problem.path, problem.damage)

    def _tell(
        self,
        file: str,
        damage: Damage,
        advice: str | None = None,
        effect: Effect = Effect.NOTE,
        *,
        is_open: bool = False,
        is_maybe: bool = False,
    ) -> None:
        if self._is_spare and effect is Effect.NOTE:
            damage = replace(damage, severity=min(damage.severity, Severity.DEGRADED))
        finding = place_finding(self._place, file, damage)
        if advice is not None:
            finding = replace(finding, fix=advice)
        directory = self._partition.directory
        self._chart.symptoms.append(
            Symptom(finding, effect, self._log_dir.path, directory, is_open=is_open, is_maybe=is_maybe)
        )

    def _refused(self, one: Recovered) -> None:
        assert one.refusal is not None
        name = one.refusal.split()[0].rstrip(":")
        path = os.path.join(one.path, name) if os.path.basename(name) == name else one.path
        path = path if os.path.lexists(path) else one.path
        effect = Effect.OFFLINE if one.is_offline else Effect.REFUSE
        kind = {
            kinds.LOG: FindingClass.BAD_OFFSET,
            kinds.LEADER_EPOCHS: FindingClass.BAD_CHECKPOINT,
            kinds.RAFT_SNAPSHOT: FindingClass.BAD_SNAPSHOT,
        }.get(kind_of(os.path.basename(path)).kind, FindingClass.BAD_METADATA)
        what = "takes the log directory offline" if one.is_offline else "does not start"
        message = f"{one.refusal}: a broker {what}"
        damage = state_damage(kind, message, "", "", severity=Severity.NO_START)
        advice = for_a_file(path, self._partition, self._start, self._broker.node_id)
        self._tell(path, damage, advice, effect)

    # --- what is cut, or was ------------------------------------------------------------------------------

    def _lost_by_cutting(self, one: Recovered, checks: StartChecks) -> bool:
        gone = [
            event for event in one.events if event.what in ("cut", "delete") and event.segment is not None
        ]
        first = min((event.first_offset or 0 for event in gone), default=one.log_end)
        if first is None or self._partition.state is PartitionState.DELETED:
            return False
        seen = first if one.lost_to is None else max(first, one.lost_to + 1)
        promised = self._promised_end(checks)
        end = max(seen, promised)
        # If a batch at the cut end cannot be read, only a checkpoint knows how far the log went.
        is_open = one.is_lost_end_open and promised <= seen
        if gone:
            self._tell_of_cut(one, gone, range(first, end), is_open=is_open)
        elif end > first:
            self._tell_of_shorter_log(one, first, end)
        return bool(gone) or end > first

    def _promised_end(self, checks: StartChecks) -> int:
        """Return the offset up to which the log once went, by the checkpoints."""
        key = self._place.key or ("", -1)
        points = (checks.recovery_points.get(key, 0), self._log_dir.high_watermarks.get(key, 0))
        return max((point for point in points if point != LONG_MAX), default=0)

    def _tell_of_cut(self, one: Recovered, gone: Sequence[Event], lost: range, *, is_open: bool) -> None:
        event = gone[0]
        last = lost[-1] if lost else None
        file = os.path.join(one.path, event.message.partition(":")[0])
        message = event.message.partition(": ")[2]
        if event.what == "delete":
            file = os.path.join(self._log_dir.path, kinds.LOG_STARTS.name)
            damage = state_damage(FindingClass.BAD_CHECKPOINT, message, "", "", severity=Severity.NO_START)
            advice = do_without(file, kinds.LOG_STARTS)
            self._tell(file, replace(damage, first_offset=lost.start, last_offset=last), advice)
            return
        later = len(gone) - 1
        if later:
            message += f"; {later} segment{'s' if later > 1 else ''} behind it deleted"
        damage = one.first_damage or state_damage(FindingClass.BAD_CRC, message, "", "")
        if damage.is_mendable:
            message += f"; {damage.message}"
        damage = replace(
            damage,
            message=message,
            severity=Severity.LOSS if lost or is_open else Severity.DEGRADED,
            position=event.position or 0,
            first_offset=lost.start,
            last_offset=last,
        )
        self._tell(file, damage, is_open=is_open)

    def _tell_of_shorter_log(self, one: Recovered, end: int, promised: int) -> None:
        """Report a log that ends before it once did, although the start cuts nothing."""
        segments = self._partition.live_segments
        log = segments[-1].log if segments else None
        file = log.path if log is not None else one.path
        message = f"the log ends at {end}, and checkpoints say that it went to {promised}"
        advice = None
        if self._log_dir.was_shut_down_cleanly:
            message += ": a broker believes the mark of a clean shutdown and does not look further"
            advice = Advice.RECOVER_NOW(where=one.path)
        damage = state_damage(FindingClass.TORN_TAIL, message, promised, end, severity=Severity.LOSS)
        self._tell(file, replace(damage, first_offset=end, last_offset=promised - 1), advice)

    def _above_the_watermark(self, one: Recovered) -> None:
        """Note records above the checkpointed high watermark: a leader that lacks them has them truncated."""
        replicas = self._start.replicas_at(one.path)
        watermark = self._log_dir.high_watermarks.get(self._place.key or ("", -1))
        if replicas is None or len(replicas.replicas) < 2 or watermark is None or one.log_end is None:
            return
        first = max(watermark, one.log_start)
        if self._partition.state is not PartitionState.ACTIVE or one.log_end <= first:
            return
        text = (
            f"offsets {first} to {one.log_end - 1} lie above the checkpointed high watermark: "
            "another replica that leads may have them cut"
        )
        damage = state_damage(FindingClass.BAD_CHECKPOINT, text, "", "", severity=Severity.NOTE)
        damage = replace(damage, first_offset=first, last_offset=one.log_end - 1)
        self._tell(os.path.join(self._log_dir.path, kinds.HIGH_WATERMARKS.name), damage, is_maybe=True)

    # --- the rest -----------------------------------------------------------------------------------------

    def _unread(self, events: Sequence[Event]) -> None:
        """Report records that a start leaves in place, but no consumer can read."""
        for event in events:
            if event.what not in ("unreadable", "misnamed"):
                continue
            name, _, message = event.message.partition(": ")
            file = os.path.join(self._partition.path, name)
            is_misnamed = event.what == "misnamed"
            kind = FindingClass.MISSING_FILE if is_misnamed else FindingClass.BAD_MAGIC
            position = event.position or 0
            damage = state_damage(kind, message, "", "", severity=Severity.LOSS, position=position)
            damage = replace(damage, first_offset=event.first_offset, last_offset=event.last_offset)
            self._tell(file, damage, Advice.MOVE_OUT(file=file) if is_misnamed else None)

    def _rebuilt(self, events: Sequence[Event]) -> None:
        """Report segments scanned because a side file is missing or wrong, and zeros that are cut."""
        for event in events:
            if event.what == "trim" and not self._start.is_preallocated(self._partition.topic):
                name, _, message = event.message.partition(": ")
                damage = state_damage(
                    FindingClass.ZERO_FILLED, message, "records", "zeros", position=event.position or 0
                )
                self._tell(os.path.join(self._partition.path, name), damage)
            is_scan = event.what == "scan" and not event.message.endswith(NOT_FLUSHED)
            if is_scan or event.what == "rebuild":
                name, _, message = event.message.partition(": ")
                severity = Severity.NOTE if self._may_be_unmade(name) else Severity.DEGRADED
                damage = state_damage(FindingClass.MISSING_FILE, message, "", "", severity=severity)
                self._tell(os.path.join(self._partition.path, name), damage)

    def _may_be_unmade(self, name: str) -> bool:
        """Return whether the broker may have been killed before it created the newest segment's indexes."""
        segments = self._partition.live_segments
        is_newest = bool(segments) and name == segment_file(segments[-1].base_offset, ".log")
        return is_newest and not self._log_dir.was_shut_down_cleanly

    def _fate(self, one: Recovered) -> bool:
        fate = self._start.fate(self._partition, self._log_dir)
        if fate is None:
            return False
        file = os.path.join(self._partition.path, kinds.PARTITION_METADATA.name)
        severity = Severity.NO_START if fate.is_bad else Severity.NOTE
        damage = state_damage(FindingClass.BAD_METADATA, fate.message, "", "", severity=severity)
        advice = None
        if fate.what == "stray":
            advice = write_topic_id(self._partition, self._start)
            advice = advice or Advice.LIST(where=self._partition.path)
        elif fate.what == "empty":
            advice = Advice.MOVE_COPY_HOME(where=self._partition.path, home=fate.home)
        start = max(one.log_start, min((s.base_offset for s in self._partition.live_segments), default=0))
        is_lost = fate.is_bad and (one.log_end or 0) > start
        if is_lost:
            damage = replace(damage, first_offset=start, last_offset=(one.log_end or 0) - 1)
        self._tell(file, damage, advice)
        return is_lost

    def _note_of_state(self) -> None:
        state = self._partition.state
        text = {
            PartitionState.DELETED: "waits to be deleted: a broker does that soon after its start",
            PartitionState.STRAY: "was set aside as stray: nobody serves it, and its space stays taken",
            PartitionState.FUTURE: "a copy on its way from another directory: a broker goes on with it",
        }.get(state)
        if text is not None:
            damage = state_damage(FindingClass.OVERLAP, text, "", "", severity=Severity.NOTE)
            self._tell(self._partition.path, damage)
