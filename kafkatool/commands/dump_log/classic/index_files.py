"""The text of kafka-dump-log for `.index` and `.timeindex` files.

Every entry is compared with the log beside it. Where Kafka throws because an entry leads nowhere, the entry
is noted as damage and the next one follows. A batch larger than --max-message-size, at which Kafka's tool
throws, is not damage: it is checked all the same.
"""

from __future__ import annotations

from contextlib import ExitStack

from kafkatool.commands.dump_log.classic.java_paths import java_path
from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.commands.dump_log.classic.reports import Reports
from kafkatool.commands.dump_log.classic.side_files import (
    DamageRuns,
    Emit,
    Lines,
    Note,
    file_damage,
    offset_in_name,
    open_beside,
    open_index,
    open_log,
)
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.finder import BatchFinder
from kafkatool.engine.batches.index_file import IndexFile
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import wrap_int64
from kafkatool.format.index_search import lower_bound
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.time_index import NO_TIMESTAMP, TimeEntry


def dump_index(path: str, options: ClassicOptions, reports: Reports, emit: Emit, note: Note) -> None:
    """Print an offset index, and gather its mismatches."""
    base = offset_in_name(path, note)
    if base is None:
        return
    with ExitStack() as stack:
        log = open_log(stack, path, options, note)
        index = open_index(stack, path, offset_index.ENTRY_SIZE, options, note)
        if index is None:
            return
        if index.count == 0:
            emit(f"{java_path(path)} is empty.")
        elif options.index_sanity_check:
            last = offset_index.read_entry(index.slot(index.count - 1), 0)
            problem = offset_index.sanity_problem(index.size, last, base)
            _sanity_line(path, index, problem, emit, note)
            return
        else:
            _OffsetDump(path, base, options, reports, emit, note).run(index, log)
        _note_partial(index, note)


def dump_time_index(path: str, options: ClassicOptions, reports: Reports, emit: Emit, note: Note) -> None:
    """Print a time index, and gather what does not match the log."""
    base = offset_in_name(path, note)
    if base is None:
        return
    with ExitStack() as stack:
        log = open_log(stack, path, options, note)
        beside = open_beside(stack, path, ".index", options, note)
        index = open_index(stack, path, time_index.ENTRY_SIZE, options, note)
        if index is None:
            return
        if options.index_sanity_check:
            _sanity_line(path, index, _time_problem(index, base), emit, note)
            return
        offsets = None if beside is None else IndexFile(beside, offset_index.ENTRY_SIZE)
        _TimeDump(path, base, options, reports, emit, note).run(index, offsets, log)
        _note_partial(index, note)


def _time_problem(index: IndexFile, base: int) -> str | None:
    first = last = None
    if index.count:
        first = time_index.read_entry(index.slot(0), 0)
        last = time_index.read_entry(index.slot(index.count - 1), 0)
    return time_index.sanity_problem(index.size, first, last, base)


def _sanity_line(path: str, index: IndexFile, problem: str | None, emit: Emit, note: Note) -> None:
    if problem is None:
        emit(f"{java_path(path)} passed sanity check.")
    else:
        message = f"the index fails Kafka's sanity check: {problem}"
        note(
            file_damage(
                FindingClass.BAD_INDEX, message, size=index.size, expected="a sane index", found=problem
            )
        )


def _note_partial(index: IndexFile, note: Note) -> None:
    """Note a partial entry at the end, which Kafka silently ignores."""
    left = index.size % index.entry_size
    if left:
        note(
            Damage(
                kind=FindingClass.TORN_TAIL,
                position=index.size - left,
                end_position=index.size,
                expected=f"entries of {index.entry_size} bytes",
                found=f"{left} bytes",
                message="the last entry is cut short",
                severity=Severity.NOTE,
            )
        )


