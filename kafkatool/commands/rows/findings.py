"""The rows of `verify`: findings, one line per damaged partition, and the summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import human_size
from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.batches.row_fields import (
    DAMAGE,
    FAILURES,
    FILE,
    REPLICAS,
    SEVERITIES,
    TOPIC,
    flag,
    inside,
    int32,
    int64,
    ints,
    real,
    size,
    text,
    time_ms,
)
from kafkatool.engine.verify.finding import Finding, VerifySummary

if TYPE_CHECKING:
    from kafkatool.engine.directory.log_dir import Partition, Segment

FINDINGS = RowTable(
    "finding",
    "verify",
    "Something that is not as it should be, in a log or between files.",
    *TOPIC,
    FILE,
    *inside("damage", *DAMAGE),
    text("fix", "the command to run next, or what to do instead; null for notes"),
    *inside(
        "replicas",
        *REPLICAS[:2],
        ints(
            "eligible_leader_replicas",
            "those that were not, and have every committed record (ELR)",
            "eligible",
        ),
        *REPLICAS[2:],
    ),
    flag(
        "below_recovery_point",
        "whether a broker that starts now would not look there; null if unknown",
    ),
)
VERIFIED = RowTable(
    "verified",
    "verify",
    "With --state and -v: when a log was last read as a whole and found good.",
    text("topic", "the topic; null where the directory's name says none"),
    int32("partition", "the partition, likewise"),
    int64("segment", "base offset of the segment", "base_offset"),
    *inside("log", text("file", "its log", "path"), size("size", "bytes of it")),
    time_ms("verified_at_ms", "when all of it was last found good; null where that is not remembered"),
)
SUMMARY = RowTable(
    "summary",
    "verify",
    "What was checked. Comes last.",
    int64("partitions", "number of partitions"),
    int64("segments", "number of segments"),
    int64("skipped_segments", "how many of them were skipped as unchanged (--state)"),
    int64("rechecked_segments", "how many were read again though unchanged (--recheck-older-than)"),
    int64("deleted_partitions", "number of directories that wait to be deleted, and were left out"),
    size("deleted_size", "bytes of the logs in them"),
    int64("side_files", "number of files other than logs that were named themselves, and read"),
    size("size", "bytes of logs that were read"),
    int64("batches", "number of good batches"),
    int64("records", "number of records in them, by their headers"),
    flag("deep", "whether records were decoded (--deep)"),
    real("sample", "the share of the data that was asked for; null for all of it"),
    size("total_size", "bytes of logs that there are, without those that were left out"),
    *SEVERITIES,
    int64("unreadable_blocks", "number of 4 KiB blocks that the disk would not give"),
    FAILURES,
    flag("interrupted", "whether somebody stopped it before it was done", "is_interrupted"),
)
FINDING_COLUMNS = tuple(Column(key, key.upper()) for key in FINDINGS.keys)
PARTITION_COLUMNS = (
    Column("place", "PARTITION"),
    Column("severity", "SEVERITY"),
    Column("findings", "FINDINGS", Look.number),
    Column("lost", "OFFSETS LOST"),
    Column("first", "FIRST FINDING"),
    Column("fix", "WHAT TO DO"),
)
LIST_COLUMNS = FINDINGS.columns(
    severity="SEVERITY",
    **{"class": "CLASS"},
    file="FILE",
    position="BYTE",
    offsets="OFFSETS",
    message="MESSAGE",
    seen="AT START",
)
_MOST_RANGES = 8


def finding_row(finding: Finding) -> dict[str, object]:
    return FINDINGS.row(finding)


def list_row(finding: Finding) -> dict[str, object]:
    """Return a finding as a line of the long table."""
    seen = {True: "not looked at", False: "found", None: None}[finding.below_recovery_point]
    return {**finding_row(finding), "offsets": offsets_text(finding), "seen": seen}


def offsets_text(finding: Finding) -> str | None:
    """Format offsets as `3`, `3-7` or, up to the end, `8-`; None if no offsets are at stake."""
    first, last = finding.damage.first_offset, finding.damage.last_offset
    if first is None:
        return None
    if last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"


@dataclass(slots=True)
class PartitionLine:
    """What is wrong with one partition, or with one file outside all partitions."""

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
    """Return the subject of a line of the short table."""
    return finding.file if finding.topic is None else f"{finding.topic}-{finding.partition}"


def verified_row(partition: Partition, segment: Segment, verified_at_ms: int | None) -> dict[str, object]:
    where = {"topic": partition.topic, "partition": partition.partition}
    return VERIFIED.row(segment, **where, verified_at_ms=verified_at_ms)


def counts_of(findings: Mapping[Severity, int]) -> dict[str, int]:
    return {severity.label: findings[severity] for severity in reversed(Severity)}


def summary_row(summary: VerifySummary, *, deep: bool) -> dict[str, object]:
    return SUMMARY.row(summary, deep=deep, **counts_of(summary.findings))


def summary_text(summary: VerifySummary, *, deep: bool, raw: bool) -> str:
    """Return the last line under a table."""
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
