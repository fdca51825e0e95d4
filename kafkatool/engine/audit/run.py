"""Run an audit over many roots: log directories are read, lakes collected by brokers are merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kafkatool import __version__
from kafkatool.engine.audit.kept_partition import Unit
from kafkatool.engine.audit.lake import AuditRun, NewRun, is_lake, locked, read_run, refuse_inside
from kafkatool.engine.audit.root import Audit, AuditRequest
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.directory.roots import Root, read_roots, split_label
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.verify.rechecking import Recheck
from kafkatool.engine.verify.verification import VerifyRequest
from kafkatool.errors import UsageError


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to audit, and how."""

    paths: tuple[str, ...]
    out: str
    now_ms: int
    verify: VerifyRequest
    settings: SettingsRequest
    recheck: Recheck
    keep: int = 2
    files: Files = field(default_factory=Disk)


@dataclass(slots=True)
class RunSummary:
    """Totals of a run."""

    directory: str = ""
    roots: int = 0
    partitions: int = 0
    segments: int = 0
    segments_read: int = 0
    segments_rechecked: int = 0
    """How many of the segments read were unchanged."""
    size: int = 0
    size_read: int = 0
    batches: int = 0
    records: int = 0
    findings: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(Severity, 0))
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def worst(self) -> Severity | None:
        return max((severity for severity, count in self.findings.items() if count), default=None)


class PipelineRun:
    """One run. What there is to read is known after construction."""

    def __init__(self, request: RunRequest) -> None:
        """Find the roots and lakes to read. Raises UsageError or Refused if the request is not possible."""
        self.request = request
        self.summary = RunSummary()
        self.parts: list[tuple[str | None, AuditRun]] = []
        directories: list[str] = []
        for text in request.paths:
            label, path = split_label(text)
            if is_lake(path):
                self.parts.append((label, read_run(path)))
            else:
                directories.append(text)
        self.roots: list[Root] = read_roots(directories, self.summary.failures)
        refuse_inside(request.out, [target.path for root in self.roots for target in root.targets])
        if not self.roots and not self.parts:
            raise UsageError("nothing to audit: name log directories, or what `pipeline collect` wrote")

    def run(self, pool: Workers, advance: Callable[[int], None]) -> RunSummary:
        """Run the audit; afterwards either all tables are new, or none."""
        request = self.request
        with locked(request.out, request.files):
            before = read_run(request.out) if is_lake(request.out) else None
            new = NewRun(request.out, request.files)
            try:
                self._run(new, before, pool, advance)
            except BaseException:
                new.abandon()
                raise
        return self.summary

    def _run(
        self, new: NewRun, before: AuditRun | None, pool: Workers, advance: Callable[[int], None]
    ) -> None:
        request = self.request
        known: dict[str, dict[str, Unit]] = {}
        for unit in () if before is None else before.units():
            known.setdefault(unit.root, {})[unit.path] = unit
        earlier = {} if before is None else dict.fromkeys(known, before.directory)
        units = self._taken_over(earlier)
        how = AuditRequest(
            new.staging, request.now_ms, request.verify, request.settings, request.recheck, request.files
        )
        for root in self.roots:
            audit = Audit(root, how, known.get(root.label, {}))
            units += audit.units(pool, advance)
            self.summary.size_read += audit.summary.size
            self.summary.segments_rechecked += audit.summary.rechecked_segments
            self.summary.failures += audit.summary.failures
            self.summary.notes += audit.summary.notes
        units.sort(key=lambda unit: (unit.root, unit.topic or "", unit.partition or 0, unit.path))
        self._count(units)
        self.summary.directory = new.commit(units, self._manifest(), earlier, keep=request.keep)

    def _taken_over(self, earlier: dict[str, str]) -> list[Unit]:
        """Return the partitions that brokers have collected themselves."""
        units: list[Unit] = []
        seen = {root.label for root in self.roots}
        for label, part in self.parts:
            found = list(part.units())
            labels = {unit.root for unit in found}
            if label is not None:
                if len(labels) > 1:
                    raise UsageError(
                        f"{label}={part.directory}: holds several roots: name it without a label"
                    )
                found = [replace(unit, root=label) for unit in found]
                labels = {label}
            if seen & labels:
                raise UsageError(f"{', '.join(seen & labels)}: named twice: every root needs its own label")
            seen |= labels
            earlier |= dict.fromkeys(labels, part.directory)
            units += found
        return units

    def _count(self, units: list[Unit]) -> None:
        summary = self.summary
        summary.roots = len({unit.root for unit in units})
        for unit in units:
            summary.partitions += bool(unit.directory)
            summary.segments += len(unit.segments)
            summary.segments_read += unit.segments_read
            for segment in unit.segments:
                summary.size += segment.size
                summary.batches += segment.facts.batches
                summary.records += segment.facts.records
            for row in unit.findings:
                summary.findings[Severity[row["severity"].upper()]] += 1

    def _manifest(self) -> dict[str, Any]:
        summary = self.summary
        counted = ("roots", "partitions", "segments", "size", "batches", "records", "failures")
        return {
            "kafkatool": __version__,
            "now_ms": self.request.now_ms,
            **{name: getattr(summary, name) for name in counted},
            "findings": {severity.label: count for severity, count in summary.findings.items()},
        }
