"""Count what one pass of the cleaner would save, without writing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkatool.engine.cluster.effective_settings import Sources
from kafkatool.engine.compaction.cleanable_log import open_cleanable
from kafkatool.engine.compaction.cleaner import Cleaning
from kafkatool.engine.compaction.offset_map import map_capacity
from kafkatool.engine.compaction.passes import PassWork, compact
from kafkatool.engine.files.disk import Disk
from kafkatool.errors import KafkatoolError


def key_capacity(sources: Sources) -> int:
    """Return how many keys a broker's map has room for, by its settings."""
    size, threads, factor = (
        sources.broker(f"log.cleaner.{name}").value
        for name in ("dedupe.buffer.size", "threads", "io.buffer.load.factor")
    )
    return map_capacity(int(str(size)), max(1, int(str(threads))), float(str(factor)))


@dataclass(frozen=True, slots=True)
class SavingsRequest:
    """One compacted partition."""

    path: str
    log_start: int | None
    high_watermark: int | None
    checkpoint: int | None
    how: Cleaning


def savings(ask: SavingsRequest) -> dict[str, Any]:
    """Return records and bytes before and after a pass; `error` where a broker's cleaner would give up."""
    try:
        log = open_cleanable(
            ask.path,
            log_start=ask.log_start,
            high_watermark=ask.high_watermark,
            now_ms=ask.how.now_ms,
            guest=ask.how.guest,
        )
        done = compact(log, ask.checkpoint, ask.how, PassWork(Disk(), None, "counted"), 1)
    except (FileNotFoundError, KafkatoolError) as error:
        return {"error": str(error)}
    found = {"cleanable_bytes": done.dirty.cleanable_bytes, "records": 0, "records_removed": 0}
    found |= {"bytes_read": 0, "bytes_removed": 0}
    for one in done.passes:
        counts = one.cleaned.counts
        found["records"] += counts.records_read
        found["records_removed"] += counts.records_read - counts.records_kept
        found["bytes_read"] += counts.bytes_read
        found["bytes_removed"] += counts.bytes_read - counts.bytes_written
    return {**found, "error": None}
