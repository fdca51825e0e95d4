"""What a broker goes by and a disk may not tell: options, and where settings come from with them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkatool.commands.line.options import ConfigOpt, KafkaVersionOpt

if TYPE_CHECKING:
    from kafkatool.engine.cluster.effective_settings import Sources
    from kafkatool.engine.directory.selection import Home, Selection
    from kafkatool.engine.files.source import Guest


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Settings, clock, high watermark and release."""

    config: ConfigOpt = None
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            show_default=False,
            help="The moment it happens, by default now: epoch ms, ISO 8601, now+3d.",
        ),
    ] = None
    high_watermark: Annotated[
        str,
        typer.Option(
            "--high-watermark",
            metavar="checkpoint|end|N",
            help="That of the checkpoint (the log end, said so, where there is none), the log end, a number.",
        ),
    ] = "checkpoint"
    kafka_version: KafkaVersionOpt = None

    def moment(self, now_ms: int) -> int:
        from kafkatool.commands.line.arguments import parse_time

        return now_ms if self.at is None else parse_time(self.at, now_ms)

    def watermark(self, checkpointed: int | None) -> tuple[int | None, bool]:
        """The high watermark, None for the end of the log, and whether that is only assumed."""
        from kafkatool.commands.line.arguments import parse_high_watermark

        wanted = parse_high_watermark(self.high_watermark)
        if wanted == "checkpoint":
            return checkpointed, checkpointed is None
        return (wanted, False) if isinstance(wanted, int) else (None, True)

    def sources(
        self, home: Home, found: Selection, paths: list[str], given: list[str], guest: Guest
    ) -> Sources:
        """All that settings may come from for the partitions of one directory."""
        from kafkatool.engine.cluster.broker_dirs import configured_brokers, node_id_of, siblings
        from kafkatool.engine.cluster.effective_settings import Sources, parse_given, read_config_file
        from kafkatool.engine.cluster.metadata_end import early_end
        from kafkatool.engine.cluster.view import read_cluster_view
        from kafkatool.engine.directory.targets import is_configuration
        from kafkatool.format.release import NEWEST, Release

        brokers = configured_brokers(paths)
        servers = [path for path in paths if os.path.isfile(path) and is_configuration(path)]
        log_dirs, node_id = siblings(home.log_dir, [one.log_dir for one in found.homes], brokers)
        metadata = [one for log_dir in log_dirs for one in log_dir.metadata]
        cluster = read_cluster_view(metadata, guest)
        if node_id is None:
            node_id = node_id_of([home.log_dir])
        wanted = None if self.kafka_version is None else Release.parse(self.kafka_version)
        release = wanted or cluster.release_of(node_id) or NEWEST
        end = early_end(cluster, log_dirs)
        sources = Sources(release, cluster=cluster, node_id=node_id, metadata_end=end)
        sources.given = parse_given(given, release)
        owners = [path for path, one in zip(servers, brokers, strict=True) if one.owns(home.log_dir)]
        for path in [*owners[:1], *([self.config] if self.config is not None else [])]:
            topic, server = read_config_file(path, release)
            if server is None:
                sources.file, sources.file_path = topic, path
            else:
                sources.server, sources.server_path = server, path
        return sources
