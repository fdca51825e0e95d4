"""Find the outcome of a partition's transactions from the markers in its log.

A record's fate comes after it: the marker that ends its transaction. So a walk over batch headers runs ahead
of the reader, only as far as needed: until no transaction is open that began at or before the requested
offset, or to the end of the log. If damage lost offsets, a marker may have been among them, so the fate of
transactions open before it is unknown, unless a .txnindex lists that same transaction as aborted. Ranges that
the reader has passed are dropped.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.damage import Damage, Severity
from kafkatool.engine.batches.indexes import sibling_file
from kafkatool.engine.batches.partition_walk import PartitionWalk, SegmentLog, Walked
from kafkatool.engine.batches.scan import Batch, BatchRun
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.batch import CONTROL_MASK, LOG_OVERHEAD, TRANSACTIONAL_MASK, BatchHeader
from kafkatool.format.columns import BatchColumns, Column, read_batch_columns
from kafkatool.format.record import read_records
from kafkatool.format.schema.control import read_control_type
from kafkatool.format.schema.reading import Unreadable
from kafkatool.format.state.producer_snapshot import read_snapshot
from kafkatool.format.txn_index import read_entries

_ABORT, _COMMIT = 0, 1
_FOREVER = (1 << 63) - 1
_FIELDS = 4  # producer id, first offset, last offset, fate


class TransactionFate(IntEnum):
    """The outcome of a record's transaction."""

    NONE = 0
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3
    UNKNOWN = 4

    @property
    def label(self) -> str:
        return self.name.lower()


_FATES = {_ABORT: TransactionFate.ABORTED, _COMMIT: TransactionFate.COMMITTED, None: TransactionFate.UNKNOWN}
"""The fate by marker type; the type None means that the marker cannot be read."""


def marker_fate(key: bytes | None) -> TransactionFate:
    """Return the fate that a marker gives, whether or not a record of its transaction is left."""
    with suppress(Unreadable):
        return _FATES.get(read_control_type(key), TransactionFate.UNKNOWN)
    return TransactionFate.UNKNOWN


