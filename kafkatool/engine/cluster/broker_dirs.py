"""Find which log directories belong to one broker: by its configuration, or by their meta.properties."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafkatool.engine.directory.log_dir import LogDir, read_log_dir
from kafkatool.engine.directory.targets import configured_log_dirs, is_configuration
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.errors import KafkatoolError
from kafkatool.format.java_text import parse_int
from kafkatool.format.state.properties import read_properties


@dataclass(frozen=True, slots=True)
class ConfiguredBroker:
    """The relevant content of a server.properties."""

    path: str
    directories: tuple[str, ...]
    """As written in the file."""
    settings: Mapping[str, str]

    @property
    def log_dirs(self) -> frozenset[str]:
        return frozenset(map(os.path.realpath, self.directories))

    @property
    def node_id(self) -> int | None:
        return parse_int(self.settings.get("node.id") or self.settings.get("broker.id") or "")

    def owns(self, log_dir: LogDir) -> bool:
        return os.path.realpath(log_dir.path) in self.log_dirs


def configured_brokers(paths: Iterable[str]) -> list[ConfiguredBroker]:
    """Return the brokers whose configuration is among these paths."""
    found = []
    for path in paths:
        if os.path.isfile(path) and is_configuration(path):
            directories = tuple(configured_log_dirs(path))
            values = read_properties(read_small_file(path, Guest()))
            found.append(ConfiguredBroker(path, directories, values))
    return found


def siblings(
    log_dir: LogDir, log_dirs: Sequence[LogDir], brokers: Iterable[ConfiguredBroker]
) -> tuple[list[LogDir], int | None]:
    """Return the directories of the same broker as `log_dir`, and the node id if configured."""
    for broker in brokers:
        if broker.owns(log_dir):
            return [one for one in log_dirs if broker.owns(one)], broker.node_id
    owner = _owner(log_dir)
    return [one for one in log_dirs if one is log_dir or (owner is not None and _owner(one) == owner)], None


def node_id_of(log_dirs: Iterable[LogDir]) -> int | None:
    """Return the node id of directories of one broker, from the first that has one."""
    ids = (one.meta.node_id for one in log_dirs if one.meta is not None)
    return next((node_id for node_id in ids if node_id is not None), None)


def of_one_cluster(log_dir: LogDir, log_dirs: Sequence[LogDir]) -> list[LogDir]:
    """Return all these directories except those known to belong to another cluster than `log_dir`."""
    own = _cluster(log_dir)
    return [one for one in log_dirs if own is None or _cluster(one) in (own, None)]


class NearbyLogDirs:
    """The log directories whose internal topics describe a partition; further ones are listed once.

    `paths` may include brokers' configurations, which name more log directories.
    """

    def __init__(self, log_dirs: Sequence[LogDir], paths: Sequence[str], guest: Guest) -> None:
        self._log_dirs, self._paths, self._guest = log_dirs, paths, guest
        self._listed: dict[str, LogDir | None] = {}

    def of(self, log_dir: LogDir) -> list[LogDir]:
        """Return all directories of this one's cluster, and the others of its broker if they can be read."""
        found = of_one_cluster(log_dir, self._log_dirs)
        known = {os.path.realpath(one.path) for one in found}
        brokers = [one for one in configured_brokers(self._paths) if one.owns(log_dir)]
        more = sorted({path for broker in brokers for path in broker.log_dirs} - known)
        return [*found, *filter(None, map(self._list, more))]

    def _list(self, path: str) -> LogDir | None:
        if path not in self._listed:
            self._listed[path] = None
            with suppress(KafkatoolError):
                self._listed[path] = read_log_dir(path, self._guest)
        return self._listed[path]


def _cluster(log_dir: LogDir) -> str | None:
    return None if log_dir.meta is None else log_dir.meta.cluster_id


def _owner(log_dir: LogDir) -> tuple[str, int] | None:
    meta = log_dir.meta
    if meta is None or meta.cluster_id is None or meta.node_id is None:
        return None
    return meta.cluster_id, meta.node_id
