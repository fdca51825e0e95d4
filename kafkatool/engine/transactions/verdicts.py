"""Judge the transactions that a log leaves open: whether they end by themselves, or who must end them.

The coordinator of a transaction keeps its state in `__transaction_state`, and ends it when its client asks,
or when it is older than its timeout. An abort from outside ends it in one partition only; if the client is
alive, its commit then holds in all others. So an abort is advised only for what Kafka's own `find-hanging`
would report: the producer's last batch is older than 15 minutes, and no coordinator knows a transaction of
that producer in that partition. And not even then if another log shows that it was committed: its records
are acknowledged, and only the marker is missing here.

    judge_transaction       pure: an open transaction and what is known about it, to a verdict
    TransactionVerdicts     the reader: gathers what the log directories know, and judges by it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.cluster.transactional_ids import (
    TOPIC,
    CoordinatorState,
    TransactionalId,
    TransactionalIds,
)
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.files.source import Guest
from kafkatool.engine.transactions.ends import TransactionEnd, find_ends
from kafkatool.engine.transactions.open_transactions import OpenTransaction, read_open_transactions
from kafkatool.engine.verify.finding import Finding
from kafkatool.errors import KafkatoolError
from kafkatool.format.release import Release

HANGING_AFTER_MS = 15 * 60_000
"""The largest timeout that brokers allow by default, and the least age that `find-hanging` reports."""
ABORT_CHECK_MS = 10_000
"""How often a coordinator looks for expired transactions, by default."""
CLOCKS_APART_MS = 3_600_000
"""How far a client's clock may be ahead of a broker's: by default brokers refuse records beyond that."""

_COMMITTING = "PrepareCommit"
_ABORTING = ("PrepareAbort", "PrepareEpochFence")
_COMPLETE = {"CompleteCommit": False, "CompleteAbort": True}
"""Maps to whether it is an abort."""
_OWN_EPOCHS = 2
"""Since this transaction version every transaction has an epoch of its own."""


class TransactionVerdict(StrEnum):
    """How an open transaction will end."""

    IN_PROGRESS = "in_progress"
    """It ends by itself: by its client, or by its coordinator at its timeout."""
    WILL_BE_ABORTED = "will_be_aborted"
    WILL_BE_COMMITTED = "will_be_committed"
    """The coordinator has decided, and writes the markers once it runs."""
    HANGING = "hanging"
    """Nobody will end it, by Kafka's own rule."""
    MARKER_LOST = "marker_lost"
    """It has ended; its marker is missing here."""
    ASK_COORDINATOR = "ask_coordinator"
    """These disks do not show it."""


class JudgedTransaction(NamedTuple):
    """An open transaction with its verdict and the reason."""

    transaction: OpenTransaction
    transactional_id: str | None
    verdict: TransactionVerdict
    why: str
    now_ms: int
    ends_by_ms: int | None = None
    """When it will have ended by itself, if its coordinator runs; None if unknown."""
    fix: str | None = None
    is_behind: bool = False
    """Whether its marker is only beyond the end of this copy of the log."""

    @property
    def age_ms(self) -> int:
        one = self.transaction
        begun = one.last_timestamp_ms if one.first_timestamp_ms is None else one.first_timestamp_ms
        return max(0, self.now_ms - begun)

    @property
    def severity(self) -> Severity:
        is_stuck = self.verdict in (TransactionVerdict.HANGING, TransactionVerdict.MARKER_LOST)
        return Severity.DEGRADED if is_stuck and not self.is_behind else Severity.NOTE


FindEnds = Callable[[OpenTransaction], Iterable[TransactionEnd]]
"""Return markers of a transaction's producer in all logs at hand; used only if the coordinator cannot say."""


def judge_transaction(
    one: OpenTransaction, known: CoordinatorState, ends: FindEnds, now_ms: int
) -> JudgedTransaction:
    """Judge an open transaction at a given time."""
    owner = known.ids.get(one.producer_id)
    verdict = _TransactionJudge(one, owner, known, now_ms)
    return verdict.by_its_coordinator() or verdict.by_its_end(ends)


