"""Stretches of logs as Arrow batches: only the columns that are wanted, and never too much at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkatool.engine.arrow_batches import batch_arrays, damage_arrays
from kafkatool.engine.arrow_rows import FATES, TIMESTAMP_TYPES, binary, header_lists, known, timestamp_types
from kafkatool.engine.batch_walk import walk_batches
from kafkatool.engine.findings import Damage, FindingClass
from kafkatool.engine.logdir import Partition, read_partition
from kafkatool.engine.partition_walk import SegmentLog
from kafkatool.engine.partitions import NamedPartition
from kafkatool.engine.read_subject import Limits, Subject
from kafkatool.engine.source import Guest, open_source
from kafkatool.engine.stats_log import LogStats, StatsJob
from kafkatool.engine.survey import Split, Task, survey
from kafkatool.engine.visibility import Rule
from kafkatool.engine.visible_records import Bad, Piece, RecordStream, Start
from kafkatool.engine.worker_pool import Workers
from kafkatool.errors import KafkatoolError
from kafkatool.spark.planning import Stretch
from kafkatool.spark.schemas import LISTED, TYPES, Granularity, arrow_schema
from kafkatool.spark.workers import settle_in

MOST_ROWS = 1 << 16
MOST_BYTES = 8 << 20
"""Of one Arrow batch: it takes as much of the JVM's memory outside of its heap."""
_MOST_MS = (1 << 63) // 1000 - 1
Rows = NDArray[np.int64]


@dataclass(slots=True)
class RowReader:
    """How stretches are read. Pickled: it goes to the tasks."""

    granularity: Granularity
    names: list[str]
    show_all: bool = False
    guest: Guest = field(default_factory=Guest)

    def read(self, stretches: Iterable[Stretch]) -> Iterator[Any]:
        """Arrow batches. What is damaged is a row where there is a column to say so, and never an error."""
        settle_in()
        schema = arrow_schema(self.granularity, self.names)
        of_one = {
            Granularity.SEGMENTS: self._segment,
            Granularity.BATCHES: self._batches,
            Granularity.RECORDS: self._records,
        }[self.granularity]
        for stretch in stretches:
            for arrays, count in of_one(stretch):
                if count:
                    yield from _bounded(self._batch(stretch, arrays, count, schema))

    def _batch(self, stretch: Stretch, arrays: dict[str, Any], count: int, schema: Any) -> Any:
        columns = []
        for name in self.names:
            if name in arrays:
                columns.append(arrays[name])
            else:
                kind = TYPES[self.granularity][name]
                columns.append(pa.repeat(pa.scalar(_listed(stretch, name), kind), count))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    # --- segments -----------------------------------------------------------------------------------------

    def _segment(self, stretch: Stretch) -> Iterator[tuple[dict[str, Any], int]]:
        if stretch.start:
            return  # a row a segment, however it is cut
        if set(self.names) <= LISTED.keys():
            yield {}, 1
            return
        found = add_up(stretch, self.guest)
        stats = found.stats
        values = {
            "batches": stats.batches,
            "records": stats.records,
            "first_offset": stats.offsets.first,
            "last_offset": stats.offsets.last,
            "min_timestamp_ms": stats.times.least,
            "max_timestamp_ms": stats.times.greatest,
            "damages": stats.damages.places,
            "error": found.failure or found.changed or ("vanished" if found.vanished else None),
        }
        types = TYPES[Granularity.SEGMENTS]
        yield {name: pa.array([value], types[name]) for name, value in values.items()}, 1

    # --- batches ------------------------------------------------------------------------------------------

    def _batches(self, stretch: Stretch) -> Iterator[tuple[dict[str, Any], int]]:
        try:
            with open_source(stretch.path, replace(self.guest)) as source:
                for found in walk_batches(source, stretch.start, stretch.end):
                    if isinstance(found, Damage):
                        yield damage_arrays(found, self.names), 1
                    else:
                        yield batch_arrays(found, self.names), len(found.position)
        except FileNotFoundError:
            return  # a broker deletes what it likes while we read
        except KafkatoolError as error:
            kind = FindingClass.UNREADABLE
            damage = Damage(kind, stretch.start, stretch.end, "bytes", "none", str(error))
            yield damage_arrays(damage, self.names), 1

    # --- records ------------------------------------------------------------------------------------------

    def _records(self, stretch: Stretch) -> Iterator[tuple[dict[str, Any], int]]:
        log = SegmentLog(stretch.segment, stretch.path)
        try:
            stream = RecordStream(_subject(stretch, self.guest), self.guest, start=Start(log, stretch.start))
        except (FileNotFoundError, KafkatoolError):
            return
        for piece in stream.pieces():
            if isinstance(piece, Bad):
                if piece.log != log or _position(piece) >= stretch.end:
                    return
                continue
            positions = piece.columns.batches.position
            if piece.log != log or int(positions[0]) >= stretch.end:
                return
            rows = self._shown(piece, stretch)
            yield self._record_arrays(piece, rows), len(rows)
            if int(positions[-1]) >= stretch.end:
                return

    def _shown(self, piece: Piece, stretch: Stretch) -> Rows:
        columns = piece.columns
        takes = (columns.batches.position < stretch.end)[columns.batch]
        if stretch.from_offset is not None:
            takes &= columns.offset >= stretch.from_offset
        if stretch.to_offset is not None:
            takes &= columns.offset < stretch.to_offset
        if not self.show_all:
            takes &= piece.judged.rule == Rule.SHOWN
        shown: Rows = np.flatnonzero(takes)
        return shown

    def _record_arrays(self, piece: Piece, rows: Rows) -> dict[str, Any]:
        return {name: _RECORD_MAKERS[name](piece, rows) for name in self.names if name in _RECORD_MAKERS}


