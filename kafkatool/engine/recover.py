"""What a broker would do to a partition at start-up after an unclean shutdown, without doing it.

The steps and their order are those of the broker's loader:

    1  .deleted and .cleaned files go; .swap files go where a .cleaned one shows that they are incomplete
    2  a complete swap is finished: what it replaces goes, and it takes its place
    3  indexes without a log go; a segment without an offset index, or with a wrong transaction index, is
       scanned and its indexes are made anew
    4  every segment from the recovery point on is scanned; the first one that has to be cut ends the log,
       and all behind it go
    5  leader epochs and producer snapshots are brought into line with what is left

Where the broker throws instead, the partition, and with it the broker, does not start: `refusal` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatool.engine.accounting import IndexAccounting, IndexFull, InvalidOffset
from kafkatool.engine.leader_epochs import LeaderEpochs
from kafkatool.engine.logdir import Partition
from kafkatool.engine.plan import NewEnd, Plan, Step, Stretch
from kafkatool.engine.producer_state import ProducerStates, state_batch
from kafkatool.engine.recovery import OffsetOverflow, RecoveredSegment, recover_segment
from kafkatool.engine.refusals import LogRefusal
from kafkatool.engine.scan import Batch, scan
from kafkatool.engine.source import Guest, open_source
from kafkatool.engine.virtual import VirtualDirectory
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import MAX_INT32, BatchHeader
from kafkatool.format.checkpoint import read_leader_epochs, write_leader_epochs
from kafkatool.format.java_text import parse_long
from kafkatool.format.names import segment_file
from kafkatool.format.producer_snapshot import read_snapshot, write_snapshot

COMMAND = "recover"
LEADER_EPOCHS = "leader-epoch-checkpoint"
_INDEXES = (".index", ".timeindex", ".txnindex")


@dataclass(frozen=True, slots=True)
class Recovering:
    """What is known of a partition from outside its directory."""

    now_ms: int
    recovery_point: int = 0
    log_start: int = 0
    interval: int = 4096
    max_index_bytes: int = 10 << 20


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the broker would do. Positions and offsets are None where they mean nothing."""

    what: str
    segment: int | None
    message: str
    position: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(slots=True)
class Recovered:
    """What would become of a partition."""

    path: str
    events: list[Event] = field(default_factory=list)
    refusal: str | None = None
    stages: list[tuple[Step, ...]] = field(default_factory=list)
    log_end: int | None = None
    log_start: int = 0
    lost_to: int | None = None
    """The last offset that a good batch behind the damage holds; None where there is none."""
    cuts: list[tuple[str, int]] = field(default_factory=list)
    """Logs as they are now, and the byte from which on they are cut; 0 where all goes."""
    open_transactions: dict[int, int] = field(default_factory=dict)
    """First offset to producer id, where the log is cut."""

    @property
    def loses(self) -> bool:
        return any(event.what == "cut" for event in self.events)


class BrokerThrows(Exception):
    """The loader does not survive this."""


def plan_recover(partition: Partition, how: Recovering, guest: Guest) -> Recovered:
    """Follow the broker through one partition directory; nothing is changed."""
    directory = VirtualDirectory(partition, guest)
    loader = _Loader(directory, how)
    result = loader.result
    try:
        loader.load()
    except BrokerThrows as error:
        result.refusal = str(error)
        result.events.append(Event("refuse", None, str(error)))
        return result
    result.stages = directory.stages()
    if result.cuts:
        result.lost_to = _last_lost(result.cuts, guest)
    return result


def _last_lost(cuts: list[tuple[str, int]], guest: Guest) -> int | None:
    """The last offset of a good batch in what is cut."""
    last = None
    for path, position in cuts:
        with open_source(path, guest) as source:
            for item in scan(source, position):
                if isinstance(item, Batch) and item.is_valid:
                    last = max(last or 0, item.header.last_offset)
    return last


def as_plan(log_dir: str, recovered: list[Recovered]) -> Plan:
    """Everything that can be done in one log directory; stages of all partitions side by side."""
    done = [one for one in recovered if one.refusal is None]
    depth = max((len(one.stages) for one in done), default=0)
    stages = tuple(
        tuple(step for one in done if at < len(one.stages) for step in one.stages[at]) for at in range(depth)
    )
    ends = tuple(NewEnd(one.path, one.log_end, one.log_start) for one in done if one.log_end is not None)
    return Plan(COMMAND, log_dir, stages, ends)


