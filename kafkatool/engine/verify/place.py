"""A partition directory to check, and what is known about it from other sources."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkatool.engine.batches.damage import Damage
from kafkatool.engine.directory.log_dir import (
    FileEntry,
    LogDir,
    Partition,
    PartitionState,
    Segment,
    SegmentState,
)
from kafkatool.engine.verify.finding import Finding, fix
from kafkatool.format import kinds
from kafkatool.format.names import FileState, TopicPartition

if TYPE_CHECKING:
    from kafkatool.engine.cluster.view import ClusterView

_WALKED = (SegmentState.ACTIVE, SegmentState.CLOSED, SegmentState.SWAP)
_SNAPSHOTS = (kinds.RAFT_SNAPSHOT, kinds.BOOTSTRAP)


@dataclass(slots=True)
class CheckedPlace:
    """A partition directory and what is known about it from other sources."""

    partition: Partition
    log_dir: LogDir | None = None
    view: ClusterView | None = None
    cleaner: dict[TopicPartition, int] = field(default_factory=dict)
    is_live: bool = False
    """Whether a broker is using it."""
    is_partial: bool = False
    """Whether only some of its files were named, so that absent files are no finding."""
    logs: list[Segment] = field(init=False)
    bases: list[int] = field(init=False)
    """Base offsets of the live segments, in order: used by every finding."""
    faulty: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bases = [segment.base_offset for segment in self.partition.live_segments]
        states = SegmentState if self.is_partial else _WALKED  # named files are read in any state
        self.logs = [s for s in self.partition.segments if s.log is not None and s.state in states]
        live = [at for at, segment in enumerate(self.logs) if segment.is_live]
        if live and self.partition.state is PartitionState.DELETED:
            # Active until its directory was renamed: its indexes end with preallocated zeros.
            self.logs[live[-1]] = replace(self.logs[live[-1]], state=SegmentState.ACTIVE)
        self.logs += [
            Segment(entry.offset or 0, SegmentState.METADATA_SNAPSHOT, (replace(entry, kind=kinds.LOG),))
            for entry in self.partition.other_files
            if entry.kind in _SNAPSHOTS and (self.is_partial or entry.state is FileState.LIVE)
        ]

    @property
    def side_files(self) -> list[FileEntry]:
        """All files but logs."""
        return [
            entry
            for entry in self.partition.files
            if entry.kind is not kinds.LOG and entry.kind not in _SNAPSHOTS
        ]

    @property
    def key(self) -> TopicPartition | None:
        """The partition's name in the checkpoints; None for directories that these do not list."""
        partition = self.partition
        if partition.state is not PartitionState.ACTIVE or partition.topic is None:
            return None
        return partition.key

    @property
    def was_shut_down_cleanly(self) -> bool:
        return self.log_dir is not None and self.log_dir.was_shut_down_cleanly

    def is_skipped_at_start(self, segment: Segment) -> bool | None:
        """Return whether a broker that starts now would skip the scan of this segment; None if unknown."""
        if self.log_dir is None or self.key is None:
            return None
        if self.was_shut_down_cleanly:
            return True
        point = self.log_dir.recovery_points.get(self.key, 0)
        floor = bisect_right(self.bases, point) - 1
        return floor >= 0 and segment.base_offset < self.bases[floor]


def place_finding(
    place: CheckedPlace | None, file: str, damage: Damage, segment: Segment | None = None
) -> Finding:
    """Return a finding with everything that is known about its place."""
    if place is None:
        return Finding(file, None, None, damage, fix(damage, os.path.dirname(file), file))
    partition = place.partition
    replicas = None
    if place.view is not None:
        replicas = place.view.replicas_of(partition.topic, partition.topic_id, partition.partition)
    meta = None if place.log_dir is None else place.log_dir.meta
    node_id = None if meta is None else meta.node_id
    advice = fix(damage, partition.path, file, replicas, node_id, place.bases)
    if advice is not None and partition.state is PartitionState.DELETED:
        advice = "nothing: a broker deletes this directory at its next start"
    return Finding(
        file,
        partition.topic,
        partition.partition,
        damage,
        advice,
        replicas,
        None if segment is None else place.is_skipped_at_start(segment),
    )


def was_replaced(segment: Segment) -> bool:
    """Return whether any file of a segment is no longer the one that was listed."""
    for entry in segment.files:
        path = entry.path
        try:
            found = os.stat(path)
        except OSError:
            return True
        if (found.st_dev, found.st_ino) != entry.identity:
            return True
    return False
