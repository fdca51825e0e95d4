"""Read a log as a broker serves it.

A fetch is a slice of one segment's file: it begins with the whole batch that holds the asked offset, and may
end in the middle of one. What lies at or behind the limit (the log's end, the high watermark, the last stable
offset) is never in it, batch by batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from kafkatool.engine.batches.headers import FoundBatch
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
    """How far a reader may look."""

    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Fetched:
    """`data` may begin before the asked offset; `aborted` names transactions whose records do not count."""

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

    With `at_least_one` the first batch is given whole, however large.
    """
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRange(
            f"offset {offset} is outside of {log.log_start_offset} to {log.log_end_offset}"
        )
    limit = _limit(log, isolation)
    if offset >= limit:
        return Fetched()
    for number in range(_floor(log.segments, offset), len(log.segments)):
        segment = log.segments[number]
        found = segment.find_offset(offset)
        if found is not None:
            fetched = _slice(segment, found, _end_position(log, number, limit), max_bytes, at_least_one)
            if isolation is Isolation.COMMITTED:
                fetched = _with_aborted(log, number, found, offset, fetched)
            _let_go(log, number)
            return fetched
        _let_go(log, number)
    return Fetched()


def _limit(log: Log, isolation: Isolation) -> int:
    if isolation is Isolation.COMMITTED:
        return log.last_stable_offset
    return log.high_watermark if isolation is Isolation.HIGH_WATERMARK else log.log_end_offset


def _floor(segments: list[WritableSegment], offset: int) -> int:
    """The number of the last segment that begins at or below an offset."""
    return max((at for at, segment in enumerate(segments) if segment.base_offset <= offset), default=0)


def _end_position(log: Log, number: int, limit: int) -> int | None:
    """How far into a segment a reader may look; None for not at all."""
    segment = log.segments[number]
    if limit >= log.log_end_offset:
        return segment.size
    last = _floor(log.segments, limit)
    if number != last:
        return segment.size if number < last else None
    found = segment.find_offset(limit)
    return segment.size if found is None else found.position


def _slice(
    segment: WritableSegment, found: FoundBatch, end: int | None, max_bytes: int, at_least_one: bool
) -> Fetched:
    wanted = max(max_bytes, found.size) if at_least_one else max_bytes
    base = found.header.base_offset
    if end is None or wanted <= 0:
        return Fetched(base_offset=base)
    size = max(0, min(end - found.position, wanted))
    return Fetched(segment.read(found.position, size), base, first_batch_is_cut=wanted < found.size)


def _with_aborted(log: Log, number: int, found: FoundBatch, offset: int, fetched: Fetched) -> Fetched:
    """Add the aborted transactions that reach into the slice, as far as the index can tell its end."""
    end_position = found.position + len(fetched.data)
    behind = [
        entry.offset(log.segments[number].base_offset)
        for entry in log.segments[number].offset_entries()
        if entry.position >= end_position
    ]
    following = log.segments[number + 1].base_offset if number + 1 < len(log.segments) else log.log_end_offset
    upper = behind[0] if behind else following
    aborted = aborted_transactions(log, offset, upper, number)
    return Fetched(fetched.data, fetched.base_offset, aborted, fetched.first_batch_is_cut)


def aborted_transactions(log: Log, start: int, upper: int, number: int | None = None) -> list[AbortedTxn]:
    """The aborted transactions with records in [start, upper)."""
    found = []
    for segment in log.segments[_floor(log.segments, start) if number is None else number :]:
        for txn in segment.aborted():
            if txn.last_offset >= start and txn.first_offset < upper:
                found.append(txn)
            if txn.last_stable_offset >= upper:
                return found
    return found


def _let_go(log: Log, number: int) -> None:
    """Only the active segment keeps its files open."""
    if number + 1 < len(log.segments):
        log.segments[number].release()


# --- by time ------------------------------------------------------------------------------------------


def offset_for_time(log: Log, timestamp_ms: int) -> FoundTime | None:
    """The first record at or behind a time, as ListOffsets answers it; None where there is none."""
    for number, segment in enumerate(log.segments):
        if _largest_timestamp(segment) >= timestamp_ms:
            found = _search_time(log, segment, timestamp_ms)
            _let_go(log, number)
            return found
    return None


def _largest_timestamp(segment: WritableSegment) -> int:
    """Where the records have no time, the file's counts."""
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
    """The records a consumer gets from an offset on: no markers and, if COMMITTED, none that were aborted.

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
    """Which producers' records do not count at this point of a walk."""

    def __init__(self, transactions: list[AbortedTxn]) -> None:
        self._waiting = sorted(transactions, key=lambda txn: txn.first_offset, reverse=True)
        self._current: set[int] = set()

    def hides(self, header: Header) -> bool:
        """Whether a batch is a marker, or of a transaction that was aborted."""
        if not isinstance(header, BatchHeader):
            return False
        while self._waiting and self._waiting[-1].first_offset <= header.last_offset:
            self._current.add(self._waiting.pop().producer_id)
        if header.is_control:
            self._current.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._current
