"""Load segments as a broker's loader does: scanned, cut, split, or dropped after a cut."""

from __future__ import annotations

from collections.abc import Callable

from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.index_accounting import IndexAccounting, IndexFull, InvalidOffset
from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.broker.segment_bases import bases_of
from kafkatool.engine.broker.segment_recovery import OffsetOverflow, RecoveredSegment, recover_segment
from kafkatool.engine.files.source import Source
from kafkatool.engine.plan.steps import FileStretch
from kafkatool.engine.plan.virtual import UnreadableFile
from kafkatool.engine.recover.producers import LoadedProducers, rebuild_producers
from kafkatool.engine.recover.result import (
    INDEXES,
    BrokerThrows,
    DirectoryFails,
    PartitionLoading,
    offset_in_name,
    unreadable_in,
)
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import HEADER_SIZE, MAX_INT32
from kafkatool.format.java_text import LONG_MAX
from kafkatool.format.names import segment_file

NOT_FLUSHED = "it lies at or above the recovery point"
"""Why a segment without any problem is scanned."""


def load_segments(log: PartitionLoading) -> None:
    """Load every segment by name; those without an offset index are scanned."""
    _with_splits(log, _load_segments)


def recover_from_the_recovery_point(log: PartitionLoading) -> None:
    """Scan what was not flushed; the first segment that must be cut ends the log."""
    _with_splits(log, _recover_log)


class _Overflow(Exception):
    def __init__(self, base: int, message: str) -> None:
        super().__init__(message)
        self.base = base


def _with_splits(log: PartitionLoading, work: Callable[[PartitionLoading], None]) -> None:
    """Run the work again after splitting each segment whose offsets span too much."""
    for _ in range(1000):
        try:
            work(log)
            return
        except _Overflow as overflow:
            _split(log, overflow.base)


def _load_segments(log: PartitionLoading) -> None:
    log.bases = []
    for name in list(log.dir):
        base = offset_in_name(name)
        if name.endswith(INDEXES):
            if base is None:
                raise BrokerThrows(f"{name}: no offset in the name of an index")
            if segment_file(base, ".log") not in log.dir and name in log.dir:
                log.drop_leftover(name, "an index without a log")
        elif name.endswith(".log"):
            if base is None:
                raise BrokerThrows(f"{name}: no offset in the name of a log")
            _find_under_its_name(log, name, base)
            _load_segment(log, base)
            log.bases = sorted({*log.bases, base})


def _find_under_its_name(log: PartitionLoading, name: str, base: int) -> None:
    """Report a misnamed log: a broker opens the name that it would have given to that offset."""
    proper = segment_file(base, ".log")
    if name == proper:
        return
    effect = "which is loaded"
    if proper not in log.dir:
        effect = "which is made, empty"
        for extension in (".log", ".index", ".timeindex"):
            if segment_file(base, extension) not in log.dir:
                log.dir.write(segment_file(base, extension), b"", f"{name} is not its name")
    log.say("misnamed", base, f"{name}: its name stands for {proper}, {effect}; nobody reads this file")


def _load_segment(log: PartitionLoading, base: int) -> None:
    index, times, aborted = (segment_file(base, extension) for extension in INDEXES)
    if index not in log.dir:
        _scan(log, base, "its offset index is missing", is_load=True)
        return
    if times not in log.dir:
        log.say("rebuild", base, f"{times}: is missing, and is made empty, not from the log")
        log.dir.write(times, b"", "it was missing; a broker makes it empty")
    if aborted in log.dir:
        try:
            entries = list(txn_index.read_entries(log.dir.read(aborted)))
        except UnreadableFile as error:
            raise BrokerThrows(str(error)) from None
        for entry in entries:
            if txn_index.version_problem(entry):
                raise BrokerThrows(f"{aborted}: {txn_index.version_problem(entry)}")
        problem = txn_index.sanity_problem(entries, base)
        if problem is not None:
            _scan(log, base, f"its transaction index is wrong: {problem}", is_load=True)


