"""Clean messages of magic 0 and 1. Kafka 4 writes those that stay as batches of magic 2."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from kafkatool.engine.compaction.cleanable_log import CleanerStops, SourceSegment
from kafkatool.engine.compaction.offset_map import OffsetMap, joined_keys
from kafkatool.engine.compaction.rewriting import converted, legacy_records, rewritten_wrapper
from kafkatool.engine.compaction.walking import LegacyEntry
from kafkatool.errors import FormatError
from kafkatool.format.kernel.verdicts import Fate
from kafkatool.format.legacy import read_legacy_header
from kafkatool.format.record import Record
from kafkatool.format.release import Release
from kafkatool.format.rewriting import NotWritable


@dataclass(frozen=True, slots=True)
class KeptMessages:
    """What stays of one entry; no data: nothing."""

    records_read: int
    records_kept: int
    removed: Counter[Fate] = field(default_factory=Counter)
    data: bytes = b""
    last_offset: int = -1
    max_timestamp: int = -1
    has_new_horizon: bool = False
    is_rewritten: bool = False
    sizes: Counter[Fate] = field(default_factory=Counter)
    """Bytes of keys and values."""


@dataclass(frozen=True, slots=True)
class LegacyFilter:
    """`horizon_ms`: tombstones in segments last modified up to then can be removed."""

    offsets: OffsetMap
    horizon_ms: int
    first_uncleanable: int
    release: Release

    def judge(self, entry: LegacyEntry, segment: SourceSegment, new_horizon_ms: int) -> KeptMessages:
        """Judge one message or wrapper; raise CleanerStops where a broker would throw."""
        try:
            records = legacy_records(entry.header, entry.data)
        except FormatError as error:
            raise CleanerStops(segment.path, entry.position, str(error)) from None
        keeps_tombstones = segment.modified_ms > self.horizon_ms
        keys, at = joined_keys([record.key for record in records]), [record.offset for record in records]
        newest = self.offsets.last_offsets(*keys, np.array(at, dtype=np.int64)).tolist()
        fates = [
            self._fate(record, last, keeps_tombstones) for record, last in zip(records, newest, strict=True)
        ]
        kept = [record for record, fate in zip(records, fates, strict=True) if fate is Fate.KEPT]
        removed = Counter(fates)
        del removed[Fate.KEPT]
        sizes: Counter[Fate] = Counter()
        for record, fate in zip(records, fates, strict=True):
            sizes[fate] += len(record.key or b"") + len(record.value or b"")
        if not kept:
            if entry.header.last_offset + 1 == self.first_uncleanable:
                reason = "the last message of the range goes, and magic 0 and 1 know no empty batches"
                raise CleanerStops(segment.path, entry.position, reason)
            return KeptMessages(len(records), 0, removed, sizes=sizes)
        try:
            return replace(self._written(entry, records, kept, removed, new_horizon_ms), sizes=sizes)
        except NotWritable as error:
            raise CleanerStops(segment.path, entry.position, str(error)) from None

    def _written(
        self,
        entry: LegacyEntry,
        records: list[Record],
        kept: list[Record],
        removed: Counter[Fate],
        new_horizon_ms: int,
    ) -> KeptMessages:
        if self.release >= Release.V4_0:
            has_horizon = any(record.value is None for record in kept)
            batch, data = converted(entry.header, kept, new_horizon_ms if has_horizon else None)
            header, is_rewritten = batch.last_offset, True
            latest = batch.max_timestamp
        else:
            is_rewritten, has_horizon = len(kept) < len(records), False
            data = rewritten_wrapper(entry.header, kept) if is_rewritten else bytes(entry.data)
            old = read_legacy_header(data)
            header, latest = old.last_offset, old.max_timestamp
        return KeptMessages(len(records), len(kept), removed, data, header, latest, has_horizon, is_rewritten)

    def _fate(self, record: Record, last: int, keeps_tombstones: bool) -> Fate:
        if record.offset > self.offsets.latest:
            return Fate.KEPT
        if record.key is None:
            return Fate.UNKEYED
        if record.offset < last:
            return Fate.SUPERSEDED
        return Fate.KEPT if record.value is not None or keeps_tombstones else Fate.TOMBSTONE
