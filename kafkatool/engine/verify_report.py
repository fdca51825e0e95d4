"""A finding: damage with its place, what the cluster knows of other copies, and the next thing to do."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkatool.engine.findings import Damage, FindingClass, Severity

if TYPE_CHECKING:
    from kafkatool.engine.cluster_view import Replicas

_OF_THE_LOG = frozenset(
    {
        FindingClass.BAD_CRC,
        FindingClass.BAD_LENGTH,
        FindingClass.BAD_MAGIC,
        FindingClass.BAD_OFFSET,
        FindingClass.BAD_RECORD,
        FindingClass.TORN_TAIL,
        FindingClass.ZERO_FILLED,
        FindingClass.BIT_FLIP,
        FindingClass.UNREADABLE,
        FindingClass.TOO_LARGE,
        FindingClass.GAP,
        FindingClass.OVERLAP,
    }
)
_OF_INDEXES = (
    FindingClass.BAD_INDEX,
    FindingClass.STALE_INDEX,
    FindingClass.BAD_SNAPSHOT,
    FindingClass.MISSING_FILE,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what to do. Replicas are those of the newest metadata on the disk."""

    file: str
    topic: str | None
    partition: int | None
    damage: Damage
    fix: str | None
    replicas: Replicas | None = None
    below_recovery_point: bool | None = None
    """Whether a broker that starts now would not look there; None where that cannot be told."""

    @property
    def is_of_the_log(self) -> bool:
        return self.damage.kind in _OF_THE_LOG


@dataclass(slots=True)
class Summary:
    """What was checked, and how it ended."""

    partitions: int = 0
    segments: int = 0
    skipped_segments: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    findings: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))
    unreadable_blocks: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sample: float | None = None

    @property
    def worst(self) -> Severity | None:
        return max((severity for severity, count in self.findings.items() if count), default=None)


def fix(
    damage: Damage, directory: str, file: str, replicas: Replicas | None, node_id: int | None
) -> str | None:
    """The command to run next, or what to do where another copy makes every command unnecessary."""
    if damage.severity is Severity.NOTE:
        return None
    import shlex

    where = shlex.quote(directory)
    if damage.kind in _OF_THE_LOG:
        others = [] if replicas is None else [node for node in replicas.isr if node != node_id]
        if others and node_id is not None:
            nodes = ", ".join(map(str, others))
            return (
                f"stop the broker, move {where} out of the log directory, start it: "
                f"it fetches the partition again from {nodes}"
            )
        if damage.severity is Severity.LOSS and damage.next_good_offset is not None:
            return f"kafkatool recover --keep-after-damage DIR {where}"
        return f"kafkatool recover {where}"
    if damage.kind in _OF_INDEXES:
        return f"kafkatool rebuild-index {where}"
    return f"kafkatool dump-log --format ndjson {shlex.quote(file)}" if os.path.isfile(file) else None
