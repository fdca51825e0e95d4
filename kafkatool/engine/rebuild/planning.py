"""Derive from the log what can be derived: indexes, and producer snapshots.

    .index .timeindex   from all good batches, by the broker's accounting, with the entry that closes them
    .txnindex           from replayed producers, as far as the log is whole from the state it starts with
    .snapshot           if corrupt, or missing at the base of a segment: from the nearest older good one and
                        the batches since; one with a correct checksum is trusted unless forced

Entries are compared, not bytes: preallocated zeros after the entries of the active segment are ignored; in a
closed segment they are not, because a broker counts them as entries. A restarted broker restarts its byte
count: an index whose entries are all correct, and dense enough, is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import sub

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.index_file import index_limit
from kafkatool.engine.broker.derived_files import DEFAULT_INTERVAL, Claims, Indexed, index_segment
from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.directory.log_dir import FileEntry, Partition, Segment, SegmentState
from kafkatool.engine.directory.selection import NamedPartition
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.plan.steps import Plan, Step, write
from kafkatool.errors import FormatError
from kafkatool.format import kinds, offset_index, time_index, txn_index
from kafkatool.format.names import FileState, segment_file
from kafkatool.format.state.producer_snapshot import ProducerState, read_snapshot, write_snapshot

COMMAND = "rebuild-index"

_Suffices = Callable[[bytes, bytes, Segment], bool]


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """How to rebuild: bytes between index entries, and whether good snapshots are rebuilt too."""

    now_ms: int
    interval: int = DEFAULT_INTERVAL
    force: bool = False
    bases: frozenset[int] | None = None
    """Only these segments; None: all."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One side file that differs from the log, and the step that fixes it."""

    step: Step
    kind: str
    entries: int
    only_there: int
    """Entries in the file that the log does not confirm."""
    only_here: int
    """Entries that the file lacks."""
    size_before: int | None


@dataclass(slots=True)
class Rebuilt:
    """What to do for one partition."""

    partition: Partition
    differences: list[Difference] = field(default_factory=list)
    damage: list[tuple[str, Damage]] = field(default_factory=list)
    files: int = 0
    """Number of side files checked."""
    unreadable: set[str] = field(default_factory=set)
    """Files that the disk did not return completely."""

    @property
    def stage(self) -> tuple[Step, ...]:
        return tuple(difference.step for difference in self.differences)


def plan_rebuild(
    partition: Partition,
    log_start: int | None,
    how: Rebuilding,
    guest: Guest,
    advance: Callable[[int], None] | None = None,
) -> Rebuilt:
    """Compare the side files of a partition with its log; nothing is changed.

    Raises KafkatoolError if a log cannot be read.
    """
    return _Rebuilder(partition, log_start, how, guest).run(advance)


@dataclass(frozen=True, slots=True)
class RebuildRequest:
    """One partition to rebuild, planned here or in a worker."""

    named: NamedPartition
    how: Rebuilding

    @property
    def path(self) -> str:
        return self.named.partition.path

    @property
    def bytes_to_read(self) -> int:
        return self.named.log_bytes

    def plan(self, guest: Guest, advance: Callable[[int], None]) -> Rebuilt:
        return plan_rebuild(self.named.partition, self.named.log_start, self.how, guest, advance)


def as_plan(log_dir: str, rebuilt: Iterable[Rebuilt]) -> Plan:
    """Combine all of it in one plan."""
    parts = list(rebuilt)
    unreadable = frozenset(path for part in parts for path in part.unreadable)
    stage = tuple(step for part in parts for step in part.stage)
    return Plan(COMMAND, log_dir, (stage,), unreadable=unreadable)


