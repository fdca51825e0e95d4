"""One writable segment: `.log`, `.index`, `.timeindex` and, once there is an abort, `.txnindex`.

Index files are never longer than their entries: a broker preallocates them, and trims them when it closes the
segment, so the result is the same. With `preallocate` a new `.log` has the full segment size, with zeros
after its batches, until the segment is closed. Nothing here is synced before `flush`.

A broker maps its indexes into memory, where an entry costs nothing. Here entries are buffered until there are
some hundred of them, or until the file is needed: to read, sync, truncate or close it.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatool.engine.batches.headers import FoundBatch, follow, next_batch
from kafkatool.engine.batches.indexes import OffsetIndex
from kafkatool.engine.broker.index_accounting import IndexAccounting, IndexFull
from kafkatool.engine.broker.refusals import CorruptMessage
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.files.disk import File, Files
from kafkatool.engine.files.whole_files import replace_file
from kafkatool.errors import FormatError
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import (
    MAX_INT64,
    NO_TIMESTAMP,
)
from kafkatool.format.index_search import lower_bound
from kafkatool.format.legacy import Header
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.primitives import Buffer
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.txn_index import AbortedTxn

if TYPE_CHECKING:
    from kafkatool.engine.broker.run_accounting import RunColumns

LOG, INDEX, TIME_INDEX, TXN_INDEX = "log", "index", "timeindex", "txnindex"
EXTENSIONS = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
_MOST_WAITING = 4096
"""Bytes of index entries that are written at once."""


class NewBatch(NamedTuple):
    """A batch with its final bytes, about to be written."""

    header: Header
    data: bytes | memoryview


class WritableSegment:
    """One segment; `created_ms` counts for the time-based roll if its batches have no timestamp."""

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: TopicConfig,
        *,
        created_ms: int,
        jitter_ms: int,
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.size = 0
        self._config = config
        self._begin_with(None)
        self.accounting = self._new_accounting(config)
        self._files = files
        self._directory = directory
        self._opened: dict[str, File] = {}
        self._new_offset_entries, self._new_time_entries = bytearray(), bytearray()
        self._waiting = {INDEX: self._new_offset_entries, TIME_INDEX: self._new_time_entries}
        # Set when files were created whose names may not be on disk yet.
        self.has_new_names = False

    def _new_accounting(self, config: TopicConfig) -> IndexAccounting:
        return IndexAccounting(self.base_offset, config.index_interval_bytes, config.max_index_bytes)

    # --- files ----------------------------------------------------------------------------------------

    def path(self, extension: str) -> str:
        return os.path.join(self._directory, segment_file(self.base_offset, f".{extension}"))

    def has(self, extension: str) -> bool:
        return extension in self._opened or os.path.exists(self.path(extension))

    def create(self) -> None:
        """Create the files, after deleting what a crash left under these names."""
        self.delete()
        for extension in (LOG, INDEX, TIME_INDEX):
            self._create(extension)
        if self._config.preallocates:
            self._file(LOG).truncate(self._config.segment_bytes)

    def load(self) -> None:
        """Start from the existing files, trusting the indexes as a broker does."""
        for extension in (INDEX, TIME_INDEX):
            if not self.has(extension):
                self._create(extension)
        self.size = self._file(LOG).size()
        self._load_indexes()

    def _load_indexes(self) -> None:
        self._trim()
        self._load_accounting()

    def delete(self) -> None:
        """Delete the files, the log first and for good: loading removes index files that have no log.

        Otherwise a crash could bring back aborted records without the index that marks them.
        """
        self._forget_waiting()
        self.release()
        if self.has(LOG):
            self._files.unlink(self.path(LOG))
            self._files.sync_directory(self._directory)
        for extension in (INDEX, TIME_INDEX, TXN_INDEX):
            if self.has(extension):
                self._files.unlink(self.path(extension))

    def release(self) -> None:
        """Close the files; they are reopened when needed."""
        try:
            self._write_all_waiting()
        finally:
            for file in self._opened.values():
                file.close()
            self._opened.clear()

    def _create(self, extension: str) -> None:
        self._opened[extension] = self._files.create(self.path(extension))
        self.has_new_names = True

    def _file(self, extension: str) -> File:
        """Return the file, with all buffered entries written."""
        self._write_waiting(extension)
        return self._open(extension)

    def _open(self, extension: str) -> File:
        if extension not in self._opened:
            self._opened[extension] = self._files.open(self.path(extension))
        return self._opened[extension]

    def _write_waiting(self, extension: str) -> None:
        if entries := self._waiting.get(extension):
            file = self._open(extension)
            file.write_at(file.size(), entries)
            entries.clear()

    def _write_all_waiting(self) -> None:
        for extension in self._waiting:
            self._write_waiting(extension)

    def _forget_waiting(self) -> None:
        for entries in self._waiting.values():
            entries.clear()

    def _trim(self) -> None:
        """Cut the preallocated rest that a killed broker leaves."""
        for extension, entries_end in (
            (INDEX, offset_index.entries_end),
            (TIME_INDEX, time_index.entries_end),
        ):
            file = self._file(extension)
            size = file.size()
            end = entries_end(file.read_at(0, size))
            if end < size:
                file.truncate(end)

    def _load_accounting(self) -> None:
        accounting = self.accounting = self._new_accounting(self._config)
        accounting.offset_entries = self._file(INDEX).size() // offset_index.ENTRY_SIZE
        accounting.time_entries = self._file(TIME_INDEX).size() // time_index.ENTRY_SIZE
        if accounting.offset_entries:
            accounting.last_indexed_offset = self._index_key(accounting.offset_entries - 1)
        if accounting.time_entries:
            entry = self._time_entry(accounting.time_entries - 1)
            accounting.last_time, accounting.last_time_offset = (
                entry.timestamp_ms,
                entry.offset(self.base_offset),
            )
            accounting.max_timestamp = accounting.last_time
            accounting.max_timestamp_offset = accounting.last_time_offset
        first = self.batch_at(0)
        self._begin_with(None if first is None else first.header.max_timestamp)

    # --- writing --------------------------------------------------------------------------------------

    def should_roll(self, size: int, last_offset: int, largest_timestamp: int, now_ms: int) -> bool:
        """Return whether batches of this size and end belong in a new segment."""
        due_ms = self._config.max_segment_ms - self.jitter_ms
        return (
            self.size > self._config.segment_bytes - size
            or (self.size > 0 and self._waited_ms(largest_timestamp, now_ms) > due_ms)
            or self.accounting.is_full
            or not self.accounting.can_hold(last_offset)
        )

    def _waited_ms(self, largest_timestamp: int, now_ms: int) -> int:
        """Return the time since the first record, by the records' timestamps if they have any."""
        if self.first_timestamp is not None and self.first_timestamp >= 0:
            return largest_timestamp - self.first_timestamp
        return now_ms - self.created_ms

    def count_fitting(self, batches: Sequence[NewBatch]) -> int:
        """Return how many of the batches fit into this segment: all of them, unless an index gets full."""
        if self.accounting.has_room_for(len(batches), batches[-1].header.last_offset):
            return len(batches)
        trial, position = copy.copy(self.accounting), self.size
        for count, batch in enumerate(batches):
            header = batch.header
            if not trial.can_hold(header.last_offset):
                return count
            try:
                trial.add(position, header.size, header.last_offset, header.max_timestamp)
            except IndexFull:
                return count
            position += header.size
        return len(batches)

    def append(self, batches: Sequence[NewBatch]) -> None:
        """Write batches after the last one, and the index entries due for them."""
        position = self.size
        for header, _ in batches:
            entries = self.accounting.add(position, header.size, header.last_offset, header.max_timestamp)
            if entries.offset is not None:
                self._new_offset_entries += offset_index.write_entry(entries.offset)
            if entries.time is not None:
                self._new_time_entries += time_index.write_entry(entries.time)
            position += header.size
        self._append(b"".join(batch.data for batch in batches), batches[0].header.max_timestamp)

    def append_plain(self, data: Buffer, next_offset: int, leader_epoch: int) -> int:
        """Append `data` if it is one plain batch that fits here; return its last offset.

        Returns -1, with nothing written, if it has to take the slow path; see `IndexCounts.append_plain`.
        """
        size = self.size
        if size > self._config.segment_bytes - len(data):
            return -1
        accounting, write = self.accounting, self._open(LOG).write_at
        entries = self._new_offset_entries, self._new_time_entries
        last = accounting.append_plain(
            write, data, size, next_offset, leader_epoch, self._latest_ms, *entries
        )
        if last >= 0:
            self._grow(len(data), accounting.max_timestamp)
        return last

    def append_each(
        self,
        appends: list[Buffer],
        next_offset: int,
        enough: int,
        leader_epoch: int,
        clock: Callable[[], int],
    ) -> tuple[list[int], int]:
        """Append batches in order, until one is not plain or belongs in a new segment.

        Each is a separate write; it also stops at the offset `enough`. Returns what the clock said after
        each, and the offset after the last.
        """
        accounting, write, config = self.accounting, self._open(LOG).write_at, self._config
        entries = self._new_offset_entries, self._new_time_entries
        where = self.size, config.segment_bytes, next_offset, enough, leader_epoch, self._latest_ms
        if self.size == 0:
            appends = appends[:1]  # the first one decides when the segment is due to roll
        times, end, next_offset = accounting.append_each(write, clock, appends, *where, *entries)
        if times:
            self._grow(end - self.size, accounting.max_timestamp)
        return times, next_offset

    def append_run(self, data: Buffer, run: RunColumns) -> None:
        """Append plain batches that are known as columns."""
        from kafkatool.engine.broker.run_accounting import add_run

        offset_entries, time_entries = add_run(run, self.accounting)
        self._new_offset_entries += offset_entries
        self._new_time_entries += time_entries
        self._append(data, int(run.batches.max_timestamp[0]))

    def _append(self, data: Buffer, first_timestamp: int) -> None:
        """Write batches whose index entries are buffered already; the timestamp is the first one's."""
        try:
            self._open(LOG).write_at(self.size, data)
        except OSError:
            self._forget_waiting()  # the last of them are for batches that are not there
            raise
        self._grow(len(data), first_timestamp)

    def _grow(self, size: int, first_timestamp: int) -> None:
        if self.size == 0:
            self._begin_with(first_timestamp)
        self.size += size
        if len(self._new_offset_entries) >= _MOST_WAITING:
            self._write_all_waiting()

    def _begin_with(self, timestamp: int | None) -> None:
        """Set the first batch's largest timestamp, None without a batch: the time roll counts from it."""
        self.first_timestamp = timestamp
        if timestamp is None:
            self._latest_ms = MAX_INT64
        else:
            due_ms = self._config.max_segment_ms - self.jitter_ms
            self._latest_ms = min(timestamp + due_ms, MAX_INT64) if timestamp >= 0 else NO_TIMESTAMP - 1

    def add_aborted(self, entries: Sequence[AbortedTxn]) -> None:
        """Record transactions whose abort marker is in this segment."""
        if not entries:
            return
        if not self.has(TXN_INDEX):
            self._create(TXN_INDEX)
        file = self._file(TXN_INDEX)
        file.write_at(file.size(), txn_index.write_entries(entries))

    def close(self) -> None:
        """Write the last time entry and trim preallocated space: no more batches come, for now at least."""
        log = self._file(LOG)
        if self.size < log.size():
            log.truncate(self.size)
        entry = self.accounting.close()
        if entry is not None:
            self._new_time_entries += time_index.write_entry(entry)
        for extension in EXTENSIONS:
            if self.has(extension):
                self._file(extension)  # a flush may run beside reads: leave it open, nothing buffered

    def flush(self) -> None:
        """Sync everything written so far, except the directory."""
        for extension in EXTENSIONS:
            if self.has(extension):
                self._file(extension).sync()

    def rewrite(
        self,
        size: int,
        offsets: Sequence[OffsetEntry],
        times: Sequence[TimeEntry],
        aborted: Sequence[AbortedTxn],
    ) -> None:
        """Truncate the log and replace the indexes with what a recovery found; all of it is synced."""
        log = self._file(LOG)
        if size < log.size():
            log.truncate(size)
            log.sync()
        if aborted or self.has(TXN_INDEX):
            self._replace(TXN_INDEX, txn_index.write_entries(aborted))
        self._replace(TIME_INDEX, time_index.write_entries(times))
        # Last: if there is an offset index, nothing checks whether the others exist.
        self._replace(INDEX, offset_index.write_entries(offsets))
        self.load()

    def _replace(self, extension: str, data: bytes) -> None:
        """Replace atomically: a segment below the recovery point is trusted even with half an index."""
        if self.has(extension) and self._content(extension) == data:
            return
        replace_file(self._files, self.path(extension), data)
        if stale := self._opened.pop(extension, None):
            stale.close()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate at the first batch that reaches `offset`, and the indexes with it."""
        found = self.find(offset)
        offsets = sum(entry.offset(self.base_offset) < offset for entry in self.offset_entries())
        times = sum(entry.offset(self.base_offset) < offset for entry in self.time_entries())
        self._file(INDEX).truncate(offsets * offset_index.ENTRY_SIZE)
        self._file(TIME_INDEX).truncate(times * time_index.ENTRY_SIZE)
        if self.has(TXN_INDEX):
            aborted = sum(entry.last_offset < offset for entry in self.aborted())
            self._file(TXN_INDEX).truncate(aborted * txn_index.ENTRY_SIZE)
        if found is not None:
            self._file(LOG).truncate(found.position)
            self.size = found.position
        self._load_indexes()
        if self.size == 0:
            self.created_ms = now_ms
        self._find_largest_timestamp()

    def _find_largest_timestamp(self) -> None:
        """Search after the last time entry for a larger timestamp."""
        accounting = self.accounting
        start = self.index_position(accounting.last_time_offset)
        for found in self.batches_from(start):
            latest = found.header.max_timestamp
            if latest > accounting.max_timestamp:
                accounting.max_timestamp, accounting.max_timestamp_offset = latest, found.header.last_offset

    # --- reading --------------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        return self._file(LOG).read_at(position, size)

    def batch_at(self, position: int) -> FoundBatch | None:
        """Return the batch that begins here, None if no whole one does; raise CorruptMessage for nonsense."""
        try:
            return next_batch(self.read, position, self.size)
        except FormatError as error:
            raise CorruptMessage(f"{self.path(LOG)}: {error}") from None

    def batches_from(self, position: int) -> Iterator[FoundBatch]:
        return follow(self.batch_at, position)

    def find(self, offset: int) -> FoundBatch | None:
        """Return the first batch that reaches an offset, by the index and a walk from there."""
        for found in self.batches_from(self.index_position(offset)):
            if found.header.last_offset >= offset:
                return found
        return None

    def end_of_slice(self, position: int) -> int:
        """Return the end: batches follow each other up to there."""
        return self.size

    def next_offset(self) -> int:
        """Return the offset after the last batch, walking from the last index entry as a broker does."""
        end = self.base_offset
        for found in self.batches_from(self.index_position(self.accounting.last_indexed_offset)):
            end = found.header.last_offset + 1
        return end

    def index_position(self, offset: int) -> int:
        """Return the position to start searching for an offset.

        Index entries are read one by one, as a broker's pages are: the indexes of a week's log are gigabytes.
        """
        slot = lower_bound(self.accounting.offset_entries, self._index_key, offset, offset_index.ENTRY_SIZE)
        return 0 if slot < 0 else self._offset_entry(slot).position

    def time_floor(self, timestamp_ms: int) -> TimeEntry:
        """Return the last time entry at or below a time."""
        slot = lower_bound(
            self.accounting.time_entries,
            lambda at: self._time_entry(at).timestamp_ms,
            timestamp_ms,
            time_index.ENTRY_SIZE,
        )
        return TimeEntry(NO_TIMESTAMP, 0) if slot < 0 else self._time_entry(slot)

    def index(self) -> OffsetIndex:
        return OffsetIndex.whole(self._content(INDEX), self.base_offset)

    def offset_entries(self) -> list[OffsetEntry]:
        return list(offset_index.read_entries(self._content(INDEX)))

    def time_entries(self) -> list[TimeEntry]:
        return list(time_index.read_entries(self._content(TIME_INDEX)))

    def aborted(self) -> list[AbortedTxn]:
        return list(txn_index.read_entries(self._content(TXN_INDEX))) if self.has(TXN_INDEX) else []

    def _content(self, extension: str) -> bytes:
        file = self._file(extension)
        return file.read_at(0, file.size())

    def _offset_entry(self, slot: int) -> OffsetEntry:
        size = offset_index.ENTRY_SIZE
        return offset_index.read_entry(self._file(INDEX).read_at(slot * size, size), 0)

    def _index_key(self, slot: int) -> int:
        return self._offset_entry(slot).offset(self.base_offset)

    def _time_entry(self, slot: int) -> TimeEntry:
        size = time_index.ENTRY_SIZE
        return time_index.read_entry(self._file(TIME_INDEX).read_at(slot * size, size), 0)
