"""What is kept about a partition from one audit run to the next, as one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kafkatool.engine.audit.sums import Sums
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.directory.log_dir import Segment
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.state_file import facts_of_row, facts_row, tail_checksum

_DAMAGES = ("damages", "index_damages", "time_damages")
_APART = ("facts", "sums", "parts")
_REST = ("more_damages", "unreadable_blocks", "changed", "vanished", "failure")


@dataclass(slots=True)
class SegmentUnit:
    """One segment, as it was when it was read."""

    base_offset: int
    state: str
    size: int
    index_size: int
    modified_ms: int
    tail: int | None
    files: list[list[Any]]
    facts: LogFacts
    sums: Sums
    parts: list[str]
    """Names of the files with its batches."""
    retention: dict[str, Any] = field(default_factory=dict)
    verified_at_ms: int | None = None
    """When all of it was last read; None if an older release did not record it, or reading failed."""


@dataclass(slots=True)
class Unit:
    """One partition directory of one root."""

    root: str
    path: str
    directory: str
    topic: str | None
    partition: int | None
    state: str
    segments: list[SegmentUnit] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    log_facts: dict[str, Any] | None = None
    """The facts that retention uses, so that it can decide again without reading."""
    compaction: dict[str, Any] | None = None
    segments_read: int = 0
    """Number of segments read in this run; not kept."""


def identity(segment: Segment) -> list[list[Any]]:
    """Return name, size and modification time of every file: equal for an unchanged segment."""
    return [[one.name, one.size, one.modified_ms] for one in sorted(segment.files, key=lambda one: one.name)]


def is_unchanged(kept: SegmentUnit, segment: Segment) -> bool:
    """Return whether a segment need not be read again: file sizes, times and last bytes are the same."""
    log = segment.log
    if log is None or kept.files != identity(segment) or kept.state != str(segment.state):
        return False
    facts = kept.facts
    if facts.failure or facts.vanished or facts.changed or facts.unreadable_blocks:
        return False
    return kept.tail is not None and tail_checksum(log) == kept.tail


def to_json(unit: Unit) -> str:
    row = {one.name: getattr(unit, one.name) for one in fields(unit) if one.name != "segments_read"}
    row["segments"] = [_segment_row(one) for one in unit.segments]
    return json.dumps(row, separators=(",", ":"))


def from_json(line: str) -> Unit:
    """Parse a line. Raises ValueError, KeyError or TypeError if it is not from `to_json`."""
    row = json.loads(line)
    segments = [_segment(one) for one in row.pop("segments")]
    return Unit(**row, segments=segments)


def _segment_row(one: SegmentUnit) -> dict[str, Any]:
    row = {item.name: getattr(one, item.name) for item in fields(one) if item.name not in _APART}
    facts = one.facts
    row["facts"] = facts_row(facts)
    row["sums"], row["parts"] = asdict(one.sums), one.parts
    for name in _DAMAGES:
        row[name] = [asdict(damage) for damage in getattr(facts, name)]
    for name in _REST:
        row[name] = getattr(facts, name)
    return row


def _segment(row: dict[str, Any]) -> SegmentUnit:
    facts, sums = facts_of_row(row.pop("facts")), Sums(**row.pop("sums"))
    for name in _DAMAGES:
        setattr(facts, name, [_damage(one) for one in row.pop(name)])
    for name in _REST:
        setattr(facts, name, row.pop(name))
    return SegmentUnit(**row, facts=facts, sums=sums)


def _damage(row: dict[str, Any]) -> Damage:
    return Damage(**{**row, "kind": FindingClass(row["kind"]), "severity": Severity(row["severity"])})