def _recover_log(log: PartitionLoading) -> None:
    if log.how.is_clean or log.how.recovery_point == LONG_MAX:  # to the broker an empty range
        return
    floor = max((base for base in log.bases if base <= log.how.recovery_point), default=None)
    doubtful = [base for base in log.bases if floor is None or base >= floor]
    for number, base in enumerate(doubtful):
        if _scan(log, base, NOT_FLUSHED, is_load=False):
            _drop(log, doubtful[number + 1 :], base)
            return


def _scan(log: PartitionLoading, base: int, why: str, *, is_load: bool) -> bool:
    """Recover one segment; return True if it had to be cut."""
    name = segment_file(base, ".log")
    size = log.dir.size(name)
    log.say("scan", base, f"{name}: {why}", position=size)
    producers = LoadedProducers(log.dir, log.how.now_ms)
    try:
        rebuild_producers(log, producers, log.bases, log.how.log_start, base)
    except DirectoryFails as error:
        if not is_load:
            log.remember_cut(name, 0)
            text = f"{error}; a broker from 4.0 on first empties {name}: set that snapshot aside"
            raise DirectoryFails(text) from None
        raise
    try:
        with log.dir.open(name) as source:
            accounting = IndexAccounting(base, log.how.interval, log.how.max_index_bytes)
            found = recover_segment(scan(source, chain=True), accounting, producers.states, log.epochs)
            if found.valid_bytes < size:
                _fail_if_unreadable(log, base, source, found.valid_bytes)
    except OffsetOverflow as error:
        raise _Overflow(base, str(error)) from None
    except IndexFull as error:
        raise BrokerThrows(str(error)) from None
    except LogRefusal as error:
        raise BrokerThrows(f"{name}: {error}") from None
    except InvalidOffset as error:
        if is_load:
            raise BrokerThrows(f"{name}: {error}") from None
        _give_up(log, base, str(error))
        return True
    _settle(log, base, found, size)
    producers.take()
    if found.valid_bytes < size and not log.result.open_transactions:
        log.result.open_transactions = producers.states.open_transactions
    return found.valid_bytes < size


def _fail_if_unreadable(log: PartitionLoading, base: int, source: Source, position: int) -> None:
    """Raise BrokerThrows for a batch that the disk does not return: a broker does not cut it, but fails."""
    head = source.read(position, HEADER_SIZE)
    size = 12 + int.from_bytes(head[8:12], "big", signed=True)
    is_read = position + size <= (source.size_hint or 0)
    bad = unreadable_in(source, position, position + max(HEADER_SIZE, size if is_read else 0))
    if bad is None:
        return
    log.remember_cut(segment_file(base, ".log"), position)
    for later in log.bases:
        if later > base:
            log.remember_cut(segment_file(later, ".log"), 0)
    raise BrokerThrows(f"{segment_file(base, '.log')}: the disk does not give bytes {bad[0]} to {bad[1] - 1}")


def _settle(log: PartitionLoading, base: int, found: RecoveredSegment, size: int) -> None:
    why = "made anew by recovery"
    if found.valid_bytes < size:
        problem = found.problem or "the last batch is not whole"
        if found.has_zeros_behind:
            _trim(log, base, found.valid_bytes)
        else:
            _cut(log, base, found.valid_bytes, found.next_offset, problem)
    _tell_of_unreadable(log, base, found)
    offsets, times, aborted = (segment_file(base, extension) for extension in INDEXES)
    log.dir.write(offsets, offset_index.write_entries(found.offsets), why)
    log.dir.write(times, time_index.write_entries(found.times), why)
    if found.aborted or aborted in log.dir:
        log.dir.write(aborted, txn_index.write_entries(found.aborted), why)
    log.ends[base] = found.next_offset


def _tell_of_unreadable(log: PartitionLoading, base: int, found: RecoveredSegment) -> None:
    """Report a batch with an invalid magic byte: it stays in the log, and every consumer stops at it."""
    damage = found.unreadable
    if damage is None or damage.position >= found.valid_bytes:
        return
    more = f", the first of {found.unreadable_batches} such batches" if found.unreadable_batches > 1 else ""
    log.say(
        "unreadable",
        base,
        f"{segment_file(base, '.log')}: byte {damage.position}: {damage.message}{more}",
        position=damage.position,
        first_offset=damage.first_offset,
        last_offset=damage.last_offset,
    )


