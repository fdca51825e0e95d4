"""Find the transactions that a partition's own log leaves open: whose, since when, up to which offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatool.engine.batches.indexes import read_offset_index
from kafkatool.engine.batches.partition_walk import SegmentLog
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.directory.extent import first_timestamp
from kafkatool.engine.directory.log_dir import Partition
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.transactions.producer_replay import replay_producers
from kafkatool.format import kinds
from kafkatool.format.names import FileState, TopicPartition


class OpenTransaction(NamedTuple):
    """A transaction with data in this log and no marker after it."""

    topic: str
    partition: int
    directory: str
    """Path of the partition directory: another may hold a copy of the same partition."""
    producer_id: int
    producer_epoch: int
    first_offset: int
    first_timestamp_ms: int | None
    """None if its first batch does not have it, or no longer exists."""
    last_timestamp_ms: int
    """Of the producer's last batch here: Kafka judges the age by it."""
    log_end: int

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition


def read_open_transactions(
    partition: Partition, guest: Guest, *, log_start: int = 0, most_bytes: int | None = None
) -> list[OpenTransaction] | None:
    """Return the transactions open at the end of a log; None if more than `most_bytes` would have to be read.

    Reads from the newest producer snapshot on: nothing of a log that was closed cleanly. Raises
    KafkatoolError.
    """
    segments = [SegmentLog(one.base_offset, one.log.path) for one in partition.live_segments if one.log]
    if not segments:
        return []
    snapshots = producer_snapshots(partition)
    known = max((offset for offset in snapshots if offset > log_start), default=0)
    if most_bytes is not None and _bytes_from(partition, known, guest) > most_bytes:
        return None
    start = max(segments[0].base_offset, log_start)
    states, end = replay_producers(segments, snapshots, start, None, guest)
    return open_transactions_of(partition, states, end, guest)


def open_transactions_of(
    partition: Partition, states: ProducerStates, log_end: int, guest: Guest
) -> list[OpenTransaction]:
    """Return open transactions by known producer state, the one that holds the last stable offset first."""
    segments = [SegmentLog(one.base_offset, one.log.path) for one in partition.live_segments if one.log]
    found = []
    for first, producer_id in states.open_transactions.items():
        producer = states.producers[producer_id]
        found.append(
            OpenTransaction(
                partition.topic or partition.directory,
                -1 if partition.partition is None else partition.partition,
                partition.path,
                producer_id,
                producer.epoch,
                first,
                _begun_ms(segments, first, guest),
                producer.last_timestamp_ms,
                log_end,
            )
        )
    return found


def producer_snapshots(partition: Partition) -> dict[int, str]:
    """Return the paths of the live producer snapshots by offset."""
    return {
        entry.offset: entry.path
        for entry in partition.files
        if entry.kind is kinds.PRODUCER_SNAPSHOT
        and entry.state is FileState.LIVE
        and entry.offset is not None
    }


def _bytes_from(partition: Partition, offset: int, guest: Guest) -> int:
    """Return about how many bytes of the log follow an offset."""
    logs = [(one.base_offset, one.log) for one in partition.live_segments if one.log]
    size = sum(log.size for base, log in logs if base >= offset)
    holding = max((pair for pair in logs if pair[0] < offset), key=lambda pair: pair[0], default=None)
    if holding is None or any(base == offset for base, _log in logs):
        return size
    _base, log = holding
    return size + log.size - read_offset_index(log.path, guest).floor(offset).position


def _begun_ms(segments: Sequence[SegmentLog], offset: int, guest: Guest) -> int | None:
    """Return the first timestamp of the batch with an offset; None if the batch no longer exists."""
    segment = max((one for one in segments if one.base_offset <= offset), default=None)
    if segment is None:
        return None
    with open_source(segment.path, guest) as source:
        start = read_offset_index(segment.path, guest).floor(offset).position
        for item in scan(source, start, chain=True):
            if isinstance(item, Batch) and item.header.last_offset >= offset:
                return first_timestamp(item.header)
    return None