def _position(bad: Bad) -> int:
    found = bad.damage or bad.batch
    assert found is not None
    return found.position


def add_up(stretch: Stretch, guest: Guest) -> LogStats:
    """The numbers of a whole segment, by the job of `stats`."""
    whole = Split(stretch.path, 0, stretch.size, stretch.size)
    job = StatsJob(0, is_active=stretch.state == "active", guest=guest)
    [(_key, found)] = survey(iter([Task(0, job, (whole,))]), Workers())
    return found


@lru_cache(maxsize=64)
def _partition(directory: str) -> Partition:
    return read_partition(directory, [], Guest())


def _subject(stretch: Stretch, guest: Guest) -> Subject:
    """The partition as a task sees it: limits are those of the plan."""
    partition = _partition(stretch.directory)
    if all(one.log is None or one.log.path != stretch.path for one in partition.live_segments):
        _partition.cache_clear()  # rolled since
        partition = _partition(stretch.directory)
    limits = Limits(stretch.high_watermark, stretch.log_start)
    return Subject(NamedPartition(partition, stretch.log_start, None), "", limits)


def _listed(stretch: Stretch, name: str) -> object:
    return stretch.path if name == "file" else getattr(stretch, name)


def _bounded(batch: Any) -> Iterator[Any]:
    """A batch in pieces that a JVM of modest size can take."""
    least = max(1, batch.num_rows * MOST_BYTES // max(1, batch.nbytes))
    step = min(MOST_ROWS, least)
    if batch.num_rows <= step:
        yield batch
        return
    for start in range(0, batch.num_rows, step):
        piece = batch.slice(start, step)
        # Slices are cut by the average; where records differ much, one by one.
        if piece.nbytes > 2 * MOST_BYTES and piece.num_rows > 1:
            yield from (piece.slice(row, 1) for row in range(piece.num_rows))
        else:
            yield piece


def _by_batch(field_name: str, kind: Any) -> Any:
    def make(piece: Piece, rows: Rows) -> Any:
        batches = piece.columns.batches
        number = piece.columns.batch[rows]
        return known(getattr(batches, field_name)[number], (batches.magic == 2)[number], kind)

    return make


def _times(piece: Piece, rows: Rows) -> Any:
    times = piece.columns.timestamp_ms[rows]
    is_known = (times >= 0) & (times <= _MOST_MS)
    return pa.array(np.where(is_known, times, 0) * 1000, pa.timestamp("us", tz="UTC"), mask=~is_known)


def _words(numbers: Any, words: list[str]) -> Any:
    return pa.array(words, pa.string()).take(pa.array(numbers))


def _sequences(piece: Piece, rows: Rows) -> Any:
    is_current = (piece.columns.batches.magic == 2)[piece.columns.batch[rows]]
    return known(piece.columns.sequence[rows], is_current, pa.int32())


_RECORD_MAKERS: dict[str, Any] = {
    "offset": lambda piece, rows: pa.array(piece.columns.offset[rows]),
    "timestamp_ms": lambda piece, rows: pa.array(piece.columns.timestamp_ms[rows]),
    "timestamp": _times,
    "timestamp_type": lambda piece, rows: _words(
        timestamp_types(piece.columns)[piece.columns.batch[rows]], TIMESTAMP_TYPES
    ),
    "key": lambda piece, rows: binary(
        piece.columns.data, piece.columns.key_start[rows], piece.columns.key_size[rows]
    ),
    "value": lambda piece, rows: binary(
        piece.columns.data, piece.columns.value_start[rows], piece.columns.value_size[rows]
    ),
    "headers": lambda piece, rows: header_lists(piece.columns, rows).cast(
        TYPES[Granularity.RECORDS]["headers"]
    ),
    "sequence": _sequences,
    "producer_id": _by_batch("producer_id", pa.int64()),
    "producer_epoch": _by_batch("producer_epoch", pa.int32()),
    "partition_leader_epoch": _by_batch("partition_leader_epoch", pa.int32()),
    "batch_position": lambda piece, rows: pa.array(piece.columns.batches.position[piece.columns.batch[rows]]),
    "is_control": lambda piece, rows: pa.array(piece.judged.is_control[piece.columns.batch[rows]]),
    "txn": lambda piece, rows: _words(piece.judged.fate[piece.columns.batch[rows]], FATES),
    "above_high_watermark": lambda piece, rows: pa.array(piece.judged.above_high_watermark[rows]),
    "below_log_start": lambda piece, rows: pa.array(piece.judged.below_log_start[rows]),
}
