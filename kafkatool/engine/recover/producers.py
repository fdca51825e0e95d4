"""Producer state and its snapshots while a log is loaded: which are read, dropped and written, and when."""

from __future__ import annotations

from kafkatool.engine.broker.producer_state import ProducerStates, state_batch
from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.plan.virtual import UnreadableFile, VirtualDirectory
from kafkatool.engine.recover.lookup import SegmentLookup
from kafkatool.engine.recover.result import BrokerThrows, DirectoryFails, PartitionLoading, offset_in_name
from kafkatool.errors import FormatError
from kafkatool.format.names import segment_file
from kafkatool.format.state.producer_snapshot import read_snapshot, write_snapshot


class LoadedProducers:
    """Producer state, with the snapshots of a virtual directory."""

    def __init__(self, directory: VirtualDirectory, now_ms: int) -> None:
        self.states = ProducerStates()
        self.last_offset = 0
        self._dir = directory
        self._now_ms = now_ms

    def offsets(self) -> list[int]:
        return sorted(self._names())

    def _names(self) -> dict[int, str]:
        """Return snapshots by offset: a broker opens one by whatever name parses to that offset."""
        found = {offset_in_name(name): name for name in self._dir if name.endswith(".snapshot")}
        return {offset: name for offset, name in found.items() if offset is not None}

    def take(self) -> None:
        offset = self.states.end_offset
        if offset > self.last_offset:
            content = write_snapshot(self.states.rows())
            self._dir.write(segment_file(offset, ".snapshot"), content, "producers at this offset")
            self.last_offset = offset

    def load_newest(self, log_start: int) -> None:
        for offset in reversed(self.offsets()):
            try:
                rows = read_snapshot(self._dir.read(self._names()[offset]))
            except UnreadableFile as error:
                raise DirectoryFails(str(error)) from None
            except FormatError:
                self._remove(offset, "it cannot be read")
                continue
            self.states.load(rows, offset, self._now_ms)
            self.last_offset = offset
            return
        self.states.clear(log_start)
        self.last_offset = log_start

    def stay(self, log_start: int) -> None:
        self.states.end_offset = max(self.states.end_offset, log_start)
        self.last_offset = max(self.offsets(), default=log_start)

    def drop_outside(self, log_start: int, end: int) -> None:
        for offset in self.offsets():
            if offset > end or offset <= log_start:
                self._remove(offset, "outside of the log")

    def drop_strays(self, bases: list[int]) -> None:
        strays = [offset for offset in self.offsets() if offset not in bases]
        kept = strays[-1:] if strays and strays[-1] >= max(bases) else []
        for offset in strays:
            if offset not in kept:
                self._remove(offset, "not at the base of a segment")

    def drop_all(self, why: str) -> None:
        for offset in self.offsets():
            self._remove(offset, why)

    def _remove(self, offset: int, why: str) -> None:
        self._dir.remove(self._names()[offset], why)


def finish_producers(log: PartitionLoading, log_start: int, end: int) -> None:
    """Do what the broker does about producers when all segments are loaded."""
    producers = LoadedProducers(log.dir, log.how.now_ms)
    producers.drop_strays(log.bases)
    rebuild_producers(log, producers, log.bases, log_start, end)


def rebuild_producers(
    log: PartitionLoading, producers: LoadedProducers, bases: list[int], log_start: int, end: int
) -> None:
    """Rebuild producer state up to an offset, writing and dropping snapshots as the broker does."""
    marks = {*bases[-2:], end}
    if log.how.is_clean and not producers.offsets():  # never written: producers are not looked for
        return
    was_empty = producers.states.end_offset >= end
    producers.drop_outside(log_start, end)
    if end != producers.states.end_offset:
        producers.load_newest(log_start)
    else:
        producers.stay(log_start)
    if end > producers.states.end_offset and not was_empty:
        _replay(log, producers, bases, marks, log_start, end)
    producers.states.end_offset = end
    producers.take()


def _replay(
    log: PartitionLoading,
    producers: LoadedProducers,
    bases: list[int],
    marks: set[int],
    log_start: int,
    end: int,
) -> None:
    begin = producers.states.end_offset
    floor = max((base for base in bases if base <= begin), default=None)
    last = max((base for base in bases if base <= end), default=None)
    for base in bases:
        if base >= end or (floor is not None and base < floor):
            continue
        start = max(base, producers.states.end_offset, log_start)
        producers.states.end_offset = start
        if base in marks:
            producers.take()
        _replay_segment(log, producers.states, base, start, end, is_last=base == last)
        producers.states.end_offset = start


def _replay_segment(
    log: PartitionLoading, states: ProducerStates, base: int, start: int, end: int, *, is_last: bool
) -> None:
    name = segment_file(base, ".log")
    if not log.dir.size(name):
        return
    with log.dir.open(name) as source:
        segment = SegmentLookup(log, base, source)
        stop = segment.position_of(end) if is_last else None
        position = segment.position_of(start)
        if position is None:
            return
        for batch in segment.batches(position, stop):
            segment.check_readable(batch)
            header = batch.header
            if header.producer_id >= 0 and batch.data is not None:
                try:
                    states.replay(state_batch(header, batch.data))
                except (FormatError, LogRefusal) as error:
                    raise BrokerThrows(f"{name}: {error}") from None
