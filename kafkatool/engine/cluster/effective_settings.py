"""Resolve a topic's settings as its broker would: each with its value and where that comes from.

    --set KEY=VALUE      what-if, overrides everything
    --config FILE        topic settings in a file
    topic                set for the topic, in the metadata on disk
    broker, cluster      set for this broker, or for all brokers, in the metadata on disk
    server.properties    `log.*` names in the broker's configuration
    default              Kafka's own

If a broker has several names for one setting (`log.retention.ms`, `.minutes`, `.hours`), the first that is
set counts, within the nearest of the places above. A default is certain only if all places could be read:
complete metadata that knows the topic and, for settings a broker has a name for, its configuration. If the
metadata ends before the broker did, only the first two places are certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kafkatool.engine.cluster.metadata_end import MetadataEnd
from kafkatool.engine.cluster.topic_config import SettingKey, TopicConfig, Value, keys_of, read_config
from kafkatool.engine.cluster.view import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterView
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.errors import FormatError, KafkatoolError, UsageError
from kafkatool.format.java_text import INT_MAX, LONG_MAX
from kafkatool.format.release import NEWEST, Release
from kafkatool.format.state.properties import read_properties

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000


class SettingOrigin(StrEnum):
    """Where a value comes from, in order of precedence."""

    SET = "--set"
    FILE = "--config"
    TOPIC = "topic"
    BROKER = "broker"
    CLUSTER = "cluster"
    SERVER = "server.properties"
    DEFAULT = "default"


class Synonym(NamedTuple):
    """A broker's name for a topic setting; its number times `factor` is the topic's."""

    name: str
    factor: int = 1


def _times(stem: str, *names: str) -> tuple[Synonym, ...]:
    factors = {"ms": 1, "minutes": _MINUTE_MS, "hours": _HOUR_MS}
    return tuple(Synonym(f"{stem}.{name}", factors[name]) for name in names)


_SYNONYMS: dict[str, tuple[Synonym, ...]] = {
    "segment.ms": _times("log.roll", "ms", "hours"),
    "segment.jitter.ms": _times("log.roll.jitter", "ms", "hours"),
    "retention.ms": _times("log.retention", "ms", "minutes", "hours"),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    **{
        name: (Synonym(f"log.cleaner.{name}"),)
        for name in ("delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms")
    },
    **{
        name: (Synonym(f"log.{name}"),)
        for name in (
            *("segment.bytes", "retention.bytes", "index.interval.bytes", "cleanup.policy", "preallocate"),
            *("message.timestamp.type", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"),
            *("message.timestamp.difference.max.ms", "message.downconversion.enable"),
            *("message.format.version", "local.retention.ms", "local.retention.bytes"),
        )
    },
    **{
        name: (Synonym(name),)
        for name in (
            *("unclean.leader.election.enable", "min.insync.replicas", "compression.type"),
            *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        )
    },
}
_TOPIC_NAMES = {
    one.name: topic for topic, synonyms in _SYNONYMS.items() for one in synonyms if one.factor == 1
}

# Settings that only brokers have, and that retention and compaction use.
_BROKER_KEYS = {
    key.name: key
    for key in (
        SettingKey("log.retention.check.interval.ms", 300_000, 1),
        SettingKey("log.cleaner.enable", True),
        SettingKey("log.cleaner.threads", 1, 0, INT_MAX),
        SettingKey("log.cleaner.backoff.ms", 15_000, 0),
        SettingKey("log.cleaner.dedupe.buffer.size", 134_217_728, 0),
        SettingKey("log.cleaner.io.buffer.size", 524_288, 0, INT_MAX),
        SettingKey("log.cleaner.io.buffer.load.factor", 0.9, 0, LONG_MAX),
    )
}


# How brokers create their own internal topics; assumed where the metadata does not say.
INTERNAL_TOPICS: dict[str, dict[str, str]] = {
    "__consumer_offsets": {"cleanup.policy": "compact", "segment.bytes": "104857600"},
    "__transaction_state": {"cleanup.policy": "compact", "segment.bytes": "104857600"},
    "__share_group_state": {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "104857600"},
    "__remote_log_metadata": {"cleanup.policy": "delete", "retention.ms": "-1"},
}


def topic_name_of(broker_name: str) -> str:
    """Return the topic setting with the same values as a broker's; else the name unchanged."""
    return _TOPIC_NAMES.get(broker_name, broker_name)


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it comes from: the place, and the name or file there."""

    name: str
    value: Value
    origin: SettingOrigin
    source: str | None = None
    is_certain: bool = True
    """False if something not read here may have changed it: for a default, or old metadata."""

    @property
    def text(self) -> str:
        """The value as Kafka writes it."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return ",".join(self.value) if isinstance(self.value, tuple) else str(self.value)


