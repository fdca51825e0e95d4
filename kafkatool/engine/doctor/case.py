"""One partition, as a start leaves it: what is lost of it, what stops the start, and what to know."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from kafkatool.engine.advice import Advice
from kafkatool.engine.broker_start import BrokerStart
from kafkatool.engine.checkpoint_effects import Effect
from kafkatool.engine.doctor.advice import do_without, for_a_file, write_topic_id
from kafkatool.engine.doctor.brokers import Broker
from kafkatool.engine.doctor.symptoms import Chart, Loss, Symptom
from kafkatool.engine.findings import Damage, FindingClass, Severity
from kafkatool.engine.logdir import LogDir, Partition, PartitionState
from kafkatool.engine.recover_result import Event, Recovered
from kafkatool.engine.recover_segments import NOT_FLUSHED
from kafkatool.engine.start_checks import StartChecks
from kafkatool.engine.verify_dir import checkpoint_problems
from kafkatool.engine.verify_place import Place, place_finding
from kafkatool.engine.verify_state import state_damage
from kafkatool.format import kinds
from kafkatool.format.java_text import LONG_MAX
from kafkatool.format.kinds import kind_of


class Case:
    """One partition: what its loading means."""

    def __init__(
        self, broker: Broker, start: BrokerStart, chart: Chart, log_dir: LogDir, partition: Partition
    ) -> None:
        self._broker = broker
        self._start = start
        self._chart = chart
        self._log_dir = log_dir
        self._partition = partition
        self._place = Place(partition, log_dir, start.cluster)

    def judge(self, one: Recovered, checks: StartChecks, cleaner: dict[tuple[str, int], int]) -> None:
        if one.refusal is not None:
            self._refused(one)
            return
        is_lost = self._lost_by_cutting(one, checks)
        self._unread(one.events)
        self._rebuilt(one.events)
        is_lost = self._fate(one) or is_lost
        self._note_of_state()
        key = self._place.key
        if key is not None and one.log_end is not None and not is_lost:
            for problem in checkpoint_problems(key, self._log_dir, cleaner, one.log_end):
                self._tell(problem.path, problem.damage)

    def _tell(
        self, file: str, damage: Damage, advice: str | None = None, effect: Effect = Effect.NOTE
    ) -> None:
        finding = place_finding(self._place, file, damage)
        if advice is not None:
            finding = replace(finding, fix=advice)
        self._chart.symptoms.append(Symptom(finding, effect, self._log_dir.path))

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
        if gone:
            self._tell_of_cut(one, gone, first, end)
        elif end > first:
            self._tell_of_shorter_log(one, first, end)
        # Where a batch at the end of what is cut cannot be read, only a checkpoint knows how far it went.
        is_open = one.is_lost_end_open and promised <= seen
        if end > first or is_open:
            self._lose(max(1, end - first), is_at_least=is_open)
        return bool(gone) or end > first

    def _promised_end(self, checks: StartChecks) -> int:
        """Up to where the log once went, by the checkpoints."""
        key = self._place.key or ("", -1)
        points = (checks.recovery_points.get(key, 0), self._log_dir.high_watermarks.get(key, 0))
        return max((point for point in points if point != LONG_MAX), default=0)

    def _tell_of_cut(self, one: Recovered, gone: Sequence[Event], first: int, end: int) -> None:
        event = gone[0]
        file = os.path.join(one.path, event.message.partition(":")[0])
        message = event.message.partition(": ")[2]
        if event.what == "delete":
            file = os.path.join(self._log_dir.path, kinds.LOG_STARTS.name)
            damage = state_damage(FindingClass.BAD_CHECKPOINT, message, "", "", severity=Severity.NO_START)
            advice = do_without(file, kinds.LOG_STARTS)
            self._tell(file, replace(damage, first_offset=first, last_offset=max(first, end - 1)), advice)
            return
        later = len(gone) - 1
        if later:
            message += f"; {later} segment{'s' if later > 1 else ''} behind it deleted"
        damage = one.first_damage or state_damage(FindingClass.BAD_CRC, message, "", "")
        damage = replace(
            damage,
            message=message,
            severity=Severity.LOSS,
            position=event.position or 0,
            first_offset=first,
            last_offset=end - 1 if end > first else None,
        )
        self._tell(file, damage)

    def _tell_of_shorter_log(self, one: Recovered, end: int, promised: int) -> None:
        """Nothing is cut, and still the log ends before it once did."""
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

    def _lose(self, offsets: int, *, is_at_least: bool = False) -> None:
        self._chart.losses.append(Loss(self._partition.directory, offsets, is_at_least))

    # --- the rest -----------------------------------------------------------------------------------------

    def _unread(self, events: Sequence[Event]) -> None:
        """Records that a start leaves where they are, and that no consumer gets."""
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
        """Segments that a start scans because a file beside them is missing or wrong; zeros that it cuts."""
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
                damage = state_damage(FindingClass.MISSING_FILE, message, "", "")
                self._tell(os.path.join(self._partition.path, name), damage)

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
        self._tell(file, damage, advice)
        start = max(one.log_start, min((s.base_offset for s in self._partition.live_segments), default=0))
        offsets = (one.log_end or 0) - start
        if fate.is_bad and offsets > 0:
            self._lose(offsets)
            return True
        return False

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
