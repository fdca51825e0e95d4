"""Partitions with transactions, made batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import directory_target
from kafkatool.engine.records.fates import TransactionFate
from kafkatool.engine.records.stream import RecordPiece, RecordStream
from kafkatool.engine.records.subject import Subject, subjects_of
from kafkatool.engine.records.visibility import VisibilityRule
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.schema.control import write_end_marker
from kafkatool.format.state.checkpoint import PartitionOffset, write_offset_checkpoint
from tests.logs import GUEST, TIME


@dataclass
class LogMaker:
    """Appends batches at consecutive offsets; `sizes` tells where each one ends."""

    data: bytearray = field(default_factory=bytearray)
    offset: int = 0
    positions: list[int] = field(default_factory=list)

    def plain(self, count: int = 1) -> LogMaker:
        return self._add(count, -1, 0)

    def txn(self, producer_id: int, count: int = 1) -> LogMaker:
        return self._add(count, producer_id, TRANSACTIONAL_MASK)

    def commit(self, producer_id: int) -> LogMaker:
        return self._end(producer_id, True)

    def abort(self, producer_id: int) -> LogMaker:
        return self._end(producer_id, False)

    def _end(self, producer_id: int, committed: bool) -> LogMaker:
        key, value = write_end_marker(committed, 0)
        return self._put([NewRecord(key, value, TIME)], producer_id, TRANSACTIONAL_MASK | CONTROL_MASK)

    def _add(self, count: int, producer_id: int, attributes: int) -> LogMaker:
        records = [
            NewRecord(b"k%d" % at, b"v%d" % at, TIME + at) for at in range(self.offset, self.offset + count)
        ]
        return self._put(records, producer_id, attributes)

    def _put(self, records: Sequence[NewRecord], producer_id: int, attributes: int) -> LogMaker:
        self.positions.append(len(self.data))
        self.data += write_batch(
            records,
            base_offset=self.offset,
            attributes=attributes,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0 if producer_id >= 0 and not attributes & CONTROL_MASK else -1,
            partition_leader_epoch=0,
        )
        self.offset += len(records)
        return self


def write_logs(
    directory: Path,
    logs: dict[int, bytes],
    *,
    name: str = "orders-0",
    high_watermark: int | None = None,
    log_start: int | None = None,
) -> Path:
    """A log directory with one partition; returns the partition's."""
    partition = directory / name
    partition.mkdir(parents=True, exist_ok=True)
    for base, data in logs.items():
        (partition / f"{base:020d}.log").write_bytes(data)
    set_limits(directory, high_watermark, log_start, name=name)
    return partition


def set_limits(
    directory: Path, high_watermark: int | None, log_start: int | None = None, *, name: str = "orders-0"
) -> None:
    topic, _, number = name.rpartition("-")
    for file, offset in (
        ("replication-offset-checkpoint", high_watermark),
        ("log-start-offset-checkpoint", log_start),
    ):
        if offset is not None:
            entry = PartitionOffset(topic, int(number), offset)
            (directory / file).write_bytes(write_offset_checkpoint([entry]))


def subject_of(partition: Path, high_watermark: int | None = None) -> Subject:
    target = directory_target(str(partition))
    assert target is not None
    return next(subjects_of(Selection([target], GUEST).homes, high_watermark))


def judged(stream: RecordStream) -> dict[int, tuple[str, str]]:
    """Offset -> the rule that hides it, and the fate of its transaction."""
    found: dict[int, tuple[str, str]] = {}
    for piece in stream.pieces():
        if not isinstance(piece, RecordPiece):
            continue
        for row, offset in enumerate(piece.columns.offset.tolist()):
            rule = VisibilityRule(int(piece.judged.rule[row])).label
            fate = TransactionFate(int(piece.judged.fate[piece.columns.batch[row]])).label
            found[offset] = rule, fate
    return found


def shown(found: dict[int, tuple[str, str]]) -> list[int]:
    return [offset for offset, (rule, _fate) in found.items() if rule == "shown"]


def with_fate(found: dict[int, tuple[str, str]], fate: str) -> list[int]:
    return [offset for offset, (_rule, each) in found.items() if each == fate]
