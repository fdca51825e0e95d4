"""Walk one segment and derive its side files: indexes, aborted transactions, producer state.

The walk continues after damage as far as it finds good batches; `segment_recovery.py` stops as a broker does.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.indexes import OffsetIndex
from kafkatool.engine.batches.scan import Batch, BatchRun, scan_runs
from kafkatool.engine.broker.index_accounting import IndexAccounting, InvalidOffset
from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.files.source import Source
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import MAX_INT32
from kafkatool.format.kernel import loops
from kafkatool.format.txn_index import AbortedTxn

if TYPE_CHECKING:
    from kafkatool.engine.broker.run_accounting import RunColumns

DEFAULT_INTERVAL = 4096
_NO_LIMIT = 1 << 40


@dataclass(slots=True)
class Indexed:
    """What a walk of one segment derived."""

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
    """The entries of two index files, compared with the log as it is walked.

    A restarted broker restarts its byte count, so correct entries need not be those of a single walk. An
    offset entry is correct if a batch begins at its position, everything before it lies below its offset, and
    the batch does not begin above it; offsets rise, and none is past the end of the log. A time entry is
    correct if its time is the greatest so far and its offset that batch's last.
    """

    def __init__(self, base_offset: int, offsets: bytes, times: bytes) -> None:
        self._base_offset = base_offset
        self._offsets = offsets[: len(offsets) // offset_index.ENTRY_SIZE * offset_index.ENTRY_SIZE]
        self._times = times[: len(times) // time_index.ENTRY_SIZE * time_index.ENTRY_SIZE]
        self._offset_at = self._time_at = 0
        claimed = OffsetIndex.whole(self._offsets, base_offset).offsets
        self.offsets_hold, self.times_hold = loops.rising(claimed, 0) == len(claimed), True
        self._last_offset = -1

    def see(
        self, position: int, first_offset: int, last_offset: int, timestamp: int, is_latest: bool
    ) -> None:
        """Check a good batch; `is_latest`: its timestamp is above all before it."""
        if self._offset_at < len(self._offsets):
            entry = offset_index.read_entry(self._offsets, self._offset_at)
            if entry.position <= position:
                offset = entry.relative_offset + self._base_offset
                if entry.position < position or not offset > self._last_offset or offset < first_offset:
                    self.offsets_hold = False
                self._offset_at += offset_index.ENTRY_SIZE
        if is_latest and self._time_at < len(self._times):
            entry_here = (timestamp, last_offset - self._base_offset)
            if time_index.read_entry(self._times, self._time_at) == entry_here:
                self._time_at += time_index.ENTRY_SIZE
        self._last_offset = last_offset

    def see_run(self, run: RunColumns) -> None:
        """Check many good batches."""
        from kafkatool.engine.broker.run_accounting import offsets_that_hold, times_that_hold

        offsets = memoryview(self._offsets)[self._offset_at :]
        held = offsets_that_hold(run, offsets, self._base_offset, self._last_offset)
        if held is None:
            self.offsets_hold = False
        else:
            self._offset_at += held * offset_index.ENTRY_SIZE
        times = memoryview(self._times)[self._time_at :]
        self._time_at += times_that_hold(run, times, self._base_offset) * time_index.ENTRY_SIZE
        self._last_offset = int(run.last_offset[-1])

    def end(self) -> None:
        """Finish at the end of the log: entries that were not matched are wrong."""
        are_met = self._offset_at == len(self._offsets)
        if self._offsets:
            last = offset_index.read_entry(self._offsets, len(self._offsets) - offset_index.ENTRY_SIZE)
            are_met = are_met and last.offset(self._base_offset) <= self._last_offset
        self.offsets_hold = self.offsets_hold and are_met
        self.times_hold = self._time_at == len(self._times)


def index_segment(
    source: Source,
    base_offset: int,
    interval: int,
    states: ProducerStates | None = None,
    claims: Claims | None = None,
) -> Indexed:
    """Derive the indexes of a segment from all its good batches; `damage` has what lies between.

    `states` has the producers at the base offset; it is replayed up to the first damage.
    """
    found = _empty(source, base_offset)
    walk = _IndexWalk(found, IndexAccounting(base_offset, interval, _NO_LIMIT), states, claims)
    walk.run(scan_runs(source))
    if claims is not None:
        claims.end()
    return found


class _IndexWalk:
    """One walk over a segment: plain batches in runs, the others one by one."""

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

    def run(self, walk: Iterable[BatchRun | Batch | Damage]) -> None:
        for item in walk:
            if isinstance(item, BatchRun):
                self._take_run(item)
            elif isinstance(item, Damage):
                self.found.damage.append(item)
            elif item.is_valid:
                self._take(item)
        with suppress(InvalidOffset):  # offsets went backwards, which is in the damage
            if (closing := self.accounting.close()) is not None:
                self.found.time_entries += time_index.write_entry(closing)

    def _take_run(self, run: BatchRun) -> None:
        from kafkatool.engine.broker.run_accounting import add_run, read_run, replay_run

        columns = read_run(run, self.accounting)
        if columns is None:
            for batch in run.batches():
                self._take(batch)
            return
        if self.claims is not None:
            self.claims.see_run(columns)
        offsets, times = add_run(columns, self.accounting)
        self.found.offset_entries += offsets
        self.found.time_entries += times
        self.found.next_offset = int(columns.last_offset[-1]) + 1
        if self.states is not None and not self.found.damage and not replay_run(columns, self.states):
            for batch in run.batches():
                self._replay(batch, self.states)

    def _take(self, batch: Batch) -> None:
        """Take a single good batch."""
        position, header, found, accounting = batch.position, batch.header, self.found, self.accounting
        first = header.base_offset
        last, time = header.last_offset, header.max_timestamp
        if self.claims is not None:
            self.claims.see(position, first, last, time, time > accounting.max_timestamp)
        if not 0 <= last - found.base_offset <= MAX_INT32:
            found.damage.append(_misplaced(batch, f"an offset of this segment, from {found.base_offset} on"))
            return
        try:
            new = accounting.add(position, header.size, last, time)
        except InvalidOffset:
            expected = f"an offset above {accounting.last_indexed_offset}"
            found.damage.append(_misplaced(batch, expected))
            return
        if new.offset is not None:
            found.offset_entries += offset_index.write_entry(new.offset)
        if new.time is not None:
            found.time_entries += time_index.write_entry(new.time)
        found.next_offset = last + 1
        if self.states is not None:
            self._replay(batch, self.states)

    def _replay(self, batch: Batch, states: ProducerStates) -> None:
        """Replay a batch for its producer; add damage if no broker could have written it."""
        header = batch.header
        if self.found.damage:
            return  # producer state is unknown after damage
        if header.producer_id < 0:
            states.end_offset = header.last_offset + 1
            return
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
