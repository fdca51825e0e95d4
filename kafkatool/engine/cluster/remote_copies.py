"""Read from `__remote_log_metadata` on disk how far tiered partitions are copied to remote storage.

Each copy of a segment begins with a record of the offsets of each leader epoch in it, and counts once another
record marks it as finished; a later deletion from remote storage does not matter. A broker takes the newest
leader epoch of the log that has been copied, and no offset beyond that epoch's end in its own log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.cluster.broker_dirs import NearbyLogDirs
from kafkatool.engine.cluster.transactional_ids import record_columns
from kafkatool.engine.cluster.view import ClusterView
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.batch import CONTROL_MASK
from kafkatool.format.columns import RecordDecoder
from kafkatool.format.names import FileState
from kafkatool.format.release import NEWEST
from kafkatool.format.schema.reading import Unreadable
from kafkatool.format.schema.remote_log_metadata import SEGMENT_STATES, TOPIC, metadata_partition
from kafkatool.format.state.checkpoint import read_leader_epochs
from kafkatool.format.uuids import parse_uuid

TOPIC_NAME = "__remote_log_metadata"
NOTHING = -1
# Far more leader epochs than the segments of a cluster have. Any beyond are ignored, so that no log can fill
# the memory; then less counts as copied than is.
MOST_EPOCHS = 2_000_000
_SEGMENT, _UPDATE = 0, 1
_STARTED, _FINISHED = map(SEGMENT_STATES.index, ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"))

EpochOffsets = Mapping[int, int]
"""Leader epoch -> its highest offset in remote storage."""
_Key = tuple[str, int]
"""Topic id and partition."""


class Known(NamedTuple):
    """What some log directories contain: copies by partition, and which partitions of the topic they hold."""

    copied: Mapping[_Key, EpochOffsets]
    numbers: frozenset[int]


class RemoteCopies:
    """Copies in remote storage, read on demand, and once per set of directories."""

    def __init__(
        self, log_dirs: Sequence[LogDir], paths: Sequence[str], guest: Guest, *, at_log_end: bool = False
    ) -> None:
        """Set where to look; `at_log_end`: read records above the high watermark too."""
        self._nearby, self._guest, self._at_log_end = NearbyLogDirs(log_dirs, paths, guest), guest, at_log_end
        self._read: dict[frozenset[str], Known] = {}

    def of(self, partition: Partition, log_dir: LogDir, cluster: ClusterView) -> EpochOffsets | None:
        """Return what is copied of a tiered partition; None if no nearby directory knows."""
        topic_id = partition.topic_id or _only(cluster.ids_of(partition.topic or ""))
        if topic_id is None or partition.partition is None:
            return None
        known = self._near(log_dir)
        found = known.copied.get((topic_id, partition.partition))
        if found is None and _keeper(topic_id, partition.partition, cluster) in known.numbers:
            return {}
        return found

    def _near(self, log_dir: LogDir) -> Known:
        log_dirs = self._nearby.of(log_dir)
        key = frozenset(os.path.realpath(one.path) for one in log_dirs)
        if key not in self._read:
            self._read[key] = read_remote_copies(log_dirs, self._guest, at_log_end=self._at_log_end)
        return self._read[key]


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _keeper(topic_id: str, partition: int, cluster: ClusterView) -> int | None:
    """Return the metadata partition that covers a partition; None if their number is unknown."""
    ids = set(cluster.ids_of(TOPIC_NAME))
    count, raw = sum(one in ids for one, _number in cluster.partitions), parse_uuid(topic_id)
    return None if not count or raw is None else metadata_partition(raw, partition, count)


def read_remote_copies(log_dirs: Iterable[LogDir], guest: Guest, *, at_log_end: bool = False) -> Known:
    """Read the remote log metadata in these directories, as far as consumers see it; damage is skipped.

    Of several replicas of a partition, the one that reaches furthest counts.
    """
    furthest: dict[int, _Fold] = {}
    for log_dir in log_dirs:
        for partition in log_dir.of_topic(TOPIC_NAME):
            number = partition.partition
            if partition.state is not PartitionState.ACTIVE or number is None:
                continue
            watermark = None if at_log_end else log_dir.high_watermarks.get((TOPIC_NAME, number))
            fold = _Fold(partition, watermark, guest)
            if number not in furthest or fold.last_offset > furthest[number].last_offset:
                furthest[number] = fold
    copied = {key: offsets for fold in furthest.values() for key, offsets in fold.copied.items()}
    return Known(copied, frozenset(furthest))


class _Begun(NamedTuple):
    """A copy in progress: its partition, and the last offset of each leader epoch in it."""

    key: _Key
    epochs: list[tuple[int, int]]


class _Fold:
    """The state after one partition of the topic is read from its beginning."""

    def __init__(self, partition: Partition, high_watermark: int | None, guest: Guest) -> None:
        self.last_offset = -1
        self.copied: dict[_Key, dict[int, int]] = {}
        self._begun: dict[str, _Begun] = {}
        self._room = MOST_EPOCHS
        for offset, value in _values(partition, guest):
            if high_watermark is not None and offset >= high_watermark:
                break
            self.last_offset = max(self.last_offset, offset)
            try:
                entry = TOPIC.read(NEWEST, value, lenient=True)
            except Unreadable:
                continue
            if entry.message.api_key in (_SEGMENT, _UPDATE):
                self._take(cast(dict[str, Any], entry.value), is_new=entry.message.api_key == _SEGMENT)

    def _take(self, row: dict[str, Any], *, is_new: bool) -> None:
        segment, state = str(row["remoteLogSegmentId"]["id"]), row["remoteLogSegmentState"]
        begun = self._begun.pop(segment, None)
        self._room += 0 if begun is None else len(begun.epochs)
        if is_new:
            begun = _begun(row)
            if state == _STARTED and len(begun.epochs) <= self._room:
                self._begun[segment] = begun
                self._room -= len(begun.epochs)
        elif begun is not None and state == _FINISHED:
            self._finish(begun)

    def _finish(self, begun: _Begun) -> None:
        offsets = self.copied.setdefault(begun.key, {})
        self._room += len(offsets)
        for epoch, last in begun.epochs:
            offsets[epoch] = max(last, offsets.get(epoch, NOTHING))
        self._room -= len(offsets)


def _begun(row: dict[str, Any]) -> _Begun:
    place = row["remoteLogSegmentId"]["topicIdPartition"]
    starts = sorted((one["leaderEpoch"], one["offset"]) for one in row["segmentLeaderEpochs"])
    ends = [*(offset - 1 for _epoch, offset in starts[1:]), row["endOffset"]]
    epochs = [(epoch, end) for (epoch, _start), end in zip(starts, ends, strict=bool(starts))]
    return _Begun((str(place["id"]), place["partition"]), epochs)


def _values(partition: Partition, guest: Guest) -> Iterator[tuple[int, bytes | None]]:
    decoder = RecordDecoder()
    for segment in partition.live_segments:
        if segment.log is None:
            continue
        for columns in record_columns(segment.log.path, decoder, guest):
            is_control = (columns.batches.attributes & CONTROL_MASK != 0)[columns.batch].tolist()
            for row, offset in enumerate(columns.offset.tolist()):
                if not is_control[row]:
                    yield offset, columns.value(row)


def highest_remote_offset(
    partition: Partition, log_end: int, copied: EpochOffsets, guest: Guest
) -> int | None:
    """Return the highest offset of a log in remote storage, -1 for none; None if its epochs are unknown."""
    entry = next((one for one in partition.other_files if one.kind is kinds.LEADER_EPOCHS), None)
    if entry is None or entry.state is not FileState.LIVE:
        return None
    try:
        epochs = LeaderEpochs(read_leader_epochs(read_small_file(entry.path, guest)))
    except (FileNotFoundError, KafkatoolError):
        return None
    for epoch, _start in reversed(epochs.entries):
        end = epochs.end_offset_for(epoch, log_end)
        if epoch in copied and end is not None:
            return min(copied[epoch], end.end_offset - 1)
    return NOTHING
