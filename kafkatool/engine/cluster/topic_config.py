"""A topic's settings, with Kafka's names, defaults and limits.

    config = read_config({"segment.bytes": "1048576"}, release)
    config.segment_bytes

Releases differ in a few keys: `since` and `until` bound those that came or went, and a changed limit or
default has two lines in the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kafkatool.errors import UsageError
from kafkatool.format.java_text import INT_MAX, LONG_MAX, parse_long
from kafkatool.format.release import NEWEST, Release

INT_MIN = -INT_MAX - 1
LONG_MIN = -LONG_MAX - 1
DAY_MS = 86_400_000

Value = int | float | bool | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One setting: how to parse it, its default, and its allowed values."""

    name: str
    default: Value
    low: int = LONG_MIN
    high: int = LONG_MAX
    choices: tuple[str, ...] = ()
    also: int | None = None  # a value outside the limits that is allowed as well
    since: Release = Release.V3_9
    until: Release = NEWEST

    def read(self, text: str) -> Value:
        """Parse a value; raise UsageError with the reason if it is not allowed."""
        if isinstance(self.default, bool):
            return self._read_bool(text.strip())
        if isinstance(self.default, tuple):
            return self._read_list(text)
        if isinstance(self.default, str):
            return self._read_choice(text.strip())
        return self._read_number(text.strip())

    def read_integer(self, text: str) -> int:
        """Parse the value of an integer setting."""
        value = self.read(text)
        assert isinstance(value, int)
        return value

    def _read_bool(self, text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise self._refuse(text, "must be true or false")
        return text.lower() == "true"

    def _read_list(self, text: str) -> tuple[str, ...]:
        words = tuple(word.strip() for word in text.split(",")) if text.strip() else ()
        if self.choices and not set(words) <= set(self.choices):
            raise self._refuse(text, f"must be a list of {', '.join(self.choices)}")
        if not self.choices and words != ("*",) and not all(re.fullmatch(r"\d+:\d+", word) for word in words):
            raise self._refuse(text, "must be * or a list of partition:broker")
        return words

    def _read_choice(self, text: str) -> str:
        if self.choices and text not in self.choices:
            raise self._refuse(text, f"must be one of {', '.join(self.choices)}")
        return text

    def _read_number(self, text: str) -> int | float:
        is_ratio = isinstance(self.default, float)
        number = _parse_ratio(text) if is_ratio else parse_long(text)
        if number is None:
            raise self._refuse(text, "must be a number")
        if number != self.also and not self.low <= number <= self.high:
            raise self._refuse(text, f"must be {self.limits}")
        return number

    @property
    def limits(self) -> str:
        """The allowed numbers in words."""
        words = f"{self.low} to {self.high}" if self.high < INT_MAX else f"at least {self.low}"
        return words if self.also is None else f"{words}, or {self.also}"

    def _refuse(self, text: str, reason: str) -> UsageError:
        return UsageError(f"{self.name}={text}: it {reason}")


def _parse_ratio(text: str) -> float | None:
    try:
        return None if "_" in text else float(text)  # Python reads 1_0 as 10, Java refuses it
    except ValueError:
        return None


def _int(name: str, default: int | None, low: int = INT_MIN, high: int = INT_MAX) -> SettingKey:
    return SettingKey(name, default, low, high)


_KEYS = (
    SettingKey("cleanup.policy", ("delete",), choices=("compact", "delete")),
    SettingKey("compression.gzip.level", -1, 1, 9, also=-1),
    SettingKey("compression.lz4.level", 9, 1, 17),
    SettingKey(
        "compression.type", "producer", choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
    ),
    SettingKey("compression.zstd.level", 3, -131072, 22),
    SettingKey("delete.retention.ms", DAY_MS, 0),
    SettingKey("file.delete.delay.ms", 60_000, 0),
    SettingKey("flush.messages", LONG_MAX, 1),
    SettingKey("flush.ms", LONG_MAX, 0),
    SettingKey("follower.replication.throttled.replicas", ()),
    _int("index.interval.bytes", 4096, 0),
    SettingKey("internal.segment.bytes", None, INT_MIN, INT_MAX, since=Release.V4_1),
    SettingKey("leader.replication.throttled.replicas", ()),
    SettingKey("local.retention.bytes", -2, -2),
    SettingKey("local.retention.ms", -2, -2),
    SettingKey("max.compaction.lag.ms", LONG_MAX, 1),
    _int("max.message.bytes", 1_048_588, 0),
    SettingKey("message.downconversion.enable", True, until=Release.V3_9),
    SettingKey("message.format.version", "3.0-IV1", until=Release.V3_9),
    SettingKey("message.timestamp.after.max.ms", LONG_MAX, 0, until=Release.V3_9),
    SettingKey("message.timestamp.after.max.ms", 3_600_000, 0, since=Release.V4_0),
    SettingKey("message.timestamp.before.max.ms", LONG_MAX, 0),
    SettingKey("message.timestamp.difference.max.ms", LONG_MAX, 0, until=Release.V3_9),
    SettingKey("message.timestamp.type", "CreateTime", choices=("CreateTime", "LogAppendTime")),
    SettingKey("min.cleanable.dirty.ratio", 0.5, 0, 1),
    SettingKey("min.compaction.lag.ms", 0, 0),
    _int("min.insync.replicas", 1, 1),
    SettingKey("preallocate", False),
    SettingKey("remote.log.copy.disable", False),
    SettingKey("remote.log.delete.on.disable", False),
    SettingKey("remote.storage.enable", False),
    SettingKey("retention.bytes", -1),
    SettingKey("retention.ms", 7 * DAY_MS, -1),
    SettingKey("segment.bytes", 1 << 30, 14, INT_MAX, until=Release.V4_0),
    SettingKey("segment.bytes", 1 << 30, 1 << 20, INT_MAX, since=Release.V4_1),
    _int("segment.index.bytes", 10 << 20, 4),
    SettingKey("segment.jitter.ms", 0, 0),
    SettingKey("segment.ms", 7 * DAY_MS, 1),
    SettingKey("unclean.leader.election.enable", False),
)


def keys_of(release: Release) -> dict[str, SettingKey]:
    """Return the settings that a release knows, by name."""
    return {key.name: key for key in _KEYS if key.since <= release <= key.until}


@dataclass(frozen=True)
class TopicConfig:
    """All settings of a topic; those the log itself needs have properties."""

    values: Mapping[str, Value]
    release: Release = NEWEST

    def number(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    @cached_property
    def segment_bytes(self) -> int:
        """Segment size; `internal.segment.bytes`, which tests of brokers use, overrides it if present."""
        small = self.values.get("internal.segment.bytes")
        return small if isinstance(small, int) else self.number("segment.bytes")

    @cached_property
    def preallocates(self) -> bool:
        return self.values["preallocate"] is True

    @cached_property
    def max_segment_ms(self) -> int:
        """Age at which to roll; in a compacted topic also limited by `max.compaction.lag.ms`."""
        if self.is_compacted:
            return min(self.number("max.compaction.lag.ms"), self.number("segment.ms"))
        return self.number("segment.ms")

    @cached_property
    def segment_jitter_ms(self) -> int:
        return self.number("segment.jitter.ms")

    @cached_property
    def max_index_bytes(self) -> int:
        return self.number("segment.index.bytes")

    @cached_property
    def index_interval_bytes(self) -> int:
        return self.number("index.interval.bytes")

    @cached_property
    def max_message_bytes(self) -> int:
        return self.number("max.message.bytes")

    @cached_property
    def flush_messages(self) -> int:
        return self.number("flush.messages")

    @cached_property
    def flush_ms(self) -> int:
        return self.number("flush.ms")

    @cached_property
    def is_compacted(self) -> bool:
        policy = self.values["cleanup.policy"]
        return isinstance(policy, tuple) and "compact" in policy

    @cached_property
    def uses_append_time(self) -> bool:
        return self.values["message.timestamp.type"] == "LogAppendTime"

    @cached_property
    def timestamp_before_max_ms(self) -> int:
        return self._bound("message.timestamp.before.max.ms")

    @cached_property
    def timestamp_after_max_ms(self) -> int:
        return self._bound("message.timestamp.after.max.ms")

    @cached_property
    def compression_type(self) -> str:
        return str(self.values["compression.type"])

    @cached_property
    def compression_level(self) -> int | None:
        """Level of `compression.type`; None if it has none, or the producer chooses."""
        level = self.values.get(f"compression.{self.compression_type}.level")
        return level if isinstance(level, int) else None

    def _bound(self, name: str) -> int:
        """Return a timestamp limit; 3.9 also has one for both directions, used if this one is not set."""
        old = self.values.get("message.timestamp.difference.max.ms", LONG_MAX)
        own = self.number(name)
        return old if own == LONG_MAX and isinstance(old, int) else own


def read_config(settings: Mapping[str, str], release: Release = NEWEST) -> TopicConfig:
    """Parse settings, the rest by default; raise UsageError for a name or value Kafka refuses."""
    keys = keys_of(release)
    for name in settings:
        if name not in keys:
            raise UsageError(f"{name} is not a topic setting of Kafka {release.label}{_likely(name, keys)}")
    values = {
        name: key.read(settings[name]) if name in settings else key.default for name, key in keys.items()
    }
    config = TopicConfig(values, release)
    _check_together(config)
    return config


def _likely(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 1)
    return f": did you mean {close[0]}?" if close else ""


def _check_together(config: TopicConfig) -> None:
    """Raise UsageError for settings that contradict each other."""
    least, most = config.number("min.compaction.lag.ms"), config.number("max.compaction.lag.ms")
    if least > most:
        raise UsageError(f"min.compaction.lag.ms={least} is above max.compaction.lag.ms={most}")
    if not config.values["remote.storage.enable"]:
        return
    if config.is_compacted:
        raise UsageError("remote.storage.enable=true: a compacted topic cannot be tiered")
    for unit in ("ms", "bytes"):
        here, everywhere = config.number(f"local.retention.{unit}"), config.number(f"retention.{unit}")
        if everywhere != -1 and here != -2 and not 0 <= here <= everywhere:
            raise UsageError(f"local.retention.{unit}={here} is above retention.{unit}={everywhere}")
