"""Walk one segment and say what its side files should hold: indexes, aborted transactions, producers.

It goes on behind damage, as far as good batches are found; `recovery.py` stops where a broker does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.engine.accounting import IndexAccounting, InvalidOffset
from kafkatool.engine.findings import Damage, FindingClass
from kafkatool.engine.producer_state import ProducerStates, state_batch
from kafkatool.engine.refusals import LogRefusal
from kafkatool.engine.scan import Batch, scan
from kafkatool.engine.source import Source
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import BatchHeader
from kafkatool.format.txn_index import AbortedTxn

DEFAULT_INTERVAL = 4096
_NO_LIMIT = 1 << 40


@dataclass(slots=True)
class Indexed:
    """What a walk of one segment found out."""

    base_offset: int
    size: int
    next_offset: int
    valid_bytes: int = 0
    """Up to here the broker's chain of good batches reaches."""
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    aborted: list[AbortedTxn] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    batches: int = 0

    @property
    def txn_entries(self) -> bytes:
        return txn_index.write_entries(self.aborted)


class Claims:
    """The entries of two index files, held against the log while it is walked.

    A broker that was restarted begins to count anew, so right entries need not be those of one walk. An
    offset entry is right where a batch begins at its position, all before it lies below its offset, and the
    batch not above; a time entry where its time is the greatest so far and its offset that batch's last.
    """

    def __init__(self, base_offset: int, offsets: bytes, times: bytes) -> None:
        self._base_offset = base_offset
        self._offsets = offset_index.read_entries(offsets)
        self._times = time_index.read_entries(times)
        self._offset = next(self._offsets, None)
        self._time = next(self._times, None)
        self.offsets_hold = self.times_hold = True
        self._last_offset = -1

    def see(
        self, position: int, first_offset: int, last_offset: int, timestamp: int, is_latest: bool
    ) -> None:
        """A good batch; `is_latest`: its time is above all before it."""
        entry = self._offset
        if entry is not None and entry.position <= position:
            offset = entry.relative_offset + self._base_offset
            if entry.position < position or not offset > self._last_offset or offset < first_offset:
                self.offsets_hold = False
            self._offset = next(self._offsets, None)
        if is_latest and self._time == (timestamp, last_offset - self._base_offset):
            self._time = next(self._times, None)
        self._last_offset = last_offset

    def end(self) -> None:
        """The log is over: what was not met is not in it."""
        self.offsets_hold = self.offsets_hold and self._offset is None
        self.times_hold = self._time is None


def index_segment(
    source: Source,
    base_offset: int,
    interval: int,
    states: ProducerStates | None = None,
    claims: Claims | None = None,
) -> Indexed:
    """The indexes of a segment from all its good batches; see `damage` for what lies between.

    `states` holds the producers at the base; it is replayed up to the first damage.
    """
    found = _empty(source, base_offset)
    accounting = IndexAccounting(base_offset, interval, _NO_LIMIT)
    for item in scan(source):
        if isinstance(item, Damage):
            found.damage.append(item)
            continue
        if not item.is_valid:
            continue
        latest = accounting.max_timestamp
        problem = _count(item, accounting, found)
        if claims is not None:
            time = item.header.max_timestamp
            claims.see(item.position, _first_offset(item), item.header.last_offset, time, time > latest)
        if problem is not None:
            found.damage.append(problem)
            continue
        if not found.damage:
            found.valid_bytes = item.position + item.header.size
            if states is not None and (refused := _replay(item, states, found)):
                found.damage.append(refused)
    _close(accounting, found)
    if claims is not None:
        claims.end()
    return found


def _first_offset(batch: Batch) -> int:
    header = batch.header
    return header.base_offset if isinstance(header, BatchHeader) else header.offset


def _empty(source: Source, base_offset: int) -> Indexed:
    size = source.size_hint
    assert size is not None
    return Indexed(base_offset, size, base_offset)


def _count(batch: Batch, accounting: IndexAccounting, found: Indexed) -> Damage | None:
    """Give a batch its index entries; damage where its offset does not fit."""
    header = batch.header
    last_offset = header.last_offset
    if not accounting.can_hold(last_offset):
        return _misplaced(batch, f"an offset of this segment, from {found.base_offset} on")
    try:
        new = accounting.add(batch.position, header.size, last_offset, header.max_timestamp)
    except InvalidOffset:
        return _misplaced(batch, f"an offset above {accounting.last_indexed_offset}")
    if new.offset is not None:
        found.offset_entries += offset_index.write_entry(new.offset)
        if new.time is not None:
            found.time_entries += time_index.write_entry(new.time)
    found.next_offset = last_offset + 1
    found.batches += 1
    return None


def _misplaced(batch: Batch, expected: str) -> Damage:
    last_offset = batch.header.last_offset
    return Damage(
        kind=FindingClass.BAD_OFFSET,
        position=batch.position,
        end_position=batch.position + batch.header.size,
        expected=expected,
        found=f"offset {last_offset}",
        message=f"offset {last_offset} where {expected} should stand",
        last_offset=last_offset,
    )


def _close(accounting: IndexAccounting, found: Indexed) -> None:
    last = accounting.close()
    if last is not None:
        found.time_entries += time_index.write_entry(last)


def _replay(batch: Batch, states: ProducerStates, found: Indexed) -> Damage | None:
    """Count a batch for its producer; damage where no broker could have written it so."""
    header = batch.header
    if not isinstance(header, BatchHeader) or header.producer_id < 0 or batch.data is None:
        states.end_offset = header.last_offset + 1
        return None
    try:
        found.aborted += states.replay(state_batch(header, batch.data))
    except (LogRefusal, FormatError) as error:
        return Damage(
            kind=FindingClass.BAD_RECORD,
            position=batch.position,
            end_position=batch.position + header.size,
            expected="a batch that goes on with its producer's",
            found="another",
            message=str(error),
            first_offset=header.base_offset,
            last_offset=header.last_offset,
        )
    return None
