"""What doctor finds: symptoms, their effect on a start, and the verdict that follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.verify.finding import Finding


class StartVerdict(StrEnum):
    """How a start ends."""

    STARTS = "starts"
    LOSES = "loses"
    """It starts, but lacks offsets that existed, or that checkpoints promise."""
    PARTLY = "partly"
    """It starts without one of its log directories."""
    SERVES_NOTHING = "serves_nothing"
    NO_START = "no_start"
    RUNNING = "running"
    UNKNOWN = "unknown"
    """Something was not read that the answer depends on."""


class Symptom(NamedTuple):
    """A finding, and its effect on a start."""

    finding: Finding
    effect: Effect = Effect.NOTE
    log_dir: str | None = None
    directory: str | None = None
    """Name of the partition's directory; None: the directory of the file."""
    is_open: bool = False
    """Whether more than the finding's offsets may be lost."""
    is_maybe: bool = False
    """Whether other replicas decide if its offsets are lost."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets of a partition that a broker would no longer serve."""

    partition: str
    offsets: int
    is_at_least: bool = False


@dataclass(slots=True)
class Chart:
    """All symptoms so far; the verdict and the losses follow from them."""

    symptoms: list[Symptom] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What could not be read, as text."""
    notes: list[str] = field(default_factory=list)
    unscanned: list[str] = field(default_factory=list)
    """Log directories that a start would scan, and doctor did not."""

    @property
    def findings(self) -> list[Finding]:
        """Findings, those that stop a start first, then by severity."""
        ranked = sorted(self.symptoms, key=lambda one: (_RANKS[one.effect], -one.finding.damage.severity))
        return [one.finding for one in ranked]

    @property
    def losses(self) -> list[Loss]:
        """What consumers certainly lose."""
        return losses_of(one for one in self.symptoms if _is_sure(one))

    @property
    def maybe_losses(self) -> list[Loss]:
        """What is lost if a replica without it becomes leader."""
        return losses_of(one for one in self.symptoms if one.is_maybe)

    @property
    def lost_offsets(self) -> int:
        return sum(loss.offsets for loss in self.losses)

    @property
    def is_at_least(self) -> bool:
        return any(loss.is_at_least for loss in self.losses)

    def offline(self, log_dirs: Iterable[str]) -> list[str]:
        """Return which of these directories the broker takes offline."""
        out = {one.log_dir for one in self.symptoms if one.effect is Effect.OFFLINE}
        return [path for path in log_dirs if path in out]

    def verdict(self, log_dirs: Sequence[str]) -> StartVerdict:
        """Return the verdict; `log_dirs` are all directories of the broker."""
        effects = {one.effect for one in self.symptoms}
        offline = self.offline(log_dirs)
        if Effect.REFUSE in effects or (log_dirs and len(offline) == len(log_dirs)):
            return StartVerdict.NO_START
        if Effect.LEADERLESS in effects:
            return StartVerdict.SERVES_NOTHING
        if offline:
            return StartVerdict.PARTLY
        if self.losses:
            return StartVerdict.LOSES
        return StartVerdict.UNKNOWN if self.failures or self.unscanned else StartVerdict.STARTS


_RANKS = {Effect.REFUSE: 0, Effect.LEADERLESS: 1, Effect.OFFLINE: 2, Effect.NOTE: 3}


def _is_sure(symptom: Symptom) -> bool:
    """Return whether offsets are certainly lost: by damage, or as a start drops the log that holds them."""
    damage = symptom.finding.damage
    if symptom.is_maybe:
        return False
    is_dropped = damage.severity is Severity.NO_START and symptom.effect is Effect.NOTE
    return damage.severity is Severity.LOSS or (is_dropped and damage.first_offset is not None)


def losses_of(symptoms: Iterable[Symptom]) -> list[Loss]:
    """Return the offsets that each partition loses, each counted once."""
    by_partition: dict[str, list[Symptom]] = {}
    for one in symptoms:
        home = one.directory or os.path.basename(os.path.dirname(one.finding.file))
        by_partition.setdefault(home, []).append(one)
    return [_loss(partition, found) for partition, found in by_partition.items()]


def _loss(partition: str, symptoms: Sequence[Symptom]) -> Loss:
    count, reached, is_open = 0, -1, any(one.is_open for one in symptoms)
    damages = [one.finding.damage for one in symptoms]
    for damage in sorted(damages, key=lambda one: -1 if one.first_offset is None else one.first_offset):
        first, last = damage.first_offset, damage.last_offset
        is_open = is_open or first is None or last is None
        if first is None:
            continue
        last = first if last is None else last
        count += max(0, last - max(first, reached + 1) + 1)
        reached = max(reached, last)
    return Loss(partition, max(1, count), is_open)


def host_finding(
    path: str,
    kind: FindingClass,
    severity: Severity,
    message: str,
    fix: str | None,
    expected: object = "",
    found: object = "",
) -> Finding:
    """Build a finding about a file, directory or volume, not about bytes in it."""
    damage = Damage(kind, 0, 0, str(expected), str(found), message, severity)
    return Finding(path, None, None, damage, fix)
