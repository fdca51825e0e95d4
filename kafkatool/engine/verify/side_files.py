"""Check producer snapshots, transaction indexes and leader epochs against the log.

A snapshot may have more than the log, since it keeps the state of data that retention or compaction removed.
It may also have less, since producers expire. Only a difference that neither explains is a finding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.verify.finding import THROWN_AWAY
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.producers import Aborted, Trail
from kafkatool.errors import FormatError
from kafkatool.format.state.checkpoint import EpochStart, read_leader_epochs
from kafkatool.format.state.producer_snapshot import ENTRY_SIZE, HEADER_SIZE, ProducerState, read_snapshot
from kafkatool.format.txn_index import ENTRY_SIZE as TXN_ENTRY_SIZE
from kafkatool.format.txn_index import AbortedTxn, read_entries, version_problem


def state_damage(
    kind: FindingClass,
    message: str,
    expected: object,
    found: object,
    *,
    position: int = 0,
    end: int = 0,
    severity: Severity = Severity.DEGRADED,
) -> Damage:
    return Damage(kind, position, end, str(expected), str(found), message, severity)


# --- producer snapshots -----------------------------------------------------------------------------------


def snapshot_problems(
    data: bytes, offset: int, trails: Mapping[int, Trail] | None, first_offset: int, is_whole: bool
) -> Iterator[Damage]:
    """Yield what is wrong with the snapshot at an offset.

    `trails` is the replay of the log from `first_offset` to `offset`, or None if unknown; `is_whole` means
    that compaction removed nothing from the replayed part.
    """
    try:
        states = read_snapshot(data)
    except FormatError as error:
        message = f"{error}: {THROWN_AWAY}"
        yield state_damage(
            FindingClass.BAD_SNAPSHOT, message, error.expected, error.found, position=error.at, end=len(data)
        )
        return
    for number, state in enumerate(states):
        problem = _entry_problem(state, offset, trails, first_offset, is_whole)
        if problem is not None:
            at = HEADER_SIZE + number * ENTRY_SIZE
            message, expected, found = problem
            yield state_damage(
                FindingClass.BAD_SNAPSHOT,
                f"producer {state.producer_id}: {message}",
                expected,
                found,
                position=at,
                end=at + ENTRY_SIZE,
            )
    if trails is not None:
        yield from _missing_producers({state.producer_id for state in states}, trails)


def _missing_producers(known: set[int], trails: Mapping[int, Trail]) -> Iterator[Damage]:
    """Yield missing producers with an open transaction: these do not expire."""
    for producer_id, trail in trails.items():
        if producer_id not in known and trail.current is not None and trail.current.has_records:
            message = f"producer {producer_id} has an open transaction and is not in the snapshot"
            first = trail.current.first_offset
            yield state_damage(
                FindingClass.BAD_SNAPSHOT, message, f"producer {producer_id}, open from {first}", "no entry"
            )


def _entry_problem(
    state: ProducerState, offset: int, trails: Mapping[int, Trail] | None, first_offset: int, is_whole: bool
) -> tuple[str, object, object] | None:
    newest = max(state.last_offset, state.current_txn_first_offset)
    if newest >= offset:
        return "it knows more than the snapshot may hold", f"offsets below {offset}", f"offset {newest}"
    if trails is None:
        return None
    trail = trails.get(state.producer_id)
    if trail is None:
        if is_whole and state.last_offset >= first_offset:
            return "the log has nothing of it", "a producer of the log", f"offset {state.last_offset}"
        return None
    replayed = trail.state(state.producer_id)
    return _difference(state, replayed, trail, first_offset, is_whole)


def _difference(
    state: ProducerState, replayed: ProducerState, trail: Trail, first_offset: int, is_whole: bool
) -> tuple[str, object, object] | None:
    if not is_whole and replayed.last_offset < state.last_offset:
        return None  # compaction removed its last batch
    excused = set()
    if not trail.has_marker or state.coordinator_epoch == -1:
        excused.add("coordinator_epoch")  # its marker is gone, or it expired and came back
    if state.current_txn_first_offset < first_offset and not trail.has_marker:
        excused.add("current_txn_first_offset")  # it began in removed data
    if trail.last is None and not trail.changed_epoch:
        # The log has only markers of this producer.
        excused |= {"last_sequence", "last_offset", "offset_delta"}
    if not is_whole:
        excused |= {"timestamp_ms", "coordinator_epoch", "current_txn_first_offset", "producer_epoch"}
        if trail.last is None:
            excused |= {"last_sequence", "last_offset", "offset_delta"}
    for name, stored, found in zip(state._fields, state, replayed, strict=True):
        if stored != found and name not in excused:
            return f"its {name} is not what the log says", found, stored
    return None


# --- transaction indexes ----------------------------------------------------------------------------------


def txn_index_problems(
    data: bytes, base: int, facts: LogFacts, aborted: Iterable[Aborted]
) -> Iterator[Damage]:
    """Yield what is wrong with the `.txnindex` of one segment; `aborted` are the segment's abort markers."""
    if len(data) % TXN_ENTRY_SIZE:
        at = len(data) // TXN_ENTRY_SIZE * TXN_ENTRY_SIZE
        message = "its last entry is cut short: a transaction that was aborted may be read as committed"
        yield _txn_damage(
            message, f"a multiple of {TXN_ENTRY_SIZE} bytes", f"{len(data)} bytes", at, len(data)
        )
    entries = list(read_entries(data))
    markers = {(abort.producer_id, abort.marker_offset): abort for abort in aborted}
    before = -1
    for number, entry in enumerate(entries):
        at = number * TXN_ENTRY_SIZE
        problem = _txn_problem(entry, before, base, facts, markers)
        if problem is not None:
            yield _txn_damage(
                f"entry {number}: {problem[0]}", problem[1], problem[2], at, at + TXN_ENTRY_SIZE
            )
        before = max(before, entry.last_offset)
    yield from missing_aborts(entries, markers.values(), len(data))


