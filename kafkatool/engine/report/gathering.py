"""Gather everything for a report: each target is read once, in an order that never varies.

    run = Gathering(targets, request)
    run.cache_maps()          what is in the page cache, before anything is read
    run.findings(…)           what is wrong; meanwhile troubles and numbers are gathered
    run.look_ahead(…)         what retention and the cleaner would do, now and in the coming days

Memory grows with the number of partitions and segments, not with their size or the amount of damage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Self

import numpy as np

from kafkatool.engine.batches.damage import Severity
from kafkatool.engine.batches.observers import Observer
from kafkatool.engine.cache.residents import CachedTail, MappedPartition, Notes, cached_tail, map_partition
from kafkatool.engine.cluster.effective_settings import Sources
from kafkatool.engine.cluster.remote_copies import RemoteCopies
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.compaction.cleaner import Cleaning
from kafkatool.engine.compaction.key_room import KeyRoom
from kafkatool.engine.compaction.placing import read_checkpoint
from kafkatool.engine.compaction.savings import SavingsRequest, key_capacity, savings
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState, Segment
from kafkatool.engine.directory.selection import Home, NamedPartition
from kafkatool.engine.directory.targets import Target
from kafkatool.engine.files.object_storage import is_remote
from kafkatool.engine.jobs.in_order import in_order
from kafkatool.engine.jobs.sketches import Numbers, no_numbers
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.engine.records.subject import is_inside
from kafkatool.engine.report.records_around import Around, records_around
from kafkatool.engine.report.trouble import DamageMap, Trouble
from kafkatool.engine.retention.forecast import Forecast, forecast
from kafkatool.engine.retention.logs import JudgedLog, RetentionRequest, copied_of, judge
from kafkatool.engine.stats.facts import CODECS, Stats
from kafkatool.engine.stats.statistics import StatsGroup
from kafkatool.engine.transactions.verdicts import TransactionVerdicts
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.log_facts import LogFacts
from kafkatool.engine.verify.place import CheckedPlace
from kafkatool.engine.verify.state_file import lies_in_a_log_dir
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from kafkatool.errors import KafkatoolError, Refused
from kafkatool.format import kinds
from kafkatool.format.columns import BatchColumns
from kafkatool.format.names import TopicPartition

MOST_KEPT = 20_000
"""Maximum number of findings kept for all partitions together."""
FORECAST_STEPS = 28
MOST_TROUBLES_SHOWN, MOST_PLACES_SHOWN = 10, 3
"""With payloads: the maximum number of partitions, and of places in each."""


@dataclass(frozen=True, slots=True)
class GatheringRequest:
    """What to read, and the settings to judge it by."""

    now_ms: int
    verify: VerifyRequest
    settings: SettingsRequest
    forecast_ms: int
    at_ms: int | None = None
    """The requested time; None: transactions are judged by the newest time on the disks."""
    memory: int = 256 << 20
    """Memory for the key map of one compacted partition, in bytes."""


@dataclass(slots=True)
class TopicNumbers:
    """The numbers of one topic."""

    partitions: int = 0
    segments: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    findings: int = 0
    """Number of findings, without notes."""
    codec_sizes: Numbers = field(default_factory=lambda: no_numbers(CODECS))
    freed: int = 0
    """Bytes that retention would free now."""
    expired_segments: int = 0


@dataclass(slots=True)
class CompactionSavings:
    """What one pass of the cleaner would save in all partitions of a topic."""

    partitions: int = 0
    cleanable_bytes: int = 0
    records: int = 0
    records_removed: int = 0
    bytes_read: int = 0
    bytes_removed: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, path: str, found: dict[str, object]) -> None:
        self.partitions += 1
        if found["error"] is not None:
            self.errors.append(f"{path}: {found['error']}")
            return
        for name in ("cleanable_bytes", "records", "records_removed", "bytes_read", "bytes_removed"):
            setattr(self, name, getattr(self, name) + found[name])


@dataclass(slots=True)
class BatchNumbers(Observer):
    """The numbers of `stats` for the batches that `verify` accepts."""

    now_ms: int
    stats: Stats = field(default_factory=Stats)

    def take(self, columns: BatchColumns) -> None:
        self.stats.add(columns, self.now_ms, seed=0, file=0)

    def merge(self, behind: Self) -> None:
        self.stats.join(behind.stats, follows=True)


class Gathering:
    """One run that gathers a report."""

    def __init__(self, targets: list[Target], request: GatheringRequest) -> None:
        self.verification = Verification(targets, request.verify, purpose=self)
        self.summary = self.verification.summary
        self.places, self.log_dirs = self.verification.places, self.verification.log_dirs
        self.request = request
        self.now_ms = request.now_ms
        self.troubles: list[Trouble] = []
        self.classes: Counter[str] = Counter()
        """Number of findings per class, without notes."""
        self.topics: dict[str, TopicNumbers] = {}
        self.total = StatsGroup(None, Stats())
        self.judged: list[JudgedLog] = []
        self.forecast: Forecast | None = None
        self.compaction: dict[str, CompactionSavings] = {}
        self.cache_notes = Notes()
        self._kept = 0
        self._verdicts = TransactionVerdicts(self.all_log_dirs, [], request.verify.guest, request.at_ms)

    @property
    def damaged(self) -> list[Trouble]:
        """Troubles worse than a note, the worst first."""
        found = [one for one in self.troubles if one.severity is not Severity.NOTE]
        return sorted(found, key=lambda one: (-one.severity, -one.total, one.name))

    def refuse_inside(self, path: str) -> None:
        """Raise Refused for a file in a log directory: a broker may fail on files that are not its own."""
        if lies_in_a_log_dir(path) or any(is_inside(path, one.path) for one in self.all_log_dirs):
            raise Refused(f"{path}: lies in a log directory; put the report somewhere else")

    @property
    def all_log_dirs(self) -> list[LogDir]:
        """The log directories that were named, and those of named partitions."""
        beside = {place.log_dir.path: place.log_dir for place in self.places if place.log_dir is not None}
        return list({**beside, **{one.path: one for one in self.log_dirs}}.values())

    # --- what is in the page cache ------------------------------------------------------------------------

    def cache_maps(self) -> Iterator[tuple[MappedPartition, CachedTail | None]]:
        """Yield the page cache map of every partition; call this before the logs are read."""
        guest = self.request.verify.guest
        for place in self.places:
            if place.partition.segments and not is_remote(place.partition.path):
                mapped = map_partition(place.partition, None, self.cache_notes)
                yield mapped, cached_tail(mapped, guest)

    # --- the walk -----------------------------------------------------------------------------------------

    def findings(self, pool: Workers, advance: Callable[[int], None]) -> Iterator[Finding]:
        """Yield everything that is wrong, partition by partition, and gather troubles and numbers."""
        for finding in self.verification.of_directories():
            self.troubles.append(Trouble(finding.file, None, finding))
            self._add(self.troubles[-1], finding)
            yield finding
        for place, facts, findings in self.verification.partitions(pool, advance):
            topic = self._count_topic(place, facts)
            trouble: Trouble | None = None
            for finding in chain(findings, self._transactions(place)):
                trouble = trouble or Trouble(place.partition.directory, DamageMap(_live(place)), finding)
                self._add(trouble, finding)
                topic.findings += finding.damage.severity is not Severity.NOTE
                yield finding
            if trouble is not None:
                self.troubles.append(trouble)

    def _transactions(self, place: CheckedPlace) -> Iterator[Finding]:
        """Yield what holds back the last stable offset; nothing with a sample, which cannot show it."""
        if place.log_dir is None or place.is_partial or self.request.verify.sample is not None:
            return
        start = place.log_dir.log_starts.get(place.key or ("", -1), 0)
        found = self._verdicts.findings(place.partition, place.log_dir, log_start=start)
        yield from self.verification.counted(iter(found or ()))

    def _add(self, trouble: Trouble, finding: Finding) -> None:
        if finding.damage.severity is not Severity.NOTE:
            self.classes[str(finding.damage.kind)] += 1
        before = len(trouble.kept)
        trouble.add(finding, keep=self._kept < MOST_KEPT)
        self._kept += len(trouble.kept) - before

    def observers(self, _place: CheckedPlace, _segment: Segment) -> tuple[BatchNumbers]:
        return (BatchNumbers(self.now_ms),)

    def recall(self, _segment: Segment) -> None:
        """Return None: there is no earlier run."""

    def _count_topic(self, place: CheckedPlace, facts: dict[int, list[LogFacts]]) -> TopicNumbers:
        topic = self.topics.setdefault(topic_name(place.partition), TopicNumbers())
        topic.partitions += 1
        whole = Stats()
        for at, segment in enumerate(place.logs):
            assert segment.log is not None
            topic.segments += 1
            topic.size += segment.log.size
            self.total.files += 1
            for part in facts.get(at, ()):
                numbers: BatchNumbers = part.observers[0]
                whole.join(numbers.stats, follows=self.request.verify.sample is None)
                for damage in part.damages:
                    whole.damages.add(damage)
        topic.batches += whole.batches
        topic.records += whole.records
        topic.codec_sizes = topic.codec_sizes + np.asarray(whole.codecs[:, 2])
        self.total.partitions += 1
        self.total.stats.join(whole, follows=False)
        return topic

    # --- retention and compaction -------------------------------------------------------------------------

    def look_ahead(self, pool: Workers) -> None:
        """Judge every log by its settings; one that cannot be judged is a failure in the summary."""
        guest = self.request.verify.guest
        found = self.verification.selection.without_files()
        asks: list[SavingsRequest] = []
        names: dict[str, str] = {}
        self._copies = RemoteCopies([home.log_dir for home in found.homes], [], guest)
        for home in found.homes:
            sources = self.request.settings.sources(home, found, guest)
            checkpoints = {
                (one.topic, one.partition): one.offset for one in read_checkpoint(home.path, guest)
            }
            for named in home.partitions:
                judged = self._judged(home, named, sources)
                if judged is None:
                    continue
                ask = self._savings_ask(home, named, judged, sources, checkpoints)
                if ask is not None:
                    asks.append(ask)
                    names[ask.path] = topic_name(named.partition)
        for ask, answer in in_order(pool, savings, asks):
            self.compaction.setdefault(names[ask.path], CompactionSavings()).add(ask.path, answer.result())
        if self.judged:
            self.forecast = forecast(self.judged, self.now_ms, self.request.forecast_ms, FORECAST_STEPS)

    def _judged(self, home: Home, named: NamedPartition, sources: Sources) -> JudgedLog | None:
        partition = named.partition
        try:
            copied = copied_of(partition, home.log_dir, sources, self._copies)
            guest = self.request.verify.guest
            judged = judge(partition, home.log_dir, sources, RetentionRequest(self.now_ms), guest, copied)
        except FileNotFoundError:
            self.summary.notes.append(f"{partition.path}: vanished meanwhile")
            return None
        except KafkatoolError as error:
            if str(error) not in self.summary.failures:  # the walk may have reported it
                self.summary.failures.append(f"{partition.path}: retention: {error}")
            return None
        self.judged.append(judged)
        topic = self.topics.setdefault(topic_name(partition), TopicNumbers())
        topic.freed += judged.freed()
        topic.expired_segments += len(judged.outcome.deleted)
        return judged

    def _savings_ask(
        self,
        home: Home,
        named: NamedPartition,
        judged: JudgedLog,
        sources: Sources,
        checkpoints: dict[TopicPartition, int],
    ) -> SavingsRequest | None:
        partition, config = named.partition, judged.settings.config
        is_cleaned = config.is_compacted and partition.state is PartitionState.ACTIVE
        if not is_cleaned or self.request.verify.sample is not None:
            return None
        room, guest = KeyRoom(self.request.memory), self.request.verify.guest
        how = Cleaning(config, self.now_ms, key_capacity(sources), guest, room)
        watermark = home.log_dir.high_watermarks.get(partition.key)
        return SavingsRequest(partition.path, named.log_start, watermark, checkpoints.get(partition.key), how)

    # --- payloads -----------------------------------------------------------------------------------------

    def payloads(self) -> Iterator[tuple[Trouble, list[Around]]]:
        """Yield the records around damage in logs, but never metadata: it may hold credentials."""
        metadata = {one.partition.directory for one in self.places if _is_metadata(one.partition)}
        shown = [one for one in self.damaged if one.map is not None and one.name not in metadata]
        for trouble in shown[:MOST_TROUBLES_SHOWN]:
            places = [one for one in trouble.kept if _is_in_a_log(one)][:MOST_PLACES_SHOWN]
            found = [around for one in places if (around := records_around(one, self.request.verify.guest))]
            if found:
                yield trouble, found


def topic_name(partition: Partition) -> str:
    return partition.topic or partition.directory


def _live(place: CheckedPlace) -> list[Segment]:
    return [segment for segment in place.logs if segment.is_live]


def _is_metadata(partition: Partition) -> bool:
    return partition.state is PartitionState.METADATA


def _is_in_a_log(finding: Finding) -> bool:
    is_log = kinds.kind_of(finding.file.rpartition("/")[2]).kind is kinds.LOG
    return is_log and finding.damage.severity is not Severity.NOTE
