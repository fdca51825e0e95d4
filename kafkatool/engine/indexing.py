"""Walk one segment and say what its side files should hold: indexes, aborted transactions, producers.

It goes on behind damage, as far as good batches are found; `recovery.py` stops where a broker does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkatool.engine.accounting import IndexAccounting, InvalidOffset
from kafkatool.engine.findings import Damage, FindingClass
from kafkatool.engine.producer_state import ProducerStates, state_batch
from kafkatool.engine.refusals import LogRefusal
from kafkatool.engine.scan import Batch, scan
from kafkatool.engine.source import Source
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import LOG_OVERHEAD, MAX_INT32, BatchHeader
from kafkatool.format.legacy import LegacyHeader
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.txn_index import AbortedTxn

DEFAULT_INTERVAL = 4096
_NO_LIMIT = 1 << 40


@dataclass(slots=True)
class Indexed:
    """What a walk of one segment found out."""

    base_offset: int
    size: int
    next_offset: int
    offset_entries: bytearray = field(default_factory=bytearray)
    time_entries: bytearray = field(default_factory=bytearray)
    aborted: list[AbortedTxn] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)

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
    walk = _IndexWalk(found, IndexAccounting(base_offset, interval, _NO_LIMIT), states, claims)
    walk.run(scan(source))
    if claims is not None:
        claims.end()
    return found


class _IndexWalk:
    """One walk; `run` is the loop that all the time goes into, so it names fields by their place."""

    def __init__(
        self,
        found: Indexed,
        accounting: IndexAccounting,
        states: ProducerStates | None,
        claims: Claims | None,
    ) -> None:
        self.found = found
        self.accounting = accounting
        self.states = states
        self.claims = claims

    def run(self, walk: Iterable[Batch | Damage]) -> None:
        found, accounting, states, claims = self.found, self.accounting, self.states, self.claims
        add, base_offset, damage = accounting.add, found.base_offset, found.damage
        offsets: list[OffsetEntry] = []
        times: list[TimeEntry] = []
        for item in walk:
            if isinstance(item, Damage):
                damage.append(item)
                continue
            position, header, is_valid, _data = item
            if not is_valid:
                continue
            first, size, last, time, producer = _facts(header)
            if claims is not None:
                claims.see(position, first, last, time, time > accounting.max_timestamp)
            if not 0 <= last - base_offset <= MAX_INT32:
                damage.append(_misplaced(item, f"an offset of this segment, from {base_offset} on"))
                continue
            try:
                new = add(position, size, last, time)
            except InvalidOffset:
                damage.append(_misplaced(item, f"an offset above {accounting.last_indexed_offset}"))
                continue
            if new.offset is not None:
                offsets.append(new.offset)
                if new.time is not None:
                    times.append(new.time)
            found.next_offset = last + 1
            if states is not None and not damage:
                if producer >= 0:
                    self._replay(item, states)
                else:
                    states.end_offset = last + 1
        if (closing := accounting.close()) is not None:
            times.append(closing)
        found.offset_entries += offset_index.write_entries(offsets)
        found.time_entries += time_index.write_entries(times)

    def _replay(self, batch: Batch, states: ProducerStates) -> None:
        """Count a batch for its producer; damage where no broker could have written it so."""
        header = batch.header
        assert isinstance(header, BatchHeader)
        try:
            self.found.aborted += states.replay(state_batch(header, batch.data or b""))
        except (LogRefusal, FormatError) as error:
            self.found.damage.append(
                Damage(
                    kind=FindingClass.BAD_RECORD,
                    position=batch.position,
                    end_position=batch.position + header.size,
                    expected="a batch that goes on with its producer's",
                    found="another",
                    message=str(error),
                    first_offset=header.base_offset,
                    last_offset=header.last_offset,
                )
            )


def _facts(header: BatchHeader | LegacyHeader) -> tuple[int, int, int, int, int]:
    """First offset, size, last offset, greatest time and producer, in as few steps as Python allows."""
    if isinstance(header, BatchHeader):
        first = header[0]
        return first, header[1] + LOG_OVERHEAD, first + header[6], header[8], header[9]
    return header.offset, header.size, header.last_offset, header.max_timestamp, -1


def _empty(source: Source, base_offset: int) -> Indexed:
    size = source.size_hint
    assert size is not None
    return Indexed(base_offset, size, base_offset)


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
