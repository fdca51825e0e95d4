"""Find the keys, and key prefixes, of which the cleaner would remove most."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafkatool.engine.compaction.cleanable_log import SourceSegment
from kafkatool.engine.compaction.record_filter import JudgedBatches
from kafkatool.engine.compaction.walking import CleanableStretch
from kafkatool.engine.stats.keys import Keys, ranks_of
from kafkatool.format.kernel.verdicts import Fate

_SUPERSEDED, _TOMBSTONE = int(Fate.SUPERSEDED), int(Fate.TOMBSTONE)


@dataclass(slots=True)
class Waste:
    """Watch a pass; a record's bytes are those of its key and value."""

    keys: Keys = field(default_factory=Keys)

    def watch(self, stretch: CleanableStretch, judged: JudgedBatches, _segment: SourceSegment) -> None:
        columns = stretch.columns
        rows = np.flatnonzero((judged.fate == _SUPERSEDED) | (judged.fate == _TOMBSTONE))
        if len(rows):
            starts, sizes = columns.key_start[rows], columns.key_size[rows]
            both = sizes + np.maximum(columns.value_size[rows], 0)
            self.keys.add(columns.data, starts, sizes, both, ranks_of(columns.offset[rows], 0))
