"""One partition as it is served: its offset range, its last stable offset, and what a fetch returns.

                 log start        last stable offset   high watermark   log end
    ---- deleted ----|---- everybody ------|-- uncommitted ---|-- nobody --|

A log that was closed cleanly is trusted, as a broker trusts it: its end is found by walking from the last
index entry, and open transactions are in the snapshot at the end. Otherwise everything after the recovery
point is walked with checksums, as a broker does when it starts; with `verify`, the whole log.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.fetch import LogSlice, find_slice, offset_behind
from kafkatool.engine.batches.headers import FoundBatch
from kafkatool.engine.batches.indexes import sibling_file
from kafkatool.engine.batches.partition_walk import PartitionWalk, SegmentLog
from kafkatool.engine.batches.scan import scan
from kafkatool.engine.directory.extent import last_indexed_position
from kafkatool.engine.directory.log_dir import (
    ListingProblem,
    LogDir,
    Partition,
    Segment,
    read_log_dir,
    read_partition,
)
from kafkatool.engine.files.source import Guest, open_source, read_small_file
from kafkatool.engine.records.fates import Transactions, open_at
from kafkatool.engine.serve.log_files import LogFile, LogFiles
from kafkatool.engine.serve.segments import ServedSegment
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import FileState, TopicPartition
from kafkatool.format.state.producer_snapshot import read_snapshot
from kafkatool.format.txn_index import read_entries

_LOOK_AGAIN_SECONDS = 0.2
_FOREVER = (1 << 63) - 1
_NOTHING = np.empty((0, 3), dtype=np.int64)
_MOST_OLD = 1 << 20
# The damage at the end of a log that was not closed cleanly.
_UNFINISHED = (FindingClass.TORN_TAIL, FindingClass.ZERO_FILLED)


@dataclass(frozen=True, slots=True)
class Serving:
    """How partitions are served."""

    guest: Guest
    files: LogFiles = field(default_factory=LogFiles)
    high_watermark: int | None = None
    """A number; None: the log end, or with `uses_checkpoint` the checkpointed one."""
    uses_checkpoint: bool = False
    ignores_transactions: bool = False
    """The last stable offset is the high watermark, whatever is open."""
    verifies: bool = False
    skips_damage: bool = False
    follows: bool = False


class FileSlice(NamedTuple):
    """Bytes of a log, to be sent as they are."""

    file: LogFile
    position: int
    size: int


class ServedFetch(NamedTuple):
    """`aborted`: producer ids and first offsets, for read_committed consumers."""

    records: FileSlice | None
    aborted: list[tuple[int, int]]


class OutOfRangeError(KafkatoolError):
    """There is no such offset here."""


class State(NamedTuple):
    """All that a request needs to know, at one moment."""

    segments: list[ServedSegment]
    log_start: int
    log_end: int
    high_watermark: int
    last_stable: int
    open_transactions: dict[int, int]
    aborted: NDArray[np.int64]


_EMPTY = State([], 0, 0, 0, 0, {}, _NOTHING)


class ServedPartition:
    """A partition that is found and opened on first use. Threads share it."""

    def __init__(
        self, topic: str, number: int, partition: Partition | None, home: LogDir | None, how: Serving
    ) -> None:
        """Make an empty placeholder if there is no directory, so that the numbers have no gaps."""
        self.topic = topic
        self.number = number
        self.partition = partition
        self.home = home
        self.how = how
        self._state: State | None = None if partition is not None else _EMPTY
        self._transactions: Transactions | None = None
        self._looked_at = 0.0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def checkpointed(self) -> int | None:
        """The high watermark in the checkpoint of its log directory."""
        return self.home.high_watermarks.get(self._key) if self.home is not None else None

    @property
    def _key(self) -> TopicPartition:
        """Its name in the checkpoints."""
        assert self.partition is not None
        return self.partition.key

    def state(self) -> State:
        """Return the current state; raise KafkatoolError if the log cannot be read."""
        state = self._state
        if state is not None and not (self.how.follows and self.partition is not None):
            return state
        with self._lock:
            if self._state is None:
                self._state = self._open()
            elif self.how.follows and time.monotonic() - self._looked_at > _LOOK_AGAIN_SECONDS:
                self._state = self._look_again(self._state)
            return self._state

    def remarks(self) -> list[str]:
        """Return what the operator should know about it; it must be open."""
        state, found = self.state(), []
        known = self.checkpointed
        if known is not None and known < state.high_watermark:
            found.append(
                f"offsets {known} to {state.high_watermark - 1} are above the checkpointed high watermark: "
                "other replicas may lack them"
            )
        if state.open_transactions:
            first = min(state.open_transactions.values())
            count = len(state.open_transactions)
            what = "a transaction is" if count == 1 else f"{count} transactions are"
            found.append(
                f"{what} still open, the first at offset {first}: readers of committed records get nothing "
                "from there on; --last-stable-offset end shows it"
                if not self.how.ignores_transactions
                else f"{what} still open, the first at offset {first}, and shown as if committed"
            )
        for segment in state.segments:
            for gap in segment.gaps:
                then = "left out" if self.how.skips_damage else "clients get an error there"
                found.append(f"{gap.damage.kind} at byte {gap.position} of {segment.path}: {then}")
        return found

    # --- what clients ask -----------------------------------------------------------------------------

    def limit(self, state: State, committed: bool) -> int:
        return state.last_stable if committed else state.high_watermark

    def fetch(self, offset: int, max_bytes: int, *, committed: bool, at_least_one: bool) -> ServedFetch:
        """Return records from an offset on, cut as a broker would; raise OutOfRangeError or DamagedError."""
        state = self.state()
        if not state.log_start <= offset <= state.log_end:
            raise OutOfRangeError(f"{self.name}: {offset} is not in {state.log_start} to {state.log_end}")
        limit = self.limit(state, committed)
        cut = find_slice(state.segments, offset, limit, state.log_end, max_bytes, at_least_one)
        if cut is None or cut.size < cut.first.size:
            return ServedFetch(None, [])
        file = state.segments[cut.segment].file()
        if cut.first.header.magic < 2:
            cut = cut._replace(size=_one_format(file, cut.first, cut.size))
        aborted = _aborted(state, offset, cut) if committed and len(state.aborted) else []
        return ServedFetch(FileSlice(file, cut.first.position, cut.size), aborted)

    # --- opening --------------------------------------------------------------------------------------

    def _open(self) -> State:
        assert self.partition is not None
        segments = [self._served(one) for one in self.partition.live_segments if one.log is not None]
        for segment in self._doubtful(segments):
            segment.is_doubtful = True
        return self._judged(segments, _find_end(segments, self.how.guest))

    def _served(self, segment: Segment) -> ServedSegment:
        return ServedSegment(segment, self.how.files, self.how.guest, skips_damage=self.how.skips_damage)

    def _doubtful(self, segments: list[ServedSegment]) -> list[ServedSegment]:
        """Return the segments that cannot be trusted unread."""
        if self.how.verifies:
            return segments
        if self.home is None or self.home.was_shut_down_cleanly or self.how.follows:
            return []
        point = self.home.recovery_points.get(self._key, 0)
        following = [*(one.base_offset for one in segments[1:]), _FOREVER]
        return [one for one, end in zip(segments, following, strict=True) if end > point]

    def _judged(self, segments: list[ServedSegment], log_end: int) -> State:
        first = segments[0].base_offset if segments else 0
        checkpointed = self.home.log_starts.get(self._key, 0) if self.home is not None else 0
        log_start = min(max(first, checkpointed), max(first, log_end))
        high_watermark = max(log_start, min(self._high_watermark(), log_end))
        stable, still_open, aborted = self._transactional(segments, log_end, high_watermark)
        if self.how.ignores_transactions:
            stable = high_watermark
        return State(
            segments, log_start, log_end, high_watermark, max(log_start, stable), still_open, aborted
        )

    def _high_watermark(self) -> int:
        if self.how.uses_checkpoint:
            known = self.checkpointed
            return _FOREVER if known is None else known
        return _FOREVER if self.how.high_watermark is None else self.how.high_watermark

    # --- transactions ---------------------------------------------------------------------------------

    def _transactional(
        self, segments: list[ServedSegment], log_end: int, high_watermark: int
    ) -> tuple[int, dict[int, int], NDArray[np.int64]]:
        """Return the last stable offset, what is open (producer id -> first offset), and all aborted."""
        if self._transactions is None:
            at_end = self._snapshot_at(log_end)
            if at_end is not None:
                stable = min([high_watermark, *at_end.values()])
                return stable, at_end, _as_rows(self._indexed_aborts(segments))
            self._transactions = self._walk(segments)
        stable = self._transactions.last_stable_offset(log_end - 1, high_watermark)
        indexed = [] if self.how.verifies else self._indexed_aborts(segments)
        aborted = _as_rows({*indexed, *self._transactions.aborted()})
        return stable, self._transactions.open_transactions, aborted

    def _snapshot_at(self, log_end: int) -> dict[int, int] | None:
        """Return what is open by the snapshot that a broker writes when it closes a log; None without one."""
        assert self.partition is not None
        if self.how.verifies or self.how.follows or self.home is None or not self.home.was_shut_down_cleanly:
            return None
        for entry in self.partition.other_files:
            is_live = entry.kind is kinds.PRODUCER_SNAPSHOT and entry.state is FileState.LIVE
            if is_live and entry.offset == log_end:
                try:
                    rows = read_snapshot(read_small_file(entry.path, self.how.guest))
                except (FileNotFoundError, KafkatoolError):
                    return None
                firsts = {one.producer_id: one.current_txn_first_offset for one in rows}
                return {key: first for key, first in firsts.items() if first >= 0}
        return None

    def _walk(self, segments: list[ServedSegment]) -> Transactions:
        logs = [SegmentLog(one.base_offset, one.path) for one in segments]
        walk = PartitionWalk(self._logs, self.how.guest, is_growing=self.how.follows)
        if not logs or self.how.verifies:
            return Transactions(walk)
        begin, still_open = open_at(logs, len(logs) - 1, self.how.guest)
        walk.go_to(logs[begin].base_offset, 0)
        return Transactions(walk, still_open)

    def _logs(self) -> list[SegmentLog]:
        assert self.partition is not None
        return [SegmentLog(one.base_offset, one.log.path) for one in self.partition.live_segments if one.log]

    def _indexed_aborts(self, segments: list[ServedSegment]) -> list[tuple[int, int, int]]:
        """Return the entries of the .txnindex files; unreadable files are skipped."""
        found: list[tuple[int, int, int]] = []
        for segment in segments:
            beside = segment.segment.file(kinds.TXN_INDEX)
            path = sibling_file(segment.path, ".txnindex")
            if (beside is None and not self.how.follows) or path is None:
                continue
            try:
                entries = read_entries(read_small_file(path, self.how.guest))
                found += [(one.producer_id, one.first_offset, one.last_offset) for one in entries]
            except (FileNotFoundError, KafkatoolError):
                continue
        return found

    # --- growing --------------------------------------------------------------------------------------

    def _look_again(self, state: State) -> State:
        """Pick up a broker's changes: checkpoints may have moved, the log grown, rolled or shrunk."""
        assert self.partition is not None
        assert self.home is not None
        self._looked_at = time.monotonic()
        problems: list[ListingProblem] = []
        try:
            self.home = read_log_dir(self.home.path, self.how.guest, partitions=False)
            listed = read_partition(self.partition.path, problems, self.how.guest)
        except KafkatoolError:
            return state  # it is gone, or about to go: open files can still be read
        self.partition = listed
        known = {one.base_offset: one for one in state.segments}
        segments = []
        for one in listed.live_segments:
            if one.log is None:
                continue
            old = known.get(one.base_offset)
            if old is not None and old.segment.log is not None and old.segment.log.size == one.log.size:
                segments.append(old)
            else:
                self.how.files.forget(one.log.path)
                segments.append(self._served(one))
        log_end = _find_end(segments, self.how.guest)
        if log_end < state.log_end:
            self._transactions = None
        elif self._transactions is not None:
            self._transactions.look_again()
        return self._judged(segments, log_end)


