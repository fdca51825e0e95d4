"""Stream the records of one partition, many at once, each with its visibility to consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.partition_walk import (
    Listing,
    PartitionWalk,
    SegmentLog,
    Walked,
)
from kafkatool.engine.batches.scan import DEFAULT_MAX_BATCH_SIZE, Batch, BatchRun
from kafkatool.engine.batches.seek import EVERYWHERE, Range
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.directory.selection import NamedPartition
from kafkatool.engine.files.source import Guest, Source
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.records.fates import Transactions, open_at
from kafkatool.engine.records.subject import Subject, logs_of
from kafkatool.engine.records.visibility import PASSING, JudgedRecords, Visibility
from kafkatool.errors import FormatError, KafkatoolError, TooLarge
from kafkatool.format.batch import LOG_OVERHEAD, BatchHeader
from kafkatool.format.columns import BadRecords, BatchColumns, RecordColumns, RecordDecoder
from kafkatool.format.legacy import Header, LegacyHeader
from kafkatool.format.legacy_columns import read_legacy_columns
from kafkatool.format.record import Record


class RecordPiece(NamedTuple):
    """Records of one segment; valid only until the next piece is requested."""

    log: SegmentLog
    columns: RecordColumns
    judged: JudgedRecords


class Start(NamedTuple):
    """A place to start at."""

    log: SegmentLog
    position: int


class UnreadPiece(NamedTuple):
    """Damage, or a batch whose records cannot be read; `source` is still open."""

    log: SegmentLog
    source: Source
    damage: Damage | None
    batch: Batch | None = None
    error: FormatError | None = None


StreamItem = RecordPiece | UnreadPiece | Note | Caution | Failure
"""An item of a stream, or a message on one of its logs; a failure to open one repeats in every round."""


class RecordStream:
    """Everything that one partition holds, with visibility; with `follows`, in rounds as it grows."""

    def __init__(
        self,
        subject: Subject,
        guest: Guest,
        *,
        wanted: Range = EVERYWHERE,
        start: Start | None = None,
        follows: bool = False,
        waits: bool = False,
        max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
        advance: Callable[[int], None] | None = None,
    ) -> None:
        """`start`: where to start in one log; `waits`: stop at records that may become visible later.

        `max_batch_size` limits the size of a batch, and its size when decompressed.
        """
        self.subject = subject
        self.guest = guest
        self.wanted = wanted
        self._follows = follows
        self._waits = waits
        self._max_batch_size = max_batch_size
        self._advance = advance
        self._decoder = RecordDecoder(max_batch_size)
        self._walk = self._new_walk(self._logs)
        if start is not None:
            self._walk.go_to(start.log.base_offset, start.position)
        first = start.log if start is not None else next(iter(self._logs()), None)
        self._visibility = Visibility(
            self._look_ahead(first),
            subject.high_watermark,
            subject.log_start,
            may_be_behind_open=start is not None or not wanted.is_open or subject.named.bases is not None,
        )

    def pieces(self) -> Iterator[StreamItem]:
        """Yield what lies between the end of the last round and the current end of the log."""
        return self._pieces(self._walk)

    def pieces_of(self, log: SegmentLog) -> Iterator[StreamItem]:
        """Yield what one log holds; call it in the order of the logs."""
        return self._pieces(self._new_walk(lambda: [log]))

    def _pieces(self, walk: PartitionWalk) -> Iterator[StreamItem]:
        for walked in walk.items():
            if not isinstance(walked, Walked):
                yield walked
                continue
            if self._advance is not None:
                self._advance(walked.size)
            for found in self._decoded(walked):
                if isinstance(found, UnreadPiece):
                    yield found
                    continue
                piece = RecordPiece(walked.log, found, self._visibility.judge(found))
                decided = self._decided(piece) if self._waits else piece
                if len(decided.columns):
                    yield decided
                if decided is not piece:
                    return

    def look_again(self) -> None:
        """Prepare another round: the checkpoints may have advanced."""
        limits = self.subject.read_limits(self.guest)
        now = replace(self.subject, limits=limits)
        self._visibility.look_again(now.high_watermark, now.log_start)

    def of_batch(self, log: SegmentLog, source: Source, batch: Batch) -> Iterator[RecordPiece]:
        """Yield the pieces of one batch; what cannot be read is left out."""
        for found in self._decoded(Walked(log, source, batch)):
            if isinstance(found, RecordColumns):
                yield RecordPiece(log, found, self._visibility.judge(found))

    def _new_walk(self, logs: Listing) -> PartitionWalk:
        return PartitionWalk(
            logs,
            self.guest,
            wanted=self.wanted,
            is_growing=self._follows,
            max_batch_size=self._max_batch_size,
        )

    def _logs(self) -> list[SegmentLog]:
        return self._listed(self.subject.named, self.wanted)

    def _listed(self, named: NamedPartition, wanted: Range = EVERYWHERE) -> list[SegmentLog]:
        if not self._follows or self.subject.named.is_alone:
            return logs_of(named, wanted=wanted)
        try:
            return logs_of(named, read_partition(named.partition.path, [], self.guest), wanted)
        except KafkatoolError:
            return []  # deleted; it may be created again

    def _look_ahead(self, first: SegmentLog | None) -> Transactions:
        """Track transactions over all logs of the directory, named or not: markers follow their records."""
        whole = NamedPartition(self.subject.partition, None, None)
        there = self._listed(whole)
        if first is not None and first not in there:
            whole, there = self.subject.named, self._listed(self.subject.named)
        walk = PartitionWalk(
            lambda: self._listed(whole),
            self.guest,
            is_growing=self._follows,
            max_batch_size=self._max_batch_size,
        )
        if first is None:
            return Transactions(walk)
        begin, still_open = open_at(there, there.index(first), self.guest)
        walk.go_to(there[begin].base_offset, 0)
        return Transactions(walk, still_open)

    def _decoded(self, walked: Walked) -> Iterator[RecordColumns | UnreadPiece]:
        item = walked.item
        if isinstance(item, Damage):
            yield UnreadPiece(walked.log, walked.source, item)
        elif isinstance(item, BatchRun):
            for found in self._decoder.decode(item.window, item.start, item.end, item.position):
                yield self._or_bad(walked, found)
        elif item.is_valid and item.header.magic <= 2:
            try:
                yield from self._of_odd_batch(walked, item)
            except FormatError as error:
                yield UnreadPiece(walked.log, walked.source, None, item, error)

    def _or_bad(self, walked: Walked, found: RecordColumns | BadRecords) -> RecordColumns | UnreadPiece:
        if isinstance(found, RecordColumns):
            return found
        batch = Batch(found.position, found.header, True, None)
        return UnreadPiece(walked.log, walked.source, None, batch, found.error)

    def _of_odd_batch(self, walked: Walked, batch: Batch) -> Iterator[RecordColumns | UnreadPiece]:
        """Decode a batch that is not in a run: of an old format, too large, or at an offset out of order."""
        header, data = batch.header, batch.data
        if data is None:
            limit = f"at most {self._max_batch_size} bytes"
            raise TooLarge("batch", batch.position, expected=limit, found=f"{header.size} bytes")
        if isinstance(header, LegacyHeader):
            yield from read_legacy_columns(header, data, batch.position, max_inflated=self._max_batch_size)
            return
        if header.records_count < 0:
            raise FormatError("record count", 57, expected="0 or more", found=header.records_count)
        for found in self._decoder.decode(bytes(data), 0, len(data), batch.position):
            yield self._or_bad(walked, found)

    def _decided(self, piece: RecordPiece) -> RecordPiece:
        """Return the part of a piece whose visibility is final; the walk goes back to the rest."""
        passing = np.flatnonzero(np.isin(piece.judged.rule, PASSING))
        if not len(passing):
            return piece
        columns, judged = piece.columns, piece.judged
        batch = int(columns.batch[passing[0]])
        count = int(np.searchsorted(columns.batch, batch))
        self._walk.go_to(piece.log.base_offset, int(columns.batches.position[batch]))
        cut = RecordColumns(columns.data, columns.batches, *(one[:count] for one in columns[2:]))
        return RecordPiece(
            piece.log,
            cut,
            judged._replace(
                above_high_watermark=judged.above_high_watermark[:count],
                below_log_start=judged.below_log_start[:count],
                rule=judged.rule[:count],
            ),
        )


def records_of(piece: RecordPiece, rows: NDArray[np.int64]) -> Iterator[tuple[int, Batch, Record]]:
    """Yield some of a piece's records one by one, each with its row and its batch (without its bytes)."""
    columns, data = piece.columns, piece.columns.data
    batches: dict[int, Batch] = {}
    # As lists: numpy scalars are slow to iterate over.
    chosen = [column[rows].tolist() for column in columns[2:]]
    for row, offset, time, sequence, bits, key_at, key_size, at, size, _headers_at, headers, number in zip(
        rows.tolist(), *chosen, strict=True
    ):
        batch = batches.get(number)
        if batch is None:
            batch = batches[number] = batch_in(columns, number)
        key = None if key_size < 0 else bytes(data[key_at : key_at + key_size])
        value = None if size < 0 else bytes(data[at : at + size])
        found = columns.headers(row) if headers else ()
        yield row, batch, Record(offset, time, sequence, bits, key, value, found)


def batch_in(columns: RecordColumns, number: int) -> Batch:
    """Rebuild one batch of a piece, without its bytes."""
    return Batch(int(columns.batches.position[number]), header_in(columns.batches, number), True, None)


def header_in(columns: BatchColumns, number: int) -> Header:
    """Rebuild the header of a batch from its columns."""
    base_offset, size, epoch, magic, crc, attributes, delta, *rest = [
        int(column[number]) for column in columns[1:]
    ]
    length = size - LOG_OVERHEAD
    if magic < 2:
        return LegacyHeader(base_offset + delta, length, crc, magic, attributes, rest[1])
    return BatchHeader(base_offset, length, epoch, magic, crc, attributes, delta, *rest)
