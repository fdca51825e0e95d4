"""The life of one key: all its records, and what a pass does to each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kafkatool.engine.compaction.cleanable_log import CleanableLog, CleanerStops, SourceSegment
from kafkatool.engine.compaction.record_filter import JudgedBatches
from kafkatool.engine.compaction.walking import CleanableStretch, walk
from kafkatool.engine.files.source import Guest
from kafkatool.format.batch import CONTROL_MASK, DELETE_HORIZON_MASK
from kafkatool.format.columns import RecordColumns, RecordDecoder
from kafkatool.format.kernel import loops
from kafkatool.format.kernel.verdicts import Fate


class Stage(NamedTuple):
    """One record of the key; no fate: the pass does not reach it."""

    segment: int
    offset: int
    timestamp_ms: int
    value_size: int
    """-1: a tombstone."""
    fate: Fate | None
    delete_horizon_ms: int | None


@dataclass(slots=True)
class KeyLife:
    """Watch a pass for one key in batches of magic 2."""

    key: bytes
    stages: list[Stage] = field(default_factory=list)
    _reached: set[int] = field(default_factory=set)

    def watch(self, stretch: CleanableStretch, judged: JudgedBatches, segment: SourceSegment) -> None:
        self._reached.add(segment.base_offset)
        self._take(stretch.columns, segment, judged)

    def look_at_the_rest(self, log: CleanableLog, guest: Guest) -> None:
        """Look in the segments that the pass did not reach."""
        decoder = RecordDecoder()
        for segment in log.segments:
            if segment.base_offset not in self._reached:
                # What no pass reaches may end in the middle of a batch.
                with suppress(CleanerStops):
                    for item in walk(segment, decoder, guest):
                        if isinstance(item, CleanableStretch):
                            self._take(item.columns, segment, None)

    def _take(self, columns: RecordColumns, segment: SourceSegment, judged: JudgedBatches | None) -> None:
        batches = columns.batches
        for row in self._rows(columns):
            batch = int(columns.batch[row])
            if batches.attributes[batch] & CONTROL_MASK:
                continue
            has_horizon = bool(batches.attributes[batch] & DELETE_HORIZON_MASK)
            self.stages.append(
                Stage(
                    segment.base_offset,
                    int(columns.offset[row]),
                    int(columns.timestamp_ms[row]),
                    int(columns.value_size[row]),
                    None if judged is None else Fate(int(judged.fate[row])),
                    int(batches.base_timestamp[batch]) if has_horizon else None,
                )
            )

    def _rows(self, columns: RecordColumns) -> list[int]:
        """Return the records with the key: by size, then hash, then bytes."""
        rows = np.flatnonzero(columns.key_size == len(self.key))
        if not len(rows):
            return []
        hashes, wanted = np.empty(len(rows), dtype=np.uint64), np.empty(1, dtype=np.uint64)
        starts: Any = columns.key_start[rows]
        sizes: Any = columns.key_size[rows]
        loops.hashes(columns.data, starts, sizes, hashes)
        start, size = np.array([[0], [len(self.key)]], dtype=np.int64)
        where: Any = start
        how_long: Any = size
        loops.hashes(self.key, where, how_long, wanted)
        alike = rows[hashes == wanted[0]].tolist()
        return [row for row in alike if columns.key(row) == self.key]
