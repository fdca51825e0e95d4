"""Prove that a broker has two copies of a partition, so that one of them can be removed.

A broker that finds a partition in two of its log directories does not start. Removing one loses nothing if
the other has every good batch of it, byte for byte: then no other node needs to be checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.partition_walk import PartitionWalk, SegmentLog, Walked
from kafkatool.engine.batches.scan import Batch, BatchRun
from kafkatool.engine.directory.log_dir import Partition, PartitionState
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Failure
from kafkatool.engine.repair.set_aside import Moved
from kafkatool.errors import KafkatoolError


def objections_to_second_copy(one: Moved, kept: Moved, guest: Guest) -> Iterator[str]:
    """Yield why `kept` does not replace `one`; nothing if it has all of it."""
    if one.partition.path == kept.partition.path:
        yield f"{kept.partition.path}: is the copy itself that would be moved"
    elif (why := _another(one, kept)) is not None:
        yield f"{kept.partition.path}: {why}"
    elif (missing := _missing(one.partition, kept.partition, guest)) is not None:
        first, last, count = missing
        yield (
            f"{one.partition.path}: {count} batches, from offset {first} to {last}, are not in "
            f"{kept.partition.path}; where nothing is the other way round: "
            f"{Advice.SET_ASIDE_COPY(where=kept.partition.path, other=one.partition.path)}"
        )


def _another(one: Moved, kept: Moved) -> str | None:
    """Return why the two are not copies of the same partition of the same broker, or None."""
    if kept.key != one.key:
        return f"is not a copy of {one.partition.directory}"
    if kept.partition.state is not PartitionState.ACTIVE:
        return "a broker does not serve it"
    ids = {copy.partition.topic_id for copy in (one, kept)} - {None}
    if len(ids) > 1:
        return f"is of another topic: its id is {kept.partition.topic_id}"
    metas = [copy.log_dir.meta for copy in (one, kept)]
    owners = {None if meta is None else (meta.cluster_id, meta.node_id) for meta in metas}
    if None in owners or len(owners) > 1:
        return "its log directory is not known to be of the same broker"
    # A broker hides what lies below the log start, and deletes a log that ends there.
    starts = [copy.log_dir.log_starts.get(one.key, 0) for copy in (one, kept)]
    if starts[1] > starts[0]:
        return f"by the checkpoint beside it, it begins at offset {starts[1]} only, not at {starts[0]}"
    return None


def _missing(one: Partition, kept: Partition, guest: Guest) -> tuple[int, int, int] | None:
    """Return first and last offset, and the number, of good batches that only `one` has."""
    first = last = None
    count = 0
    there = _batches(kept, guest)
    at = next(there, None)
    for batch in _batches(one, guest):
        while at is not None and at.header.last_offset < batch.header.last_offset:
            at = next(there, None)
        if at is None or at.header != batch.header:
            first = batch.header[0] if first is None else first
            last = batch.header.last_offset
            count += 1
    return None if first is None or last is None else (first, last, count)


def _batches(partition: Partition, guest: Guest) -> Iterator[Batch]:
    """Yield the good batches in order. Equal headers mean equal batches: each matches its checksum."""
    logs = [SegmentLog(one.base_offset, one.log.path) for one in partition.live_segments if one.log]
    for walked in PartitionWalk(lambda: logs, guest).items():
        if isinstance(walked, Failure):
            raise KafkatoolError(walked.message)
        if not isinstance(walked, Walked):
            continue
        if isinstance(walked.item, BatchRun):
            yield from walked.item.batches()
        elif isinstance(walked.item, Batch) and walked.item.is_valid:
            yield walked.item
