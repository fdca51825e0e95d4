"""Read topics and partitions from the newest cluster metadata on disk: ids, replicas, leaders, settings.

Read from the newest complete snapshot and the log after it. Changes that a running cluster made since are
missing, so everything carries the time of its record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.directory.log_dir import FileEntry, Partition
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.batch import BatchHeader
from kafkatool.format.names import FileState
from kafkatool.format.record import Record, read_records
from kafkatool.format.release import Release
from kafkatool.format.schema import Decoder, decode_row

_REGISTER, _UNREGISTER, _TOPIC, _PARTITION, _CONFIG, _CHANGE, _REMOVE, _FEATURE = 0, 1, 2, 3, 4, 5, 9, 12
_WANTED = (_REGISTER, _UNREGISTER, _TOPIC, _PARTITION, _CONFIG, _CHANGE, _REMOVE, _FEATURE)
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
_NO_CHANGE = -2
_METADATA_VERSION = "metadata.version"
# The first metadata.version of each release that introduced one.
_FIRST_LEVELS = ((30, Release.V4_3), (28, Release.V4_2), (26, Release.V4_1), (22, Release.V4_0))


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of a partition, at the time of the record."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    metadata_ms: int
    eligible: tuple[int, ...] = ()
    """The eligible leader replicas: out of sync, but with every record that was ever committed."""
    directories: tuple[str, ...] = ()
    """Id of the log directory, by replica."""
    last_known: tuple[int, ...] = ()
    """The last eligible node when none is left; if alone it is elected, even with an empty log."""

    def directory_of(self, node_id: int | None) -> str | None:
        """Return the id of the log directory in which a node has the partition."""
        return dict(zip(self.replicas, self.directories, strict=False)).get(
            -1 if node_id is None else node_id
        )

    def others_in_sync(self, node_id: int | None) -> list[int]:
        return [node for node in self.isr if node != node_id]

    def others_eligible(self, node_id: int | None) -> list[int]:
        """Return the other nodes that are out of sync but may lead."""
        return [node for node in self.eligible if node != node_id and node not in self.isr]


@dataclass(slots=True)
class ClusterView:
    """All that was found; empty if there is no metadata on disk."""

    is_known: bool = False
    is_complete: bool = True
    """False if a part of the metadata is missing or damaged: then absence proves nothing."""
    last_offset: int = -1
    """Offset of the newest record."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Topic id to name."""
    partitions: dict[tuple[str, int], Replicas] = field(default_factory=dict)
    """By topic id and number."""
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """By type and name of the resource; the broker `""` stands for all brokers."""
    metadata_level: int | None = None
    """The cluster's latest `metadata.version`."""
    registrations: dict[int, int] = field(default_factory=dict)
    """By node, the highest `metadata.version` supported when it last registered."""
    last_ms: int = -1
    """Timestamp of the newest record: a live controller writes one every half second."""

    @property
    def policies(self) -> dict[str, str]:
        """Map of topic to cleanup.policy, where it is set."""
        return {
            name: values["cleanup.policy"]
            for (kind, name), values in self.settings.items()
            if kind == TOPIC_RESOURCE and "cleanup.policy" in values
        }

    @property
    def release(self) -> Release | None:
        """The release of this metadata.version; the brokers may be newer. None: unknown."""
        return None if self.metadata_level is None else _release_with(self.metadata_level)

    def registered_release(self, node_id: int | None) -> Release | None:
        """Return the release that a broker registered with; None if it has not registered."""
        level = self.registrations.get(-1 if node_id is None else node_id)
        return None if level is None else _release_with(level)

    def release_of(self, node_id: int | None) -> Release | None:
        """Return a broker's release by its registration, else the cluster's. None: unknown.

        During a rolling upgrade, and until it is finalized, brokers are newer than the cluster.
        """
        return self.registered_release(node_id) or self.release

    def replicas_of(self, topic: str | None, topic_id: str | None, partition: int | None) -> Replicas | None:
        if partition is None:
            return None
        if topic_id is None:
            topic_id = next((key for key, name in self.topic_ids.items() if name == topic), None)
        return None if topic_id is None else self.partitions.get((topic_id, partition))

    def ids_of(self, topic: str) -> list[str]:
        return [topic_id for topic_id, name in self.topic_ids.items() if name == topic]


def _release_with(level: int) -> Release:
    """Return the newest known release that is not newer than this metadata.version."""
    return next((release for first, release in _FIRST_LEVELS if level >= first), Release.V3_9)


def read_cluster_view(
    partitions: Iterable[Partition], guest: Guest, *, until_damage: bool = False
) -> ClusterView:
    """Read the metadata partitions among these; of several the largest offset wins.

    `until_damage`: what a node is left with after it cuts its log at the first damage.
    """
    views = [_read_one(partition, guest, until_damage) for partition in partitions]
    known = [view for view in views if view.is_known]
    return max(known, key=lambda view: view.last_offset, default=ClusterView())


