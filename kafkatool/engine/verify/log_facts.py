"""Facts about a stretch of a log after its walk, and how to join those of two stretches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.segment_job import WalkedStretch
from kafkatool.engine.verify.producers import Aborted, Trail, join_aborted, join_trails


@dataclass(slots=True)
class LogFacts(WalkedStretch):
    """Facts about a stretch of one log; those of two adjacent stretches can be joined."""

    previous_offset: int = -1
    """The last offset of the second-to-last batch: which of two batches is wrong takes a third to decide."""
    batches: int = 0
    records: int = 0
    max_timestamp: int = -1
    max_filled_timestamp: int = -1
    """The same without batches that compaction emptied, whose header keeps a time that no record has."""
    epochs: list[list[int]] = field(default_factory=list)
    """[epoch, first offset, base offset of the last batch, position] per run of batches of one epoch."""
    producers: dict[int, Trail] = field(default_factory=dict)
    aborted: list[Aborted] = field(default_factory=list)
    holes: int = 0
    thinned: int = 0
    has_legacy: bool = False
    damages: list[Damage] = field(default_factory=list)
    more_damages: int = 0
    index_damages: list[Damage] = field(default_factory=list)
    time_damages: list[Damage] = field(default_factory=list)
    times_from: int = 0
    times_to: int = 0
    first_time_ms: int | None = None
    observers: tuple[Any, ...] = ()
    """The job's observers, with what they saw."""

    @property
    def is_whole(self) -> bool:
        """Whether offsets have no holes and every batch has all its records: never compacted."""
        return self.holes == 0 and self.thinned == 0


def join_facts(a: LogFacts, b: LogFacts) -> LogFacts:
    """Join the facts of two stretches; the second begins where the first ends."""
    for observer, behind in zip(a.observers, b.observers, strict=True):
        observer.merge(behind)
    if not b.batches:
        return replace(
            a,
            stop=b.stop,
            done=b.done,
            failure=b.failure,
            vanished=b.vanished,
            changed=a.changed or b.changed,
        )
    has_hole = a.first_offset is not None and b.first_offset != a.last_offset + 1
    return replace(
        b,
        start=a.start,
        first_offset=a.first_offset if a.first_offset is not None else b.first_offset,
        previous_offset=b.previous_offset if b.batches > 1 else a.last_offset,
        batches=a.batches + b.batches,
        records=a.records + b.records,
        max_timestamp=max(a.max_timestamp, b.max_timestamp),
        max_filled_timestamp=max(a.max_filled_timestamp, b.max_filled_timestamp),
        epochs=_join_epochs(a.epochs, b.epochs),
        producers=join_trails(a.producers, b.producers),
        aborted=a.aborted + join_aborted(a.producers, b.aborted),
        holes=a.holes + b.holes + has_hole,
        thinned=a.thinned + b.thinned,
        has_legacy=a.has_legacy or b.has_legacy,
        damages=a.damages + b.damages,
        index_damages=a.index_damages + b.index_damages,
        time_damages=a.time_damages + b.time_damages,
        times_from=a.times_from,
        first_time_ms=a.first_time_ms if a.first_time_ms is not None else b.first_time_ms,
        unreadable_blocks=a.unreadable_blocks + b.unreadable_blocks,
        changed=a.changed or b.changed,
        observers=a.observers,
    )


def _join_epochs(a: list[list[int]], b: list[list[int]]) -> list[list[int]]:
    if a and b and a[-1][0] == b[0][0]:
        return [*a[:-1], [a[-1][0], a[-1][1], b[0][2], a[-1][3]], *b[1:]]
    return a + b
