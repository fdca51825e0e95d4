"""The producer state of a log: sequences, epochs, open and aborted transactions.

    states = ProducerStates()
    update = states.prepare(batches, Origin.CLIENT)     checked, nothing changed yet
    for aborted in states.apply(update): ...            entries for the transaction index

A snapshot holds each producer's last batch; in memory the last five are kept, to tell a duplicate batch from
one that is out of order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.broker.refusals import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
)
from kafkatool.errors import FormatError
from kafkatool.format.batch import MAX_INT32, NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence
from kafkatool.format.legacy import Header
from kafkatool.format.state.producer_snapshot import ProducerState
from kafkatool.format.txn_index import CURRENT_VERSION, AbortedTxn

BATCHES_REMEMBERED = 5
NO_EPOCH = -1
MAX_EPOCH = 0x7FFF
DEFAULT_EXPIRATION_MS = 86_400_000


class AppendOrigin(Enum):
    """Who appends a batch. A follower takes what its leader has checked without checking again."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class EndMarker(NamedTuple):
    """The only record of a batch that ends a transaction."""

    is_abort: bool
    coordinator_epoch: int
    timestamp_ms: int


class StateBatch(NamedTuple):
    """What producer state needs of a batch: its header, and the marker in a control batch."""

    header: Header
    marker: EndMarker | None = None


class SentBatch(NamedTuple):
    """A recent batch, kept to detect duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class Producer:
    """The state of one producer id."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = NO_TIMESTAMP
    txn_first_offset: int | None = None
    batches: deque[SentBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_REMEMBERED))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def enter_epoch(self, epoch: int) -> None:
        """Enter an epoch; a new one numbers its batches from the start."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch

    def add(self, epoch: int, batch: SentBatch) -> None:
        self.enter_epoch(epoch)
        self.batches.append(batch)
        self.last_timestamp_ms = batch.timestamp_ms

    def row(self) -> ProducerState:
        """Return the entry for a snapshot."""
        last = self.batches[-1] if self.batches else SentBatch(NO_SEQUENCE, -1, 0, NO_TIMESTAMP)
        return ProducerState(
            self.producer_id,
            self.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            -1 if self.txn_first_offset is None else self.txn_first_offset,
        )


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True)
class Update:
    """What an append would change; `duplicate` is set instead if it was appended before."""

    producers: dict[int, ProducerUpdate] = field(default_factory=dict)
    completed: list[CompletedTxn] = field(default_factory=list)
    duplicate: SentBatch | None = None


class ProducerUpdate:
    """One producer's part of an append, checked against its known state."""

    def __init__(self, known: Producer, origin: AppendOrigin, transaction_version: int) -> None:
        self._known = known
        self._origin = origin
        self._transaction_version = transaction_version
        self.new = Producer(
            known.producer_id,
            known.epoch,
            known.coordinator_epoch,
            known.last_timestamp_ms,
            known.txn_first_offset,
        )
        self.started: list[int] = []

    def add(self, batch: StateBatch) -> CompletedTxn | None:
        """Add a batch; raise LogRefusal if this producer must not write it."""
        header = batch.header
        if header.is_control:
            return None if batch.marker is None else self._end(header, batch.marker)
        self._check_epoch(header.producer_epoch, header.base_offset, strict=False)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(header)
        delta = header.last_offset - header.base_offset
        sent = SentBatch(header.last_sequence, header.last_offset, delta, header.max_timestamp)
        self.new.add(header.producer_epoch, sent)
        if self.new.txn_first_offset is not None and not header.is_transactional:
            raise InvalidTxnState(
                f"producer {header.producer_id} writes offset {header.base_offset} outside its transaction"
            )
        if self.new.txn_first_offset is None and header.is_transactional:
            self.new.txn_first_offset = header.base_offset
            self.started.append(header.base_offset)
        return None

    def _end(self, header: Header, marker: EndMarker) -> CompletedTxn | None:
        offset = header.base_offset
        # A follower does not know the version: its leader has checked.
        strict = self._origin is not AppendOrigin.REPLICATION and self._transaction_version >= 2
        self._check_epoch(header.producer_epoch, offset, strict=strict)
        if (
            self.new.coordinator_epoch > marker.coordinator_epoch
            and self._origin is not AppendOrigin.REPLICATION
        ):
            raise CoordinatorFenced(
                f"coordinator epoch {marker.coordinator_epoch} of the marker for producer "
                f"{header.producer_id} is below {self.new.coordinator_epoch}"
            )
        first = self.new.txn_first_offset
        self.new.enter_epoch(header.producer_epoch)
        self.new.coordinator_epoch = marker.coordinator_epoch
        self.new.last_timestamp_ms = marker.timestamp_ms
        self.new.txn_first_offset = None
        return None if first is None else CompletedTxn(header.producer_id, first, offset, marker.is_abort)

    def _check_epoch(self, epoch: int, offset: int, *, strict: bool) -> None:
        current = self.new.epoch
        if epoch > current or (epoch == current and not strict):
            return
        if epoch == current and (self.new.txn_first_offset is None or epoch == MAX_EPOCH):
            return  # the marker is written again
        if self._origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(
                f"epoch {epoch} of producer {self.new.producer_id} at offset {offset} is not above {current}"
                if strict
                else f"epoch {epoch} of producer {self.new.producer_id} at offset {offset} is below {current}"
            )

    def _check_sequence(self, header: Header) -> None:
        first = header.base_sequence
        if header.producer_epoch != self.new.epoch:
            if first != 0 and self.new.epoch != NO_EPOCH:
                raise OutOfOrderSequence(
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at sequence {first}"
                )
            return
        if self._known.epoch == NO_EPOCH:
            return  # producer unknown: any sequence may be the next
        last = self._last_sequence(header)
        if first != last + 1 and not (first == 0 and last == MAX_INT32):
            raise OutOfOrderSequence(
                f"producer {header.producer_id} goes on with sequence {first} behind {last}"
            )

    def _last_sequence(self, header: Header) -> int:
        if self.new.batches:
            return self.new.last_sequence
        return self._known.last_sequence if header.producer_epoch == self._known.epoch else NO_SEQUENCE