class _Rebuilder:
    def __init__(self, partition: Partition, log_start: int | None, how: Rebuilding, guest: Guest) -> None:
        self.result = Rebuilt(partition)
        self.how = how
        self.guest = guest
        self.segments = [s for s in partition.live_segments if s.log is not None]
        self.start = max([log_start or 0, *(s.base_offset for s in self.segments[:1])])
        self.snapshots = {
            entry.offset: entry
            for entry in partition.other_files
            if entry.kind is kinds.PRODUCER_SNAPSHOT
            and entry.state is FileState.LIVE
            and entry.offset is not None
        }
        self.states: ProducerStates | None = ProducerStates()

    def run(self, advance: Callable[[int], None] | None) -> Rebuilt:
        bases = [segment.base_offset for segment in self.segments]
        if not bases:
            return self.result
        self._load_first(bases[0])
        for segment in self._needed(bases):
            log = segment.log
            assert log is not None
            if segment.base_offset != bases[0]:
                self._snapshot(segment.base_offset)
            there = {kind.name: self._entries(segment, kind) for kind in _INDEXES}
            claims = Claims(segment.base_offset, *(used for _file, used in there.values()))
            with open_source(log.path, self.guest) as source:
                built = index_segment(source, segment.base_offset, self.how.interval, self.states, claims)
            damage = [damage for damage in built.damage if not _is_reserved(damage, segment)]
            if damage:
                self.states = None  # producer state is unknown after damage
                self.result.damage += [(log.path, one) for one in damage]
            if self._is_wanted(segment.base_offset):
                self._compare(segment, built, claims)
            if advance:
                advance(log.size)
        self._last_snapshot(bases[-1], built.next_offset)
        return self.result

    def _is_wanted(self, base: int) -> bool:
        return self.how.bases is None or base in self.how.bases

    def _needed(self, bases: list[int]) -> Iterator[Segment]:
        """Yield the segments to walk: those wanted, and those before them back to a good snapshot."""
        first = 0
        if self.how.bases is not None:
            wanted = [at for at, base in enumerate(bases) if base in self.how.bases]
            first = min(wanted, default=len(bases) - 1)
            while first > 0 and not self._is_believed(bases[first]):
                first -= 1
        yield from self.segments[first:]

    # --- producers ------------------------------------------------------------------------------------

    def _is_believed(self, base: int) -> bool:
        """Return whether there is a good snapshot that is not forced to be rebuilt."""
        return self._read(base) is not None and not (self.how.force and self._is_wanted(base))

    def _load_first(self, base: int) -> None:
        """Load the newest good snapshot at or below the first segment; else start without producers."""
        assert self.states is not None
        self.states.clear(base)
        for offset in sorted((offset for offset in self.snapshots if offset <= base), reverse=True):
            rows = self._read(offset)
            if rows is not None:
                self.states.load(rows, offset, self.how.now_ms)
                return

    def _read(self, offset: int) -> list[ProducerState] | None:
        """Return the producers of a snapshot; None unless it exists and is whole."""
        entry = self.snapshots.get(offset)
        if entry is None:
            return None
        try:
            return read_snapshot(self._bytes_of(entry))
        except (FormatError, FileNotFoundError):
            return None

    def _snapshot(self, base: int) -> None:
        """Load the snapshot at the base of a segment if trusted; else compare it with what was replayed."""
        there = self._read(base)
        if there is not None and self._is_believed(base):
            # After damage, known state begins again here.
            self.states = self.states or ProducerStates()
            self.states.load(there, base, self.how.now_ms)
            return
        if self.states is None or base <= self.start or not self._is_wanted(base):
            return
        self.states.end_offset = base
        self._compare_snapshot(base, there, self.states.rows())

    def _last_snapshot(self, last_base: int, log_end: int) -> None:
        """Compare the snapshot that a broker leaves at the log end when it stops; it is never required."""
        if log_end == last_base or log_end not in self.snapshots or self.states is None:
            return
        there = self._read(log_end)
        if (there is None or self.how.force) and self._is_wanted(last_base):
            self._compare_snapshot(log_end, there, self.states.rows())

    def _compare_snapshot(
        self, offset: int, there: list[ProducerState] | None, rows: list[ProducerState]
    ) -> None:
        self.result.files += 1
        if there is not None and sorted(there) == sorted(rows):
            return
        entry = self.snapshots.get(offset)
        old, new = set(there or ()), set(rows)
        self._add(
            entry,
            segment_file(offset, ".snapshot"),
            write_snapshot(rows),
            "missing" if entry is None else "garbled" if there is None else "not what the log says",
            kinds.PRODUCER_SNAPSHOT.name,
            (len(rows), len(old - new), len(new - old)),
        )

    def _bytes_of(self, entry: FileEntry, limit: int = 64 << 20) -> bytes:
        """Return a side file, with zeros for unreadable parts, which are noted."""
        with open_source(entry.path, self.guest) as source:
            data = source.read(0, limit)
            if source.unreadable:
                self.result.unreadable.add(entry.path)
        return data

    # --- indexes --------------------------------------------------------------------------------------

    def _entries(self, segment: Segment, kind: kinds.FileKind) -> tuple[bytes, bytes]:
        """Return an index file's content, and the part of it that is entries."""
        entry = segment.file(kind)
        size = 0 if segment.log is None else segment.log.size
        there = b"" if entry is None else self._bytes_of(entry, index_limit(size))
        return there, there[: _SHAPES[kind.name][1](there)]

    def _compare(self, segment: Segment, built: Indexed, claims: Claims) -> None:
        offsets, times = bytes(built.offset_entries), bytes(built.time_entries)
        believed = not self.how.force
        self._compare_index(
            segment, kinds.OFFSET_INDEX, offsets, believed and claims.offsets_hold, _is_dense_enough
        )
        self._compare_index(
            segment, kinds.TIME_INDEX, times, believed and claims.times_hold, _reaches_the_end
        )
        if self.states is not None and (segment.file(kinds.TXN_INDEX) is not None or built.aborted):
            self._compare_index(segment, kinds.TXN_INDEX, built.txn_entries, False, _never)

    def _compare_index(
        self, segment: Segment, kind: kinds.FileKind, wanted: bytes, is_right: bool, suffices: _Suffices
    ) -> None:
        self.result.files += 1
        entry = segment.file(kind)
        there, used = self._entries(segment, kind)
        is_good = used == wanted or (is_right and suffices(used, wanted, segment))
        why = "missing" if entry is None else "not what the log says"
        if entry is not None and is_good:
            behind = _behind(there[len(used) :], max(len(there), entry.size), len(used), segment, kind)
            if behind is None:
                return
            why = behind
        self._add(
            entry,
            segment_file(segment.base_offset, f".{kind.name}"),
            wanted,
            why,
            kind.name,
            _count(used, wanted, _SHAPES[kind.name][0]),
        )

    def _add(
        self,
        entry: FileEntry | None,
        name: str,
        content: bytes,
        why: str,
        kind: str,
        counts: tuple[int, int, int],
    ) -> None:
        path = os.path.join(self.result.partition.path, name)
        before = entry.size if entry is not None else None
        if entry is not None and entry.path in self.result.unreadable:
            why = "the disk does not give all of it"
        self.result.differences.append(Difference(write(path, content, why), kind, *counts, before))