def _aborted(state: State, offset: int, cut: LogSlice) -> list[tuple[int, int]]:
    """Return the aborted transactions with records in a slice; a few more do no harm."""
    rows = state.aborted[int(np.searchsorted(state.aborted[:, 2], offset)) :]
    chosen = rows[rows[:, 1] < offset_behind(state.segments, cut, state.log_end)]
    return [(producer_id, first) for producer_id, first, _last in chosen.tolist()]


def _one_format(file: LogFile, found: FoundBatch, size: int) -> int:
    """Return the size up to where magic 2 begins: no client can read both formats in one answer."""
    size = max(found.size, min(size, _MOST_OLD))
    raw = file.source.read(found.position, size)
    at = 0
    while at + 17 <= len(raw) and raw[at + 16] < 2:
        at += 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
    return at if at + 17 <= len(raw) else size


def _as_rows(found: list[tuple[int, int, int]] | set[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Sort by last offset."""
    rows = sorted(found, key=lambda row: row[2])
    return np.array(rows, dtype=np.int64).reshape(-1, 3) if rows else _NOTHING


def _find_end(segments: list[ServedSegment], guest: Guest) -> int:
    """Return the offset after the last good batch, and set `end` of the last segment to its byte."""
    if not segments:
        return 0
    last = segments[-1]
    if last.end == 0:
        return last.base_offset
    if last.is_doubtful:
        last.check()
    if not last.is_checked:
        found = _walk_to_end(last, guest)
        if found is not None:
            last.end, log_end = found
            return log_end
        last.check()
    return last.finish()


def _walk_to_end(last: ServedSegment, guest: Guest) -> tuple[int, int] | None:
    """Walk from the last index entry; return (byte, offset) after the last batch, or None at damage."""
    end, log_end = 0, last.base_offset
    with open_source(last.path, guest) as source:
        for item in scan(source, last_indexed_position(source, last.segment, guest)):
            if isinstance(item, Damage):
                if item.kind not in _UNFINISHED or item.next_good_offset is not None:
                    return None
            elif item.is_valid:
                end, log_end = item.position + item.header.size, item.header.last_offset + 1
    return end, log_end
