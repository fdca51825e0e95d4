"""Report on an audit run per topic, and what is new since another run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkatool.engine.audit.arrow_tables import read_table
from kafkatool.engine.audit.lake import AuditRun
from kafkatool.engine.batches.damage import Severity

SKEWED = 2.0
"""A topic is skewed if its largest partition has more than this many times the mean size."""


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic over all roots; numbers that need an older run are None without one."""

    topic: str | None
    size: int
    older_size: int | None
    partitions: int
    records: int
    skew: float | None
    old_format_batches: int
    single_record_share: float | None
    future_segments: int
    findings: int
    new_findings: int | None
    retention_delete_bytes: int
    compaction_removed_bytes: int | None

    @property
    def growth(self) -> int | None:
        return None if self.older_size is None else self.size - self.older_size

    @property
    def remarks(self) -> list[str]:
        """Problems that deserve a look."""
        found = []
        if self.new_findings or (self.new_findings is None and self.findings):
            found.append("damage")
        if self.skew is not None and self.skew > SKEWED:
            found.append("skew")
        if self.old_format_batches:
            found.append("old format")
        if self.single_record_share is not None and self.single_record_share > 0.5:
            found.append("single-record batches")
        if self.future_segments:
            found.append("future timestamps")
        return found


@dataclass(slots=True)
class Report:
    run: AuditRun
    older: AuditRun | None
    topics: list[TopicReport] = field(default_factory=list)
    gone_topics: list[str] = field(default_factory=list)
    new_findings: list[dict[str, Any]] = field(default_factory=list)
    """All findings if there is no older run."""
    mended: int = 0
    """Number of findings of the older run that are gone."""

    @property
    def worst(self) -> Severity | None:
        return max((Severity[row["severity"].upper()] for row in self.new_findings), default=None)


def make_report(run: AuditRun, older: AuditRun | None) -> Report:
    """Report on one run, compared with an older one if given."""
    report = Report(run, older)
    findings = read_table(run.directory, "findings").to_pylist()
    before = [] if older is None else read_table(older.directory, "findings").to_pylist()
    known = {_identity(row) for row in before}
    now = {_identity(row) for row in findings}
    report.new_findings = [row for row in findings if _identity(row) not in known]
    report.mended = len(known - now)
    sizes = _sizes(older)
    report.topics = list(_topics(run, sizes, findings, report.new_findings if older is not None else None))
    there = {one.topic for one in report.topics}
    report.gone_topics = sorted(str(topic) for topic in sizes or () if topic not in there)
    return report


def _identity(row: dict[str, Any]) -> tuple[object, ...]:
    """Return what identifies the same damage in two runs, wherever the root was mounted."""
    names = ("root", "topic", "partition", "class", "position")
    return (*(row[name] for name in names), str(row["file"]).rpartition("/")[2])


def _sizes(run: AuditRun | None) -> dict[str | None, int] | None:
    if run is None:
        return None
    found: dict[str | None, int] = {}
    for row in read_table(run.directory, "topics").to_pylist():
        found[row["topic"]] = found.get(row["topic"], 0) + row["size"]
    return found


def _topics(
    run: AuditRun,
    sizes: dict[str | None, int] | None,
    findings: list[dict[str, Any]],
    new: list[dict[str, Any]] | None,
) -> Iterator[TopicReport]:
    by_topic: dict[str | None, list[dict[str, Any]]] = {}
    for row in read_table(run.directory, "topics").to_pylist():
        by_topic.setdefault(row["topic"], []).append(row)
    future = _future(run)
    for topic, rows in sorted(by_topic.items(), key=lambda item: (item[0] is None, item[0])):
        size, partitions = sum(row["size"] for row in rows), sum(row["partitions"] for row in rows)
        data = sum(row["batches"] - row["control_batches"] for row in rows)
        removed = [row["compaction_removed_bytes"] for row in rows]
        largest = max(row["largest_partition_size"] for row in rows)
        yield TopicReport(
            topic,
            size,
            None if sizes is None else sizes.get(topic, 0),
            partitions,
            sum(row["records"] for row in rows),
            round(largest * partitions / size, 2) if size and partitions > 1 else None,
            sum(row["magic0_batches"] + row["magic1_batches"] for row in rows),
            round(sum(row["single_record_batches"] for row in rows) / data, 4) if data else None,
            future.get(topic, 0),
            _count(findings, topic),
            None if new is None else _count(new, topic),
            sum(row["retention_delete_bytes"] for row in rows),
            None if all(one is None for one in removed) else sum(one or 0 for one in removed),
        )


def _count(findings: list[dict[str, Any]], topic: str | None) -> int:
    return sum(row["topic"] == topic and row["severity"] != "note" for row in findings)


def _future(run: AuditRun) -> dict[str | None, int]:
    """Return the number of segments per topic that have timestamps after the time of the run."""
    found: dict[str | None, int] = {}
    table = read_table(run.directory, "segments").select(["topic", "max_timestamp_ms"])
    for topic, time_ms in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if time_ms is not None and time_ms > run.manifest["now_ms"]:
            found[topic] = found.get(topic, 0) + 1
    return found