class _Dump:
    """What both kinds of index share while they are printed."""

    def __init__(
        self, path: str, base: int, options: ClassicOptions, reports: Reports, emit: Emit, note: Note
    ) -> None:
        self.path = path
        self.base = base
        self.options = options
        self.reports = reports
        self.note = note
        self.lines = Lines(emit)
        self.runs = DamageRuns(note)

    def damage(
        self, kind: FindingClass, slot: int, size: int, offset: int, message: str, found: object
    ) -> None:
        """Note that an entry cannot be checked, or leads nowhere."""
        self.runs.add(
            Damage(
                kind=kind,
                position=slot * size,
                end_position=(slot + 1) * size,
                expected="an entry that leads to its batch",
                found=str(found),
                message=message,
                severity=Severity.DEGRADED,
                first_offset=offset,
                last_offset=offset,
            )
        )

    def padding_from(self, index: IndexFile, slot: int) -> None:
        """Note non-zero bytes after this slot: Kafka stops here, at what looks like preallocated space."""
        hidden = index.first_byte_set(slot * index.entry_size)
        if hidden is not None:
            message = "entries behind a zero entry are never read"
            position = slot * index.entry_size
            self.note(
                Damage(
                    kind=FindingClass.BAD_INDEX,
                    position=position,
                    end_position=index.size,
                    expected="zeros to the end",
                    found=f"other bytes from {hidden} on",
                    message=message,
                    severity=Severity.DEGRADED,
                )
            )

    def finish(self) -> None:
        self.lines.flush()
        self.runs.flush()


class _OffsetDump(_Dump):
    def run(self, index: IndexFile, log: BatchFinder | None) -> None:
        prints = not self.options.verify_index_only
        for slot, raw in index.slots():
            entry = offset_index.read_entry(raw, 0)
            if entry.relative_offset == 0 and slot > 0:
                self.padding_from(index, slot)
                break
            offset = entry.offset(self.base)
            if log is not None:
                self._check(slot, entry, offset, log)
            if prints:
                self.lines.add(f"offset: {offset} position: {entry.position}")
        self.finish()

    def _check(self, slot: int, entry: OffsetEntry, offset: int, log: BatchFinder) -> None:
        position = entry.position
        kind, message = FindingClass.STALE_INDEX, "the indexed position is behind the end of the log"
        if position < 0:
            kind, message = FindingClass.BAD_INDEX, "the indexed position is negative"
        elif position <= log.size:
            message = "no whole batch begins at the indexed position"
            try:
                batch = log.batch_at(position)
            except FormatError:
                batch = None
            if batch is not None:
                if batch.header.last_offset != offset:
                    self.reports.index_mismatch(self.path, offset, batch.header.last_offset)
                return
        self.damage(kind, slot, offset_index.ENTRY_SIZE, offset, message, f"position {position}")


class _TimeDump(_Dump):
    def run(self, index: IndexFile, offsets: IndexFile | None, log: BatchFinder | None) -> None:
        prints = not self.options.verify_index_only
        previous = NO_TIMESTAMP
        for slot, raw in index.slots():
            entry = time_index.read_entry(raw, 0)
            if entry.relative_offset == 0 and slot > 0:
                self.padding_from(index, slot)
                break
            offset = entry.offset(self.base)
            if log is not None:
                start = _start_position(offsets, self.base, offset)
                self._check(slot, entry, offset, start, previous, log)
            if prints:
                self.lines.add(f"timestamp: {entry.timestamp_ms} offset: {offset}")
            previous = entry.timestamp_ms
        self.finish()

    def _check(
        self, slot: int, entry: TimeEntry, offset: int, start: int, previous: int, log: BatchFinder
    ) -> None:
        try:
            batch = log.find(start, offset)
            if batch is None or batch.header.last_offset != offset:
                found = -1 if batch is None else batch.header.last_offset
                self.reports.offset_not_found(self.path, offset, found)
                return
            latest = log.max_record_timestamp(batch)
        except FormatError as error:
            message = f"entries cannot be checked against the log: {error}"
            kind = FindingClass.STALE_INDEX if start > log.size else FindingClass.BAD_RECORD
            self.damage(kind, slot, time_index.ENTRY_SIZE, offset, message, error.found)
            return
        if latest != entry.timestamp_ms:
            self.reports.time_mismatch(self.path, entry.timestamp_ms, latest)
        if previous >= entry.timestamp_ms:
            self.reports.out_of_order(self.path, entry.timestamp_ms, previous)


def _start_position(offsets: IndexFile | None, base: int, target: int) -> int:
    """Return where Kafka begins to search for an offset; padding of the offset index is searched too."""
    if offsets is None:
        return 0

    def key_at(slot: int) -> int:
        # Only an entry's first field: a search reads about sixteen of them.
        return wrap_int64(base + int.from_bytes(offsets.slot(slot)[:4], "big", signed=True))

    slot = lower_bound(offsets.count, key_at, target, offset_index.ENTRY_SIZE)
    return 0 if slot < 0 else offset_index.read_entry(offsets.slot(slot), 0).position