def _behind(rest: bytes, size: int, used: int, segment: Segment, kind: kinds.FileKind) -> str | None:
    """Return what is wrong with the bytes after good entries: only the active segment preallocates."""
    if size == used:
        return None
    if size % _SHAPES[kind.name][0]:
        return "its last entry is cut short"
    if rest.strip(b"\0"):
        return "bytes behind its entries are neither entries nor zeros"
    if segment.state is SegmentState.ACTIVE:
        return None
    return f"{size - used} bytes behind its entries in a closed segment"


def _is_reserved(damage: Damage, segment: Segment) -> bool:
    """Return whether this is the room that a broker preallocates in the active segment."""
    is_zeros = damage.kind is FindingClass.ZERO_FILLED and damage.severity is Severity.DEGRADED
    return is_zeros and segment.state is SegmentState.ACTIVE


def _is_dense_enough(used: bytes, wanted: bytes, segment: Segment) -> bool:
    """Return whether correct offset entries are at most twice as far apart as those of one walk."""
    size = segment.log.size if segment.log is not None else 0
    return _widest(used, size) <= 2 * _widest(wanted, size)


def _widest(entries: bytes, size: int) -> int:
    """Return the most bytes of the log between two entries."""
    positions = [0, *(position for _offset, position in offset_index.ENTRY.iter_unpack(entries)), size]
    widest: int = max(map(sub, positions[1:], positions))
    return widest


def _reaches_the_end(used: bytes, wanted: bytes, segment: Segment) -> bool:
    """Return whether correct time entries are dense enough, and the last one is the segment's last.

    An active segment lacks the entry that is added when it is closed.
    """
    last = used[-time_index.ENTRY_SIZE :] == wanted[-time_index.ENTRY_SIZE :]
    is_active = segment.state is SegmentState.ACTIVE
    return (last or is_active) and 2 * len(used) + 2 * time_index.ENTRY_SIZE >= len(wanted)


def _never(used: bytes, wanted: bytes, segment: Segment) -> bool:
    return False


def _txn_end(buf: bytes) -> int:
    return len(buf) // txn_index.ENTRY_SIZE * txn_index.ENTRY_SIZE


_INDEXES = (kinds.OFFSET_INDEX, kinds.TIME_INDEX)
_SHAPES: dict[str, tuple[int, Callable[[bytes], int]]] = {
    kinds.OFFSET_INDEX.name: (offset_index.ENTRY_SIZE, offset_index.entries_end),
    kinds.TIME_INDEX.name: (time_index.ENTRY_SIZE, time_index.entries_end),
    kinds.TXN_INDEX.name: (txn_index.ENTRY_SIZE, _txn_end),
}


def _count(used: bytes, wanted: bytes, size: int) -> tuple[int, int, int]:
    """Return the number of wanted entries, of entries not wanted, and of missing ones."""
    if not used:
        return len(wanted) // size, 0, len(wanted) // size
    old, new = _slots(used, size), _slots(wanted, size)
    return len(new), len(old - new), len(new - old)


def _slots(buf: bytes, size: int) -> set[bytes]:
    return {buf[at : at + size] for at in range(0, len(buf), size)}