@dataclass(frozen=True)
class TopicSettings:
    """All settings of a topic."""

    topic: str | None
    config: TopicConfig
    settings: Mapping[str, Setting]
    ignored: tuple[str, ...] = ()
    """Settings in the metadata that this release does not know."""
    metadata_end: MetadataEnd | None = None
    """Set if the metadata ends before the broker did: then only given settings are certain."""

    def uncertain(self, names: Iterable[str]) -> list[Setting]:
        """Return which of these settings are merely assumed: nothing may be deleted because of them."""
        return [self.settings[name] for name in names if not self.settings[name].is_certain]


class TopicSettingsFound(NamedTuple):
    """Tells what a topic is judged by."""

    topic: str | None
    settings: list[Setting]


class _Text(NamedTuple):
    text: str
    origin: SettingOrigin
    source: str | None


@dataclass(slots=True)
class Sources:
    """Every source of settings; `of` and `broker` resolve them."""

    release: Release = NEWEST
    given: dict[str, str] = field(default_factory=dict)
    """Settings from --set, by topics' or brokers' names."""
    file: dict[str, str] = field(default_factory=dict)
    """Topic settings from --config."""
    file_path: str | None = None
    server: dict[str, str] | None = None
    """The broker's configuration; None if none was given."""
    server_path: str | None = None
    cluster: ClusterView = field(default_factory=ClusterView)
    node_id: int | None = None
    metadata_end: MetadataEnd | None = None

    def of(self, topic: str | None) -> TopicSettings:
        """Return the settings of a topic. Raises KafkatoolError for a value that no broker accepts."""
        own = self.cluster.settings.get((TOPIC_RESOURCE, topic or ""), {})
        keys = keys_of(self.release)
        found = {name: text for name in keys if (text := self._find(name, own)) is not None}
        is_known = topic in self.cluster.topic_ids.values()
        created = {} if is_known else INTERNAL_TOPICS.get(topic or "", {})
        try:
            config = read_config({**created, **{name: one.text for name, one in found.items()}}, self.release)
        except UsageError as error:
            raise self._blame(topic, found, error) from None
        certain = self._certain_defaults(topic, keys)
        settings = {
            name: Setting(
                name, value, found[name].origin, found[name].source, self._lasts(found[name].origin)
            )
            if name in found
            else Setting(name, value, SettingOrigin.DEFAULT, None, name in certain)
            for name, value in config.values.items()
        }
        ignored = tuple(sorted(name for name in own if name not in keys))
        return TopicSettings(topic, config, settings, ignored, self.metadata_end)

    def broker(self, name: str) -> Setting:
        """Return a broker-only setting. Raises UsageError for a value that no broker accepts."""
        key = _BROKER_KEYS[name]
        if name in self.given:
            return Setting(name, key.read(self.given[name]), SettingOrigin.SET)
        for origin, source, values in self._of_brokers():
            if name in values:
                return Setting(name, key.read(values[name]), origin, source)
        return Setting(name, key.default, SettingOrigin.DEFAULT, None, self.server is not None)

    def _find(self, name: str, own: Mapping[str, str]) -> _Text | None:
        if name in self.given:
            return _Text(self.given[name], SettingOrigin.SET, None)
        if name in self.file:
            return _Text(self.file[name], SettingOrigin.FILE, self.file_path)
        if name in own:
            return _Text(own[name], SettingOrigin.TOPIC, None)
        for origin, source, values in self._of_brokers():
            for synonym in _SYNONYMS.get(name, ()):
                if synonym.name in values:
                    text = _scaled(name, values[synonym.name], synonym)
                    return _Text(
                        text, origin, synonym.name if source is None else f"{source}: {synonym.name}"
                    )
        return None

    def _of_brokers(self) -> list[tuple[SettingOrigin, str | None, Mapping[str, str]]]:
        """Return the sources of brokers' settings, nearest first."""
        places: list[tuple[SettingOrigin, str | None, Mapping[str, str]]] = []
        for origin, name in ((SettingOrigin.BROKER, str(self.node_id)), (SettingOrigin.CLUSTER, "")):
            values = self.cluster.settings.get((BROKER_RESOURCE, name))
            if values and (name == "" or self.node_id is not None):
                places.append((origin, None, values))
        if self.server:
            places.append((SettingOrigin.SERVER, self.server_path, self.server))
        return places

    def _certain_defaults(self, topic: str | None, names: Iterable[str]) -> set[str]:
        """Return the settings that certainly have their defaults if no source has them."""
        is_known = self.cluster.is_known and self.cluster.is_complete and self.metadata_end is None
        if not is_known or topic not in self.cluster.topic_ids.values():
            return set()
        return {name for name in names if self.server is not None or name not in _SYNONYMS}

    def _lasts(self, origin: SettingOrigin) -> bool:
        """Return whether a value still holds if the metadata ended early.

        One from server.properties does not: it counts only if the topic has no value of its own.
        """
        return self.metadata_end is None or origin in (SettingOrigin.SET, SettingOrigin.FILE)

    def _blame(self, topic: str | None, found: Mapping[str, _Text], error: UsageError) -> KafkatoolError:
        """Return the error: a usage error for what was typed, another for what is on disk."""
        name = str(error).partition("=")[0]
        origin = found[name].origin if name in found else SettingOrigin.SET
        if origin is SettingOrigin.SET:
            return error
        return KafkatoolError(f"{topic}: {error} ({origin})")


