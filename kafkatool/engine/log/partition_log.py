"""The log of one partition: batches in, segments out, as a broker keeps it.

    with open_log(Disk(), path, config, now_ms=now) as log:          # loading.py
        log.append_as_leader(batch, leader_epoch=0, now_ms=now)
        read(log, 0, max_bytes=1 << 20)                              # reading.py

What survives a power cut: everything below `recovery_point`, if the log is opened again with that recovery
point or a lower one. Callers store it (a broker: in `recovery-point-offset-checkpoint`), and after
`truncate_to` they store it again before they append. `flush.messages` and `flush.ms` limit how far the
recovery point may lag; a segment is always flushed when the next one begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from types import TracebackType
from typing import NamedTuple

from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.broker.producer_state import (
    AppendOrigin,
    ProducerStates,
    StateBatch,
    Update,
    state_batch,
)
from kafkatool.engine.broker.refusals import (
    InvalidRecord,
    OffsetOutOfRange,
    RecordListTooLarge,
    UnexpectedOffset,
)
from kafkatool.engine.cluster.topic_config import TopicConfig
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.whole_files import replace_file
from kafkatool.engine.log.append_runs import plain_run
from kafkatool.engine.log.flusher import Flusher
from kafkatool.engine.log.producer_rebuild import rebuild_producers
from kafkatool.engine.log.segment import NewBatch, WritableSegment
from kafkatool.engine.log.snapshots import Snapshots
from kafkatool.engine.log.validation import LeaderValidation, check_epochs, check_for_follower, split_batches
from kafkatool.errors import FormatError
from kafkatool.format.batch import MAX_INT32, MAX_INT64, BatchHeader
from kafkatool.format.primitives import Buffer
from kafkatool.format.state.checkpoint import write_leader_epochs

LEADER_EPOCHS = "leader-epoch-checkpoint"

Jitter = Callable[[int], int]


def no_jitter(_: int) -> int:
    """Return 0: segments roll exactly when they are due."""
    return 0


class Appended(NamedTuple):
    """Where the batches are; for a duplicate, where it was first written.

    For a follower's messages of magic 0 and 1, `first_offset` is the last offset of the first wrapper.
    """

    first_offset: int
    last_offset: int
    append_time_ms: int | None = None
    is_duplicate: bool = False


@dataclass(slots=True)
class LogParts:
    """The parts of a loaded log."""

    files: Files
    directory: str
    config: TopicConfig
    jitter: Jitter
    segments: list[WritableSegment]
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: Snapshots
    flusher: Flusher = field(default_factory=Flusher)


class Log:
    """An open log. Not thread-safe; its directory belongs to it alone."""

    def __init__(
        self, parts: LogParts, *, log_start_offset: int, log_end_offset: int, recovery_point: int, now_ms: int
    ) -> None:
        self.config = parts.config
        self.directory = parts.directory
        self.segments = parts.segments
        self.epochs = parts.epochs
        self.producers = parts.producers
        self.snapshots = parts.snapshots
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self._parts = parts
        self._files = parts.files
        self._high_watermark: int | None = None
        self._last_flush_ms = now_ms
        # Flushed, or about to be by the flusher, and still open.
        self._rolled: list[WritableSegment] = []

    def __enter__(self) -> Log:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    @property
    def active(self) -> WritableSegment:
        return self.segments[-1]

    @property
    def high_watermark(self) -> int:
        """The log end offset until a lower one is set."""
        return self.log_end_offset if self._high_watermark is None else self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        self._high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is completed, and its end replicated."""
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        # A transaction may have begun before the log start offset.
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    # --- appending ------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        data: bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> Appended | None:
        """Give a batch its offsets and write it; None for no whole batch; raise LogRefusal for a bad one.

        Messages of magic 0 and 1, even several, become one batch of magic 2.
        """
        batches = list(split_batches(data))
        if not batches:
            return None
        least = latest.epoch if (latest := self.epochs.latest) else 0
        if leader_epoch < least:
            raise InvalidRecord(f"leader epoch {leader_epoch}: the log is at {least} already")
        validation = LeaderValidation(self.config, leader_epoch, origin, now_ms)
        batch = validation.stamp(batches, self.log_end_offset)
        # From here on in a broker's order: a refused or duplicate batch may have begun an epoch and a
        # segment.
        self._assign_epochs([batch])
        self._check_list_size([batch])
        self._roll_for([batch], now_ms)
        update = self.producers.prepare(_state_batches([batch]), origin, transaction_version)
        if (sent := update.duplicate) is not None:
            return Appended(sent.first_offset, sent.last_offset, sent.timestamp_ms, is_duplicate=True)
        self._write([batch], update)
        self._flush_if_due(now_ms)
        time_ms = now_ms if self.config.uses_append_time else None
        return Appended(batch.header.base_offset, batch.header.last_offset, time_ms)

    def append_as_follower(
        self, data: Buffer, *, now_ms: int, leader_epoch: int | None = None
    ) -> Appended | None:
        """Write batches as they are, or none of them and raise LogRefusal; None for no whole batch.

        With `leader_epoch`, batches of later epochs are left out: they may be truncated again.
        """
        epoch = self.epochs.latest_epoch
        if leader_epoch is None and epoch is not None:  # the fast path, which nearly everything takes
            first = self.log_end_offset
            last = self.segments[-1].append_plain(data, first, epoch)
            end = self.log_end_offset
            if last < 0 and (run := plain_run(self.active, data, end, epoch, now_ms)) is not None:
                self.active.append_run(data, run.columns)
                first, last = run.first_offset, run.last_offset
            if last >= 0:
                self.log_end_offset = self.producers.end_offset = last + 1
                self._flush_if_due(now_ms)
                return Appended(first, last)
        return self._append_one_by_one(data, now_ms, leader_epoch)

    def append_each(self, appends: list[Buffer], *, now_ms: int, clock: Callable[[], int]) -> list[int]:
        """Append each as a follower, one after the other; return what the clock said after each."""
        times: list[int] = []
        while left := appends[len(times) :]:
            epoch, taken = self.epochs.latest_epoch, list[int]()
            if epoch is not None:
                offsets = self.log_end_offset, self._flush_offset(now_ms)
                taken, end = self.active.append_each(left, *offsets, epoch, clock)
                self.log_end_offset = self.producers.end_offset = end
            if taken and self._flush_if_due(now_ms):
                taken[-1] = clock()  # this one has to be flushed, so its time is that of the flush
            if not taken:
                self.append_as_follower(left[0], now_ms=now_ms)
                taken = [clock()]
            times += taken
        return times

    def _append_one_by_one(self, data: Buffer, now_ms: int, leader_epoch: int | None) -> Appended | None:
        batches = _up_to_epoch(list(split_batches(data)), leader_epoch)
        if not batches:
            return None
        check_for_follower(batches)
        first, last = batches[0].header.base_offset, batches[-1].header.last_offset
        if first < self.log_end_offset:
            raise UnexpectedOffset(f"offset {first} is below the end of the log, {self.log_end_offset}")
        check_epochs(batches)
        self._check_list_size(batches)
        # A broker rolls first, so a refusal leaves it with a segment above its log end offset.
        update = self.producers.prepare(_state_batches(batches), AppendOrigin.REPLICATION)
        self._assign_epochs(batches)
        self._roll_for(batches, now_ms)
        while (fitting := self.active.count_fitting(batches)) < len(batches):
            # The index fills up before all batches are written: a broker would write them, and then fail.
            part = self.producers.prepare(_state_batches(batches[:fitting]), AppendOrigin.REPLICATION)
            self._write(batches[:fitting], part)
            batches = batches[fitting:]
            self._roll_for(batches, now_ms)
            update = self.producers.prepare(_state_batches(batches), AppendOrigin.REPLICATION)
        self._write(batches, update)
        self._flush_if_due(now_ms)
        return Appended(first, last)

    def _check_list_size(self, batches: Sequence[NewBatch]) -> None:
        size = sum(batch.header.size for batch in batches)
        if size > self.config.segment_bytes:
            raise RecordListTooLarge(f"{size} bytes at once, segments of {self.config.segment_bytes}")

    def _write(self, batches: Sequence[NewBatch], update: Update) -> None:
        self.active.append(batches)
        self.log_end_offset = batches[-1].header.last_offset + 1
        self.active.add_aborted(list(self.producers.apply(update)))
        self.producers.end_offset = self.log_end_offset

    # --- epochs ---------------------------------------------------------------------------------------

    def become_leader(self, leader_epoch: int) -> None:
        """Record that a new leader begins at the log end offset, before it has written anything."""
        if self.epochs.assign(leader_epoch, self.log_end_offset):
            self.save_epochs()

    def advance_start(self, offset: int) -> None:
        """Raise the log start offset; the records below it are no longer served."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"the log cannot begin at {offset}, above {self.high_watermark}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.save_epochs()

    def _assign_epochs(self, batches: Sequence[NewBatch]) -> None:
        changed = False
        for header, _ in batches:
            if not isinstance(header, BatchHeader):
                # Its leader has no epochs: with the earlier ones, a replica might be truncated at the wrong
                # place.
                changed = self.epochs.clear() or changed
            else:
                begun = self.epochs.assign(header.partition_leader_epoch, header.base_offset)
                changed = begun or changed
        if changed:
            self.save_epochs()

    def save_epochs(self) -> None:
        """Write the epochs before any data of theirs: the file may have too many, never too few."""
        path = os.path.join(self.directory, LEADER_EPOCHS)
        replace_file(self._files, path, write_leader_epochs(self.epochs.entries))

    # --- segments -------------------------------------------------------------------------------------

    def _roll_for(self, batches: Sequence[NewBatch], now_ms: int) -> None:
        size = sum(batch.header.size for batch in batches)
        latest = max(batch.header.max_timestamp for batch in batches)
        if self.active.should_roll(size, batches[-1].header.last_offset, latest, now_ms):
            self.roll(now_ms, _roll_offset(batches))

    def roll(self, now_ms: int, base_offset: int = 0) -> None:
        """Begin a new segment at the log end offset, or at the offset where the log will go on."""
        base_offset = max(base_offset, self.log_end_offset)
        if self.active.base_offset == base_offset and self.active.size == 0:
            return
        self._settle()
        self.active.close()
        self._rolled.append(self.active)
        # It is trusted once the recovery point is at the next segment: not before all of it is on disk.
        unflushed, has_new_names = self._unflushed(), self._take_new_names()
        self._parts.flusher.run(lambda: self._flush(unflushed, has_new_names, base_offset))
        self._last_flush_ms = now_ms
        self.segments.append(self._new_segment(base_offset, now_ms))
        self.producers.end_offset = base_offset
        self.snapshots.take(self.producers)

    def _new_segment(self, base_offset: int, now_ms: int) -> WritableSegment:
        parts = self._parts
        jitter_ms = parts.jitter(min(self.config.segment_jitter_ms, self.config.max_segment_ms))
        segment = WritableSegment(
            parts.files, parts.directory, base_offset, parts.config, created_ms=now_ms, jitter_ms=jitter_ms
        )
        segment.create()
        return segment

    # --- flushing -------------------------------------------------------------------------------------

    def flush(self, now_ms: int) -> None:
        """Return when everything appended would survive a power cut."""
        self._settle()
        self._flush(self._unflushed(), self._take_new_names(), self.log_end_offset)
        self._last_flush_ms = now_ms

    def _flush(self, segments: list[WritableSegment], has_new_names: bool, end_offset: int) -> None:
        """Flush, possibly while appends go on: do not touch anything that they touch."""
        for segment in segments:
            segment.flush()
        self._sync_names(has_new_names)
        self.recovery_point = max(self.recovery_point, end_offset)

    def _unflushed(self) -> list[WritableSegment]:
        """Return the last segment, and those before it that do not end below the recovery point."""
        following = [segment.base_offset for segment in self.segments[1:]]
        return [
            segment
            for segment, end in zip_longest(self.segments, following)
            if end is None or end > self.recovery_point
        ]

    def _settle(self) -> None:
        """Wait for concurrent flushes."""
        self._parts.flusher.settle()
        while self._rolled:
            self._rolled.pop().release()

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if `flush.ms` is due: for callers that are idle between appends."""
        if self.log_end_offset > self.recovery_point:
            self._flush_if_due(now_ms)

    def _flush_if_due(self, now_ms: int) -> bool:
        is_due = self.log_end_offset >= self._flush_offset(now_ms)
        if is_due:
            self.flush(now_ms)
        return is_due

    def _flush_offset(self, now_ms: int) -> int:
        """Return the log end offset from which a flush is due."""
        config = self.config
        if now_ms - self._last_flush_ms >= config.flush_ms:
            return 0
        return min(self.recovery_point + config.flush_messages, MAX_INT64)

    def _take_new_names(self) -> bool:
        """Return whether files were created or removed since the last call."""
        holders: list[WritableSegment | Snapshots] = [*self.segments, self.snapshots]
        found = any(holder.has_new_names for holder in holders)
        for holder in holders:
            holder.has_new_names = False
        return found

    def _sync_names(self, has_new_names: bool) -> None:
        if has_new_names:
            self._files.sync_directory(self.directory)

    # --- truncation -----------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate to an offset; a batch that contains it goes as a whole and leaves a gap."""
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(offset):
                self.save_epochs()
            return
        self._settle()
        if self.segments[0].base_offset > offset:
            self.truncate_fully(offset, now_ms)
            return
        while self.active.base_offset > offset:
            self._delete_last()
        self.active.truncate_to(offset, now_ms)
        self._end_at(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        rebuild_producers(
            self.producers, self.snapshots, self.segments, self.log_start_offset, offset, now_ms
        )
        self.active.flush()
        self._sync_names(self._take_new_names())

    def truncate_fully(self, offset: int, now_ms: int) -> None:
        """Start over at an offset, with an empty log."""
        self._settle()
        while self.segments:
            self._delete_last()
        for taken in self.snapshots.offsets():
            self.snapshots.delete(taken)
        self.snapshots.last_offset = 0
        self.segments.append(self._new_segment(offset, now_ms))
        self.producers.clear(offset)
        self.epochs.clear()
        self._end_at(offset)
        self.log_start_offset = offset
        self._sync_names(self._take_new_names())

    def _delete_last(self) -> None:
        """Delete the last segment for good, before those in front: a log must not come back with a hole."""
        segment = self.segments.pop()
        segment.delete()
        self.snapshots.delete(segment.base_offset)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        if self._high_watermark is not None:
            self._high_watermark = min(self._high_watermark, offset)
        self.epochs.truncate_from_end(offset)
        self.save_epochs()

    # --- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close as a clean shutdown does: complete indexes, a snapshot, everything on disk."""
        self.snapshots.take(self.producers)
        self.active.close()
        self.flush(self._last_flush_ms)
        self.abandon()

    def abandon(self) -> None:
        """Close the files as they are, as a crash would leave them."""
        with suppress(Exception):  # a caller that relied on the flush has seen the error already
            self._parts.flusher.settle()
        for segment in self.segments:
            with suppress(OSError):  # an index may lack entries
                segment.release()


def _state_batches(batches: Sequence[NewBatch]) -> list[StateBatch]:
    try:
        return [state_batch(header, data) for header, data in batches if isinstance(header, BatchHeader)]
    except FormatError as error:
        raise InvalidRecord(f"a transaction marker cannot be read: {error}") from None


def _up_to_epoch(batches: list[NewBatch], leader_epoch: int | None) -> list[NewBatch]:
    if leader_epoch is None:
        return batches
    for number, batch in enumerate(batches):
        header = batch.header
        if header.partition_leader_epoch > leader_epoch:
            return batches[:number]
    return batches


def _roll_offset(batches: Sequence[NewBatch]) -> int:
    """Return the base offset of a segment for these batches; for magic 0 and 1, the lowest possible."""
    first = batches[0].header
    if isinstance(first, BatchHeader):
        return first.base_offset
    # A broker relies on all of them being within reach of the first.
    limit = first.last_offset + MAX_INT32
    return max(header.last_offset for header, _ in batches if header.last_offset <= limit) - MAX_INT32
