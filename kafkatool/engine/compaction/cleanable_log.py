"""A partition as the cleaner sees it: its segments, offsets and producer state."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.indexes import TimeIndex, read_offset_index
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.files.object_storage import list_names, status
from kafkatool.engine.files.source import Guest, open_source, read_small_file
from kafkatool.engine.transactions.producer_replay import ReplayStops, replay_producers
from kafkatool.errors import KafkatoolError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.names import segment_file
from kafkatool.format.txn_index import AbortedTxn

_LOG = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})\.snapshot")


class CleanerStops(KafkatoolError):
    """The cleaner cannot go on: a broker's would throw, and skip the partition from then on."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class LastRecord(NamedTuple):
    """What a producer wrote last."""

    data_offset: int
    """-1: nothing in its epoch."""
    epoch: int


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """One segment on disk; of its indexes only the used part counts."""

    base_offset: int
    path: str
    size: int
    modified_ns: int
    offset_index_size: int
    time_index_size: int
    last_time_entry_ms: int
    aborted: tuple[AbortedTxn, ...]

    @property
    def modified_ms(self) -> int:
        return self.modified_ns // 1_000_000

    @property
    def largest_timestamp_ms(self) -> int:
        """Largest timestamp of the records, or else of the file."""
        return self.last_time_entry_ms if self.last_time_entry_ms >= 0 else self.modified_ms

    @property
    def as_log(self) -> SegmentLog:
        return SegmentLog(self.base_offset, self.path)

    def position_of(self, offset: int, guest: Guest) -> int:
        """Return the position from which the index says to look for an offset."""
        return read_offset_index(self.path, guest).floor(offset).position

    def next_offset(self, guest: Guest) -> int:
        """Return the offset after the last batch, by the last index entry and a walk from there."""
        positions = read_offset_index(self.path, guest).positions
        start = positions[-1] if positions else 0
        end = self.base_offset
        with open_source(self.path, guest) as source:
            for item in scan(source, start, chain=True):
                if isinstance(item, Damage) and item.ends_chain:
                    break
                if isinstance(item, Batch):
                    end = item.header.last_offset + 1
        return end


@dataclass(frozen=True, slots=True)
class CleanableLog:
    """A partition; its last segment is the active one."""

    segments: tuple[SourceSegment, ...]
    log_start: int
    log_end: int
    last_stable_offset: int
    producers: ProducerStates

    @property
    def active(self) -> SourceSegment:
        return self.segments[-1]

    def from_floor(self, start: int, end: int) -> list[SourceSegment]:
        """Return the segments that begin below `end`, starting with the one that holds `start`."""
        if start == end:
            return []
        floor = max((one.base_offset for one in self.segments if one.base_offset <= start), default=start)
        return [one for one in self.segments if floor <= one.base_offset < end]

    def closed_from(self, start: int) -> list[SourceSegment]:
        """Return all closed segments, starting with the one that holds `start`."""
        return [] if start > self.active.base_offset else self.from_floor(start, self.active.base_offset)

    def aborted_from(self, start: int, end: int) -> list[AbortedTxn]:
        """Return aborted transactions that begin below `end`, by the indexes from `start`'s segment on."""
        found: list[AbortedTxn] = []
        floor = max((one.base_offset for one in self.segments if one.base_offset <= start), default=None)
        if floor is None:
            return found
        for segment in self.segments:
            if segment.base_offset < floor:
                continue
            for txn in segment.aborted:
                if txn.last_offset >= self.log_start and txn.first_offset < end:
                    found.append(txn)
                if txn.last_stable_offset >= end:
                    return found
        return found

    def active_producers(self, now_ms: int) -> dict[int, LastRecord]:
        """Return producers whose last batch must stay, for as long as a broker remembers them."""
        self.producers.expire(now_ms)
        return {
            producer_id: LastRecord(one.batches[-1].last_offset if one.batches else -1, one.epoch)
            for producer_id, one in self.producers.producers.items()
        }


def open_cleanable(
    directory: str,
    *,
    log_start: int | None = None,
    high_watermark: int | None = None,
    now_ms: int,
    guest: Guest | None = None,
) -> CleanableLog:
    """Read what the cleaner needs; by default from the first segment to the log end offset.

    Raises KafkatoolError if there is no segment, or the log does not give the producer state.
    """
    guest = guest or Guest(cache_keep=True)
    names = list_names(directory)
    bases = sorted(int(match[1]) for match in map(_LOG.fullmatch, names) if match)
    if not bases:
        raise KafkatoolError(f"{directory}: no segments")
    segments = tuple(
        source_segment(os.path.join(directory, segment_file(base, ".log")), guest) for base in bases
    )
    start = max(bases[0], log_start or 0)
    snapshots = {
        int(match[1]): os.path.join(directory, match[0]) for match in map(_SNAPSHOT.fullmatch, names) if match
    }
    try:
        states, end = replay_producers([one.as_log for one in segments], snapshots, start, now_ms, guest)
    except ReplayStops as error:
        raise CleanerStops(error.path, error.position, error.reason) from None
    watermark = end if high_watermark is None else max(start, min(high_watermark, end))
    unstable = states.first_unstable_offset(watermark)
    stable = watermark if unstable is None else min(unstable, watermark)
    return CleanableLog(segments, start, end, stable, states)


def source_segment(path: str, guest: Guest) -> SourceSegment:
    """Read a segment's facts from its name, size and side files."""
    found = status(path)
    base = int(os.path.basename(path)[:20])
    times = TimeIndex.written(_read_index(path, "timeindex", guest), base).times
    return SourceSegment(
        base_offset=base,
        path=path,
        size=found.st_size,
        modified_ns=found.st_mtime_ns,
        offset_index_size=offset_index.entries_end(_read_index(path, "index", guest)),
        time_index_size=len(times) * time_index.ENTRY_SIZE,
        last_time_entry_ms=times[-1] if times else -1,
        aborted=tuple(txn_index.read_entries(_read_index(path, "txnindex", guest))),
    )


def _read_index(path: str, extension: str, guest: Guest) -> bytes:
    """Return all of a side file; nothing if there is none."""
    try:
        return read_small_file(path.removesuffix("log") + extension, guest)
    except FileNotFoundError:
        return b""
