"""What doctor finds: a finding, what it does to a start, and what all of them together come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkatool.engine.checkpoint_effects import Effect
from kafkatool.engine.findings import Damage, FindingClass, Severity
from kafkatool.engine.verify_report import Finding


class Verdict(StrEnum):
    """What a start comes to."""

    STARTS = "starts"
    LOSES = "loses"
    """It starts, and offsets are gone that were there, or that checkpoints promise."""
    PARTLY = "partly"
    """It starts without one of its log directories."""
    SERVES_NOTHING = "serves_nothing"
    NO_START = "no_start"
    RUNNING = "running"
    UNKNOWN = "unknown"
    """Something was not read that the answer hangs on."""


class Symptom(NamedTuple):
    """A finding, and how far a start comes with it."""

    finding: Finding
    effect: Effect = Effect.NOTE
    log_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets of a partition that a broker would not serve any more."""

    partition: str
    offsets: int
    is_at_least: bool = False


@dataclass(slots=True)
class Chart:
    """Everything found so far."""

    symptoms: list[Symptom] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """What could not be read, in words."""
    notes: list[str] = field(default_factory=list)
    unscanned: list[str] = field(default_factory=list)
    """Log directories that a start would scan, and nobody has."""

    @property
    def findings(self) -> list[Finding]:
        """The worst first; among equals those that stop a start, then as they were found."""
        ranked = sorted(self.symptoms, key=lambda one: (_RANKS[one.effect], -one.finding.damage.severity))
        return [one.finding for one in ranked]

    @property
    def lost_offsets(self) -> int:
        return sum(loss.offsets for loss in self.losses)

    @property
    def is_at_least(self) -> bool:
        return any(loss.is_at_least for loss in self.losses)

    def offline(self, log_dirs: Iterable[str]) -> list[str]:
        """Those of these directories that the broker leaves out."""
        out = {one.log_dir for one in self.symptoms if one.effect is Effect.OFFLINE}
        return [path for path in log_dirs if path in out]

    def verdict(self, log_dirs: Sequence[str]) -> Verdict:
        """`log_dirs` are all directories of the broker."""
        effects = {one.effect for one in self.symptoms}
        offline = self.offline(log_dirs)
        if Effect.REFUSE in effects or (log_dirs and len(offline) == len(log_dirs)):
            return Verdict.NO_START
        if Effect.LEADERLESS in effects:
            return Verdict.SERVES_NOTHING
        if offline:
            return Verdict.PARTLY
        if self.losses:
            return Verdict.LOSES
        return Verdict.UNKNOWN if self.failures or self.unscanned else Verdict.STARTS


_RANKS = {Effect.REFUSE: 0, Effect.LEADERLESS: 1, Effect.OFFLINE: 2, Effect.NOTE: 3}


def host_finding(
    path: str,
    kind: FindingClass,
    severity: Severity,
    message: str,
    fix: str | None,
    expected: object = "",
    found: object = "",
) -> Finding:
    """Something about a file, directory or volume that no byte of it tells."""
    damage = Damage(kind, 0, 0, str(expected), str(found), message, severity)
    return Finding(path, None, None, damage, fix)