class Transactions:
    """The fates of transactional batches; query them in offset order."""

    def __init__(self, walk: PartitionWalk, open_before: dict[int, int] | None = None) -> None:
        """`open_before`: producer id -> first offset of each transaction open where the walk begins."""
        self._walk = walk
        self._round: Iterator[Walked | Note | Caution | Failure] | None = None
        self._open = dict(sorted((open_before or {}).items(), key=lambda item: item[1]))
        self._ended = array("q")
        self._as_table: NDArray[np.int64] | None = None
        self._late: deque[tuple[int, int]] = deque()
        self._reached = -1
        self._has_lost = False
        self._is_at_end = False

    @property
    def reached(self) -> int:
        """The last offset that the walk has read; -1 if none."""
        return self._reached

    def look_again(self) -> None:
        """Allow reading on after the end that was reached: the log may have grown."""
        self._is_at_end = False

    def fates(self, batches: BatchColumns) -> NDArray[np.uint8]:
        """Return a TransactionFate for every batch."""
        found = np.zeros(len(batches.base_offset), dtype=np.uint8)
        rows = np.flatnonzero((batches.attributes & TRANSACTIONAL_MASK != 0) & (batches.magic == 2))
        if not len(rows):
            return found
        base_offset = batches.base_offset[rows]
        self._look_ahead(int(batches.last_offset[rows].max()))
        self._forget(int(base_offset[0]))
        fates = _match(batches.producer_id[rows], base_offset, self._table())
        fates[base_offset > self._reached] = (
            TransactionFate.OPEN
        )  # written meanwhile: its end cannot be known yet
        found[rows] = fates
        return found

    def last_stable_offset(self, offset: int, high_watermark: int) -> int:
        """Return where readers of committed records must stop; certain only up to `offset`."""
        self._look_ahead(offset)
        while self._late and self._late[0][0] < high_watermark:
            self._late.popleft()
        firsts = [first for marker, first in self._late if marker >= high_watermark]
        return min([high_watermark, self._oldest_open(), *firsts])

    @property
    def open_transactions(self) -> dict[int, int]:
        """Producer id -> first offset of each transaction open so far, the oldest first."""
        return dict(self._open)

    def aborted(self) -> list[tuple[int, int, int]]:
        """Return producer id, first and last offset of the aborted ranges found and not yet dropped."""
        rows = np.array(self._ended, dtype=np.int64).reshape(-1, _FIELDS)
        found = rows[rows[:, 3] == TransactionFate.ABORTED][:, :3].tolist()
        return [(producer_id, first, last) for producer_id, first, last in found]

    def _look_ahead(self, offset: int) -> None:
        if self._reached < offset:
            self._is_at_end = False  # the caller saw more than there was when the end was reached
        is_new = False
        while not self._is_at_end and (self._reached < offset or self._oldest_open() <= offset):
            if self._round is None:
                self._round, is_new = self._walk.items(), True
            walked = next(self._round, None)
            if walked is None:
                # A round that began for an earlier call knows the log only as it was then.
                self._round, self._is_at_end = None, is_new or self._reached >= offset
            elif isinstance(walked, Failure):
                self._has_lost = True
            elif isinstance(walked, Walked):
                self._take(walked.item)

    def _oldest_open(self) -> int:
        return next(iter(self._open.values()), _FOREVER)  # in the order in which they began

    def _take(self, item: BatchRun | Batch | Damage) -> None:
        if isinstance(item, BatchRun):
            self._take_run(item)
        elif isinstance(item, Damage):
            self._has_lost |= item.severity is Severity.LOSS or item.ends_chain
        elif item.is_valid and isinstance(item.header, BatchHeader) and item.header.magic == 2:
            self._take_batch(item.header, item.data)
        elif item.is_valid:
            self._reached = max(self._reached, item.header.last_offset)

    def _take_run(self, run: BatchRun) -> None:
        """Process a run, batch by batch only where a transaction may begin or end."""
        batches = read_batch_columns(run.window, run.start, run.end, run.batch_count, run.position)
        if self._has_lost:
            self._find_loss(int(batches.base_offset[0]))
        rows, shift = _turns(batches), run.start - run.position
        view = memoryview(run.window)
        for fields in zip(*(column[rows].tolist() for column in batches), strict=True):
            position, base_offset, size, *rest = fields
            at = position + shift
            header = BatchHeader(base_offset, size - LOG_OVERHEAD, *rest)
            self._take_batch(header, view[at : at + size])
        self._reached = max(self._reached, int(batches.last_offset[-1]))

    def _take_batch(self, header: BatchHeader, data: memoryview | None) -> None:
        if self._has_lost:
            self._find_loss(header.base_offset)
        self._reached = max(self._reached, header.last_offset)
        if not header.is_transactional or not header.records_count:
            return
        if header.is_control:
            self._end(header, data)
        elif header.producer_id not in self._open:
            self._open[header.producer_id] = header.base_offset
            self._as_table = None

    def _end(self, header: BatchHeader, data: memoryview | None) -> None:
        kind = _marker(header, data)
        if kind not in (_ABORT, _COMMIT, None):
            return  # a controller record, which ends no transaction
        first = self._open.pop(header.producer_id, None)
        if first is None:
            return
        self._as_table = None
        fate = _FATES[kind]
        if fate is not TransactionFate.COMMITTED:
            self._put(header.producer_id, first, header.base_offset, fate)
        self._late.append((header.base_offset, first))

    def _find_loss(self, next_offset: int) -> None:
        """Handle a batch after damage: if offsets are missing, any open transaction may have ended there."""
        self._has_lost = False
        if next_offset <= self._reached + 1:
            return
        aborted = self._aborted_by_index()
        for producer_id, first in self._open.items():
            fate = TransactionFate.ABORTED if (producer_id, first) in aborted else TransactionFate.UNKNOWN
            self._put(producer_id, first, self._reached, fate)
        self._open.clear()
        self._as_table = None

    def _aborted_by_index(self) -> set[tuple[int, int]]:
        """Return the open transactions that the .txnindex files list as aborted, as (producer, first)."""
        still_open = set(self._open.items())
        found: set[tuple[int, int]] = set()
        for log in self._walk.logs() if still_open else ():
            path = sibling_file(log.path, ".txnindex")
            with suppress(FileNotFoundError, KafkatoolError):
                entries = read_entries(read_small_file(path or "", self._walk.guest))
                found.update((one.producer_id, one.first_offset) for one in entries)
                found &= still_open
        return found

    def _put(self, producer_id: int, first: int, last: int, fate: TransactionFate) -> None:
        """Add an ended range. The caller also updates the open ones."""
        self._ended.extend((producer_id, first, last, fate))

    def _forget(self, offset: int) -> None:
        """Drop ranges that ended before the reader's offset. Ranges are in the order of their ends."""
        keep = 0
        while keep < len(self._ended) and self._ended[keep + 2] < offset:
            keep += _FIELDS
        if keep:
            del self._ended[:keep]
            self._as_table = None

    def _table(self) -> NDArray[np.int64]:
        """Return all known ranges; rebuilt only after a change."""
        if self._as_table is None:
            ended = np.array(self._ended, dtype=np.int64).reshape(-1, _FIELDS)
            still_open = [(key, first, _FOREVER, TransactionFate.OPEN) for key, first in self._open.items()]
            opened = np.array(still_open, dtype=np.int64).reshape(-1, _FIELDS)
            self._as_table = np.concatenate([ended, opened])
        return self._as_table


