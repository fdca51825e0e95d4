"""Judge the logs of one directory, each by its topic's settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kafkatool.engine.cluster.effective_settings import INTERNAL_TOPICS, Setting, Sources, TopicSettings
from kafkatool.engine.cluster.remote_copies import EpochOffsets, RemoteCopies, highest_remote_offset
from kafkatool.engine.cluster.view import Replicas
from kafkatool.engine.directory.log_dir import FileEntry, LogDir, Partition, PartitionState
from kafkatool.engine.files.source import Guest
from kafkatool.engine.retention.facts import FactsReading, read_log_facts
from kafkatool.engine.retention.rules import (
    Decision,
    RetentionFacts,
    RetentionLimits,
    RetentionOutcome,
    RetentionRule,
    RetentionVerdict,
    SegmentFacts,
    decide,
    limits_of,
)
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.names import FileState

# Settings that --apply must be sure of, besides the local limits of a tiered log.
DECISIVE = ("cleanup.policy", "retention.ms", "retention.bytes", "remote.storage.enable")
_LOCAL = ("remote.log.copy.disable", "local.retention.ms", "local.retention.bytes")
# Directories that are no logs in use: a broker never checks their segments.
_NOT_ASKED = (PartitionState.METADATA, PartitionState.STRAY, PartitionState.DELETED)


@dataclass(frozen=True, slots=True)
class RetentionRequest:
    """When to judge, and what cannot be read from the disk."""

    now_ms: int
    high_watermark: int | None = None
    """A given offset; None: the checkpoint's."""
    at_log_end: bool = False
    """Use the log end offset of every log as its high watermark."""
    remote_offset: int | None = None
    check_times: bool = False


@dataclass(slots=True)
class JudgedLog:
    """One log, and what happens to it."""

    partition: Partition
    settings: TopicSettings
    limits: RetentionLimits
    facts: RetentionFacts
    outcome: RetentionOutcome
    checkpointed_start: int | None
    watermark_is_assumed: bool
    """There was no checkpoint, or it was not used: the log end offset is."""
    check_ms: int
    """Time between two checks; for a compacted log, the cleaner's."""
    replicas: Replicas | None = None
    _files: dict[int, list[FileEntry]] = field(default_factory=dict)

    @property
    def is_asked(self) -> bool:
        return self.partition.state not in _NOT_ASKED

    @property
    def decisive(self) -> Sequence[Setting]:
        """The settings that decided."""
        names = DECISIVE if not self.limits.is_tiered else DECISIVE + _LOCAL
        return [self.settings.settings[name] for name in names]

    @property
    def unknown(self) -> int:
        """Number of segments that depend on what is in remote storage, which is unknown."""
        return sum(one.decision is Decision.UNKNOWN for one in self.outcome.verdicts)

    @property
    def delay_ms(self) -> int:
        """Delay until a deleted file is unlinked."""
        return self.settings.config.number("file.delete.delay.ms")

    def files_of(self, segment: SegmentFacts) -> list[FileEntry]:
        """Return all files of a segment: log, indexes, and the producer snapshot at its base offset."""
        if not self._files:
            for one in self.partition.live_segments:
                self._files[one.base_offset] = list(one.files)
            for entry in self.partition.other_files:
                is_live = entry.kind is kinds.PRODUCER_SNAPSHOT and entry.state is FileState.LIVE
                if is_live and entry.offset in self._files:
                    self._files[entry.offset].append(entry)
        return self._files.get(segment.base_offset, [])

    def freed(self, outcome: RetentionOutcome | None = None) -> int:
        """Return the bytes on disk of the deleted segments; preallocated room does not count."""
        gone = (self.outcome if outcome is None else outcome).deleted
        return sum(min(entry.size, entry.allocated) for segment in gone for entry in self.files_of(segment))


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One log to judge, here or in a worker."""

    partition: Partition
    log_dir: LogDir
    sources: Sources
    how: RetentionRequest
    guest: Guest
    copied: EpochOffsets | None = None
    """What of it is in remote storage, by leader epoch; None: unknown, or not needed."""

    @property
    def path(self) -> str:
        return self.partition.path


def judge_one(ask: JudgeRequest) -> JudgedLog:
    return judge(ask.partition, ask.log_dir, ask.sources, ask.how, ask.guest, ask.copied)


def limits_for(topic: str | None, sources: Sources, remote_offset: int | None = None) -> RetentionLimits:
    """Return the limits of a topic on one broker. Raises KafkatoolError if a setting cannot be read."""
    return limits_of(
        sources.of(topic).config,
        remote_offset=remote_offset,
        has_cleaner=sources.broker("log.cleaner.enable").value is True,
        is_internal=topic in INTERNAL_TOPICS,
    )


def copied_of(
    partition: Partition, log_dir: LogDir, sources: Sources, copies: RemoteCopies
) -> EpochOffsets | None:
    """Return what is in remote storage of a partition; None without looking if its topic does not copy."""
    try:
        limits = limits_for(partition.topic, sources)
    except KafkatoolError:
        return None  # judging it hits the same error
    return copies.of(partition, log_dir, sources.cluster) if limits.copies else None


def with_copies(
    limits: RetentionLimits, partition: Partition, log_end: int, copied: EpochOffsets | None, guest: Guest
) -> RetentionLimits:
    """Return the limits with the highest offset in remote storage, if known and not given."""
    if copied is None or not limits.copies or limits.remote_offset is not None:
        return limits
    return replace(limits, remote_offset=highest_remote_offset(partition, log_end, copied, guest))


def judge(
    partition: Partition,
    log_dir: LogDir,
    sources: Sources,
    how: RetentionRequest,
    guest: Guest,
    copied: EpochOffsets | None = None,
) -> JudgedLog:
    """Decide what the next check would do to one log. Raises KafkatoolError if that is impossible."""
    settings = sources.of(partition.topic)
    limits = limits_for(partition.topic, sources, how.remote_offset)
    watermark = how.high_watermark
    if watermark is None and not how.at_log_end:
        watermark = log_dir.high_watermarks.get(partition.key)
    start = log_dir.log_starts.get(partition.key)
    reading = FactsReading(how.now_ms, watermark, start, limits.is_tiered, how.check_times)
    facts = read_log_facts(partition, reading, guest)
    limits = with_copies(limits, partition, facts.log_end, copied, guest)
    pause = "log.cleaner.backoff.ms" if "compact" in limits.policy else "log.retention.check.interval.ms"
    check_ms = int(str(sources.broker(pause).value))
    judged = JudgedLog(
        partition, settings, limits, facts, RetentionOutcome(), start, watermark is None, check_ms
    )
    judged.replicas = sources.cluster.replicas_of(partition.topic, partition.topic_id, partition.partition)
    judged.outcome = decide(facts, limits, how.now_ms) if judged.is_asked else _left_alone(facts)
    return judged


def _left_alone(facts: RetentionFacts) -> RetentionOutcome:
    ends = [*(segment.base_offset for segment in facts.segments[1:]), facts.log_end]
    verdicts = [
        RetentionVerdict(segment, Decision.KEEP, RetentionRule.POLICY, upper, segment is facts.segments[-1])
        for segment, upper in zip(facts.segments, ends, strict=bool(facts.segments))
    ]
    return RetentionOutcome(verdicts, None, facts.log_start, facts.local_start)