class _TransactionJudge:
    """Judge one transaction."""

    def __init__(
        self, one: OpenTransaction, owner: TransactionalId | None, known: CoordinatorState, now_ms: int
    ) -> None:
        self._one, self._owner, self._known, self._now_ms = one, owner, known, now_ms

    def by_its_coordinator(self) -> JudgedTransaction | None:
        """Judge by the coordinator's state; None if it does not know the transaction."""
        owner, one = self._owner, self._one
        if owner is None or owner.producer_id != one.producer_id:
            return None
        if owner.producer_epoch < one.producer_epoch:
            why = f"the state of its coordinator here is older: it knows epoch {owner.producer_epoch}"
            return self._ask(why)
        if one.place not in owner.partitions:
            return None
        if owner.state == _COMMITTING:
            why = "its coordinator has decided to commit it, and writes the markers as soon as it runs"
            return self._judged(TransactionVerdict.WILL_BE_COMMITTED, why)
        if owner.state in _ABORTING:
            why = "its coordinator has decided to abort it, and writes the markers as soon as it runs"
            return self._judged(TransactionVerdict.WILL_BE_ABORTED, why)
        return self._ongoing(owner) if owner.state == "Ongoing" else None

    def _ongoing(self, owner: TransactionalId) -> JudgedTransaction:
        if owner.is_two_phase:
            why = "it is of a two-phase commit: it has no timeout, and only its own client ends it"
            return self._judged(TransactionVerdict.IN_PROGRESS, why)
        due_ms = owner.start_ms + owner.timeout_ms
        if self._now_ms <= due_ms:
            why = "its coordinator knows it, and aborts it at its timeout if its client has not ended it"
            return self._judged(TransactionVerdict.IN_PROGRESS, why, ends_by_ms=due_ms + ABORT_CHECK_MS)
        why = "its timeout has passed: its coordinator aborts it as soon as it runs"
        fix = None
        # A later transaction of the same producer is another one: this one may have been committed.
        is_this_one = owner.producer_epoch == self._one.producer_epoch
        if is_this_one and (self._known.release is None or self._known.release >= Release.V4_1):
            fix = Advice.TERMINATE_TRANSACTION(transactional_id=owner.name)
        verdict = TransactionVerdict.WILL_BE_ABORTED
        return self._judged(verdict, why, ends_by_ms=due_ms + ABORT_CHECK_MS, fix=fix)

    def by_its_end(self, ends: FindEnds) -> JudgedTransaction:
        """Judge a transaction that no coordinator here knows: it has ended, or nobody will end it."""
        own = self._ends_by_coordinator()
        if (found := self._lost_marker(own)) is not None:
            return found
        age_ms = self._now_ms - self._one.last_timestamp_ms
        if age_ms <= HANGING_AFTER_MS:
            return self._ask(
                "no coordinator here knows it, but its producer's last batch is younger than 15 minutes"
            )
        found = self._lost_marker([*own, *ends(self._one)])
        return found or self._unended()

    def _ends_by_coordinator(self) -> list[TransactionEnd]:
        """Return how the owner's last transaction ended, if it did."""
        owner = self._owner
        if owner is None or owner.producer_id != self._one.producer_id or owner.state not in _COMPLETE:
            return []
        data_epoch = owner.producer_epoch - 1 if owner.version >= _OWN_EPOCHS else None
        who, is_abort = f"the coordinator of {owner.name!r}", _COMPLETE[owner.state]
        ids = owner.producer_id, owner.producer_epoch
        return [TransactionEnd(who, None, None, *ids, data_epoch, is_abort, owner.last_update_ms)]

    def _lost_marker(self, ends: Sequence[TransactionEnd]) -> JudgedTransaction | None:
        """Judge by the ends of the producer's transactions; aborts in other partitions prove nothing."""
        one = self._one
        for end in ends:
            if end.place == one.place and end.offset is not None and end.offset > one.first_offset:
                is_behind = end.offset >= one.log_end
                word = "further on" if is_behind else "among what this copy has lost"
                why = f"it was {_past(end)}: {end.where} has the marker at offset {end.offset}, {word}"
                return self._judged(TransactionVerdict.MARKER_LOST, why, is_behind=is_behind)
        commits = [end for end in ends if not end.is_abort and end.place != one.place]
        for end in commits:
            if (end.data_epoch, end.producer_epoch) == (one.producer_epoch, one.producer_epoch + 1):
                why = f"it was committed, by {_seen(end)}; its marker is missing here: never abort it"
                return self._judged(TransactionVerdict.MARKER_LOST, why)
        return self._maybe_committed([end for end in commits if end.producer_epoch == one.producer_epoch])

    def _maybe_committed(self, commits: Sequence[TransactionEnd]) -> JudgedTransaction | None:
        """Judge by time: transactions that share an epoch differ only in that, and clocks differ."""
        last_ms = self._one.last_timestamp_ms
        in_time = sorted(commits, key=lambda end: end.timestamp_ms)
        after = next((end for end in in_time if end.timestamp_ms >= last_ms), None)
        if after is not None:
            why = f"its producer committed after its last batch here, by {_seen(after)}"
            why += "; its marker is missing here: never abort it"
            return self._judged(TransactionVerdict.MARKER_LOST, why)
        near = next((end for end in in_time if end.timestamp_ms >= last_ms - CLOCKS_APART_MS), None)
        if near is not None:
            why = f"a commit of its producer may be its own, by {_seen(near)}: clocks differ"
            # Calling it hanging would make somebody abort it.
            return self._judged(TransactionVerdict.ASK_COORDINATOR, why)
        return None

    def _unended(self) -> JudgedTransaction:
        """Judge by the last question: whether certainly no coordinator knows it."""
        owner, one, missing = self._owner, self._one, self._known.missing
        if owner is None and missing:
            numbers = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
            return self._ask(f"its coordinator may be one whose {TOPIC} is not here whole: {numbers}")
        if owner is not None and self._is_over(owner):
            why = (
                f"{owner.name!r} is beyond it: it has ended, how is not on these disks, its marker is missing"
            )
            return self._judged(TransactionVerdict.MARKER_LOST, why)
        words = (
            "no coordinator knows its producer" if owner is None else "its coordinator does not know of it"
        )
        why = f"{words}, and the last batch is older than 15 minutes: nobody will end it"
        fix = Advice.ABORT_TRANSACTION(topic=one.topic, partition=one.partition, offset=one.first_offset)
        return self._judged(TransactionVerdict.HANGING, why, fix=fix)

    def _is_over(self, owner: TransactionalId) -> bool:
        """Return whether the coordinator must have ended it, in whichever way, to be where it is."""
        if owner.producer_id != self._one.producer_id:
            return True
        is_next = owner.producer_epoch == self._one.producer_epoch + 1
        is_aborted = is_next and _COMPLETE.get(owner.state, False)
        return (
            owner.version >= _OWN_EPOCHS
            and owner.producer_epoch > self._one.producer_epoch
            and not is_aborted
        )

    def _ask(self, why: str) -> JudgedTransaction:
        fix = Advice.FIND_HANGING(topic=self._one.topic, partition=self._one.partition)
        return self._judged(TransactionVerdict.ASK_COORDINATOR, why, fix=fix)

    def _judged(
        self,
        verdict: TransactionVerdict,
        why: str,
        *,
        ends_by_ms: int | None = None,
        fix: str | None = None,
        is_behind: bool = False,
    ) -> JudgedTransaction:
        name = None if self._owner is None else self._owner.name
        return JudgedTransaction(self._one, name, verdict, why, self._now_ms, ends_by_ms, fix, is_behind)


