"""The brokers of the named paths, each with all its log directories, found or missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkatool.engine.cluster.broker_dirs import ConfiguredBroker, configured_brokers, siblings
from kafkatool.engine.directory.log_dir import LogDir, read_log_dir
from kafkatool.engine.directory.targets import NO_FILES, LogDirTarget, Target, expand, is_configuration
from kafkatool.engine.files.source import Guest
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format.java_text import parse_int
from kafkatool.format.state.properties import MetaProperties

_RECOVERY_THREADS = "num.recovery.threads.per.data.dir"


@dataclass(slots=True)
class Broker:
    """One broker: its readable log directories, and its configuration if that was named."""

    log_dirs: list[LogDir]
    configuration: ConfiguredBroker | None = None
    missing: dict[str, str] = field(default_factory=dict)
    """Configured directories that cannot be listed, and why."""

    @property
    def name(self) -> str:
        if self.configuration is not None:
            return self.configuration.path
        return ", ".join(log_dir.path for log_dir in self.log_dirs)

    @property
    def paths(self) -> list[str]:
        return [log_dir.path for log_dir in self.log_dirs]

    @property
    def meta(self) -> MetaProperties | None:
        return next((one.meta for one in self.log_dirs if one.meta is not None), None)

    @property
    def node_id(self) -> int | None:
        configured = None if self.configuration is None else self.configuration.node_id
        return configured if configured is not None or self.meta is None else self.meta.node_id

    def setting(self, name: str) -> str | None:
        """Return a setting of the broker's configuration; None if it is not set or not known."""
        return None if self.configuration is None else self.configuration.settings.get(name)

    @property
    def recovery_threads(self) -> tuple[int, int]:
        """Fewest and most threads per directory: as configured, or the defaults of the releases."""
        number = parse_int(self.setting(_RECOVERY_THREADS) or "")
        return (1, 2) if number is None else (max(1, number), max(1, number))

    @property
    def is_alone(self) -> bool:
        """Whether it is configured as the only controller: no other node has a copy of its metadata."""
        names = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")
        others = next(filter(None, map(self.setting, names)), ",")
        return "controller" in (self.setting("process.roles") or "") and "," not in others


def named_brokers(paths: Sequence[str], guest: Guest) -> list[Broker]:
    """Return the brokers of these configurations and log directories, as they were typed.

    Raises UsageError for anything else.
    """
    configurations = [path for path in paths if os.path.isfile(path) and is_configuration(path)]
    others = [path for path in paths if path not in configurations]
    targets: list[Target] = []
    if others:
        expansion = expand(others, allow_stdin=False, files=NO_FILES)
        if expansion.problems:
            raise UsageError(expansion.problems[0])
        targets = expansion.targets
    return find_brokers(configurations, targets, guest)


def find_brokers(paths: Sequence[str], targets: Sequence[Target], guest: Guest) -> list[Broker]:
    """Return the brokers of these configurations, and the owners of the other directories.

    `targets` are the named paths that are no configurations. Raises UsageError for a partition or a file, and
    KafkatoolError if a named directory cannot be listed.
    """
    brokers = [_configured(one, guest) for one in configured_brokers(paths)]
    lone: list[LogDir] = []
    for target in targets:
        if not isinstance(target, LogDirTarget):
            raise UsageError(f"{target.path}: doctor checks a whole broker; name its log directory")
        log_dir = read_log_dir(target.path, guest)
        if not any(one.configuration is not None and one.configuration.owns(log_dir) for one in brokers):
            lone.append(log_dir)
    while lone:
        together, _node_id = siblings(lone[0], lone, [])
        brokers.append(Broker(together))
        lone = [one for one in lone if one not in together]
    return brokers


def _configured(configuration: ConfiguredBroker, guest: Guest) -> Broker:
    broker = Broker([], configuration)
    for directory in configuration.directories:
        try:
            broker.log_dirs.append(read_log_dir(directory, guest))
        except KafkatoolError as error:
            broker.missing[directory] = str(error).removeprefix(f"{directory}: ")
    return broker
