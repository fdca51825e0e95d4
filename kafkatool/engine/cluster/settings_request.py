"""What was asked of settings, and where they come from with that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kafkatool.engine.cluster.broker_dirs import configured_brokers, node_id_of, siblings
from kafkatool.engine.cluster.effective_settings import Sources, parse_given, read_config_file
from kafkatool.engine.cluster.metadata_end import early_end
from kafkatool.engine.cluster.view import read_cluster_view
from kafkatool.engine.directory.selection import Home, Selection
from kafkatool.engine.directory.targets import is_configuration
from kafkatool.engine.files.source import Guest
from kafkatool.format.release import NEWEST, Release


@dataclass(frozen=True, slots=True)
class SettingsRequest:
    """What goes before the metadata on the disk, or beside it."""

    named: Sequence[str]
    """The paths that were named; the configurations of brokers among them count."""
    given: Sequence[str] = ()
    """KEY=VALUE, before all else."""
    config: str | None = None
    """A file with a topic's settings, or a broker's."""
    kafka_version: str | None = None

    def sources(self, home: Home, found: Selection, guest: Guest) -> Sources:
        """All that settings may come from for the partitions of one directory. Raises KafkatoolError."""
        brokers = configured_brokers(self.named)
        servers = [path for path in self.named if os.path.isfile(path) and is_configuration(path)]
        log_dirs, node_id = siblings(home.log_dir, [one.log_dir for one in found.homes], brokers)
        metadata = [one for log_dir in log_dirs for one in log_dir.metadata]
        cluster = read_cluster_view(metadata, guest)
        if node_id is None:
            node_id = node_id_of([home.log_dir])
        wanted = None if self.kafka_version is None else Release.parse(self.kafka_version)
        release = wanted or cluster.release_of(node_id) or NEWEST
        end = early_end(cluster, log_dirs)
        sources = Sources(release, cluster=cluster, node_id=node_id, metadata_end=end)
        sources.given = parse_given(self.given, release)
        owners = [path for path, one in zip(servers, brokers, strict=True) if one.owns(home.log_dir)]
        for path in [*owners[:1], *([self.config] if self.config is not None else [])]:
            topic, server = read_config_file(path, release)
            if server is None:
                sources.file, sources.file_path = topic, path
            else:
                sources.server, sources.server_path = server, path
        return sources
