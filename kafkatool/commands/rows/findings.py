"""The rows of `verify`: findings, one line a damaged partition, and the summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkatool.commands.rows.batches import DAMAGE
from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import human_size
from kafkatool.engine.batches import row_fields
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.verify.finding import Finding, VerifySummary

if TYPE_CHECKING:
    from kafkatool.engine.directory.log_dir import Partition, Segment

FINDING_KEYS = (
    *DAMAGE.keys,
    *("replicas", "isr", "eligible_leader_replicas", "leader", "metadata_ms", "below_recovery_point"),
)
FINDING_COLUMNS = tuple(Column(key, key.upper()) for key in FINDING_KEYS)
PARTITION_COLUMNS = (
    Column("place", "PARTITION"),
    Column("severity", "SEVERITY"),
    Column("findings", "FINDINGS", Look.number),
    Column("lost", "OFFSETS LOST"),
    Column("first", "FIRST FINDING"),
    Column("fix", "WHAT TO DO"),
)
LIST_COLUMNS = (
    Column("severity", "SEVERITY"),
    Column("class", "CLASS"),
    Column("file", "FILE"),
    Column("position", "BYTE", Look.number),
    Column("offsets", "OFFSETS"),
    Column("message", "MESSAGE"),
    Column("seen", "AT START"),
)
_MOST_RANGES = 8


def finding_row(finding: Finding) -> dict[str, object]:
    damage, replicas = finding.damage, finding.replicas
    return {
        "kind": "finding",
        "topic": finding.topic,
        "partition": finding.partition,
        "file": finding.file,
        **row_fields.values(row_fields.DAMAGE, damage),
        "fix": finding.fix,
        "replicas": None if replicas is None else list(replicas.replicas),
        "isr": None if replicas is None else list(replicas.isr),
        "eligible_leader_replicas": None if replicas is None else list(replicas.eligible),
        "leader": None if replicas is None else replicas.leader,
        "metadata_ms": None if replicas is None else replicas.metadata_ms,
        "below_recovery_point": finding.below_recovery_point,
    }


def list_row(finding: Finding) -> dict[str, object]:
    """A finding as a line of the long table."""
    seen = {True: "not looked at", False: "found", None: None}[finding.below_recovery_point]
    return {**finding_row(finding), "offsets": offsets_text(finding), "seen": seen}


def offsets_text(finding: Finding) -> str | None:
    """`3`, `3-7`, `8-` to the end; None where no offsets are at stake."""
    first, last = finding.damage.first_offset, finding.damage.last_offset
    if first is None:
        return None
    if last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"


@dataclass(slots=True)
class PartitionLine:
    """What is wrong with one partition, or with one file outside of all partitions."""

    place: str
    worst: Finding
    findings: int = 0
    lost: list[str] = field(default_factory=list)
    lost_count: int = 0

    def add(self, finding: Finding) -> None:
        self.findings += 1
        if finding.damage.severity > self.worst.damage.severity:
            self.worst = finding
        if finding.damage.severity is Severity.LOSS:
            self.lost_count += 1
            if len(self.lost) < _MOST_RANGES:
                self.lost.append(offsets_text(finding) or "unknown")

    def row(self) -> dict[str, object]:
        damage = self.worst.damage
        more = f" and {self.lost_count - len(self.lost)} more" if self.lost_count > len(self.lost) else ""
        name = self.worst.file.rpartition("/")[2]
        return {
            "place": self.place,
            "severity": damage.severity.label,
            "findings": self.findings,
            "lost": ", ".join(self.lost) + more if self.lost else None,
            "first": f"{damage.kind} in {name} at byte {damage.position}",
            "fix": self.worst.fix,
        }


def place_of(finding: Finding) -> str:
    """What a line of the short table is about."""
    return finding.file if finding.topic is None else f"{finding.topic}-{finding.partition}"


def verified_row(partition: Partition, segment: Segment, verified_at_ms: int | None) -> dict[str, object]:
    log = segment.log
    assert log is not None
    return {
        "kind": "verified",
        "topic": partition.topic,
        "partition": partition.partition,
        "segment": segment.base_offset,
        "file": log.path,
        "size": log.size,
        "verified_at_ms": verified_at_ms,
    }


def summary_row(summary: VerifySummary, *, deep: bool) -> dict[str, object]:
    worst = summary.worst
    return {
        "kind": "summary",
        "partitions": summary.partitions,
        "segments": summary.segments,
        "skipped_segments": summary.skipped_segments,
        "rechecked_segments": summary.rechecked_segments,
        "deleted_partitions": summary.deleted_partitions,
        "deleted_size": summary.deleted_size,
        "side_files": summary.side_files,
        "size": summary.size,
        "batches": summary.batches,
        "records": summary.records,
        "deep": deep,
        "sample": summary.sample,
        "total_size": summary.total_size,
        **{severity.label: summary.findings[severity] for severity in reversed(Severity)},
        "worst": None if worst is None else worst.label,
        "unreadable_blocks": summary.unreadable_blocks,
        "failures": summary.failures,
        "interrupted": summary.is_interrupted,
    }


def summary_text(summary: VerifySummary, *, deep: bool, raw: bool) -> str:
    """The last line under a table."""
    size = str(summary.size) if raw else human_size(summary.size)
    depth = "batches and records" if deep else "batches"
    text = f"{_count(summary.partitions, 'partition')}, {_count(summary.segments, 'segment')}"
    text += f", {_count(summary.batches, 'batch', 'batches')}, {size}: {depth} checked"
    if summary.side_files:
        text += f"; {_count(summary.side_files, 'side file')} read"
    if summary.sample is not None:
        asked = f"{100 * summary.sample:.4g}%"
        whole = str(summary.total_size) if raw else human_size(summary.total_size)
        text += f", sampled: {asked} of the data asked for, {size} of {whole} read"
    if summary.skipped_segments:
        text += f"; {_count(summary.skipped_segments, 'segment')} unchanged since the last run"
    if summary.rechecked_segments:
        text += f"; {_count(summary.rechecked_segments, 'unchanged segment')} read again"
    if summary.deleted_partitions:
        left = str(summary.deleted_size) if raw else human_size(summary.deleted_size)
        text += f"; {_count(summary.deleted_partitions, 'deleted partition')} ({left}) left out"
    found = [
        f"{summary.findings[severity]} {severity.label}"
        for severity in reversed(Severity)
        if summary.findings[severity]
    ]
    nothing = "there was no batch to check" if summary.is_of_nothing else "nothing is wrong"
    nothing += " so far" if summary.is_interrupted else " in the sample" if summary.sample is not None else ""
    text += f"; findings: {', '.join(found)}" if found else f"; {nothing}"
    if summary.is_interrupted:
        text += "; interrupted"
    if summary.failures:
        text += f"; {_count(len(summary.failures), 'input')} could not be read"
    return text


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
