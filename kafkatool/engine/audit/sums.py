"""Sums over the batches of one log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from kafkatool.engine.batches.observers import Observer
from kafkatool.format.batch import CODEC_MASK, CONTROL_MASK, TRANSACTIONAL_MASK
from kafkatool.format.columns import BatchColumns

CODECS, MAGICS = 8, 3


@dataclass(slots=True)
class Sums(Observer):
    """Sums over batches."""

    codec_bytes: list[int] = field(default_factory=lambda: [0] * CODECS)
    magic_batches: list[int] = field(default_factory=lambda: [0] * MAGICS)
    single_record_batches: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    def take(self, columns: BatchColumns) -> None:
        codecs = np.bincount(columns.attributes & CODEC_MASK, weights=columns.size, minlength=CODECS)
        magics = np.bincount(columns.magic, minlength=MAGICS)
        is_control = (columns.attributes & CONTROL_MASK) != 0
        is_single = (columns.records_count == 1) & ~is_control
        times = columns.max_timestamp[~is_control & (columns.max_timestamp >= 0)]
        self.merge(
            Sums(
                codecs.astype(np.int64).tolist(),
                magics.tolist(),
                int(np.count_nonzero(is_single)),
                int(np.count_nonzero(is_control)),
                int(np.count_nonzero(columns.attributes & TRANSACTIONAL_MASK)),
                int(times.min()) if len(times) else None,
                int(times.max()) if len(times) else None,
            )
        )

    def merge(self, behind: Self | Sums) -> None:
        self.codec_bytes = [a + b for a, b in zip(self.codec_bytes, behind.codec_bytes, strict=True)]
        self.magic_batches = [a + b for a, b in zip(self.magic_batches, behind.magic_batches, strict=True)]
        self.single_record_batches += behind.single_record_batches
        self.control_batches += behind.control_batches
        self.transactional_batches += behind.transactional_batches
        known = [one for one in (self.min_timestamp_ms, behind.min_timestamp_ms) if one is not None]
        self.min_timestamp_ms = min(known, default=None)
        known = [one for one in (self.max_timestamp_ms, behind.max_timestamp_ms) if one is not None]
        self.max_timestamp_ms = max(known, default=None)
