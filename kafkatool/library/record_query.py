"""Records of partitions, one by one or as Arrow, read from disk again for each use of the query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafkatool.engine.batches.range_columns import records_in
from kafkatool.engine.batches.records import bad_records
from kafkatool.engine.batches.scan import Batch
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.records.fates import TransactionFate
from kafkatool.engine.records.stream import RecordPiece, RecordStream, UnreadPiece, records_of
from kafkatool.engine.records.visibility import VisibilityRule
from kafkatool.format.legacy import LegacyHeader
from kafkatool.format.record import Record
from kafkatool.library.reading import ArrowStream, NamedSubject, ReadPlan, as_datetime

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FATES = tuple(fate.label for fate in TransactionFate)


class ConsumerRecord(NamedTuple):
    """One record. Fields that formats before magic 2 lack are None."""

    topic: str | None
    partition: int | None
    offset: int
    timestamp: datetime | None
    """In UTC; None if there is none, or if a datetime cannot hold it."""
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    sequence: int | None
    producer_id: int | None
    producer_epoch: int | None
    partition_leader_epoch: int | None
    batch_position: int
    is_control: bool
    txn: str
    """none, committed, aborted, open, or unknown if damage may hide the end of its transaction."""
    above_high_watermark: bool
    below_log_start: bool


@dataclass(frozen=True, slots=True)
class RecordQuery(ArrowStream):
    """Records of some partitions: iterate, or pass the query to anything that reads Arrow streams."""

    plan: ReadPlan
    committed: bool

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for named, piece, rows in self._pieces():
            for row, batch, record in records_of(piece, rows):
                yield _consumer_record(named, piece, row, batch, record)

    def reader(self) -> Any:
        from kafkatool.library.arrow_stream import record_reader

        return record_reader([named.topic for named in self.plan.subjects], self._pieces())

    def _pieces(self) -> Iterator[tuple[NamedSubject, RecordPiece, NDArray[np.int64]]]:
        """Yield pieces and the selected rows of each; a piece is valid only until the next is requested."""
        plan, unknown = self.plan, 0
        for named in plan.subjects:
            stream = RecordStream(named.subject, plan.guest, wanted=plan.wanted)
            for piece in stream.pieces():
                if not isinstance(piece, RecordPiece):
                    self._met(piece)
                    continue
                takes = records_in(plan.wanted, piece.columns.offset, piece.columns.timestamp_ms)
                if self.committed:
                    unknown += int(np.count_nonzero(takes & (piece.judged.rule == VisibilityRule.UNKNOWN)))
                    takes &= piece.judged.rule == VisibilityRule.SHOWN
                if takes.any():
                    yield named, piece, np.flatnonzero(takes)
        if unknown:
            plan.fail(f"{unknown} records are left out: damage may hold the end of their transactions")

    def _met(self, bad: UnreadPiece | Note | Caution | Failure) -> None:
        if not isinstance(bad, UnreadPiece):
            self.plan.say(bad)
            return
        damage = bad.damage
        if damage is None:
            assert bad.batch is not None
            assert bad.error is not None
            damage = bad_records(bad.batch, bad.error)
        self.plan.met(bad.log.path, damage)


def _consumer_record(
    named: NamedSubject, piece: RecordPiece, row: int, batch: Batch, record: Record
) -> ConsumerRecord:
    header, judged = batch.header, piece.judged
    number = int(piece.columns.batch[row])
    is_legacy = isinstance(header, LegacyHeader)
    return ConsumerRecord(
        named.topic,
        named.partition,
        record.offset,
        as_datetime(record.timestamp_ms),
        record.timestamp_ms,
        header.timestamp_type.value,
        record.key,
        record.value,
        tuple(record.headers),
        None if is_legacy else record.sequence,
        None if is_legacy else header.producer_id,
        None if is_legacy else header.producer_epoch,
        None if is_legacy else header.partition_leader_epoch,
        batch.position,
        bool(judged.is_control[number]),
        _FATES[judged.fate[number]],
        bool(judged.above_high_watermark[row]),
        bool(judged.below_log_start[row]),
    )