def _prefix(name: str) -> int | None:
    return parse_long(name.partition(".")[0]) if "." in name else None


class _Loader:
    def __init__(self, directory: VirtualDirectory, how: Recovering) -> None:
        self.dir = directory
        self.how = how
        self.result = Recovered(directory.path, log_start=how.log_start)
        self.epochs = LeaderEpochs()
        self.bases: list[int] = []
        self.ends: dict[int, int] = {}

    def load(self) -> None:
        self._read_epochs()
        known_epochs = self.epochs.entries
        self._temporary_files()
        self._swaps()
        self._retry(self._load_segments)
        self._retry(self._recover_log)
        end = self._end()
        self.epochs.truncate_from_end(end)
        self.epochs.truncate_from_start(self.how.log_start)
        if self.epochs.entries != known_epochs or LEADER_EPOCHS not in self.dir:
            entries = self.epochs.entries
            content = write_leader_epochs(entries) if entries else b""
            self.dir.write(LEADER_EPOCHS, content, "as the log has them")
        self._finish_producers(max(self.how.log_start, self.bases[0]), end)
        self.result.log_end = end

    def _say(self, what: str, segment: int | None, message: str, **more: int | None) -> None:
        self.result.events.append(Event(what, segment, message, **more))

    def _read_epochs(self) -> None:
        if LEADER_EPOCHS not in self.dir:
            return
        try:
            entries = read_leader_epochs(self.dir.read(LEADER_EPOCHS))
        except FormatError as error:
            raise BrokerThrows(f"{LEADER_EPOCHS} cannot be read: {error}") from None
        for entry in entries:
            if entry.epoch < 0 or entry.start_offset < 0:
                raise BrokerThrows(f"{LEADER_EPOCHS} holds epoch {entry.epoch} at {entry.start_offset}")
            self.epochs.assign(entry.epoch, entry.start_offset)

    # --- leftovers ------------------------------------------------------------------------------------

    def _temporary_files(self) -> None:
        cleaned = []
        for name in list(self.dir):
            if name.endswith(".deleted") and not name.endswith(".checkpoint.deleted"):
                self._leftover(name, "marked as deleted")
            elif name.endswith(".cleaned"):
                offset = _prefix(name)
                if offset is None:
                    raise BrokerThrows(f"{name}: no offset in the name of a leftover")
                cleaned.append(offset)
        least = min(cleaned, default=None)
        for name in list(self.dir):
            if not name.endswith((".cleaned", ".swap")):
                continue
            offset = _prefix(name)
            if offset is None:
                raise BrokerThrows(f"{name}: no offset in the name of a leftover")
            if name.endswith(".cleaned"):
                self._leftover(name, "left by a cleaning that was not finished")
            elif least is not None and offset >= least:
                self._leftover(name, "left by a swap that was not begun for all its files")

    def _leftover(self, name: str, why: str) -> None:
        self._say("leftover", _prefix(name), f"{name}: {why}")
        self.dir.remove(name, why)

    def _swaps(self) -> None:
        swapped = [name for name in self.dir if name.endswith(".swap")]
        logs = [name for name in swapped if name.endswith(".log.swap")]
        if logs:
            first = min(_prefix(name) or 0 for name in logs)
            end = max(self._swap_end(name) for name in logs)
            for name in list(self.dir):
                offset = _prefix(name)
                if offset is not None and first <= offset < end and not name.endswith(".swap"):
                    self._leftover(name, f"replaced by the swap of {first} to {end - 1}")
        for name in swapped:
            target = name.removesuffix(".swap")
            self._say("leftover", _prefix(name), f"{name}: the swap is completed")
            if target in self.dir:
                self.dir.remove(target, "replaced by a swap")
            self.dir.rename(name, target, "the swap is completed")

    def _swap_end(self, name: str) -> int:
        """The offset behind the last batch of a swapped log, found as the broker finds it."""
        base = _prefix(name) or 0
        return max((batch.header.last_offset + 1 for batch in self._batches(name)), default=base)

    def _batches(self, name: str) -> list[Batch]:
        """The chain of a log, unchecked, as far as it goes; without the records."""
        found = []
        with self.dir.open(name) as source:
            for item in scan(source, chain=True):
                if isinstance(item, Batch):
                    found.append(item._replace(data=None))
                elif item.ends_chain:
                    break
        return found

    # --- segments -------------------------------------------------------------------------------------

    def _retry(self, work: object) -> None:
        """A segment whose offsets span too much is split, and the work begins again."""
        assert callable(work)
        for _ in range(1000):
            try:
                work()
                return
            except _Overflow as overflow:
                self._split(overflow.base)

    def _load_segments(self) -> None:
        self.bases = []
        names = sorted(self.dir)
        logs = {_prefix(name) for name in names if name.endswith(".log")}
        for name in names:
            base = _prefix(name)
            if name.endswith(_INDEXES):
                if base is None:
                    raise BrokerThrows(f"{name}: no offset in the name of an index")
                if base not in logs and name in self.dir:
                    self._leftover(name, "an index without a log")
            elif name.endswith(".log"):
                if base is None:
                    raise BrokerThrows(f"{name}: no offset in the name of a log")
                self._load_segment(base)
                self.bases.append(base)

    def _load_segment(self, base: int) -> None:
        index, times, aborted = (segment_file(base, extension) for extension in _INDEXES)
        if index not in self.dir:
            self._scan(base, self.bases, "its offset index is missing", is_load=True)
            return
        if times not in self.dir:
            self._say("rebuild", base, f"{times}: is missing, and is made empty, not from the log")
            self.dir.write(times, b"", "it was missing; a broker makes it empty")
        if aborted in self.dir:
            entries = list(txn_index.read_entries(self.dir.read(aborted)))
            for entry in entries:
                if txn_index.version_problem(entry):
                    raise BrokerThrows(f"{aborted}: {txn_index.version_problem(entry)}")
            problem = txn_index.sanity_problem(entries, base)
            if problem is not None:
                self._scan(base, self.bases, f"its transaction index is wrong: {problem}", is_load=True)

    def _recover_log(self) -> None:
        floor = max((base for base in self.bases if base <= self.how.recovery_point), default=None)
        doubtful = [base for base in self.bases if floor is None or base >= floor]
        for number, base in enumerate(doubtful):
            if self._scan(base, self.bases, "it lies at or above the recovery point", is_load=False):
                self._drop(doubtful[number + 1 :], base)
                return

    def _scan(self, base: int, known: list[int], why: str, *, is_load: bool) -> bool:
        """Recover one segment; True if it had to be cut."""
        log = segment_file(base, ".log")
        size = self.dir.size(log)
        self._say("scan", base, f"{log}: {why}", position=size)
        producers = _Producers(self.dir, self.how.now_ms)
        self._rebuild(producers, known, self.how.log_start, base)
        try:
            with self.dir.open(log) as source:
                accounting = IndexAccounting(base, self.how.interval, self.how.max_index_bytes)
                walk = scan(source, chain=True)
                found = recover_segment(walk, accounting, producers.states, self.epochs)
        except OffsetOverflow as error:
            raise _Overflow(base, str(error)) from None
        except IndexFull as error:
            raise BrokerThrows(str(error)) from None
        except LogRefusal as error:
            raise BrokerThrows(f"{log}: {error}") from None
        except InvalidOffset as error:
            if is_load:
                raise BrokerThrows(f"{log}: {error}") from None
            self._give_up(base, str(error))
            return True
        self._settle(base, found, size)
        producers.take()
        if found.valid_bytes < size and not self.result.open_transactions:
            self.result.open_transactions = producers.states.open_transactions
        return found.valid_bytes < size

    def _settle(self, base: int, found: RecoveredSegment, size: int) -> None:
        log = segment_file(base, ".log")
        why = "made anew by recovery"
        if found.valid_bytes < size:
            self._cut(
                base, found.valid_bytes, found.next_offset, found.problem or "the last batch is not whole"
            )
        offsets, times, aborted = (segment_file(base, extension) for extension in _INDEXES)
        self.dir.write(offsets, offset_index.write_entries(found.offsets), why)
        self.dir.write(times, time_index.write_entries(found.times), why)
        if found.aborted or aborted in self.dir:
            self.dir.write(aborted, txn_index.write_entries(found.aborted), why)
        self.ends[base] = found.next_offset
        assert log in self.dir

    def _give_up(self, base: int, why: str) -> None:
        """An index entry that would not rise: the broker truncates the segment to its base offset.

        It finds that in the index as far as it was made: where an entry stands at the base offset itself,
        what lies before that entry stays.
        """
        position, next_offset = self._position_of_base(base)
        self._cut(base, position, next_offset, f"{why}; the broker gives up on the segment")
        for extension in _INDEXES:
            if extension != ".txnindex" or segment_file(base, extension) in self.dir:
                self.dir.write(segment_file(base, extension), b"", "the broker gives up on the segment")
        self.ends[base] = next_offset

    def _position_of_base(self, base: int) -> tuple[int, int]:
        accounting = IndexAccounting(base, self.how.interval, self.how.max_index_bytes)
        next_offset = base
        for batch in self._batches(segment_file(base, ".log")):
            header = batch.header
            try:
                new = accounting.add(batch.position, header.size, header.last_offset, header.max_timestamp)
            except InvalidOffset:
                break
            if new.offset is not None and new.offset.relative_offset == 0:
                return batch.position, next_offset
            next_offset = header.last_offset + 1
        return 0, base

    def _cut(self, base: int, position: int, next_offset: int, why: str) -> None:
        log = segment_file(base, ".log")
        self._remember(log, position)
        lost = self.dir.size(log) - position
        self._say(
            "cut",
            base,
            f"{log}: {lost} bytes from byte {position} on are cut: {why}",
            position=position,
            first_offset=next_offset,
        )
        self.dir.cut(log, position, f"cut at byte {position}: {why}")

    def _remember(self, log: str, position: int) -> None:
        content = self.dir.files[log]
        if isinstance(content, Stretch) and content.end > content.start + position:
            self.result.cuts.append((content.path, content.start + position))

    def _drop(self, bases: list[int], damaged: int) -> None:
        for base in bases:
            self._say(
                "delete", base, f"{segment_file(base, '.log')}: lies behind the damage", first_offset=base
            )
            self._remove_segment(base, f"behind the damage in segment {damaged}")
            self.bases.remove(base)

    def _remove_segment(self, base: int, why: str) -> None:
        log = segment_file(base, ".log")
        if log in self.dir:
            self._remember(log, 0)
        for extension in (".log", *_INDEXES, ".snapshot"):
            self.dir.remove(segment_file(base, extension), why)

    def _end(self) -> int:
        if self.bases:
            end = self.ends[self.bases[-1]]
            if end >= self.how.log_start:
                return end
            self._say(
                "delete",
                None,
                f"the log ends at {end}, below its start {self.how.log_start}: all of it is deleted",
            )
            self.result.log_end = end
            raise BrokerThrows(
                f"the log would end at {end}, below its log start offset {self.how.log_start}: "
                "a broker would delete all of it; bring the missing segments back first"
            )
        start = self.how.log_start
        for extension in (".log", ".index", ".timeindex"):
            self.dir.write(segment_file(start, extension), b"", "there is no segment")
        self.bases = [start]
        return start

    # --- a segment whose offsets span too much --------------------------------------------------------

    def _split(self, base: int) -> None:
        log = segment_file(base, ".log")
        batches = self._batches(log)
        last = batches[-1].header.last_offset if batches else base
        size = self.dir.size(log)
        if not last + 1 > base or last - base <= MAX_INT32:
            raise BrokerThrows(
                f"{log}: a batch does not belong to this segment, and it cannot be split: "
                "Split operation is only permitted for segments with overflow"
            )
        if batches[-1].position + batches[-1].header.size != size:
            raise BrokerThrows(f"{log}: it would have to be split, and ends in the middle of a batch")
        starts = _split_points(batches)
        content = self.dir.files[log]
        assert isinstance(content, Stretch)
        self._say("split", base, f"{log}: its offsets span too much: {len(starts)} segments are made of it")
        self._remove_segment(base, "split")
        self.result.cuts.pop()
        ends = [*(position for position, _base in starts[1:]), size]
        for (position, new_base), end in zip(starts, ends, strict=True):
            name = segment_file(new_base, ".log")
            self.dir.files[name] = Stretch(content.path, content.start + position, content.start + end)
            for extension in (".index", ".timeindex"):  # recovery makes them anew
                self.dir.write(segment_file(new_base, extension), b"", "split")
        self.bases = sorted({*self.bases, *(new for _position, new in starts)} - ({base} - {starts[0][1]}))

    # --- producers ------------------------------------------------------------------------------------

    def _rebuild(self, producers: _Producers, bases: list[int], log_start: int, end: int) -> None:
        """Producers up to an offset, with the snapshots that the broker takes and drops on the way."""
        marks = {*bases[-2:], end}
        was_empty = producers.states.end_offset >= end
        producers.drop_outside(log_start, end)
        if end != producers.states.end_offset:
            producers.load_newest(log_start)
        else:
            producers.stay(log_start)
        if end > producers.states.end_offset and not was_empty:
            self._replay(producers, bases, marks, log_start, end)
        producers.states.end_offset = end
        producers.take()

    def _replay(
        self, producers: _Producers, bases: list[int], marks: set[int], log_start: int, end: int
    ) -> None:
        begin = producers.states.end_offset
        floor = max((base for base in bases if base <= begin), default=None)
        for base in bases:
            if base >= end or (floor is not None and base < floor):
                continue
            start = max(base, producers.states.end_offset, log_start)
            producers.states.end_offset = start
            if base in marks:
                producers.take()
            self._replay_segment(producers.states, base, start, end)
            producers.states.end_offset = start

    def _replay_segment(self, states: ProducerStates, base: int, start: int, end: int) -> None:
        with self.dir.open(segment_file(base, ".log")) as source:
            for item in scan(source, chain=True):
                if not isinstance(item, Batch):
                    if item.ends_chain:
                        return
                    continue
                header = item.header
                if header.last_offset >= end:
                    return
                if header.last_offset < start or not isinstance(header, BatchHeader):
                    continue
                if header.producer_id >= 0 and item.data is not None:
                    try:
                        states.replay(state_batch(header, item.data))
                    except (FormatError, LogRefusal) as error:
                        raise BrokerThrows(f"{segment_file(base, '.log')}: {error}") from None

    def _finish_producers(self, log_start: int, end: int) -> None:
        producers = _Producers(self.dir, self.how.now_ms)
        producers.drop_strays(self.bases)
        self._rebuild(producers, self.bases, log_start, end)


