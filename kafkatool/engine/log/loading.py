"""Open a log: create it, or load what is there; after a crash, recover it as a broker does.

A log that was shut down cleanly is trusted. After a crash every segment from the recovery point on is walked
and its indexes are rewritten; the first damage ends the log, and the segments after it are removed. What was
synced before the crash is not damaged, so nothing that was promised is lost. An interrupted cleaning or split
is finished or undone first (`leftovers.py`), and a segment that spans too many offsets is split
(`segment_split.py`).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from kafkatool.engine.batches.scan import scan
from kafkatool.engine.broker.index_accounting import IndexAccounting, InvalidOffset
from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.broker.segment_recovery import OffsetOverflow, RecoveredSegment, recover_segment
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.log.flusher import Flusher
from kafkatool.engine.log.leftovers import resolve_leftovers
from kafkatool.engine.log.partition_log import LEADER_EPOCHS, Jitter, Log, LogParts, no_jitter
from kafkatool.engine.log.producer_rebuild import rebuild_producers, take_empty_snapshots
from kafkatool.engine.log.segment import EXTENSIONS, INDEX, LOG, TXN_INDEX, WritableSegment
from kafkatool.engine.log.segment_split import split_segment
from kafkatool.engine.log.snapshots import Snapshots
from kafkatool.format.state.checkpoint import EpochStart, read_leader_epochs
from kafkatool.format.txn_index import sanity_problem

_SEGMENT_FILE = re.compile(rf"(\d{{20}})\.({'|'.join(EXTENSIONS)})")


@dataclass(frozen=True, slots=True)
class LeftLog:
    """How a log was left: cleanly, or with everything up to the recovery point on disk."""

    recovery_point: int = 0
    log_start_offset: int = 0
    is_clean: bool = False


def open_log(
    files: Files,
    directory: str,
    config: TopicConfig,
    *,
    now_ms: int,
    left: LeftLog | None = None,
    jitter: Jitter = no_jitter,
    flusher: Flusher | None = None,
) -> Log:
    """Open a partition directory for writing; create it if it does not exist.

    A `BackgroundFlusher` flushes rolled segments while appends go on, as a broker does.

    Raises FormatError for a leader-epoch-checkpoint that a broker could not read either, Unfinished for
    leftovers that it could not resolve, and NotSplittable for a segment that it would refuse to load.
    """
    directory = os.path.abspath(directory)
    if not os.path.isdir(directory):
        files.make_directory(directory)
    files.sync_directory(os.path.dirname(directory))
    how = _OpenRequest(config, now_ms, jitter, flusher or Flusher())
    return _Loader(files, directory, left or LeftLog(), how).load()


class _OpenRequest(NamedTuple):
    """What a log is opened with, whatever its directory holds."""

    config: TopicConfig
    now_ms: int
    jitter: Jitter
    flusher: Flusher


class _Loader:
    def __init__(self, files: Files, directory: str, left: LeftLog, how: _OpenRequest) -> None:
        self.parts = LogParts(
            files,
            directory,
            how.config,
            how.jitter,
            [],
            LeaderEpochs(),
            ProducerStates(),
            Snapshots(files, directory),
            how.flusher,
        )
        self.left = left
        self.now_ms = how.now_ms

    def load(self) -> Log:
        parts, left = self.parts, self.left
        resolve_leftovers(parts.files, parts.directory, self.now_ms)
        parts.epochs = LeaderEpochs(self._read_epochs())
        known_epochs = parts.epochs.entries
        while not self._load_segments(self._sweep()):
            pass
        end = self._end_offset()
        start = max(left.log_start_offset, parts.segments[0].base_offset)
        parts.epochs.truncate_from_end(end)
        parts.epochs.truncate_from_start(left.log_start_offset)
        self._rebuild_producers(start, end)
        recovery_point = end if left.is_clean else min(left.recovery_point, end)
        log = Log(
            parts,
            log_start_offset=start,
            log_end_offset=end,
            recovery_point=recovery_point,
            now_ms=self.now_ms,
        )
        if parts.epochs.entries != known_epochs:
            log.save_epochs()
        return log

    # --- files ----------------------------------------------------------------------------------------

    def _sweep(self) -> list[int]:
        """Remove indexes that have no log or are half written; return the base offsets of the segments."""
        names = sorted(os.listdir(self.parts.directory))
        bases = [
            int(match[1]) for name in names if (match := _SEGMENT_FILE.fullmatch(name)) and match[2] == LOG
        ]
        for name in names:
            match = _SEGMENT_FILE.fullmatch(name.removesuffix(".tmp"))
            if match is not None and (name.endswith(".tmp") or int(match[1]) not in bases):
                self.parts.files.unlink(os.path.join(self.parts.directory, name))
        return bases

    def _read_epochs(self) -> list[EpochStart]:
        path = os.path.join(self.parts.directory, LEADER_EPOCHS)
        if not os.path.exists(path):
            # As a broker does; if a crash loses the file again, no data is lost.
            self.parts.files.create(path).close()
            return []
        with open(path, "rb") as file:
            return read_leader_epochs(file.read())

    # --- segments -------------------------------------------------------------------------------------

    def _load_segments(self, bases: list[int]) -> bool:
        """Load the segments; return false if one had to be split: then loading starts over."""
        floor = max((base for base in bases if base <= self.left.recovery_point), default=0)
        for base in bases:
            segment = self._segment(base)
            is_doubtful = not self.left.is_clean and base >= floor
            try:
                if is_doubtful:
                    if self._recover(segment, [later for later in bases if later > base]):
                        return True
                elif not segment.has(INDEX) or self._txn_index_is_wrong(segment):
                    self._recover(segment, [])
                else:
                    segment.load()
                    self.parts.segments.append(segment)
            except OffsetOverflow:
                self._split(segment)
                return False
        return True

    def _split(self, segment: WritableSegment) -> None:
        parts = self.parts
        segment.size = os.path.getsize(segment.path(LOG))
        split_segment(parts.files, segment, parts.config, parts.snapshots)
        for loaded in parts.segments:
            loaded.release()
        parts.segments.clear()

    def _segment(self, base: int) -> WritableSegment:
        parts = self.parts
        jitter_ms = parts.jitter(min(parts.config.segment_jitter_ms, parts.config.max_segment_ms))
        return WritableSegment(
            parts.files, parts.directory, base, parts.config, created_ms=self.now_ms, jitter_ms=jitter_ms
        )

    def _txn_index_is_wrong(self, segment: WritableSegment) -> bool:
        return segment.has(TXN_INDEX) and sanity_problem(segment.aborted(), segment.base_offset) is not None

    def _recover(self, segment: WritableSegment, later: list[int]) -> bool:
        """Walk a segment and rewrite its indexes; return true if it was cut and the later ones removed."""
        parts = self.parts
        states, base = ProducerStates(), segment.base_offset
        rebuild_producers(
            states, parts.snapshots, parts.segments, self.left.log_start_offset, base, self.now_ms
        )
        size = os.path.getsize(segment.path(LOG))
        try:
            found = self._walk(segment, states)
        except InvalidOffset:
            found = RecoveredSegment()
        is_cut = found.valid_bytes < size
        if is_cut:
            # Before the cut: once the damage is gone, nothing would show that they have to go too.
            self._remove(later)
        segment.rewrite(found.valid_bytes, found.offsets, found.times, found.aborted)
        parts.segments.append(segment)
        parts.snapshots.take(states)
        return is_cut

    def _walk(self, segment: WritableSegment, states: ProducerStates) -> RecoveredSegment:
        config = self.parts.config
        # A log that was reopened meanwhile may hold more entries than a size-limited index has room for.
        accounting = IndexAccounting(
            segment.base_offset, config.index_interval_bytes, config.max_index_bytes, skips_when_full=True
        )
        with open_source(segment.path(LOG), Guest(cache_keep=True)) as source:
            return recover_segment(scan(source, chain=True), accounting, states, self.parts.epochs)

    def _remove(self, bases: list[int]) -> None:
        """Remove segments for good, the last one first: a log must not come back with a hole."""
        for base in reversed(bases):
            self._segment(base).delete()
            self.parts.snapshots.delete(base)

    def _end_offset(self) -> int:
        parts, start = self.parts, self.left.log_start_offset
        if parts.segments and (end := parts.segments[-1].next_offset()) >= start:
            return end
        if parts.segments:
            # The log start checkpoint is ahead of the log: a broker starts over there.
            self._remove([segment.base_offset for segment in parts.segments])
            parts.segments.clear()
            parts.epochs.clear()
            for offset in parts.snapshots.offsets():
                parts.snapshots.delete(offset)
        segment = self._segment(start)
        segment.create()
        parts.segments.append(segment)
        return start

    def _rebuild_producers(self, start: int, end: int) -> None:
        parts = self.parts
        parts.snapshots.drop_strays(segment.base_offset for segment in parts.segments)
        parts.snapshots.last_offset = 0
        if self.left.is_clean and not parts.snapshots.offsets():
            take_empty_snapshots(parts.producers, parts.snapshots, parts.segments, end)
            return
        rebuild_producers(parts.producers, parts.snapshots, parts.segments, start, end, self.now_ms)
