"""Simulate a broker's start: its metadata and settings, and what it does with each partition."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kafkatool.engine.cluster.broker_dirs import node_id_of
from kafkatool.engine.cluster.topic_settings import NumberSettings, is_tiered, setting, settings_in
from kafkatool.engine.cluster.view import ClusterView, Replicas, read_cluster_view
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.files.source import Guest
from kafkatool.engine.recover.assignment import PartitionFate, fate_of
from kafkatool.engine.recover.result import StartFacts
from kafkatool.engine.recover.start_checks import StartChecks
from kafkatool.format.names import parse_partition_directory
from kafkatool.format.release import NEWEST

SETTINGS = ("index.interval.bytes", "segment.index.bytes")
"""Settings that determine the indexes created at a start."""


class BrokerStart:
    """Replicas and settings of the partitions in a broker's directories, by the broker's own metadata."""

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        guest: Guest,
        now_ms: int,
        given: NumberSettings | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        """Read the metadata; `log_dirs` are all known directories, `given` overrides metadata.

        `is_alone`: no other controller has what this node's metadata has lost.
        """
        self.log_dirs = log_dirs
        self._now_ms = now_ms
        self._given = given or NumberSettings()
        metadata = [one for log_dir in log_dirs for one in log_dir.metadata]
        self.cluster = read_cluster_view(metadata, guest)
        # A node keeps what lies before damage in its metadata; if it is alone, that is what counts.
        self.cluster_left = self.cluster
        if is_alone and not (self.cluster.is_known and self.cluster.is_complete):
            self.cluster_left = read_cluster_view(metadata, guest, until_damage=True)
        if is_alone and not metadata:
            self.cluster_left = ClusterView(is_known=True)  # it starts an empty cluster
        self._settings = settings_in(self.cluster)
        self._release = self.cluster.release_of(node_id_of(log_dirs)) or NEWEST

    def how(self, partition: Partition, checks: StartChecks, *, is_clean: bool = False) -> StartFacts:
        """Return what a start knows about a partition; raise KafkatoolError for invalid metadata."""
        if partition.state is PartitionState.METADATA:  # no checkpoint, marker or setting applies
            return StartFacts(self._now_ms, release=self._release)
        key = partition.key
        interval, index_bytes = (self.number(partition.topic, name) for name in SETTINGS)
        return StartFacts(
            now_ms=self._now_ms,
            recovery_point=checks.recovery_points.get(key, 0),
            log_start=checks.log_starts.get(key, 0),
            interval=interval,
            max_index_bytes=index_bytes,
            is_tiered=is_tiered(self._settings, partition.topic),
            is_clean=is_clean,
            is_beside_metadata=checks.has_metadata,
            release=self._release,
        )

    def number(self, topic: str | None, name: str) -> int:
        """Return a topic setting from options or metadata, else Kafka's default."""
        return self._given.of(self._settings, topic, name)

    def is_preallocated(self, topic: str | None) -> bool:
        """Return whether newest segments of a topic are preallocated, as far as is known."""
        return (setting(self._settings, topic, "preallocate") or "").strip().lower() == "true"

    def fate(self, partition: Partition, log_dir: LogDir) -> PartitionFate | None:
        return fate_of(partition, log_dir, self.log_dirs, self.cluster_left)

    def replicas_at(self, path: str) -> Replicas | None:
        """Return the replicas of a directory's partition."""
        parent, name = os.path.split(os.path.normpath(path))
        named = parse_partition_directory(name)
        if named is None:
            return None
        homes = (one for one in self.log_dirs if os.path.normpath(one.path) == (parent or os.curdir))
        found = next((one for home in homes if (one := home.partition(name)) is not None), None)
        topic_id = None if found is None else found.topic_id
        return self.cluster.replicas_of(named.topic, topic_id, named.partition)
