"""Find the ends of transactions in other logs: a marker that one log lacks may be in another.

A log is skipped if its own files prove that it has nothing of these producers: it was not written to since,
or its next producer snapshot names none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.batches.scan import Batch, BatchRun, scan_runs
from kafkatool.engine.broker.producer_state import read_marker
from kafkatool.engine.directory.log_dir import FileEntry, Partition, PartitionState
from kafkatool.engine.files.source import Guest, open_source, read_small_file
from kafkatool.engine.transactions.open_transactions import producer_snapshots
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format.batch import read_header
from kafkatool.format.columns import read_batch_columns
from kafkatool.format.legacy import Header
from kafkatool.format.names import TopicPartition
from kafkatool.format.state.producer_snapshot import read_snapshot

REMEMBERED_MS = 3_600_000
"""How long a snapshot certainly remembers a producer: a day by default, but it may be configured shorter.

If a segment took longer to fill, the snapshot after it proves nothing.
"""


class TransactionEnd(NamedTuple):
    """How a producer's transaction ended."""

    where: str
    """Path of a partition directory, or words for another source."""
    place: TopicPartition | None
    """Topic and partition of the log with the marker."""
    offset: int | None
    producer_id: int
    producer_epoch: int
    """Epoch of the marker: since transaction version 2, one more than the data's."""
    data_epoch: int | None
    """Epoch of the producer's batches before the marker; None if unknown."""
    is_abort: bool
    timestamp_ms: int
    """By the coordinator's clock."""


def find_ends(
    partitions: Iterable[Partition], since_ms: Mapping[int, int], guest: Guest
) -> Iterator[TransactionEnd]:
    """Yield these producers' markers in these logs, each from its time on. Unreadable logs yield none."""
    producers, oldest = frozenset(since_ms), min(since_ms.values(), default=0)
    for partition in partitions:
        epochs: dict[int, int] = {}
        is_read = partition.state is PartitionState.ACTIVE
        for log in _logs_to_read(partition, producers, oldest, guest) if is_read else ():
            for end in _ends_in(partition, log, producers, epochs, guest):
                if end.timestamp_ms >= since_ms[end.producer_id]:
                    yield end


def _logs_to_read(
    partition: Partition, producers: frozenset[int], oldest_ms: int, guest: Guest
) -> Iterator[FileEntry]:
    segments = [one for one in partition.live_segments if one.log]
    snapshots = producer_snapshots(partition)
    following: list[int | None] = [*(one.base_offset for one in segments[1:]), None]
    begun_ms = 0
    for segment, end in zip(segments, following, strict=True):
        assert segment.log is not None
        written_ms = segment.log.modified_ms
        is_short = written_ms - begun_ms < REMEMBERED_MS
        at_end = _producers_at(snapshots.get(end), guest) if end is not None and is_short else None
        begun_ms = written_ms
        if written_ms >= oldest_ms and (at_end is None or at_end & producers):
            yield segment.log


def _producers_at(snapshot: str | None, guest: Guest) -> set[int] | None:
    if snapshot is not None:
        with suppress(FileNotFoundError, KafkatoolError):
            return {one.producer_id for one in read_snapshot(read_small_file(snapshot, guest))}
    return None


def _ends_in(
    partition: Partition, log: FileEntry, producers: frozenset[int], epochs: dict[int, int], guest: Guest
) -> Iterator[TransactionEnd]:
    """Yield the ends in one log; `epochs` carries each producer's last epoch from log to log."""
    with suppress(FileNotFoundError, KafkatoolError), open_source(log.path, guest) as source:
        for item in scan_runs(source):
            for header, data in () if isinstance(item, Damage) else _batches_of(item, producers):
                if not header.is_control:
                    epochs[header.producer_id] = header.producer_epoch
                    continue
                end = _end(partition, header, data, epochs.pop(header.producer_id, None))
                if end is not None:
                    yield end


def _batches_of(
    item: BatchRun | Batch, producers: frozenset[int]
) -> Iterator[tuple[Header, bytes | memoryview]]:
    """Yield the transactional batches of these producers."""
    if isinstance(item, Batch):
        header = item.header
        if header.producer_id not in producers:
            return
        if item.is_valid and header.is_transactional:
            yield header, item.data or b""
        return
    columns = read_batch_columns(item.window, item.start, item.end, item.batch_count, item.position)
    window = memoryview(item.window)
    for row in np.flatnonzero(np.isin(columns.producer_id, list(producers))).tolist():
        start = int(columns.position[row]) - item.position + item.start
        header = read_header(window, start)
        if header.is_transactional:
            yield header, window[start : start + header.size]


def _end(
    partition: Partition, header: Header, data: bytes | memoryview, data_epoch: int | None
) -> TransactionEnd | None:
    try:
        marker = read_marker(header, data)
    except FormatError:
        return None
    if marker is None:
        return None
    place = partition.topic or partition.directory, partition.partition or 0
    return TransactionEnd(
        partition.path,
        place,
        header.base_offset,
        header.producer_id,
        header.producer_epoch,
        data_epoch,
        marker.is_abort,
        marker.timestamp_ms,
    )
