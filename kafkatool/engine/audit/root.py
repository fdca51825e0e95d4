"""Audit one root: what `verify` finds, and what retention and the cleaner would do, per partition."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass, replace
from typing import Any

from kafkatool.engine.audit.batch_files import BatchFiles
from kafkatool.engine.audit.kept_partition import SegmentUnit, Unit, identity, is_unchanged
from kafkatool.engine.audit.sums import Sums
from kafkatool.engine.batches.row_fields import DAMAGE, values
from kafkatool.engine.cluster.effective_settings import Sources
from kafkatool.engine.cluster.remote_copies import EpochOffsets, RemoteCopies
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.compaction.cleaner import Cleaning
from kafkatool.engine.compaction.key_room import KeyRoom
from kafkatool.engine.compaction.placing import read_checkpoint
from kafkatool.engine.compaction.savings import SavingsRequest, key_capacity, savings
from kafkatool.engine.directory.log_dir import Partition, PartitionState, Segment
from kafkatool.engine.directory.roots import Root
from kafkatool.engine.directory.selection import Home, NamedPartition
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.source import Guest
from kafkatool.engine.files.whole_files import make_directories
from kafkatool.engine.jobs.in_order import in_order
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.retention.facts import FactsReading, read_log_facts
from kafkatool.engine.retention.logs import copied_of, limits_for, with_copies
from kafkatool.engine.retention.rules import RetentionFacts, RetentionLimits, SegmentFacts, TimeSource, decide
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.place import CheckedPlace
from kafkatool.engine.verify.rechecking import Recheck, Verified
from kafkatool.engine.verify.state_file import tail_checksum
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from kafkatool.errors import KafkatoolError
from kafkatool.format.names import TopicPartition

_NOT_RETAINED = (PartitionState.METADATA, PartitionState.STRAY, PartitionState.DELETED)


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """Settings shared by all roots of a run. Batches are written to files in `staging`."""

    staging: str
    now_ms: int
    verify: VerifyRequest
    settings: SettingsRequest
    recheck: Recheck
    files: Files
    memory: int = 256 << 20
    """Memory for the key map of one compacted partition, in bytes."""


class Audit:
    """The audit of one root; `known` has its partitions from an earlier run, by path."""

    def __init__(self, root: Root, request: AuditRequest, known: dict[str, Unit]) -> None:
        self.verification = Verification(list(root.targets), request.verify, purpose=self)
        self.summary = self.verification.summary
        self.root = root
        self.request = request
        self._staging = staging_of(request.staging, root.label)
        make_directories(request.files, self._staging)
        self._units = known
        self._segments = {
            (unit.path, kept.base_offset, kept.state): kept
            for unit in known.values()
            for kept in unit.segments
        }
        self._due = self._choose()

    def units(self, pool: Workers, advance: Callable[[int], None]) -> list[Unit]:
        """Return all partitions in order, after findings outside of them; the summary is complete then."""
        top = Unit(self.root.label, "", "", None, None, "")
        top.findings = [_finding_row(one) for one in self.verification.of_directories()]
        units = [top]
        for place, facts, findings in self.verification.partitions(pool, advance):
            units.append(self._unit(place, facts, [_finding_row(one) for one in findings]))
        self._judge_settings(units, pool)
        return units

    # --- what to read, and what is known ------------------------------------------------------------------

    def observers(self, place: CheckedPlace, segment: Segment) -> tuple[Sums, BatchFiles]:
        partition, files = place.partition, self.request.files
        name = _name(partition, segment)
        return Sums(), BatchFiles(files, self._staging, name, partition.partition, segment.base_offset)

    def _choose(self) -> set[Hashable]:
        """Return the paths of unchanged logs to read again."""
        segments = [segment for place in self.verification.places for segment in place.logs]
        return self.request.recheck.due(
            Verified(segment.log.path, segment.log.size, kept.verified_at_ms)
            for segment in segments
            if segment.log is not None and (kept := self._kept(segment)) is not None
        )

    def _kept(self, segment: Segment) -> SegmentUnit | None:
        """Return a segment as an earlier run found it, whether it has changed since or not."""
        log = segment.log
        assert log is not None
        return self._segments.get((log.path.rpartition("/")[0], segment.base_offset, str(segment.state)))

    def recall(self, segment: Segment) -> LogFacts | None:
        log, kept = segment.log, self._kept(segment)
        assert log is not None
        if kept is None or not is_unchanged(kept, segment):
            return None
        if log.path in self._due:
            self.summary.rechecked_segments += 1
            return None
        return kept.facts

    def _unit(
        self,
        place: CheckedPlace,
        facts: dict[int, list[LogFacts]],
        findings: list[dict[str, Any]],
    ) -> Unit:
        partition = place.partition
        unit = Unit(
            self.root.label,
            partition.path,
            partition.directory,
            partition.topic,
            partition.partition,
            str(partition.state),
            findings=findings,
        )
        for at, segment in enumerate(place.logs):
            kept = self._kept(segment)
            if at in facts:
                unit.segments.append(_segment_unit(segment, facts[at][0], self.request.recheck.now_ms))
                unit.segments_read += 1
            elif kept is not None:
                unit.segments.append(replace(kept, retention={}))
        return unit

    # --- retention and compaction -------------------------------------------------------------------------

    def _judge_settings(self, units: list[Unit], pool: Workers) -> None:
        """Judge retention and compaction; only what has changed is read again."""
        found = self.verification.selection
        by_path = {unit.path: unit for unit in units}
        asks: list[PartitionRequest] = []
        copies = RemoteCopies([home.log_dir for home in found.homes], [], self.request.verify.guest)
        copied: dict[str, EpochOffsets | None] = {}
        for home in found.homes:
            sources = self.request.settings.sources(home, found, self.request.verify.guest)
            checkpoints = {
                (one.topic, one.partition): one.offset
                for one in read_checkpoint(home.path, self.request.verify.guest)
            }
            for named in home.partitions:
                unit = by_path.get(named.partition.path)
                if unit is not None and named.partition.state not in _NOT_RETAINED:
                    asks.append(self._ask(home, named, unit, sources, checkpoints))
                    copied[unit.path] = copied_of(named.partition, home.log_dir, sources, copies)
        for ask, answer in in_order(pool, answered, asks):
            self._take(by_path[ask.path], ask, answer.result(), copied[ask.path])

    def _ask(
        self,
        home: Home,
        named: NamedPartition,
        unit: Unit,
        sources: Sources,
        checkpoints: dict[TopicPartition, int],
    ) -> PartitionRequest:
        partition, guest, now_ms = named.partition, self.request.verify.guest, self.request.now_ms
        settings = sources.of(partition.topic)
        limits = limits_for(partition.topic, sources)
        watermark = home.log_dir.high_watermarks.get(partition.key)
        reading = FactsReading(
            now_ms, watermark, home.log_dir.log_starts.get(partition.key), limits.is_tiered
        )
        cleaning = None
        if settings.config.is_compacted and partition.state is PartitionState.ACTIVE:
            how = Cleaning(
                settings.config, now_ms, key_capacity(sources), guest, KeyRoom(self.request.memory)
            )
            cleaning = SavingsRequest(
                partition.path, named.log_start, watermark, checkpoints.get(partition.key), how
            )
        before = self._units.get(partition.path)
        is_same = before is not None and not unit.segments_read and len(before.segments) == len(unit.segments)
        slim = None if before is None else replace(before, segments=[], findings=[])  # it is sent to a worker
        return PartitionRequest(partition, reading, limits, guest, cleaning, slim, is_same)

    def _take(
        self, unit: Unit, ask: PartitionRequest, answer: PartitionAnswer, copied: EpochOffsets | None
    ) -> None:
        if answer.failure is not None:
            self.summary.failures.append(answer.failure)
        unit.compaction = answer.compaction
        if answer.facts is None:
            return
        unit.log_facts = asdict(answer.facts)
        limits = with_copies(
            ask.limits, ask.partition, answer.facts.log_end, copied, self.request.verify.guest
        )
        verdicts = decide(answer.facts, limits, self.request.now_ms).verdicts
        for verdict in verdicts:
            for segment in unit.segments:
                if segment.base_offset == verdict.segment.base_offset:
                    segment.retention = {
                        "verdict": str(verdict.decision),
                        "rule": str(verdict.rule),
                        "goes_ms": verdict.goes_ms,
                    }


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """One partition to judge by its settings; `before` is from an earlier run, valid if `is_same`."""

    partition: Partition
    reading: FactsReading
    limits: RetentionLimits
    guest: Guest
    cleaning: SavingsRequest | None
    before: Unit | None
    is_same: bool

    @property
    def path(self) -> str:
        return self.partition.path


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    facts: RetentionFacts | None
    compaction: dict[str, Any] | None
    failure: str | None = None


def answered(ask: PartitionRequest) -> PartitionAnswer:
    """Answer a request; runs on a worker, where the files are."""
    compaction = None
    if ask.cleaning is not None:
        kept = ask.before.compaction if ask.before is not None and ask.is_same else None
        compaction = kept or savings(ask.cleaning)
    known = _known_facts(ask.before)
    if ask.is_same and known is not None:
        return PartitionAnswer(_now(known, ask.reading), compaction)
    closed = {} if known is None else {one.base_offset: one for one in known.segments[:-1]}
    sizes = {segment.base_offset: segment.log.size for segment in ask.partition.segments if segment.log}
    closed = {base: one for base, one in closed.items() if sizes.get(base) == one.size}
    try:
        facts = read_log_facts(ask.partition, ask.reading, ask.guest, closed)
    except (FileNotFoundError, KafkatoolError) as error:
        return PartitionAnswer(None, compaction, f"{ask.partition.path}: retention: {error}")
    return PartitionAnswer(facts, compaction)


def _known_facts(unit: Unit | None) -> RetentionFacts | None:
    if unit is None or unit.log_facts is None:
        return None
    row = dict(unit.log_facts)
    return RetentionFacts(**{**row, "segments": tuple(_segment_facts(one) for one in row["segments"])})


def _segment_facts(row: dict[str, Any]) -> SegmentFacts:
    return SegmentFacts(**{**row, "largest_from": TimeSource(row["largest_from"])})


def _now(facts: RetentionFacts, how: FactsReading) -> RetentionFacts:
    """Return the facts with the limits from the current checkpoints."""
    start = how.log_start or 0
    if not how.is_tiered and facts.segments:
        start = max(start, facts.segments[0].base_offset)
    watermark = facts.log_end if how.high_watermark is None else how.high_watermark
    watermark = min(max(watermark, start), facts.log_end)
    return RetentionFacts(facts.segments, facts.log_end, watermark, start, facts.damage)


def staging_of(directory: str, root: str) -> str:
    """Return the staging directory of one root: two roots may have files of the same names."""
    return os.path.join(directory, hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:16])


def _name(partition: Partition, segment: Segment) -> str:
    """Return the name of a segment's batch files: it changes whenever the segment does."""
    log = segment.log
    assert log is not None
    what = json.dumps([partition.path, log.name, identity(segment), tail_checksum(log)])
    digest = hashlib.sha256(what.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    # Table readers skip names that begin with an underscore, as those of internal topics do.
    return f"part-{partition.directory}-{segment.base_offset:020d}-{digest}"


def _segment_unit(segment: Segment, facts: LogFacts, now_ms: int) -> SegmentUnit:
    """Return a segment that was read in this run."""
    log = segment.log
    assert log is not None
    sums, files = facts.observers
    return SegmentUnit(
        segment.base_offset,
        str(segment.state),
        log.size,
        segment.size - log.size,
        log.modified_ms,
        tail_checksum(log),
        identity(segment),
        facts,
        sums,
        files.parts,
        verified_at_ms=None if facts.failure or facts.vanished or facts.changed else now_ms,
    )


def _finding_row(finding: Finding) -> dict[str, Any]:
    replicas = finding.replicas
    return {
        "topic": finding.topic,
        "partition": finding.partition,
        "file": finding.file,
        **values(DAMAGE, finding.damage),
        "fix": finding.fix,
        "replicas": None if replicas is None else list(replicas.replicas),
        "isr": None if replicas is None else list(replicas.isr),
        "leader": None if replicas is None else replicas.leader,
    }