def _past(end: TransactionEnd) -> str:
    return "aborted" if end.is_abort else "committed"


def _seen(end: TransactionEnd) -> str:
    return end.where if end.offset is None else f"the marker at offset {end.offset} of {end.where}"


class TransactionVerdicts:
    """Judge by what log directories contain. Nothing is read until there is a transaction to judge.

    `at_ms` is the time to judge at; None: the newest on the disks, so that a copy is judged as it was.
    `paths` may include brokers' configurations, which name more log directories.
    """

    def __init__(
        self, log_dirs: Sequence[LogDir], paths: Sequence[str], guest: Guest, at_ms: int | None = None
    ) -> None:
        self._ids = TransactionalIds(log_dirs, paths, guest)
        self._guest, self._at_ms = guest, at_ms

    def of(self, log_dir: LogDir, transactions: Sequence[OpenTransaction]) -> list[JudgedTransaction]:
        """Return verdicts on a partition's open transactions, in the same order."""
        if not transactions:
            return []
        known, near = self._ids.near(log_dir), self._ids.log_dirs_near(log_dir)
        now_ms = newest_ms(near, known) if self._at_ms is None else self._at_ms
        others = [each for one in near for each in one.partitions]

        def ends(one: OpenTransaction) -> Iterable[TransactionEnd]:
            since = {one.producer_id: one.last_timestamp_ms - CLOCKS_APART_MS}
            return find_ends(_elsewhere(others, one.directory), since, self._guest)

        return [judge_transaction(one, known, ends, now_ms) for one in transactions]

    def findings(
        self, partition: Partition, log_dir: LogDir, *, log_start: int = 0, most_bytes: int | None = None
    ) -> list[Finding] | None:
        """Return what holds back a partition's last stable offset, then whatever is worse than a note.

        None if more than `most_bytes` would have to be read. Empty if the log gives no producer state: its
        damage is reported elsewhere.
        """
        if partition.state is not PartitionState.ACTIVE or partition.topic == TOPIC:
            return []
        try:
            found = read_open_transactions(partition, self._guest, log_start=log_start, most_bytes=most_bytes)
        except (FileNotFoundError, KafkatoolError):
            return []
        if found is None:
            return None
        judged = self.of(log_dir, found)
        told = [one for one in judged if one is judged[0] or one.severity is not Severity.NOTE]
        return [transaction_finding(one, _log_at(partition, one.transaction.first_offset)) for one in told]


