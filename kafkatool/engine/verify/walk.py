"""Walk a log, check it and its indexes, and gather facts and damage.

This is the job of `verify` for survey.py, also for the observers of its walk. The kernel's Tally counts the
common case, whole good batches in order; it stops at the first thing that is not plainly good, and `scan`
walks the rest of the log, finds out what is wrong and continues after it.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkatool.engine.batches.bit_flips import MAYBE_FLIPPED, described_as_flip, size_to_search
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.indexes import OffsetIndex, TimeIndex, sound_offset_index, sound_time_index
from kafkatool.engine.batches.scan import Batch, each
from kafkatool.engine.batches.segment_job import SegmentJob
from kafkatool.engine.batches.segment_walk import SegmentWalk
from kafkatool.engine.verify.log_facts import LogFacts, join_facts
from kafkatool.engine.verify.producers import Aborted, Trail, data_facts
from kafkatool.engine.verify.records import read_marker, record_problem
from kafkatool.format.batch import HEADER_SIZE, LOG_OVERHEAD, MAX_INT32, BatchHeader, read_header
from kafkatool.format.kernel.loops import Tally
from kafkatool.format.kernel.outcome import EPOCH, INDEX, MORE, ODD, PRODUCER, RECORDS, TIME

if TYPE_CHECKING:
    from kafkatool.engine.batches.observers import BatchRows, Observer

NOWHERE = 1 << 62
MOST_DAMAGES = 10_000
"""Maximum kept per log; further ones are only counted."""
MOST_EPOCHS = 100_000
_FLIP_BUDGET = 64 << 20


@dataclass(frozen=True, slots=True)
class LogJob(SegmentJob[LogFacts]):
    """What to check in one log. `base_offset` is None if the file name has none."""

    base_offset: int | None
    deep: bool = False
    check_indexes: bool = True
    observers: tuple[Observer, ...] = ()
    """Observers that also see the good batches; each stretch is walked with fresh ones."""

    def begin(self, position: int) -> LogFacts:
        return LogFacts(start=position, stop=position, observers=tuple(one.fresh() for one in self.observers))

    def walk(self, walk: SegmentWalk, found: LogFacts, *, is_fresh: bool) -> LogFacts:
        facts = self.begin(found.start) if is_fresh else found  # a walk that fails half-way does not count
        with ExitStack() as stack:
            for observer in facts.observers:
                stack.enter_context(observer.walking(facts.stop))
            _LogWalk(self, walk, facts, is_fresh=is_fresh).run()
        return facts

    def join(self, a: LogFacts, b: LogFacts) -> LogFacts | None:
        if a.times_to != b.times_from or b.time_damages:
            return None
        if len(a.epochs) + len(b.epochs) > MOST_EPOCHS:
            return None
        if b.first_time_ms is not None and b.first_time_ms < a.max_filled_timestamp:
            return None
        return join_facts(a, b)


class _LogWalk:
    def __init__(self, job: LogJob, walk: SegmentWalk, facts: LogFacts, *, is_fresh: bool) -> None:
        self.job = job
        self.walk = walk
        self.source = walk.source
        self.is_fresh = is_fresh
        self.facts = facts
        self.base = job.base_offset or 0
        self.highest = NOWHERE if job.base_offset is None else self.base + MAX_INT32
        self.offset_index, self.time_index = OffsetIndex(), TimeIndex()
        if job.check_indexes:
            self.offset_index = sound_offset_index(walk.split.path, walk.size, job.guest)
            self.time_index = sound_time_index(walk.split.path, walk.size, job.guest)
        self.indexed = bisect_left(self.offset_index.positions, self.facts.stop)
        self.timed = self.facts.times_to
        self.knows_times = not is_fresh or walk.split.start == 0
        self.bad: list[tuple[int, int]] = []
        self.flip_budget = _FLIP_BUDGET
        self.rows: BatchRows | None = None
        if facts.observers:
            from kafkatool.engine.batches.observers import BatchRows

            self.rows = BatchRows(facts.observers, job.max_batch_size)

    def run(self) -> None:
        facts = self.facts
        facts.done = self._good_batches()
        if not facts.done and not self.is_fresh:
            self._odd_batches()
            facts.done = True
        self._entries_between(facts.stop)
        facts.times_to = self.timed
        if self.rows is not None:
            self.rows.flush()

    def _good_batches(self) -> bool:
        """Count the common case; return False at the first thing that is not plainly good."""
        if self.base < 0:
            return False
        walk, tally = self.walk, self._tally()
        for window in walk.windows():
            if not self.knows_times and len(window) >= HEADER_SIZE:
                self._first_timed(read_header(window).base_offset)
                tally.timed = self.timed
            at, why = self._run(tally, window, walk.position, walk.end)
            walk.position += at
            if why == ODD:
                break
        self._take_over(tally, walk.position)
        return walk.position >= walk.end

    def _tally(self) -> Tally:
        """Return a tally that starts where the facts so far end."""
        facts, entries, timed = self.facts, self.offset_index, self.time_index
        columns = (entries.offsets, entries.positions, timed.times, timed.offsets)
        tally = Tally(self.base, self.highest, columns, self.job.deep)
        tally.indexed, tally.timed = self.indexed, self.timed
        if facts.batches:
            tally.batches, tally.records = facts.batches, facts.records
            tally.last_offset, tally.previous_offset = facts.last_offset, facts.previous_offset
            tally.last_position = facts.last_position
            tally.max_timestamp, tally.max_filled_timestamp = facts.max_timestamp, facts.max_filled_timestamp
        tally.thinned, tally.holes = facts.thinned, facts.holes
        if facts.epochs:
            tally.epoch, tally.last_base = facts.epochs[-1][0], facts.epochs[-1][2]
        return tally

    def _run(self, tally: Tally, window: bytes, position: int, end: int) -> tuple[int, int]:
        """Count one window, and handle each stop of the tally."""
        at, why = tally.run(window, 0, len(window), position, end)
        while why not in (MORE, ODD):
            header = read_header(window, at)
            data = memoryview(window)[at : at + header.size]
            self._settle(tally, why, header, data, position + at)
            at, why = tally.run(window, at, len(window), position + at, end)
        self._producers(tally)
        if self.rows is not None:
            self.rows.add_run(window, at, position)
        return at, why

    def _settle(self, tally: Tally, why: int, header: BatchHeader, data: memoryview, position: int) -> None:
        self.indexed, self.timed = tally.indexed, tally.timed
        if why == INDEX:
            self._entries_at(position, header.base_offset, tally.last_offset)
            tally.indexed = self.indexed
        elif why == TIME:
            newest = max(header.max_timestamp, tally.max_timestamp)
            self._times_at(header.last_offset, tally.max_filled_timestamp, newest)
            tally.timed = self.timed
        elif why == EPOCH:
            self._end_epoch(tally)
            tally.epoch = header.partition_leader_epoch
            self._new_epoch(tally.epoch, header.base_offset, position)
        elif why == PRODUCER:
            self._producers(tally)
            if header.is_control:
                self._producer(header, data)
                tally.settled_producer = position
        elif why == RECORDS:
            self._records(header, data, position)
            tally.settled_records = position

    def _end_epoch(self, tally: Tally) -> None:
        if self.facts.epochs:
            self.facts.epochs[-1][2] = tally.last_base

    def _take_over(self, tally: Tally, position: int) -> None:
        """Copy the tally's counts to the facts."""
        facts = self.facts
        facts.stop = position
        if tally.batches > facts.batches:
            if facts.first_offset is None:
                facts.first_offset = tally.first_offset
            facts.last_offset, facts.previous_offset = tally.last_offset, tally.previous_offset
            facts.last_position = tally.last_position
            self._end_epoch(tally)
        facts.batches, facts.records = tally.batches, tally.records
        facts.thinned, facts.holes = tally.thinned, tally.holes
        facts.max_timestamp, facts.max_filled_timestamp = tally.max_timestamp, tally.max_filled_timestamp
        if facts.first_time_ms is None and tally.timed > facts.times_from:
            facts.first_time_ms = self.time_index.times[facts.times_from]
        self.indexed, self.timed = tally.indexed, tally.timed
        if not self.knows_times:
            facts.times_from = facts.times_to = self.timed = 0

    # --- epochs, producers and records --------------------------------------------------------------------

    def _new_epoch(self, epoch: int, base: int, position: int) -> None:
        if len(self.facts.epochs) < MOST_EPOCHS:
            self.facts.epochs.append([epoch, base, base, position])

    def _producers(self, tally: Tally) -> None:
        """Apply the data batches since the last call to their producers."""
        for row in tally.drain():
            self._trail(row[0], row[1]).append(*row[1:])

    def _trail(self, producer_id: int, epoch: int) -> Trail:
        trails = self.facts.producers
        if producer_id not in trails:
            trails[producer_id] = Trail(epoch, epoch)
        return trails[producer_id]

    def _producer(self, header: BatchHeader, data: memoryview) -> None:
        """Apply one batch of a producer, data or marker."""
        if not header.is_control:
            trail = self._trail(header.producer_id, header.producer_epoch)
            trail.append(*data_facts(header))
            return
        marker = read_marker(header, data)
        if marker is None:
            return
        trail = self._trail(header.producer_id, header.producer_epoch)
        is_first = not trail.has_marker
        ended = trail.end(header, marker[1])
        if not marker[0]:
            self.facts.aborted.append(Aborted(header.base_offset, header.producer_id, ended, is_first))

    def _records(self, header: BatchHeader, data: memoryview | None, position: int) -> None:
        problem = record_problem(header, data)
        if problem is not None:
            self._add(replace(problem, position=position, end_position=position + header.size))

    # --- indexes ------------------------------------------------------------------------------------------

    def _next_position(self) -> int:
        positions = self.offset_index.positions
        return positions[self.indexed] if self.indexed < len(positions) else NOWHERE

    def _entries_at(self, position: int, base: int, last: int) -> int:
        """Judge the index entries up to the batch at `position`; return the next position of interest."""
        self._entries_between(position)
        if self._next_position() == position:
            offset = self.base + self.offset_index.offsets[self.indexed]
            if not max(base, last + 1) <= offset:
                self._index_damage(f"offset {base} or above", f"offset {offset} for the batch at {position}")
            self.indexed += 1
        return self._next_position()

    def _entries_between(self, position: int) -> None:
        """Report entries before `position` that point into the middle of a batch."""
        positions = self.offset_index.positions
        while self.indexed < len(positions) and positions[self.indexed] < position:
            where = positions[self.indexed]
            if not any(start <= where < end for start, end in self.bad):
                self._index_damage("the beginning of a batch", f"position {where}, in the middle of one")
            self.indexed += 1

    def _index_damage(self, expected: str, found: str) -> None:
        if len(self.facts.index_damages) < MOST_DAMAGES:
            at = 8 * self.indexed
            self.facts.index_damages.append(_index_damage(at, at + 8, expected, found))

    def _next_timed(self) -> int:
        offsets = self.time_index.offsets
        return self.base + offsets[self.timed] if self.timed < len(offsets) else NOWHERE

    def _first_timed(self, base: int) -> int:
        """Skip the time index entries before a split's first batch: they belong to another split."""
        self.timed = bisect_left(self.time_index.offsets, base - self.base)
        self.facts.times_from = self.timed
        self.knows_times = True
        return self._next_timed()

    def _times_at(self, reach: int, filled: int, newest: int) -> int:
        """Judge the time index entries up to offset `reach`; `filled` is the greatest time before.

        An entry is wrong if a search by time that starts at it would miss a record, or if no batch up to its
        offset reaches that time.
        """
        times, offsets = self.time_index.times, self.time_index.offsets
        while self.timed < len(offsets) and self.base + offsets[self.timed] <= reach:
            time_ms = times[self.timed]
            if self.facts.first_time_ms is None:
                self.facts.first_time_ms = times[self.facts.times_from]
            if not filled <= time_ms <= newest and len(self.facts.time_damages) < MOST_DAMAGES:
                at = 12 * self.timed
                offset = self.base + offsets[self.timed]
                expected = f"a time from {filled} to {newest} up to offset {offset}"
                self.facts.time_damages.append(_index_damage(at, at + 12, expected, f"time {time_ms}"))
            self.timed += 1
        return self._next_timed()

    # --- everything that is not plainly good --------------------------------------------------------------

    def _odd_batches(self) -> None:
        """Walk the rest of the log batch by batch, and report what is wrong."""
        facts, skip = self.facts, self.facts.batches > 0
        start = facts.last_position if skip else facts.stop
        if start and not skip:
            start = 0  # no good batch at the position from the index: the position proves nothing
        self.knows_times = True
        for item in each(self.walk.rest(start, skip=skip)):
            if item.position < facts.stop:
                continue
            if isinstance(item, Damage):
                if item.kind is not FindingClass.BAD_OFFSET:  # offsets are judged below
                    self._damage(item)
            elif item.is_valid:
                self._account(item)
        facts.stop = self.walk.split.end
        facts.unreadable_blocks = self.walk.unreadable_blocks

    def _account(self, batch: Batch) -> None:
        header, facts = batch.header, self.facts
        base = header.base_offset
        last = header.last_offset
        if not self._offset_holds(batch, base, last):
            return
        if isinstance(header, BatchHeader):
            self._entries_at(batch.position, base, facts.last_offset if facts.batches else -1)
            if facts.batches and base != facts.last_offset + 1:
                facts.holes += 1
            facts.thinned += header.records_count != header.last_offset_delta + 1
        else:
            self._entries_at(batch.position, min(base, self._floor() + 1), self._floor())
            facts.has_legacy = True
        stamp = header.max_timestamp
        if last >= self._next_timed():
            self._times_at(last, facts.max_filled_timestamp, max(stamp, facts.max_timestamp))
        facts.max_timestamp = max(facts.max_timestamp, stamp)
        if header.records_count:
            facts.max_filled_timestamp = max(facts.max_filled_timestamp, stamp)
        if isinstance(header, BatchHeader):
            self._account_v2(header, batch)
        if self.job.deep or header.records_count < 0:
            self._records_of(batch)
        if facts.first_offset is None:
            facts.first_offset = base
        facts.batches += 1
        facts.records += max(0, header.records_count)
        facts.previous_offset = facts.last_offset
        facts.last_offset, facts.last_position = last, batch.position
        if self.rows is not None:
            self.rows.add(batch)

    def _account_v2(self, header: BatchHeader, batch: Batch) -> None:
        epochs = self.facts.epochs
        if not epochs or epochs[-1][0] != header.partition_leader_epoch:
            self._new_epoch(header.partition_leader_epoch, header.base_offset, batch.position)
        else:
            epochs[-1][2] = header.base_offset
        if header.producer_id >= 0 and batch.data is not None:
            self._producer(header, batch.data)

    def _records_of(self, batch: Batch) -> None:
        problem = record_problem(batch.header, batch.data)
        if problem is not None:
            end = batch.position + batch.header.size
            self._add(replace(problem, position=batch.position, end_position=end))

    def _floor(self) -> int:
        return self.facts.last_offset if self.facts.batches else self.base - 1

    def _offset_holds(self, batch: Batch, base: int, last: int) -> bool:
        """Return whether a batch's offsets are possible at its position; report them if not."""
        header, facts = batch.header, self.facts
        lowest = self.base if self.job.base_offset is not None else -NOWHERE
        if last < lowest or (base < lowest and isinstance(header, BatchHeader)) or last > self.highest:
            expected, severity = f"offsets {lowest} to {self.highest}", Severity.NO_START
            message = "its offsets do not fit into this segment: a broker that scans it does not start"
        elif last < base:
            expected, severity = f"a last offset of {base} or above", Severity.LOSS
            message = "its last offset is below its first"
        elif facts.batches and base <= facts.last_offset:
            if base > facts.previous_offset and self._blame_the_one_before(base):
                return True
            # A consumer that has read this far does not take the batch.
            expected, severity = f"an offset above {facts.last_offset}", Severity.LOSS
            message = f"offset {base} follows offset {facts.last_offset}"
        else:
            return True
        self._add(self._bad_offset(batch.position, header.size, base, last, expected, message, severity))
        return False

    def _blame_the_one_before(self, base: int) -> bool:
        """Report the last batch as too high if this one fits after the one before it."""
        facts = self.facts
        raw = self.source.read(facts.last_position, HEADER_SIZE)
        wrong = int.from_bytes(raw[:8], "big", signed=True)
        if wrong <= base or len(raw) < HEADER_SIZE:
            return False
        size = int.from_bytes(raw[8:12], "big") + LOG_OVERHEAD
        self._add(
            self._bad_offset(
                facts.last_position,
                size,
                wrong,
                facts.last_offset,
                f"an offset from {self.facts.previous_offset + 1} to {base - 1}",
                f"offset {wrong} stands between offsets {self.facts.previous_offset} and {base}",
                Severity.LOSS,
            )
        )
        facts.last_offset = base - 1
        return True

    def _bad_offset(
        self, position: int, size: int, base: int, last: int, expected: str, message: str, severity: Severity
    ) -> Damage:
        return Damage(
            kind=FindingClass.BAD_OFFSET,
            position=position,
            end_position=position + size,
            expected=expected,
            found=f"offset {base}" if base == last else f"offsets {base} to {last}",
            message=message,
            severity=severity,
            first_offset=base,
            last_offset=last,
        )

    def _damage(self, damage: Damage) -> None:
        self.bad.append((damage.position, damage.end_position))
        self._add(self._flipped(damage))

    def _flipped(self, damage: Damage) -> Damage:
        size = size_to_search(damage)
        if damage.kind not in MAYBE_FLIPPED or size > self.flip_budget:
            return damage
        self.flip_budget -= size
        return described_as_flip(damage, self.source, self.walk.size)

    def _add(self, damage: Damage) -> None:
        if len(self.facts.damages) < MOST_DAMAGES:
            self.facts.damages.append(damage)
        else:
            self.facts.more_damages += 1


def _index_damage(position: int, end: int, expected: str, found: str) -> Damage:
    return Damage(
        kind=FindingClass.BAD_INDEX,
        position=position,
        end_position=end,
        expected=expected,
        found=found,
        message=f"entry {position // (end - position)} leads astray: {found}",
        severity=Severity.DEGRADED,
    )
