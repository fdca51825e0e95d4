"""A finding: damage with its place, what the metadata knows about other replicas, and the next step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.format.kinds import LEADER_EPOCHS
from kafkatool.format.names import FileState, base_offset, split_state

if TYPE_CHECKING:
    from kafkatool.engine.cluster.view import Replicas

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
    FindingClass.MISSING_FILE,
)
A_LOG = "a .log"
"""What is expected if indexes exist without it: of all files that may be missing, the one with records."""
THROWN_AWAY = "a broker throws it away and replays more of the log"
"""What happens to an unreadable snapshot; one that only contradicts the log is trusted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what to do. Replicas are those of the newest metadata on disk."""

    file: str
    topic: str | None
    partition: int | None
    damage: Damage
    fix: str | None
    replicas: Replicas | None = None
    below_recovery_point: bool | None = None
    """Whether a broker that starts now would skip the segment; None if unknown."""


@dataclass(slots=True)
class VerifySummary:
    """What was checked, and how it ended."""

    partitions: int = 0
    segments: int = 0
    skipped_segments: int = 0
    rechecked_segments: int = 0
    """Unchanged segments that were read again all the same."""
    deleted_partitions: int = 0
    """Directories awaiting deletion, which were left out."""
    deleted_size: int = 0
    """Bytes of the logs in them."""
    side_files: int = 0
    """Files other than logs that were named themselves, and read."""
    size: int = 0
    total_size: int = 0
    """Bytes of all logs: read, skipped, or outside the sample."""
    batches: int = 0
    records: int = 0
    findings: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))
    unreadable_blocks: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sample: float | None = None
    is_interrupted: bool = False

    @property
    def is_empty_sample(self) -> bool:
        """Whether there is data to check, but the sample is empty."""
        return self.sample is not None and not self.size and self.total_size > 0

    @property
    def is_of_nothing(self) -> bool:
        """Whether there was nothing to check, so that no verdict is possible."""
        seen = self.batches or self.skipped_segments or self.side_files or self.failures
        return not seen and self.worst is None

    @property
    def worst(self) -> Severity | None:
        return max((severity for severity, count in self.findings.items() if count), default=None)


def fix(
    damage: Damage,
    directory: str,
    file: str,
    replicas: Replicas | None = None,
    node_id: int | None = None,
    bases: Sequence[int] = (),
) -> str | None:
    """Return the command to run next, or how to fetch the partition from a better replica.

    `bases` are the base offsets of the partition's segments.
    """
    if damage.severity is Severity.NOTE:
        return None
    if damage.kind in _OF_THE_LOG or damage.expected == A_LOG:
        better = None if replicas is None or node_id is None else fetch_again(directory, replicas, node_id)
        if better is not None:
            return better
        if damage.is_mendable:
            return Advice.RECOVER_MENDING(where=directory)
        if damage.kind is FindingClass.BAD_MAGIC:  # recovery keeps the batch
            return Advice.SHOW_RECORDS(file=file)
        if damage.severity is Severity.LOSS and damage.next_good_offset is not None:
            return Advice.RECOVER_KEEPING(where=directory)
        return Advice.RECOVER(where=directory)
    if damage.kind is FindingClass.BAD_SNAPSHOT:
        return _mend_snapshot(damage, directory, file, bases)
    if damage.kind in _OF_INDEXES:
        # Leader epochs are no index, and a cleaner's leftover is not one yet: a start handles both.
        name, state = split_state(os.path.basename(file))
        is_for_a_start = name == LEADER_EPOCHS.name or state is not FileState.LIVE
        return (Advice.RECOVER if is_for_a_start else Advice.REBUILD_INDEX)(where=directory)
    return Advice.SHOW_FILE(file=file) if os.path.isfile(file) else None


def _mend_snapshot(damage: Damage, directory: str, file: str, bases: Sequence[int]) -> str:
    if bases and base_offset(os.path.basename(file)) not in bases[1:]:
        # No segment begins at its offset, or the data that it was made from is no longer in the log.
        return Advice.RECOVER(where=directory)
    if THROWN_AWAY in damage.message:
        return Advice.REBUILD_INDEX(where=directory)
    return Advice.REBUILD_FORCED(file=file)


def fetch_again(directory: str, replicas: Replicas, node_id: int) -> str | None:
    """Return how to fetch the partition from a node that has every committed record; None if none has."""
    if not replicas.others_in_sync(node_id) and not replicas.others_eligible(node_id):
        return None
    return Advice.SET_ASIDE(where=directory)