def _turns(batches: BatchColumns) -> NDArray[np.int64]:
    """Return the rows where state may change: markers, and the first of consecutive batches of a producer."""
    rows = np.flatnonzero(batches.attributes & TRANSACTIONAL_MASK)
    if not len(rows):
        return rows
    is_control = batches.attributes[rows] & CONTROL_MASK != 0
    producers = batches.producer_id[rows]
    is_turn = is_control.copy()
    is_turn[0] = True
    is_turn[1:] |= (producers[1:] != producers[:-1]) | is_control[:-1]
    # An empty batch begins no transaction, so it must not represent the batches after it.
    is_turn |= np.concatenate([[False], batches.records_count[rows][:-1] == 0])
    turns: NDArray[np.int64] = rows[is_turn]
    return turns


def _marker(header: BatchHeader, data: memoryview | None) -> int | None:
    """Return the type of a control record; None if it cannot be read."""
    if data is None:
        return None
    with suppress(FormatError, Unreadable):
        for record in read_records(header, data):
            return read_control_type(record.key)
    return None


def _match(producers: Column, offsets: Column, table: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return for each batch the fate of the range that holds it; ranges of one producer never overlap.

    Ranges and batches are sorted together, so that the last range that begins before a batch is right before
    it; this avoids comparing every batch with every range.
    """
    fates = np.full(len(offsets), TransactionFate.COMMITTED, dtype=np.uint8)
    table = table[(table[:, 1] <= offsets.max()) & (table[:, 2] >= offsets.min())]
    if not len(table):
        return fates
    count = len(table)
    is_batch = np.arange(count + len(offsets)) >= count
    order = np.lexsort(
        (is_batch, np.concatenate([table[:, 1], offsets]), np.concatenate([table[:, 0], producers]))
    )
    before = np.maximum.accumulate(np.where(order < count, np.arange(len(order)), -1))
    places = np.flatnonzero((order >= count) & (before >= 0))
    batch, found = order[places] - count, table[order[before[places]]]
    holds = (found[:, 0] == producers[batch]) & (offsets[batch] <= found[:, 2])
    fates[batch[holds]] = found[holds, 3]
    return fates


def open_at(logs: Sequence[SegmentLog], start: int, guest: Guest) -> tuple[int, dict[int, int]]:
    """Return where a walk must begin to know what is open at log number `start`, and what is open there.

    A valid producer snapshot at a log's base offset has it; without one the walk begins earlier.
    """
    for number in range(start, -1, -1):
        snapshot = sibling_file(logs[number].path, ".snapshot")
        with suppress(FileNotFoundError, KafkatoolError):
            states = read_snapshot(read_small_file(snapshot or "", guest))
            firsts = {one.producer_id: one.current_txn_first_offset for one in states}
            return number, {key: first for key, first in firsts.items() if first >= 0}
    return 0, {}
