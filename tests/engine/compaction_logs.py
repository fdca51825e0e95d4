"""Partitions to be cleaned, written down as the worked cases are: `2:a=2`, `[0-2]{1:b=1,2:c=1}`, `[2-2]∅`."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.compaction.cleanable_log import CleanableLog, open_cleanable
from kafkatool.engine.compaction.cleaned_segment import Output
from kafkatool.engine.compaction.cleaner import Cleaned, Cleaning, clean
from kafkatool.engine.compaction.dirty_range import DirtyRange, dirty_range
from kafkatool.engine.compaction.key_room import KeyRoom
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import open_source
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import Log
from kafkatool.format import txn_index
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, BatchHeader, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import NEWEST, Release
from kafkatool.format.schema.control import write_end_marker

TIME = 500
ROOM = 1_000_000
_SIDE_FILES = (".log", ".index", ".timeindex", ".txnindex")


@dataclass
class CleanLog:
    """A partition that is written, rolled and cleaned by hand."""

    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    release: Release = NEWEST
    codec: Codec = Codec.NONE
    _log: Log | None = None
    _sequences: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = {"cleanup.policy": "compact", "delete.retention.ms": "1000", **self.settings}
        self.config = read_config(texts, self.release)

    @property
    def log(self) -> Log:
        if self._log is None:
            left = LeftLog(is_clean=True)
            self._log = open_log(Disk(), str(self.directory), self.config, now_ms=TIME, left=left)
        return self._log

    def put(
        self, *pairs: str, pid: int = -1, epoch: int = 0, txn: bool = False, at: int | None = None
    ) -> CleanLog:
        """One batch: `a=1`, `a=null` for a tombstone, `=1` for a record without a key."""
        records = [_record(pair) for pair in pairs]
        sequence = self._sequences.get((pid, epoch), 0) if pid >= 0 else -1
        self._sequences[pid, epoch] = sequence + len(records)
        return self._append(records, pid, epoch, TRANSACTIONAL_MASK if txn else 0, sequence, at)

    def commit(self, pid: int, epoch: int = 0) -> CleanLog:
        return self._end(pid, epoch, committed=True)

    def abort(self, pid: int, epoch: int = 0) -> CleanLog:
        return self._end(pid, epoch, committed=False)

    def _end(self, pid: int, epoch: int, *, committed: bool) -> CleanLog:
        marker = NewRecord(*write_end_marker(committed, 0), TIME)
        return self._append([marker], pid, epoch, TRANSACTIONAL_MASK | CONTROL_MASK, -1, None)

    def _append(
        self, records: list[NewRecord], pid: int, epoch: int, flags: int, sequence: int, at: int | None
    ) -> CleanLog:
        data = write_batch(
            records,
            base_offset=self.log.log_end_offset if at is None else at,
            codec=Codec.NONE if flags & CONTROL_MASK else self.codec,
            attributes=flags,
            partition_leader_epoch=0,
            producer_id=pid,
            producer_epoch=epoch if pid >= 0 else -1,
            base_sequence=sequence,
        )
        self.log.append_as_follower(data, now_ms=TIME)
        return self

    def roll(self, offset: int = 0) -> CleanLog:
        """Begin another segment, at the end or beyond it."""
        self.log.roll(TIME, offset)
        return self

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def read(self, now_ms: int = 10_000, high_watermark: int | None = None) -> CleanableLog:
        self.close()
        return open_cleanable(str(self.directory), now_ms=now_ms, high_watermark=high_watermark)

    def range(self, checkpoint: int, now_ms: int = 10_000, high_watermark: int | None = None) -> DirtyRange:
        return dirty_range(self.read(now_ms, high_watermark), checkpoint, self.config, now_ms)

    def clean(
        self, checkpoint: int, now_ms: int = 10_000, capacity: int = ROOM, room: KeyRoom | None = None
    ) -> Cleaned:
        """One pass, and its segments in the place of the old ones."""
        log = self.read(now_ms)
        target = self.directory.parent / "cleaned"
        target.mkdir()
        dirty = dirty_range(log, checkpoint, self.config, now_ms)
        how = Cleaning(self.config, now_ms, capacity, room=room or KeyRoom())
        cleaned = clean(log, dirty, how, Output(Disk(), str(target)))
        for group, _new in cleaned.groups:
            for segment in group:
                for extension in _SIDE_FILES:
                    path = segment.path.removesuffix(".log") + extension
                    if os.path.exists(path):
                        os.unlink(path)
        for name in os.listdir(target):
            shutil.move(target / name, self.directory / name)
        target.rmdir()
        return cleaned

    def shown(self) -> list[str]:
        """All batches, as the worked cases write them."""
        self.close()
        return [batch for segment in self.segments().values() for batch in segment]

    def segments(self) -> dict[int, list[str]]:
        self.close()
        paths = sorted(self.directory.glob("*.log"))
        return {int(path.name[:20]): [_shown(batch) for batch in read_batches(path)] for path in paths}

    def offsets(self) -> list[int]:
        self.close()
        return [
            record.offset
            for path in sorted(self.directory.glob("*.log"))
            for batch in read_batches(path)
            for record in records_of(batch.header, batch.data or b"")
        ]

    def aborted(self) -> dict[int, list[tuple[int, ...]]]:
        """Of every transaction index: producer, first and last offset, last stable offset."""
        self.close()
        return {
            int(path.name[:20]): [entry[1:] for entry in txn_index.read_entries(path.read_bytes())]
            for path in sorted(self.directory.glob("*.txnindex"))
        }


def read_batches(path: Path) -> list[Batch]:
    with open_source(str(path)) as source:
        items = list(scan(source))
    assert all(isinstance(item, Batch) and item.is_valid for item in items)
    return [item for item in items if isinstance(item, Batch)]


def _record(pair: str) -> NewRecord:
    key, value = pair.split("=")
    return NewRecord(key.encode() or None, None if value == "null" else value.encode(), TIME)


def _shown(batch: Batch) -> str:
    header = batch.header
    assert isinstance(header, BatchHeader)
    span = f"[{header.base_offset}-{header.last_offset}]"
    records = list(records_of(header, batch.data or b""))
    horizon = "" if header.delete_horizon_ms is None else f" hz {header.delete_horizon_ms}"
    if not records:
        return f"{span}∅{horizon}"
    if header.is_control:
        kind = "COMMIT" if records[0].key == b"\0\0\0\1" else "ABORT"
        return f"{records[0].offset}:{kind}{horizon}"
    texts = [
        f"{one.offset}:{(one.key or b'').decode()}={'null' if one.value is None else one.value.decode()}"
        for one in records
    ]
    text = texts[0] if header.base_offset == header.last_offset else f"{span}{{{','.join(texts)}}}"
    return text + horizon
