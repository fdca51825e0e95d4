"""Read stretches of logs as Arrow batches: only the wanted columns, in bounded batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkatool.engine.batches.column_walk import walk_batches
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.segment_walk import SegmentWalk
from kafkatool.engine.directory.log_dir import Partition, read_partition
from kafkatool.engine.directory.selection import NamedPartition
from kafkatool.engine.files.object_storage import exists
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.jobs.survey import Split, Task, survey
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.records.arrow_batches import batch_arrays, damage_arrays
from kafkatool.engine.records.arrow_rows import (
    FATES,
    TIMESTAMP_TYPES,
    binary,
    header_lists,
    known,
    timestamp_types,
)
from kafkatool.engine.records.stream import RecordPiece, RecordStream, Start, StreamItem, UnreadPiece
from kafkatool.engine.records.subject import ReadLimits, Subject, logs_of
from kafkatool.engine.records.visibility import VisibilityRule
from kafkatool.engine.stats.walk import LogStats, StatsJob
from kafkatool.errors import KafkatoolError
from kafkatool.spark.losses import (
    DamageMet,
    DataLoss,
    OnDamage,
    concerns,
    damage_met,
    is_there,
    note,
    settled,
)
from kafkatool.spark.planning import LogStretch
from kafkatool.spark.schemas import LISTED, TYPES, Granularity, arrow_schema
from kafkatool.spark.workers import settle_in

MOST_ROWS = 1 << 16
MOST_BYTES = 8 << 20
"""Per Arrow batch: it takes as much of the JVM's off-heap memory."""
_MOST_MS = (1 << 63) // 1000 - 1
Rows = NDArray[np.int64]


