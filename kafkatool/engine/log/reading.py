"""Read a log as a broker serves it: the bytes, and the aborted transactions in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from kafkatool.engine.batches.fetch import find_slice, floor_segment, offset_behind
from kafkatool.engine.batches.records import records_of
from kafkatool.engine.broker.refusals import OffsetOutOfRange
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.log.segment import LOG, WritableSegment
from kafkatool.engine.log.validation import split_batches
from kafkatool.format.batch import BatchHeader
from kafkatool.format.legacy import Header
from kafkatool.format.record import Record
from kafkatool.format.txn_index import AbortedTxn


class Isolation(Enum):
    """How far a reader may read."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Fetched:
    """`data` may begin before the requested offset; records of `aborted` transactions do not count."""

    data: bytes = b""
    base_offset: int | None = None
    aborted: list[AbortedTxn] = field(default_factory=list)
    first_batch_is_cut: bool = False


@dataclass(frozen=True, slots=True)
class FoundTime:
    offset: int
    timestamp_ms: int
    leader_epoch: int | None


def read(
    log: Log,
    offset: int,
    *,
    max_bytes: int,
    isolation: Isolation = Isolation.LOG_END,
    at_least_one: bool = True,
) -> Fetched:
    """Fetch from an offset; raise OffsetOutOfRange below the start or above the end of the log.

    With `at_least_one` the first batch is returned whole, however large.
    """
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(
            f"offset {offset} is outside of {log.log_start_offset} to {log.log_end_offset}"
        )
    end, segments = log.log_end_offset, log.segments
    cut = find_slice(segments, offset, _limit(log, isolation), end, max_bytes, at_least_one)
    fetched = Fetched()
    if cut is not None:
        first = cut.first
        data = segments[cut.segment].read(first.position, cut.size)
        aborted = []
        if isolation is Isolation.COMMITTED:
            aborted = aborted_transactions(log, offset, offset_behind(segments, cut, end), cut.segment)
        is_cut = not at_least_one and 0 < max_bytes < first.size
        fetched = Fetched(data, first.header.base_offset, aborted, is_cut)
    for number in range(floor_segment(segments, offset), len(segments) if cut is None else cut.segment + 1):
        _let_go(log, number)
    return fetched


def _limit(log: Log, isolation: Isolation) -> int:
    if isolation is Isolation.COMMITTED:
        return log.last_stable_offset
    return log.high_watermark if isolation is Isolation.HIGH_WATERMARK else log.log_end_offset


def aborted_transactions(log: Log, start: int, upper: int, number: int | None = None) -> list[AbortedTxn]:
    """Return the aborted transactions with records in [start, upper)."""
    found = []
    for segment in log.segments[floor_segment(log.segments, start) if number is None else number :]:
        for txn in segment.aborted():
            if txn.last_offset >= start and txn.first_offset < upper:
                found.append(txn)
            if txn.last_stable_offset >= upper:
                return found
    return found


def _let_go(log: Log, number: int) -> None:
    """Close the files of a segment, unless it is the active one."""
    if number + 1 < len(log.segments):
        log.segments[number].release()


# --- by time ------------------------------------------------------------------------------------------


def offset_for_time(log: Log, timestamp_ms: int) -> FoundTime | None:
    """Return the first record at or after a time, as ListOffsets does; None if there is none."""
    for number, segment in enumerate(log.segments):
        if _largest_timestamp(segment) >= timestamp_ms:
            found = _search_time(log, segment, timestamp_ms)
            _let_go(log, number)
            return found
    return None


def _largest_timestamp(segment: WritableSegment) -> int:
    """Return the largest timestamp; if the records have none, the mtime of the file."""
    largest = segment.accounting.max_timestamp
    return largest if largest >= 0 else os.stat(segment.path(LOG)).st_mtime_ns // 1_000_000


def _search_time(log: Log, segment: WritableSegment, timestamp_ms: int) -> FoundTime | None:
    floor = segment.time_floor(timestamp_ms).offset(segment.base_offset)
    position = segment.index_position(max(floor, log.log_start_offset))
    for found in segment.batches_from(position):
        header = found.header
        if header.max_timestamp < timestamp_ms or header.last_offset < log.log_start_offset:
            continue
        epoch = header.partition_leader_epoch
        for record in records_of(header, segment.read(found.position, found.size)):
            if record.timestamp_ms >= timestamp_ms and record.offset >= log.log_start_offset:
                return FoundTime(record.offset, record.timestamp_ms, epoch if epoch >= 0 else None)
    return None


# --- record by record ---------------------------------------------------------------------------------


def records(
    log: Log, offset: int, isolation: Isolation = Isolation.LOG_END, *, max_bytes: int = 1 << 20
) -> Iterator[Record]:
    """Yield the records a consumer gets from an offset on: no markers and, if COMMITTED, no aborted ones.

    Raises FormatError for a record that cannot be read.
    """
    while fetched := read(log, offset, max_bytes=max_bytes, isolation=isolation):
        if not fetched.data:
            return
        aborted = _Aborted(fetched.aborted)
        for header, data in split_batches(fetched.data):
            if not aborted.hides(header):
                yield from (record for record in records_of(header, data) if record.offset >= offset)
            offset = max(offset, header.last_offset + 1)


class _Aborted:
    """The producers whose records do not count at this point of a walk."""

    def __init__(self, transactions: list[AbortedTxn]) -> None:
        self._waiting = sorted(transactions, key=lambda txn: txn.first_offset, reverse=True)
        self._current: set[int] = set()

    def hides(self, header: Header) -> bool:
        """Return whether a batch is a marker, or part of an aborted transaction."""
        if not isinstance(header, BatchHeader):
            return False
        while self._waiting and self._waiting[-1].first_offset <= header.last_offset:
            self._current.add(self._waiting.pop().producer_id)
        if header.is_control:
            self._current.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._current