def _log_at(partition: Partition, offset: int) -> str:
    """Return the path of the log that holds an offset, or of its directory if that log is gone."""
    logs = [one.log.path for one in partition.live_segments if one.log and one.base_offset <= offset]
    return logs[-1] if logs else partition.path


def _elsewhere(partitions: Sequence[Partition], directory: str) -> list[Partition]:
    return [one for one in partitions if one.path != directory and one.topic != TOPIC]


def newest_ms(log_dirs: Sequence[LogDir], known: CoordinatorState) -> int:
    """Return the newest time on some disks by brokers' clocks: those of clients may be wrong."""
    logs = (
        segment.log
        for log_dir in log_dirs
        for partition in log_dir.partitions
        for segment in partition.live_segments
        if segment.log is not None
    )
    written = max((log.modified_ms for log in logs), default=0)
    return max(written, max((one.last_update_ms for one in known.ids.values()), default=0))


def transaction_finding(judged: JudgedTransaction, file: str) -> Finding:
    """Return an open transaction as a finding about a log."""
    one = judged.transaction
    message = f"{transaction_words(judged)}: {judged.verdict}: {judged.why}"
    found = f"open since offset {one.first_offset}"
    damage = Damage(
        *(FindingClass.OPEN_TRANSACTION, 0, 0, "a marker that ends it", found, message),
        severity=judged.severity,
        first_offset=one.first_offset,
    )
    return Finding(file, one.topic, one.partition, damage, judged.fix)


def transaction_words(judged: JudgedTransaction) -> str:
    """Describe whose transaction it is, and where it begins."""
    one = judged.transaction
    whose = f"producer {one.producer_id}, epoch {one.producer_epoch}"
    if judged.transactional_id is not None:
        whose += f", transactional id {judged.transactional_id!r}"
    return f"the transaction of {whose}, is open since offset {one.first_offset}"
