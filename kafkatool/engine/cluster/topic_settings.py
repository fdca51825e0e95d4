"""Look up one or two of a topic's settings in the metadata log beside its partitions.

It has only what was set for the topic, or as the cluster's default, not what is in server.properties. For all
settings of a topic and their sources see `effective_settings`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkatool.engine.cluster.effective_settings import read_config_file, topic_name_of
from kafkatool.engine.cluster.topic_config import keys_of
from kafkatool.engine.cluster.view import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterView, read_cluster_view
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.source import Guest
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format.names import METADATA_PARTITION
from kafkatool.format.release import NEWEST

Settings = dict[str, dict[str, str]]


def topic_settings(log_dir: str, guest: Guest) -> Settings:
    """Read settings by topic, by Kafka's names; `""` has the cluster's defaults. Empty without metadata."""
    try:
        partition = read_partition(os.path.join(log_dir, METADATA_PARTITION), [], guest)
    except KafkatoolError:
        return {}
    return settings_in(read_cluster_view([partition], guest))


def settings_in(view: ClusterView) -> Settings:
    """Return the settings in metadata that was already read."""
    found = {name: values for (kind, name), values in view.settings.items() if kind == TOPIC_RESOURCE}
    defaults = view.settings.get((BROKER_RESOURCE, ""), {})
    found[""] = {topic_name_of(name): value for name, value in defaults.items()}
    return found


def setting(settings: Settings, topic: str | None, name: str) -> str | None:
    """Return a topic's setting, or the cluster's default; None if neither is set."""
    own = settings.get(topic or "", {}).get(name)
    return settings.get("", {}).get(name) if own is None else own


def number_setting(settings: Settings, topic: str | None, name: str, default: str | None = None) -> int:
    """Return an integer setting, else `default`, else Kafka's. Raises KafkatoolError for invalid metadata."""
    text = setting(settings, topic, name)
    text = default if text is None else text
    key = keys_of(NEWEST)[name]
    try:
        return key.read_integer(str(key.default) if text is None else text)
    except UsageError as error:
        raise KafkatoolError(
            f"the metadata on this disk says {error}; --set {name}=VALUE goes before"
        ) from None


def is_tiered(settings: Settings, topic: str | None) -> bool:
    """Return whether a topic is tiered, as far as the settings say."""
    is_on = (setting(settings, topic, "remote.storage.enable") or "").strip().lower() == "true"
    return is_on and "compact" not in (setting(settings, topic, "cleanup.policy") or "")


@dataclass(frozen=True, slots=True)
class NumberSettings:
    """Given integer settings, and their precedence over those in the metadata."""

    given: Mapping[str, int] = field(default_factory=dict)
    """From --set, or from a file with topic settings."""
    of_server: Mapping[str, str] = field(default_factory=dict)

    def of(self, known: Settings, topic: str | None, name: str) -> int:
        """Return the value for a topic; raise KafkatoolError for invalid metadata."""
        if name in self.given:
            return self.given[name]
        return number_setting(known, topic, name, self.of_server.get(name))


def read_numbers(given: Iterable[str], config: str | None, known: Sequence[str]) -> NumberSettings:
    """What --set and --config say of these settings.

    Raises UsageError for a key of --set without effect here, or a value Kafka refuses.
    """
    of_topic, server = ({}, None) if config is None else read_config_file(config, NEWEST)
    found = {name: keys_of(NEWEST)[name].read_integer(of_topic[name]) for name in known if name in of_topic}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write KEY=VALUE")
        if key not in known:
            raise UsageError(f"--set {key}: of no effect here; known: {', '.join(known)}")
        found[key] = keys_of(NEWEST)[key].read_integer(value)
    return NumberSettings(found, {topic_name_of(name): value for name, value in (server or {}).items()})
