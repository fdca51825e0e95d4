"""Write the segment that replaces a group: its log and its indexes, as a broker appends."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.engine.broker.run_accounting import RunColumns, add_run
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.compaction.cleanable_log import SourceSegment
from kafkatool.engine.files.disk import File, Files
from kafkatool.engine.files.whole_files import write_file
from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.batch import MAX_INT32
from kafkatool.format.columns import BatchColumns, Column
from kafkatool.format.names import segment_file
from kafkatool.format.txn_index import AbortedTxn

_BUFFER = 1 << 20


class Output(NamedTuple):
    """Where cleaned segments are written, with a suffix; no directory: they are only counted."""

    files: Files
    directory: str | None
    suffix: str = ""


class TooWide(Exception):
    """The group spans more offsets than one segment can."""


class CleanedSegment:
    """A new segment while batches are added to it."""

    def __init__(self, base_offset: int, config: TopicConfig, output: Output) -> None:
        self.base_offset = base_offset
        self.size = 0
        self.aborted: list[AbortedTxn] = []
        self._accounting = IndexAccounting(base_offset, config.index_interval_bytes, config.max_index_bytes)
        self._offsets = bytearray()
        self._times = bytearray()
        self._output = output
        self._waiting: list[bytes | memoryview] = []
        self._waiting_size = 0
        self._written = 0
        self._log: File | None = None
        if output.directory is not None:
            self._log = output.files.create(self._path("log"))

    def _path(self, extension: str) -> str:
        directory = self._output.directory
        assert directory is not None
        return os.path.join(directory, segment_file(self.base_offset, f".{extension}{self._output.suffix}"))

    def add(self, data: bytes | memoryview, sizes: Column, last_offsets: Column, times: Column) -> None:
        """Add consecutive batches, with their sizes, last offsets and largest timestamps.

        Raises TooWide, IndexFull and InvalidOffset as a broker throws.
        """
        if last_offsets[-1] - self.base_offset > MAX_INT32:
            raise TooWide
        self._index(sizes, last_offsets, times)
        self.size += len(data)
        if self._log is not None:
            self._waiting.append(bytes(data))
            self._waiting_size += len(data)
            if self._waiting_size >= _BUFFER:
                self._write()

    def _write(self) -> None:
        assert self._log is not None
        self._log.write_at(self._written, b"".join(self._waiting))
        self._written += self._waiting_size
        self._waiting, self._waiting_size = [], 0

    def _index(self, sizes: Column, last: Column, times: Column) -> None:
        ends = self.size + np.cumsum(sizes)
        positions = ends - sizes
        if self._is_plain(last, int(ends[-1])):
            before = np.maximum.accumulate(np.append(self._accounting.max_timestamp, times[:-1]))
            # Only these three columns are used.
            columns = dict.fromkeys(BatchColumns._fields, positions)
            batches = BatchColumns(**{**columns, "size": sizes, "max_timestamp": times})
            run = RunColumns(batches, last, int(ends[-1]), np.flatnonzero(times > before))
            offsets, new_times = add_run(run, self._accounting)
            self._offsets += offsets
            self._times += new_times
            return
        for position, size, offset, time in zip(
            positions.tolist(), sizes.tolist(), last.tolist(), times.tolist(), strict=True
        ):
            entries = self._accounting.add(position, size, offset, time)
            if entries.offset is not None:
                self._offsets += offset_index.write_entry(entries.offset)
            if entries.time is not None:
                self._times += time_index.write_entry(entries.time)

    def _is_plain(self, last: Column, end: int) -> bool:
        """Return whether the batches can be counted all at once."""
        accounting = self._accounting
        floor = accounting.last_indexed_offset + 1 if accounting.offset_entries else self.base_offset
        room = min(accounting.max_offset_entries, accounting.max_time_entries - 1)
        used = max(accounting.offset_entries, accounting.time_entries)
        return bool(last[0] >= floor and end <= MAX_INT32 and used + len(last) < room)

    def close(self, modified_ns: int) -> SourceSegment:
        """Write what is buffered, sync it, and set the modification time of the last source segment."""
        closing = self._accounting.close()
        if closing is not None:
            self._times += time_index.write_entry(closing)
        path = ""
        # Java's file API has millisecond resolution here.
        modified_ns = modified_ns // 1_000_000 * 1_000_000
        if self._log is not None:
            path = self._path("log")
            self._write()
            self._output.files.set_mtime(path, modified_ns)
            self._log.sync()
            self._log.close()
            self._write_indexes(modified_ns)
        return SourceSegment(
            self.base_offset,
            path,
            self.size,
            modified_ns,
            len(self._offsets),
            len(self._times),
            self._accounting.last_time,
            tuple(self.aborted),
        )

    def _write_indexes(self, modified_ns: int) -> None:
        files = self._output.files
        write_file(files, self._path("index"), self._offsets, mtime_ns=modified_ns)
        write_file(files, self._path("timeindex"), self._times, mtime_ns=modified_ns)
        if self.aborted:
            write_file(files, self._path("txnindex"), txn_index.write_entries(self.aborted))

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._log is not None:
            self._log.close()