@dataclass(slots=True)
class RowReader:
    """How to read stretches. Pickled and sent to the tasks."""

    granularity: Granularity
    names: list[str]
    show_all: bool = False
    guest: Guest = field(default_factory=Guest)
    on_damage: OnDamage = OnDamage.FAIL
    fails_on_loss: bool = True
    only_damage: bool = False
    """Leave out all rows without an error."""

    def read(self, stretches: Iterable[LogStretch]) -> Iterator[Any]:
        """Yield Arrow batches. Raises DataLoss for what is missing, and DamageMet on request."""
        settle_in()
        schema = arrow_schema(self.granularity, self.names)
        of_one = {
            Granularity.SEGMENTS: self._segment,
            Granularity.BATCHES: self._batches,
            Granularity.RECORDS: self._records,
        }[self.granularity]
        for stretch in stretches:
            for arrays, count in of_one(stretch) if self._can_read(stretch) else ():
                if count:
                    yield from _bounded(self._batch(stretch, arrays, count, schema))

    @property
    def _is_listing(self) -> bool:
        """Whether no log has to be opened."""
        return self.granularity is Granularity.SEGMENTS and set(self.names) <= LISTED.keys()

    def _can_read(self, stretch: LogStretch) -> bool:
        """Return whether a log exists; note one that a broker deleted. Raises DataLoss."""
        if self._is_listing:
            return True
        try:
            if is_there(stretch):
                return True
            note(f"{stretch.path}: deleted since its directory was listed")
        except DataLoss as loss:
            if self.fails_on_loss:
                raise
            note(str(loss))
        # A missing segment is a row with an error.
        return self.granularity is Granularity.SEGMENTS or exists(stretch.path)

    def _damaged(self, stretch: LogStretch, damage: Damage) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield what was asked for instead of damage: a row, or nothing; or raise DamageMet."""
        if damage.severity is Severity.NOTE or not concerns(damage, stretch):
            return
        if self.on_damage is OnDamage.FAIL:
            raise damage_met(damage, stretch)
        if self.on_damage is OnDamage.ROWS:
            make = record_damage_arrays if self.granularity is Granularity.RECORDS else damage_arrays
            yield make(damage, self.names), 1

    def _batch(self, stretch: LogStretch, arrays: dict[str, Any], count: int, schema: Any) -> Any:
        columns = []
        for name in self.names:
            if name in arrays:
                columns.append(arrays[name])
            else:
                kind = TYPES[self.granularity][name]
                columns.append(pa.repeat(pa.scalar(_listed(stretch, name), kind), count))
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    # --- segments -----------------------------------------------------------------------------------------

    def _segment(self, stretch: LogStretch) -> Iterator[tuple[dict[str, Any], int]]:
        if stretch.start:
            return  # one row per segment, however it is cut
        if self._is_listing:
            yield {}, 1
            return
        found = add_up(stretch, self.guest)
        stats = found.stats
        if self.on_damage is OnDamage.FAIL and (stats.damages.places or found.failure):
            what = f"damaged places: {stats.damages.places} ({', '.join(stats.damages.classes)})"
            raise damage_met(_unreadable(stretch, found.failure or what), stretch)
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

    def _batches(self, stretch: LogStretch) -> Iterator[tuple[dict[str, Any], int]]:
        try:
            with open_source(stretch.path, replace(self.guest)) as source:
                split = Split(stretch.path, stretch.start, stretch.end, stretch.size)
                for found in walk_batches(SegmentWalk(source, split, is_active=stretch.state == "active")):
                    if isinstance(found, Damage):
                        yield from self._damaged(stretch, settled(found, source, stretch))
                    elif not self.only_damage:
                        yield batch_arrays(found, self.names), len(found.position)
        except FileNotFoundError:
            self._can_read(stretch)
        except (DamageMet, DataLoss):
            raise
        except KafkatoolError as error:
            yield from self._damaged(stretch, _unreadable(stretch, str(error)))

    # --- records ------------------------------------------------------------------------------------------

    def _records(self, stretch: LogStretch) -> Iterator[tuple[dict[str, Any], int]]:
        said: list[str] = []
        failed: list[str] = []
        hidden = 0
        for piece in self._pieces(stretch):
            if isinstance(piece, Note | Caution | Failure):
                # That a disk fails is seen in the batches that it does not give.
                said += [piece.message] if isinstance(piece, Note) else []
                failed += [piece.message] if isinstance(piece, Failure) else []
                continue
            if isinstance(piece, UnreadPiece):
                yield from self._damaged(stretch, _damage_of(piece, stretch))
                continue
            takes = self._takes(piece, stretch)
            hidden += int(np.count_nonzero(takes & (piece.judged.rule == VisibilityRule.UNKNOWN)))
            rows = self._shown(piece, takes)
            if not self.only_damage:
                yield self._record_arrays(piece, rows), len(rows)
        if hidden and not self.show_all:
            failed.append(f"{hidden} records are hidden, as damage may hold the end of their transactions")
        for message in failed:
            yield from self._damaged(stretch, _unreadable(stretch, message))
        for message in said:
            note(message)
        if said:
            self._can_read(stretch)

    def _pieces(self, stretch: LogStretch) -> Iterator[StreamItem]:
        """Yield the pieces in a stretch, and what is to be said of its log."""
        log = SegmentLog(stretch.segment, stretch.path)
        try:
            subject = _subject(stretch)
            if log not in logs_of(subject.named):
                yield Note(f"{log.path}: deleted since its directory was listed")
                return
            stream = RecordStream(subject, self.guest, start=Start(log, stretch.start))
        except (FileNotFoundError, KafkatoolError) as error:
            yield Failure(str(error))
            return
        for piece in stream.pieces():
            if isinstance(piece, Note | Caution | Failure):
                # A walk reaches the next log before it is stopped.
                if piece.message.startswith(f"{log.path}:"):
                    yield piece
                continue
            if isinstance(piece, UnreadPiece):
                if piece.log != log or _position(piece) >= stretch.end:
                    return
                yield piece
                continue
            positions = piece.columns.batches.position
            if piece.log != log or int(positions[0]) >= stretch.end:
                return
            yield piece
            if int(positions[-1]) >= stretch.end:
                return

    def _takes(self, piece: RecordPiece, stretch: LogStretch) -> NDArray[np.bool_]:
        columns = piece.columns
        takes: NDArray[np.bool_] = (columns.batches.position < stretch.end)[columns.batch]
        if stretch.from_offset is not None:
            takes &= columns.offset >= stretch.from_offset
        if stretch.to_offset is not None:
            takes &= columns.offset < stretch.to_offset
        return takes

    def _shown(self, piece: RecordPiece, takes: NDArray[np.bool_]) -> Rows:
        shown: Rows = np.flatnonzero(
            takes if self.show_all else takes & (piece.judged.rule == VisibilityRule.SHOWN)
        )
        return shown

    def _record_arrays(self, piece: RecordPiece, rows: Rows) -> dict[str, Any]:
        return {name: _RECORD_MAKERS[name](piece, rows) for name in self.names if name in _RECORD_MAKERS}


def _position(bad: UnreadPiece) -> int:
    found = bad.damage or bad.batch
    assert found is not None
    return found.position


def _damage_of(bad: UnreadPiece, stretch: LogStretch) -> Damage:
    if bad.damage is not None:
        return settled(bad.damage, bad.source, stretch)
    assert bad.batch is not None
    header, position = bad.batch.header, bad.batch.position
    damage = Damage(FindingClass.BAD_RECORD, position, position + header.size, "records", "", str(bad.error))
    return replace(damage, first_offset=header.base_offset, last_offset=header.last_offset)


def _unreadable(stretch: LogStretch, message: str) -> Damage:
    return Damage(FindingClass.UNREADABLE, stretch.start, stretch.end, "bytes", "none", message)


def record_damage_arrays(damage: Damage, names: Sequence[str]) -> dict[str, Any]:
    """Return one row instead of unreadable records: where they should be, and the reason."""
    known = {
        "offset": damage.first_offset,
        "batch_position": damage.position,
        "error": f"{damage.kind}: {damage.message}",
    }
    types = TYPES[Granularity.RECORDS]
    return {name: pa.array([known.get(name)], types[name]) for name in names if name not in LISTED}


def add_up(stretch: LogStretch, guest: Guest) -> LogStats:
    """Return the numbers of a whole segment, by the job of `stats`."""
    whole = Split(stretch.path, 0, stretch.size, stretch.size)
    job = StatsJob(0, is_active=stretch.state == "active", guest=guest)
    [(_key, found)] = survey(iter([Task(0, job, (whole,))]), Workers())
    return found


@lru_cache(maxsize=64)
def _partition(directory: str) -> Partition:
    return read_partition(directory, [], Guest())


def _subject(stretch: LogStretch) -> Subject:
    """Return the partition as a task sees it, with the limits of the plan."""
    partition = _partition(stretch.directory)
    if all(one.log is None or one.log.path != stretch.path for one in partition.live_segments):
        _partition.cache_clear()  # rolled since
        partition = _partition(stretch.directory)
    limits = ReadLimits(stretch.high_watermark, stretch.log_start)
    return Subject(NamedPartition(partition, stretch.log_start, None), "", limits)


def _listed(stretch: LogStretch, name: str) -> object:
    return stretch.path if name == "file" else getattr(stretch, name)


def _bounded(batch: Any) -> Iterator[Any]:
    """Yield a batch in pieces that a JVM of modest size can take."""
    least = max(1, batch.num_rows * MOST_BYTES // max(1, batch.nbytes))
    step = min(MOST_ROWS, least)
    if batch.num_rows <= step:
        yield batch
        return
    for start in range(0, batch.num_rows, step):
        piece = batch.slice(start, step)
        # Slices are cut by the average; one row each if records differ too much.
        if piece.nbytes > 2 * MOST_BYTES and piece.num_rows > 1:
            yield from (piece.slice(row, 1) for row in range(piece.num_rows))
        else:
            yield piece


def _by_batch(field_name: str, kind: Any) -> Any:
    def make(piece: RecordPiece, rows: Rows) -> Any:
        batches = piece.columns.batches
        number = piece.columns.batch[rows]
        return known(getattr(batches, field_name)[number], (batches.magic == 2)[number], kind)

    return make


def _times(piece: RecordPiece, rows: Rows) -> Any:
    times = piece.columns.timestamp_ms[rows]
    is_known = (times >= 0) & (times <= _MOST_MS)
    return pa.array(np.where(is_known, times, 0) * 1000, pa.timestamp("us", tz="UTC"), mask=~is_known)


def _words(numbers: Any, words: list[str]) -> Any:
    return pa.array(words, pa.string()).take(pa.array(numbers))


def _sequences(piece: RecordPiece, rows: Rows) -> Any:
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
    "error": lambda piece, rows: pa.nulls(len(rows), pa.string()),
}