class ProducerStates:
    """The state of all producers of one log, up to `end_offset`."""

    def __init__(self, *, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        self.expiration_ms = expiration_ms
        self.end_offset = 0
        self.producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}  # first offset -> producer
        self._unreplicated: dict[int, int] = {}  # first offset -> offset of the marker
        self._buckets = 16

    def prepare(
        self, batches: Iterable[StateBatch], origin: AppendOrigin, transaction_version: int = 0
    ) -> Update:
        """Check the batches of one append; raise LogRefusal, changing nothing, if one must not be written."""
        update = Update()
        for batch in batches:
            producer_id = batch.header.producer_id
            if producer_id < 0:
                continue
            known = self.producers.get(producer_id) or Producer(producer_id)
            if origin is AppendOrigin.CLIENT and (sent := _find_duplicate(known, batch.header)):
                update.duplicate = sent
                return update
            part = update.producers.get(producer_id)
            if part is None:
                part = update.producers[producer_id] = ProducerUpdate(known, origin, transaction_version)
            if completed := part.add(batch):
                update.completed.append(completed)
        return update

    def apply(self, update: Update) -> Iterator[AbortedTxn]:
        """Apply what was prepared; yield aborted transactions, for the index."""
        for producer_id, part in update.producers.items():
            self._merge(producer_id, part.new)
            for first in part.started:
                self._open[first] = producer_id
        for completed in update.completed:
            if completed.is_aborted:
                yield self._aborted(completed)
            self._open.pop(completed.first_offset, None)
            self._unreplicated[completed.first_offset] = completed.last_offset

    def replay(self, batch: StateBatch) -> list[AbortedTxn]:
        """Count a batch that is already in the log."""
        aborted = list(self.apply(self.prepare([batch], AppendOrigin.REPLICATION)))
        self.end_offset = batch.header.last_offset + 1
        return aborted

    def known(self, producer_id: int) -> Producer:
        """Return the producer's state, created if it is new."""
        if producer_id not in self.producers:
            self._put(Producer(producer_id))
        return self.producers[producer_id]

    def _merge(self, producer_id: int, new: Producer) -> None:
        known = self.producers.get(producer_id)
        if known is None:
            self._put(new)
            return
        known.enter_epoch(new.epoch)
        known.batches.extend(new.batches)
        known.coordinator_epoch = new.coordinator_epoch
        known.txn_first_offset = new.txn_first_offset
        known.last_timestamp_ms = new.last_timestamp_ms

    def _put(self, producer: Producer) -> None:
        self.producers[producer.producer_id] = producer
        while len(self.producers) > self._buckets * 3 // 4:
            self._buckets *= 2

    def _aborted(self, txn: CompletedTxn) -> AbortedTxn:
        others = [first for first, producer_id in self._open.items() if producer_id != txn.producer_id]
        stable = min(others, default=txn.last_offset + 1)
        return AbortedTxn(CURRENT_VERSION, txn.producer_id, txn.first_offset, txn.last_offset, stable)

    # --- what readers need ----------------------------------------------------------------------------

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of a transaction that is open, or whose marker is not replicated yet."""
        for first, last in list(self._unreplicated.items()):
            if last < high_watermark:
                del self._unreplicated[first]
        return min([*self._open, *self._unreplicated], default=None)

    @property
    def open_transactions(self) -> dict[int, int]:
        """Map of first offset to producer id."""
        return dict(sorted(self._open.items()))

    # --- time and snapshots ---------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """Remove producers idle for too long, judging by their batches' timestamps as a broker does."""
        for producer_id in [
            known.producer_id for known in self.producers.values() if self._expired(known, now_ms)
        ]:
            del self.producers[producer_id]

    def _expired(self, producer: Producer, now_ms: int) -> bool:
        idle_ms = now_ms - producer.last_timestamp_ms
        return producer.txn_first_offset is None and idle_ms >= self.expiration_ms

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self._open.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    def load(self, rows: Iterable[ProducerState], end_offset: int, now_ms: int | None) -> None:
        """Load a snapshot; with `now_ms`, expired producers are left out."""
        self.clear(end_offset)
        for row in rows:
            producer = _producer(row)
            if now_ms is not None and self._expired(producer, now_ms):
                continue
            self._put(producer)
            if producer.txn_first_offset is not None:
                self._open[producer.txn_first_offset] = producer.producer_id

    def rows(self) -> list[ProducerState]:
        """Return the entries of a snapshot, in the order of Java's hash map, as a broker writes them."""

        def bucket(producer: Producer) -> int:
            folded = (producer.producer_id ^ producer.producer_id >> 32) & 0xFFFFFFFF
            return (folded ^ folded >> 16) & self._buckets - 1

        return [producer.row() for producer in sorted(self.producers.values(), key=bucket)]