def missing_aborts(entries: Iterable[AbortedTxn], aborted: Iterable[Aborted], size: int) -> Iterator[Damage]:
    """Yield aborted transactions with records in the log but no entry: readers would get the records."""
    listed = {(entry.producer_id, entry.last_offset) for entry in entries}
    for abort in aborted:
        if (abort.producer_id, abort.marker_offset) in listed or abort.transaction is None:
            continue
        if abort.transaction.has_records:
            first = abort.transaction.first_offset
            message = (
                f"the transaction of producer {abort.producer_id} that was aborted at offset "
                f"{abort.marker_offset} is missing: readers of committed data get it"
            )
            expected = f"an entry from {first} to {abort.marker_offset}"
            yield _txn_damage(message, expected, "no entry", size, size)


def _txn_problem(
    entry: AbortedTxn, before: int, base: int, facts: LogFacts, markers: Mapping[tuple[int, int], Aborted]
) -> tuple[str, object, object] | None:
    if (problem := version_problem(entry)) is not None:
        return problem, "version 0", entry.version
    if not base <= entry.last_offset <= facts.last_offset or entry.last_offset <= before:
        lowest = max(base, before + 1)
        return "its marker is not in this segment", f"{lowest} to {facts.last_offset}", entry.last_offset
    if not 0 <= entry.first_offset <= entry.last_offset:
        return "it begins behind its end", f"0 to {entry.last_offset}", entry.first_offset
    if not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
        highest = entry.last_offset + 1
        return "its last stable offset cannot be", f"0 to {highest}", entry.last_stable_offset
    abort = markers.get((entry.producer_id, entry.last_offset))
    if abort is None:
        if not facts.is_whole:
            return None  # compaction may have removed the marker
        return "no such marker in the log", f"an abort of producer {entry.producer_id}", entry.last_offset
    if abort.transaction is not None and entry.first_offset > abort.transaction.first_offset:
        return "it begins too late", abort.transaction.first_offset, entry.first_offset
    return None


def _txn_damage(message: str, expected: object, found: object, position: int, end: int) -> Damage:
    return state_damage(FindingClass.BAD_INDEX, message, expected, found, position=position, end=end)


# --- leader epochs ----------------------------------------------------------------------------------------


def epoch_order_problems(epochs: Iterable[list[int]]) -> Iterator[Damage]:
    """Yield batches whose leader epoch is below an earlier one; the checksum does not cover the field."""
    highest = -1
    for epoch, first, last, position in epochs:
        if 0 <= epoch < highest:
            message = f"leader epoch {epoch} follows leader epoch {highest}"
            damage = state_damage(
                FindingClass.BAD_METADATA,
                message,
                f"{highest} or above",
                epoch,
                position=position,
                end=position,
            )
            yield Damage(*_fields(damage), first_offset=first, last_offset=last)
        highest = max(highest, epoch)


def _fields(damage: Damage) -> tuple[FindingClass, int, int, str, str, str, Severity]:
    return (
        damage.kind,
        damage.position,
        damage.end_position,
        damage.expected,
        damage.found,
        damage.message,
        damage.severity,
    )


def epoch_file_problems(data: bytes, epochs: list[list[int]]) -> Iterator[Damage]:
    """Yield what is wrong with a leader-epoch-checkpoint, given the epochs of the log's batches in order."""
    try:
        entries = read_leader_epochs(data)
    except FormatError as error:
        message = f"{error}: a broker takes the whole log directory offline"
        yield state_damage(
            FindingClass.BAD_CHECKPOINT, message, error.expected, error.found, severity=Severity.NO_START
        )
        return
    for a, b in pairwise(entries):
        if b.epoch <= a.epoch or b.start_offset <= a.start_offset:
            message = (
                f"epoch {b.epoch} from offset {b.start_offset} follows epoch {a.epoch} from {a.start_offset}"
            )
            yield state_damage(
                FindingClass.BAD_CHECKPOINT, message, "epochs and offsets that increase", tuple(b)
            )
            return
    yield from _against_log(entries, [run for run in epochs if run[0] >= 0])


def _against_log(entries: list[EpochStart], epochs: list[list[int]]) -> Iterator[Damage]:
    if not epochs:
        return
    if not entries:
        message = "it is empty: a follower cannot tell where its log parts from the leader's"
        yield state_damage(FindingClass.BAD_CHECKPOINT, message, f"epochs up to {epochs[-1][0]}", "no epoch")
        return
    starts = [entry.start_offset for entry in entries]
    for epoch, first, last, _position in epochs:
        for offset in (first, last):
            at = bisect_right(starts, offset) - 1
            if at >= 0 and entries[at].epoch != epoch:
                message = (
                    f"the batch at offset {offset} is of epoch {epoch}, the file says {entries[at].epoch}"
                )
                yield state_damage(FindingClass.BAD_CHECKPOINT, message, f"epoch {epoch}", entries[at].epoch)
                return