class _Overflow(Exception):
    def __init__(self, base: int, message: str) -> None:
        super().__init__(message)
        self.base = base


def _split_points(batches: list[Batch]) -> list[tuple[int, int]]:
    """Where new segments begin: position and base offset."""
    starts: list[tuple[int, int]] = []
    for batch in batches:
        header = batch.header
        first = header.base_offset if isinstance(header, BatchHeader) else header.offset
        if not starts or not 0 <= header.last_offset - starts[-1][1] <= MAX_INT32:
            starts.append((batch.position, first))
    return starts


class _Producers:
    """Producer state beside the snapshots of a directory in thought."""

    def __init__(self, directory: VirtualDirectory, now_ms: int) -> None:
        self.states = ProducerStates()
        self.last_offset = 0
        self._dir = directory
        self._now_ms = now_ms

    def offsets(self) -> list[int]:
        found = [_prefix(name) for name in self._dir if name.endswith(".snapshot")]
        return sorted(offset for offset in found if offset is not None)

    def take(self) -> None:
        offset = self.states.end_offset
        if offset > self.last_offset:
            content = write_snapshot(self.states.rows())
            self._dir.write(segment_file(offset, ".snapshot"), content, "producers at this offset")
            self.last_offset = offset

    def load_newest(self, log_start: int) -> None:
        for offset in reversed(self.offsets()):
            try:
                rows = read_snapshot(self._dir.read(segment_file(offset, ".snapshot")))
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

    def _remove(self, offset: int, why: str) -> None:
        self._dir.remove(segment_file(offset, ".snapshot"), why)