def _find_duplicate(known: Producer, header: Header) -> SentBatch | None:
    if header.producer_epoch != known.epoch:
        return None
    wanted = (header.base_sequence, header.last_sequence)
    for sent in known.batches:
        if (sent.first_sequence, sent.last_sequence) == wanted:
            return sent
    return None


def _producer(row: ProducerState) -> Producer:
    first = row.current_txn_first_offset
    producer = Producer(
        row.producer_id,
        row.producer_epoch,
        row.coordinator_epoch,
        row.timestamp_ms,
        first if first >= 0 else None,
    )
    if row.last_offset >= 0:
        sent = SentBatch(row.last_sequence, row.last_offset, row.offset_delta, row.timestamp_ms)
        producer.batches.append(sent)
    return producer


def read_marker(header: Header, data: bytes | memoryview) -> EndMarker | None:
    """Return the marker in a whole control batch; None if it is empty or does not end a transaction.

    Raises FormatError for a record that cannot be read.
    """
    from kafkatool.format.schema.control import END_OF_TRANSACTION, read_control_type, read_end_marker

    record = next(records_of(header, data), None)
    if record is None:
        return None
    kind = read_control_type(record.key)
    if kind not in END_OF_TRANSACTION:
        return None
    return EndMarker(kind == 0, read_end_marker(record.value), record.timestamp_ms)


def state_batch(header: Header, data: bytes | memoryview) -> StateBatch:
    """Return what producer state needs of a batch; raise FormatError for a marker that cannot be read."""
    if not header.is_control or header.producer_id < 0:
        return StateBatch(header)
    marker = read_marker(header, data)
    if marker is None and header.records_count:
        raise FormatError("control record", 0, expected="ABORT or COMMIT", found="another type")
    return StateBatch(header, marker)
