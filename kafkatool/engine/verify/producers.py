"""How a stretch of a log changes the state of its producers, in a form that lets two stretches be joined.

A broker replays batches into one entry per producer. A stretch in the middle of a log does not know the entry
it starts from, so it records the changes: joining these to the stretch before equals one replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkatool.format.batch import BatchHeader
from kafkatool.format.state.producer_snapshot import ProducerState


class LastBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int


class Transaction(NamedTuple):
    """The first offset of a transaction's data, and whether any of its records still exist."""

    first_offset: int
    has_records: bool


class Aborted(NamedTuple):
    """An abort marker and the transaction that it ends (None: its data is before the stretch)."""

    marker_offset: int
    producer_id: int
    transaction: Transaction | None
    is_first: bool
    """Whether it is the producer's first marker in the stretch: its data may begin before the stretch."""


@dataclass(slots=True)
class Trail:
    """The changes to one producer in one stretch."""

    first_epoch: int
    epoch: int
    changed_epoch: bool = False
    last: LastBatch | None = None
    timestamp_ms: int = -1
    coordinator_epoch: int | None = None
    opened: Transaction | None = None
    """The transaction that the stretch's first marker ends, as far as the stretch shows it."""
    current: Transaction | None = None

    @property
    def has_marker(self) -> bool:
        return self.coordinator_epoch is not None

    def append(
        self,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp_ms: int,
        first_transactional: int,
        has_records: bool,
    ) -> None:
        """Add data batches of one epoch, given the last one and the first transactional offset, or -1."""
        self._take_epoch(epoch)
        self.last = LastBatch(last_sequence, last_offset, offset_delta)
        self.timestamp_ms = timestamp_ms
        if first_transactional >= 0:
            known = self.current or Transaction(first_transactional, False)
            self.current = Transaction(known.first_offset, known.has_records or has_records)

    def end(self, header: BatchHeader, coordinator_epoch: int) -> Transaction | None:
        """Add a marker; return the transaction that it ends, as far as it was seen."""
        self._take_epoch(header.producer_epoch)
        ended = self.current
        if not self.has_marker:
            self.opened = ended
        self.current = None
        self.timestamp_ms = header.max_timestamp
        self.coordinator_epoch = coordinator_epoch
        return ended

    def _take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            # The broker forgets the batches of the previous epoch.
            self.epoch, self.changed_epoch, self.last = epoch, True, None

    def state(self, producer_id: int) -> ProducerState:
        """Return the state as in a snapshot, for a stretch that began at the start of the log."""
        last = self.last or LastBatch(-1, -1, 0)
        coordinator = -1 if self.coordinator_epoch is None else self.coordinator_epoch
        first = -1 if self.current is None else self.current.first_offset
        return ProducerState(producer_id, self.epoch, *last, self.timestamp_ms, coordinator, first)


def data_facts(header: BatchHeader) -> tuple[int, int, int, int, int, int, bool]:
    """Return the arguments of `Trail.append` for one data batch."""
    last = header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
    first = header.base_offset if header.is_transactional else -1
    return header.producer_epoch, *last, first, header.is_transactional and header.records_count > 0


def joined(a: Trail, b: Trail) -> Trail:
    """Return the trail of a producer over two adjacent stretches."""
    keeps_epoch = b.first_epoch == a.epoch and not b.changed_epoch
    current = b.current if b.has_marker else _both(a.current, b.current)
    opened = a.opened if a.has_marker or not b.has_marker else _both(a.current, b.opened)
    return replace(
        b,
        first_epoch=a.first_epoch,
        changed_epoch=a.changed_epoch or not keeps_epoch,
        last=b.last or (a.last if keeps_epoch else None),
        coordinator_epoch=b.coordinator_epoch if b.has_marker else a.coordinator_epoch,
        opened=opened,
        current=current,
    )


def _both(a: Transaction | None, b: Transaction | None) -> Transaction | None:
    """Join the parts of one transaction that two stretches saw."""
    if a is None or b is None:
        return a or b
    return Transaction(a.first_offset, a.has_records or b.has_records)


def join_trails(a: dict[int, Trail], b: dict[int, Trail]) -> dict[int, Trail]:
    both = dict(a)
    for producer_id, trail in b.items():
        both[producer_id] = joined(a[producer_id], trail) if producer_id in a else trail
    return both


def join_aborted(a: dict[int, Trail], found: list[Aborted]) -> list[Aborted]:
    """Return the aborts of a later stretch, completed with transaction starts from the earlier one."""
    return [_known_from(a.get(abort.producer_id), abort) for abort in found]


def _known_from(before: Trail | None, abort: Aborted) -> Aborted:
    if before is None or not abort.is_first:
        return abort
    whole = _both(before.current, abort.transaction)
    return abort._replace(transaction=whole, is_first=not before.has_marker)
