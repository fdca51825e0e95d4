"""What is wrong with one partition, in a few kilobytes however much it is."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate

from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.directory.log_dir import Segment
from kafkatool.engine.verify.finding import Finding
from kafkatool.format.names import base_offset

CELLS = 1000
"""Number of cells that a log is drawn as."""
MOST_FINDINGS = 25
"""Maximum number kept per severity; all are counted."""


class DamageMap:
    """A log from its first byte to its last, in cells with the worst severity found in each.

    `logs` is for the bytes of the segments, `others` for the files beside them. A cell is 0 if nothing was
    found, else one more than the severity.
    """

    def __init__(self, segments: list[Segment]) -> None:
        sizes = [segment.log.size if segment.log is not None else 0 for segment in segments]
        self.ends = list(accumulate(sizes))
        self.bases = [segment.base_offset for segment in segments]
        self.size = self.ends[-1] if self.ends else 0
        self.logs, self.others = bytearray(CELLS), bytearray(CELLS)
        self.hurt: set[int] = set()
        """Base offsets of the segments with findings."""
        self._at = {segment.log.path: at for at, segment in enumerate(segments) if segment.log is not None}

    @property
    def is_marked(self) -> bool:
        return any(self.logs) or any(self.others)

    def mark(self, finding: Finding) -> None:
        """Mark a finding, unless it belongs to no segment."""
        if not self.size:
            return
        damage, mark = finding.damage, int(finding.damage.severity) + 1
        at = self._at.get(finding.file)
        if at is not None:
            start = self._start(at) + damage.position
            _mark(self.logs, start, max(damage.end_position - damage.position, 1), self.size, mark)
        elif (at := self._beside(finding.file)) is not None:
            _mark(self.others, self._start(at), self.ends[at] - self._start(at), self.size, mark)
        if at is not None:
            self.hurt.add(self.bases[at])

    def _beside(self, file: str) -> int | None:
        """Return the index of the segment that a file beside the logs belongs to."""
        base = base_offset(os.path.basename(file))
        if base is None or not self.bases[0] <= base <= self.bases[-1]:
            return None
        return bisect_right(self.bases, base) - 1

    def _start(self, at: int) -> int:
        return self.ends[at - 1] if at else 0


def _mark(cells: bytearray, start: int, size: int, total: int, mark: int) -> None:
    first = min(start * CELLS // total, CELLS - 1)
    last = min(max(first, (start + size - 1) * CELLS // total), CELLS - 1)
    for at in range(first, last + 1):
        cells[at] = max(cells[at], mark)


@dataclass(slots=True)
class Trouble:
    """The findings of one partition, or of one file outside all partitions."""

    name: str
    map: DamageMap | None
    worst: Finding
    counts: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))
    kept: list[Finding] = field(default_factory=list)
    """The first findings of each severity."""

    @property
    def severity(self) -> Severity:
        return self.worst.damage.severity

    @property
    def total(self) -> int:
        """The number of findings, without notes."""
        return sum(count for severity, count in self.counts.items() if severity is not Severity.NOTE)

    def add(self, finding: Finding, *, keep: bool) -> None:
        severity = finding.damage.severity
        self.counts[severity] += 1
        if severity > self.severity:
            self.worst = finding
        if keep and self.counts[severity] <= MOST_FINDINGS:
            self.kept.append(finding)
        if self.map is not None and severity is not Severity.NOTE:
            self.map.mark(finding)