def _read_one(partition: Partition, guest: Guest, until_damage: bool) -> ClusterView:
    view = ClusterView()
    snapshots = [
        entry
        for entry in partition.other_files
        if entry.kind is kinds.RAFT_SNAPSHOT and entry.state is FileState.LIVE and entry.size
    ]
    newest = max(snapshots, key=lambda entry: entry.offset or 0, default=None)
    start = 0
    if newest is not None:
        start = newest.offset or 0
        for record in _records(newest.path, view, guest):
            _apply(view, record)
    logs = [segment for segment in partition.live_segments if segment.log is not None]
    begins_here = logs[0].base_offset <= start if logs else _is_just_formatted(newest)
    view.is_complete = view.is_complete and begins_here
    is_whole = view.is_complete
    for segment in logs:
        assert segment.log is not None
        for record in _records(segment.log.path, view, guest, until_damage):
            if record.offset >= start:
                _apply(view, record)
        if until_damage and is_whole and not view.is_complete:
            view.is_known = view.is_complete = True  # all that the node will have, even if nothing
            break
    return view


def _is_just_formatted(snapshot: FileEntry | None) -> bool:
    """Return whether a metadata log without segments is one that no node has written to yet."""
    return snapshot is not None and snapshot.offset == 0


def formatted_level(path: str, guest: Guest) -> int | None:
    """Return the metadata.version set by a file of bootstrap records; None if it sets none."""
    view = ClusterView()
    for record in _records(path, view, guest):
        _apply(view, record)
    return view.metadata_level


def _records(path: str, view: ClusterView, guest: Guest, until_damage: bool = False) -> Iterator[Record]:
    try:
        with open_source(path, guest) as source:
            for item in scan(source):
                if isinstance(item, Damage):
                    view.is_complete = view.is_complete and item.kind is FindingClass.ZERO_FILLED
                    if until_damage:
                        return
                elif item.is_valid:
                    yield from _records_of(item, view)
    except (FileNotFoundError, KafkatoolError):
        view.is_complete = False


def _records_of(batch: Batch, view: ClusterView) -> Iterator[Record]:
    header = batch.header
    if not isinstance(header, BatchHeader) or header.is_control:
        return
    if batch.data is None:
        view.is_complete = False
        return
    yield from read_records(header, batch.data)


def _apply(view: ClusterView, record: Record) -> None:
    value = record.value
    view.is_known = True
    view.last_offset = max(view.last_offset, record.offset)
    view.last_ms = max(view.last_ms, record.timestamp_ms)
    # Frame version 1, then the type as a small varint: most records are not needed.
    if value is None or len(value) < 3 or value[0] != 1 or value[1] not in _WANTED:
        return
    row = decode_row(Decoder.CLUSTER_METADATA, None, value).get("value")
    if isinstance(row, dict):
        _HANDLERS[value[1]](view, cast(dict[str, Any], row), record.timestamp_ms)


def _register(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    """Store what a broker supports; it registers at every start."""
    node_id = int(row.get("brokerId", -1))
    features = {one.get("name"): one.get("maxSupportedVersion") for one in row.get("features") or ()}
    level = features.get(_METADATA_VERSION)
    if level is None:
        view.registrations.pop(node_id, None)
    else:
        view.registrations[node_id] = int(level)


def _unregister(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    view.registrations.pop(int(row.get("brokerId", -1)), None)


def _topic(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    view.topic_ids[str(row.get("topicId"))] = str(row.get("name"))


def _partition(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    key = str(row.get("topicId")), int(row.get("partitionId", -1))
    replicas, isr = tuple(row.get("replicas") or ()), tuple(row.get("isr") or ())
    eligible = tuple(row.get("eligibleLeaderReplicas") or ())
    directories = tuple(map(str, row.get("directories") or ()))
    last_known = tuple(row.get("lastKnownElr") or ())
    leader = int(row.get("leader", -1))
    view.partitions[key] = Replicas(replicas, isr, leader, now_ms, eligible, directories, last_known)


def _change(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    key = str(row.get("topicId")), int(row.get("partitionId", -1))
    known = view.partitions.get(key)
    if known is None:
        return
    leader = int(row.get("leader", _NO_CHANGE))
    eligible, last_known = row.get("eligibleLeaderReplicas"), row.get("lastKnownElr")
    directories = row.get("directories")
    view.partitions[key] = replace(
        known,
        isr=known.isr if row.get("isr") is None else tuple(row["isr"]),
        replicas=known.replicas if row.get("replicas") is None else tuple(row["replicas"]),
        leader=known.leader if leader == _NO_CHANGE else leader,
        metadata_ms=now_ms,
        eligible=known.eligible if eligible is None else tuple(eligible),
        directories=known.directories if directories is None else tuple(map(str, directories)),
        last_known=known.last_known if last_known is None else tuple(last_known),
    )


def _remove(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    topic_id = str(row.get("topicId"))
    view.settings.pop((TOPIC_RESOURCE, view.topic_ids.pop(topic_id, "")), None)
    for key in [key for key in view.partitions if key[0] == topic_id]:
        del view.partitions[key]


def _config(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    resource = int(row.get("resourceType", -1)), str(row.get("resourceName"))
    name, value = str(row.get("name")), row.get("value")
    if value is None:
        view.settings.get(resource, {}).pop(name, None)
    else:
        view.settings.setdefault(resource, {})[name] = str(value)


def _feature(view: ClusterView, row: dict[str, Any], now_ms: int) -> None:
    if row.get("name") == _METADATA_VERSION:
        view.metadata_level = int(row.get("featureLevel", 0))


_HANDLERS = {
    _REGISTER: _register,
    _UNREGISTER: _unregister,
    _TOPIC: _topic,
    _PARTITION: _partition,
    _CONFIG: _config,
    _CHANGE: _change,
    _REMOVE: _remove,
    _FEATURE: _feature,
}