def _scaled(name: str, text: str, synonym: Synonym) -> str:
    """Convert a broker's text to the topic's."""
    if synonym.factor == 1 and name != "retention.ms":
        return text
    try:
        number = int(text.strip()) * synonym.factor
    except ValueError:
        return text
    if name == "retention.ms" and number == 0:
        raise KafkatoolError(f"{synonym.name}={text}: no broker starts with it: it must be -1 or at least 1")
    return str(max(number, -1) if name == "retention.ms" else number)


def parse_given(texts: Sequence[str], release: Release) -> dict[str, str]:
    """Parse --set options. Raises UsageError for a name or value that no broker accepts."""
    found: dict[str, str] = {}
    keys = {**keys_of(release), **_BROKER_KEYS}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text}: write KEY=VALUE")
        if name not in keys:
            read_config({name: value}, release)  # its error suggests the right name
        keys[name].read(value)
        found[name] = value
    return found


def read_config_file(path: str, release: Release) -> tuple[dict[str, str], dict[str, str] | None]:
    """Return the settings of a file: (topic settings, None), or ({}, settings) of a server.properties.

    Raises KafkatoolError if it cannot be read, UsageError if it is neither.
    """
    try:
        values = read_properties(read_small_file(path, Guest()))
    except FileNotFoundError:
        raise UsageError(f"{path}: No such file or directory") from None
    except FormatError as error:
        raise KafkatoolError(f"{path}: {error}") from None
    if any(map(_is_broker_name, values)):
        return {}, values
    if unknown := [name for name in values if name not in keys_of(release)]:
        raise UsageError(f"{path}: {unknown[0]} is not a setting of topics, and this is no server.properties")
    return values, None


def _is_broker_name(name: str) -> bool:
    """Return whether only a broker's configuration would contain this setting."""
    prefixes = (
        "log.",
        "node.",
        "broker.",
        "process.",
        "listeners",
        "advertised.",
        "controller.",
        "zookeeper.",
    )
    return name.startswith(prefixes) or name in _BROKER_KEYS