def _give_up(log: PartitionLoading, base: int, why: str) -> None:
    """Truncate a segment whose index entries would not rise to its base offset, as a broker does.

    The broker looks that offset up in the index built so far: if an entry has the base offset itself, what
    lies before that entry stays.
    """
    position, next_offset = _position_of_base(log, base)
    _cut(log, base, position, next_offset, f"{why}; the broker gives up on the segment")
    for extension in INDEXES:
        if extension != ".txnindex" or segment_file(base, extension) in log.dir:
            log.dir.write(segment_file(base, extension), b"", "the broker gives up on the segment")
    log.ends[base] = next_offset


def _position_of_base(log: PartitionLoading, base: int) -> tuple[int, int]:
    accounting = IndexAccounting(base, log.how.interval, log.how.max_index_bytes)
    next_offset = base
    for batch in log.batches(segment_file(base, ".log")):
        header = batch.header
        try:
            new = accounting.add(batch.position, header.size, header.last_offset, header.max_timestamp)
        except InvalidOffset:
            break
        if new.offset is not None and new.offset.relative_offset == 0:
            return batch.position, next_offset
        next_offset = header.last_offset + 1
    return 0, base


def _cut(log: PartitionLoading, base: int, position: int, next_offset: int, why: str) -> None:
    name = segment_file(base, ".log")
    log.remember_cut(name, position)
    lost = log.dir.size(name) - position
    message = f"{name}: {lost} bytes from byte {position} on are cut: {why}"
    log.say("cut", base, message, position=position, first_offset=next_offset)
    log.dir.cut(name, position, f"cut at byte {position}: {why}")


def _trim(log: PartitionLoading, base: int, position: int) -> None:
    name = segment_file(base, ".log")
    size = log.dir.size(name) - position
    message = f"{name}: {size} zeros from byte {position} on are cut: reserved, or never written"
    log.say("trim", base, message, position=position)
    log.dir.cut(name, position, f"zeros from byte {position} on")


def _drop(log: PartitionLoading, bases: list[int], damaged: int) -> None:
    for base in bases:
        log.say("delete", base, f"{segment_file(base, '.log')}: lies behind the damage", first_offset=base)
        log.remove_segment(base, f"behind the damage in segment {damaged}")
        log.bases.remove(base)


# --- a segment whose offsets span too much ------------------------------------------------------------


def _split(log: PartitionLoading, base: int) -> None:
    name = segment_file(base, ".log")
    batches = log.batches(name)
    last = batches[-1].header.last_offset if batches else base
    size = log.dir.size(name)
    if not last + 1 > base or last - base <= MAX_INT32:
        raise BrokerThrows(
            f"{name}: a batch does not belong to this segment, and it cannot be split: "
            "Split operation is only permitted for segments with overflow"
        )
    if batches[-1].position + batches[-1].header.size != size:
        raise BrokerThrows(f"{name}: it would have to be split, and ends in the middle of a batch")
    starts = _split_points(log, name, batches)
    content = log.dir.files[name]
    assert isinstance(content, FileStretch)
    log.say("split", base, f"{name}: its offsets span too much: {len(starts)} segments are made of it")
    log.remove_segment(base, "split")
    log.result.cuts.pop()  # nothing is lost
    ends = [*(position for position, _base in starts[1:]), size]
    for (position, new_base), end in zip(starts, ends, strict=True):
        log.dir.files[segment_file(new_base, ".log")] = content.part(position, end)
        for extension in (".index", ".timeindex"):  # recovery rebuilds them
            log.dir.write(segment_file(new_base, extension), b"", "split")
    log.bases = sorted({*log.bases, *(new for _position, new in starts)} - ({base} - {starts[0][1]}))


def _split_points(log: PartitionLoading, name: str, batches: list[Batch]) -> list[tuple[int, int]]:
    """Return position and base offset of the new segments."""
    try:
        with log.dir.open(name) as source:
            return list(bases_of(((batch.position, batch.header) for batch in batches), source.read).items())
    except FormatError as error:
        raise BrokerThrows(f"{name}: it would have to be split, and cannot be read: {error}") from None
