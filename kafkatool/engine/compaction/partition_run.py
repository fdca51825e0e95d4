"""Clean one partition, in any process, and yield events."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Severity, SeverityMet
from kafkatool.engine.cluster.effective_settings import Setting, TopicSettings
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.compaction.broker_cleaner import Cleaner
from kafkatool.engine.compaction.cleanable_log import CleanableLog, CleanerStops, open_cleanable
from kafkatool.engine.compaction.cleaner import Cleaning, Counts
from kafkatool.engine.compaction.dirty_range import DirtyRange
from kafkatool.engine.compaction.key_life import KeyLife
from kafkatool.engine.compaction.key_room import KeyRoom
from kafkatool.engine.compaction.passes import Compacted, PassWork, compact, drop
from kafkatool.engine.compaction.placing import (
    CLEANER_CHECKPOINT,
    plan_swap,
    read_checkpoint,
    write_partition,
)
from kafkatool.engine.compaction.waste import Waste
from kafkatool.engine.directory.log_dir import LogDir, Partition, SegmentState
from kafkatool.engine.directory.selection import NamedPartition
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.files.whole_files import make_directories
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.plan.evidence import Evidence, gather_evidence
from kafkatool.engine.plan.steps import Applying, Plan, new_run_id, refuse_backup_dir
from kafkatool.engine.plan.work_directory import work_directory
from kafkatool.engine.transactions.open_transactions import open_transactions_of
from kafkatool.engine.transactions.verdicts import JudgedTransaction, TransactionVerdicts
from kafkatool.errors import KafkatoolError, Refused, UsageError


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """What to do with every partition."""

    settings: SettingsRequest
    how: Applying
    is_applied: bool = False
    at_ms: int | None = None
    """Time at which the cleaner runs; None: now."""
    watermark: int | None = None
    """High watermark; None: the checkpointed one."""
    at_log_end: bool = False
    """Use the end of each log as its high watermark."""
    most: int | None = 1
    """Maximum number of passes; None: until nothing is left to clean."""
    key: bytes | None = None
    """Only follow this key."""
    top: int | None = None
    """Only find the keys that waste most."""
    write_to: str | None = None
    memory: int = 1 << 30
    """Memory for the keys of one partition, in bytes."""

    @property
    def moment_ms(self) -> int:
        return self.how.now_ms if self.at_ms is None else self.at_ms

    @property
    def shows_passes(self) -> bool:
        return self.key is None and self.top is None

    def watermark_of(self, checkpointed: int | None) -> tuple[int | None, bool]:
        """Return the high watermark (None: the end of the log) and whether it is only assumed."""
        if self.watermark is not None:
            return self.watermark, False
        found = None if self.at_log_end else checkpointed
        return found, found is None


class RangeFound(NamedTuple):
    """The dirty range of a partition."""

    partition: Partition
    dirty: DirtyRange
    cleaner: Cleaner


class PassesRun(NamedTuple):
    """The result of the passes over a partition, and the open transactions that limit their range."""

    partition: Partition
    done: Compacted
    cleaner: Cleaner
    at_ms: int
    transactions: list[JudgedTransaction]


class KeyFollowed(NamedTuple):
    """What happens to every record of one key."""

    partition: Partition
    life: KeyLife


class WasteFound(NamedTuple):
    """The keys that waste most."""

    partition: Partition
    waste: Waste


class SwapPlanned(NamedTuple):
    """The plan that swaps in the cleaned segments; they exist until the next event is requested."""

    partition: Partition
    plan: Plan


PartitionEvent = (
    Note | Caution | Failure | SeverityMet | RangeFound | PassesRun | KeyFollowed | WasteFound | SwapPlanned
)


@dataclass(frozen=True, slots=True)
class PartitionCompaction:
    """A compacted partition to clean, with its settings and a source of verdicts on its transactions."""

    request: CompactionRequest
    log_dir: LogDir
    named: NamedPartition
    settings: TopicSettings
    brokers: dict[str, Setting]
    guest: Guest
    verdicts: TransactionVerdicts
    room: KeyRoom = field(default_factory=KeyRoom)

    @property
    def path(self) -> str:
        return self.named.partition.path

    @property
    def bytes_to_read(self) -> int:
        return sum(segment.size for segment in self.named.partition.live_segments)

    @property
    def watermark(self) -> tuple[int | None, bool]:
        checkpointed = self.log_dir.high_watermarks.get(self.named.partition.key)
        return self.request.watermark_of(checkpointed)

    def run(self) -> Iterator[PartitionEvent]:
        """Clean the partition; report what prevents it. Raises Refused, UsageError, KeysDoNotFit."""
        try:
            yield from self._run()
        except CleanerStops as error:
            yield Caution(f"{error}: the cleaner of a broker would give up here")
            yield SeverityMet(Severity.DEGRADED)
        except (Refused, UsageError):
            raise
        except (FileNotFoundError, KafkatoolError) as error:
            yield Failure(f"{self.path}: {error}; left as it is")

    def _run(self) -> Iterator[PartitionEvent]:
        partition = self.named.partition
        _refuse_leftovers(partition)
        evidence = self._evidence() if self.request.is_applied else None
        watermark, is_assumed = self.watermark
        if is_assumed:
            yield Note(f"{partition.directory}: no high watermark: the end of the log is used instead")
        log = open_cleanable(
            partition.path,
            log_start=self.named.log_start,
            high_watermark=watermark,
            now_ms=self.request.moment_ms,
            guest=self.guest,
        )
        cleaner = Cleaner.of(self.settings, self.brokers)
        watching = self._watching()
        how = Cleaning(self.settings.config, self.request.moment_ms, cleaner.capacity, self.guest, self.room)
        cleaned_to = {
            (at.topic, at.partition): at.offset for at in read_checkpoint(self.log_dir.path, self.guest)
        }
        with self._work_directory() as parent:
            work = PassWork(Disk(), parent, partition.directory)
            watch = None if watching is None else watching.watch
            done = compact(log, cleaned_to.get(partition.key), how, work, self.request.most, watch)
            try:
                if isinstance(watching, KeyLife):
                    watching.look_at_the_rest(log, self.guest)
                    yield KeyFollowed(partition, watching)
                elif watching is not None:
                    yield WasteFound(partition, watching)
                else:
                    yield RangeFound(partition, done.dirty, cleaner)
                    transactions = self._open_transactions(done.before)
                    yield PassesRun(partition, done, cleaner, self.request.moment_ms, transactions)
                    yield from self._place(done, evidence)
            finally:
                drop(work.files, done.directory)

    def _evidence(self) -> Evidence:
        """Gather evidence of the partition as it is now.

        The cleaner checkpoint is read again: plans of other partitions may already have changed it.
        """
        found = gather_evidence(self.log_dir, [self.named.partition], with_content=True)
        return found.instead(os.path.join(self.log_dir.path, CLEANER_CHECKPOINT))

    def _watching(self) -> KeyLife | Waste | None:
        if self.request.key is not None:
            return KeyLife(self.request.key)
        return None if self.request.top is None else Waste()

    def _open_transactions(self, log: CleanableLog) -> list[JudgedTransaction]:
        found = open_transactions_of(self.named.partition, log.producers, log.log_end, self.guest)
        return self.verdicts.of(self.log_dir, found)

    @contextmanager
    def _work_directory(self) -> Iterator[str | None]:
        """Yield where passes write: the directory for the copy, or one beside the log directory."""
        request, home = self.request, self.log_dir.path
        if request.write_to is not None:
            refuse_backup_dir(request.write_to, home)
            make_directories(Disk(), request.write_to)
            target = os.path.join(request.write_to, self.named.partition.directory)
            if os.path.lexists(target):
                raise Refused(f"{target}: already exists")
            yield request.write_to
        elif request.is_applied or request.most != 1:
            beside = work_directory(home, new_run_id()) if request.is_applied else None
            with beside or tempfile.TemporaryDirectory(prefix="kafkatool-compact-") as directory:
                yield directory
        else:
            yield None

    def _place(self, done: Compacted, evidence: Evidence | None) -> Iterator[PartitionEvent]:
        request, partition = self.request, self.named.partition
        found = (_bad_checksums(one.cleaned.counts) for one in done.passes)
        if (words := next(filter(None, found), None)) is not None:
            if request.write_to is not None or request.is_applied:
                raise Refused(f"{words}; nothing was written")
            yield Caution(words)
            yield SeverityMet(Severity.LOSS)
        if request.write_to is not None:
            target = os.path.join(request.write_to, partition.directory)
            write_partition(done, partition.path, target, Disk(), self.guest)
            yield Note(f"{partition.directory}: written to {target}")
        elif request.is_applied and done.passes:
            plan = plan_swap(done, partition.path, self.log_dir.path, partition.key, self.guest)
            yield SwapPlanned(partition, replace(plan, evidence=evidence))


def _refuse_leftovers(partition: Partition) -> None:
    unfinished = (SegmentState.CLEANED, SegmentState.SWAP)
    if any(one.state in unfinished for one in partition.segments):
        raise KafkatoolError(f"a cleaning was interrupted: {Advice.RECOVER(where=partition.path)}")


def _bad_checksums(counts: Counts) -> str | None:
    """Describe the first batch with a bad checksum, which a broker's cleaner would copy without a check."""
    if counts.first_bad_checksum is None:
        return None
    path, position = counts.first_bad_checksum
    more = f", and {counts.bad_checksums - 1} more" if counts.bad_checksums > 1 else ""
    return (
        f"{path} at byte {position}: checksum does not match{more}; a broker's cleaner does not look: it "
        f"would copy the batch, or seal what it keeps of it anew: {Advice.VERIFY(where=path)}"
    )
