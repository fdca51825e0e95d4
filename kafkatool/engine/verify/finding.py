"""A finding: damage with its place, what the cluster knows of other copies, and the next thing to do."""

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
"""What is expected where indexes stand without it: of all missing files the one that holds records."""
THROWN_AWAY = "a broker throws it away and replays more of the log"
"""What becomes of a snapshot that cannot be read; one that only contradicts the log is believed."""


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


@dataclass(slots=True)
class VerifySummary:
    """What was checked, and how it ended."""

    partitions: int = 0
    segments: int = 0
    skipped_segments: int = 0
    rechecked_segments: int = 0
    """Unchanged ones that were read again all the same."""
    deleted_partitions: int = 0
    """Directories that wait to be deleted, and were left out."""
    deleted_size: int = 0
    """Bytes of the logs in them."""
    side_files: int = 0
    """Files other than logs that were named themselves, and read."""
    size: int = 0
    total_size: int = 0
    """Bytes of all logs, read or skipped or not in the sample."""
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
        """Whether there is something to check, and chance chose nothing of it."""
        return self.sample is not None and not self.size and self.total_size > 0

    @property
    def is_of_nothing(self) -> bool:
        """Whether there was nothing to check, so that nothing can be said of it."""
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
    """The command to run next, or what to do where another copy makes every command unnecessary.

    `bases` is where the segments of the partition begin.
    """
    if damage.severity is Severity.NOTE:
        return None
    if damage.kind in _OF_THE_LOG or damage.expected == A_LOG:
        better = None if replicas is None or node_id is None else fetch_again(directory, replicas, node_id)
        if better is not None:
            return better
        if damage.is_mendable:
            return Advice.RECOVER_MENDING(where=directory)
        if damage.kind is FindingClass.BAD_MAGIC:  # a recovery keeps the batch
            return Advice.SHOW_RECORDS(file=file)
        if damage.severity is Severity.LOSS and damage.next_good_offset is not None:
            return Advice.RECOVER_KEEPING(where=directory)
        return Advice.RECOVER(where=directory)
    if damage.kind is FindingClass.BAD_SNAPSHOT:
        return _mend_snapshot(damage, directory, file, bases)
    if damage.kind in _OF_INDEXES:
        # Leader epochs are no index, and what a cleaner left is not yet one: both are a start's business.
        name, state = split_state(os.path.basename(file))
        is_for_a_start = name == LEADER_EPOCHS.name or state is not FileState.LIVE
        return (Advice.RECOVER if is_for_a_start else Advice.REBUILD_INDEX)(where=directory)
    return Advice.SHOW_FILE(file=file) if os.path.isfile(file) else None


def _mend_snapshot(damage: Damage, directory: str, file: str, bases: Sequence[int]) -> str:
    if bases and base_offset(os.path.basename(file)) not in bases[1:]:
        # It is none that a segment begins with, or what it was made from is not in the log any more.
        return Advice.RECOVER(where=directory)
    if THROWN_AWAY in damage.message:
        return Advice.REBUILD_INDEX(where=directory)
    return Advice.REBUILD_FORCED(file=file)


def fetch_again(directory: str, replicas: Replicas, node_id: int) -> str | None:
    """How to get the partition from another node that has every committed record; None if none has."""
    if not replicas.others_in_sync(node_id) and not replicas.others_eligible(node_id):
        return None
    return Advice.SET_ASIDE(where=directory)
