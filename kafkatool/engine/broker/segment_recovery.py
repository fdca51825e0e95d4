"""Recover one segment that a broker does not trust: the pure part, without files.

Batches are walked from the start, as long as each is whole, its checksum matches and its offset fits relative
to the base offset. The batches walked give the indexes and the producer state; the rest is cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.batch import BatchHeader
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.txn_index import AbortedTxn


class OffsetOverflow(KafkatoolError):
    """A batch does not belong to its segment: a broker splits the segment, or refuses to start."""


@dataclass(slots=True)
class RecoveredSegment:
    """What remains of a segment: its size, and what its indexes should hold."""

    valid_bytes: int = 0
    next_offset: int = 0
    offsets: list[OffsetEntry] = field(default_factory=list)
    times: list[TimeEntry] = field(default_factory=list)
    aborted: list[AbortedTxn] = field(default_factory=list)
    # Why the walk ended before the end of the file; None if it did not, or if the last batch was merely torn.
    problem: str | None = None
    has_zeros_behind: bool = False
    """Whether only zeros are cut: preallocated room, or bytes that never reached the disk."""
    unreadable: Damage | None = None
    """Batches that are kept although no consumer can read them, from the first to the last."""
    unreadable_batches: int = 0

    def count_unreadable(self, damage: Damage) -> None:
        """Add a batch of unknown magic: magic is outside the checksum, and recovery does not check it."""
        first = self.unreadable or damage
        self.unreadable = replace(first, end_position=damage.end_position, last_offset=damage.last_offset)
        self.unreadable_batches += 1


def recover_segment(
    walk: Iterable[Batch | Damage],
    accounting: IndexAccounting,
    states: ProducerStates,
    epochs: LeaderEpochs,
) -> RecoveredSegment:
    """Walk a segment (a `scan` with `chain=True`), updating producer state and epochs.

    Raises InvalidOffset where a broker gives up on the whole segment, OffsetOverflow where it splits it.
    """
    found = RecoveredSegment(next_offset=accounting.base_offset)
    for item in walk:
        if isinstance(item, Damage):
            if item.ends_chain:
                found.problem = item.message if item.throws else None
                is_zeros = item.kind is FindingClass.ZERO_FILLED and item.severity is Severity.DEGRADED
                found.has_zeros_behind = is_zeros and item.position == found.valid_bytes
                break
            if item.kind is FindingClass.BAD_MAGIC:
                found.count_unreadable(item)
            continue  # concerns a batch that was judged already
        header = item.header
        if not item.is_valid:
            found.problem = "the checksum does not match"
            break
        if not accounting.can_hold(header.last_offset):
            raise OffsetOverflow(f"offset {header.last_offset} in the segment of {accounting.base_offset}")
        entries = accounting.add(item.position, header.size, header.last_offset, header.max_timestamp)
        if entries.offset is not None:
            found.offsets.append(entries.offset)
        if entries.time is not None:
            found.times.append(entries.time)
        found.valid_bytes += header.size
        found.next_offset = header.last_offset + 1
        try:
            _bring_along(item, found, states, epochs)
        except FormatError as error:
            found.problem = str(error)
            break
    if (last := accounting.close()) is not None:
        found.times.append(last)
    return found


def _bring_along(batch: Batch, found: RecoveredSegment, states: ProducerStates, epochs: LeaderEpochs) -> None:
    header = batch.header
    if not isinstance(header, BatchHeader):
        states.end_offset = header.last_offset + 1
        return
    latest = epochs.latest
    if header.partition_leader_epoch > (-1 if latest is None else latest.epoch):
        epochs.assign(header.partition_leader_epoch, header.base_offset)
    if header.producer_id < 0:
        states.end_offset = header.last_offset + 1
        return
    data = batch.data if batch.data is not None else b""
    found.aborted += states.replay(state_batch(header, data))
