"""Topic settings: Kafka's names, defaults and limits."""

from __future__ import annotations

import pytest

from kafkatool.engine.cluster.topic_config import keys_of, read_config
from kafkatool.errors import UsageError
from kafkatool.format.release import Release


def test_what_nobody_sets_is_kafkas_default() -> None:
    config = read_config({})
    assert (config.segment_bytes, config.max_segment_ms, config.index_interval_bytes) == (
        1 << 30,
        604_800_000,
        4096,
    )
    assert (config.max_index_bytes, config.max_message_bytes) == (10_485_760, 1_048_588)
    assert not config.is_compacted
    assert not config.uses_append_time


def test_texts_become_values() -> None:
    settings = {
        "cleanup.policy": "compact, delete",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "TRUE",
    }
    values = read_config(settings).values
    assert [values[name] for name in settings] == [("compact", "delete"), 0.25, True]
    assert read_config({"cleanup.policy": ""}).values["cleanup.policy"] == ()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("segment.bytes", "1048575", "at least 1048576"),
        ("segment.bytes", "4294967296", "at least 1048576"),
        ("segment.bytes", "1e6", "a number"),
        ("segment.index.bytes", "3", "at least 4"),
        ("flush.messages", "0", "at least 1"),
        ("min.cleanable.dirty.ratio", "1.5", "0 to 1"),
        ("compression.gzip.level", "0", "1 to 9, or -1"),
        ("compression.type", "brotli", "one of uncompressed"),
        ("cleanup.policy", "shred", "a list of compact, delete"),
        ("preallocate", "yes", "true or false"),
        ("leader.replication.throttled.replicas", "1", "partition:broker"),
    ],
)
def test_a_value_that_kafka_refuses_is_a_clear_error(name: str, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_config({name: text})
    assert str(raised.value).startswith(f"{name}={text}: it must be ")
    assert reason in str(raised.value)


def test_an_unknown_name_is_an_error_that_names_the_likely_one() -> None:
    with pytest.raises(UsageError, match=r"did you mean segment\.bytes\?"):
        read_config({"segments.bytes": "1"})


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match=r"above max\.compaction"):
        read_config({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"})
    with pytest.raises(UsageError, match="cannot be tiered"):
        read_config({"remote.storage.enable": "true", "cleanup.policy": "compact"})
    with pytest.raises(UsageError, match=r"above retention\.ms"):
        read_config({"remote.storage.enable": "true", "local.retention.ms": "-1"})


def test_the_releases_differ_where_they_do() -> None:
    old, new = keys_of(Release.V3_9), keys_of(Release.V4_3)
    assert set(old) - set(new) == {
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
    }
    assert set(new) - set(old) == {"internal.segment.bytes"}
    assert read_config({"segment.bytes": "14"}, Release.V4_0).segment_bytes == 14
    assert read_config({"internal.segment.bytes": "700"}).segment_bytes == 700
    assert read_config({}).timestamp_after_max_ms == 3_600_000
    assert read_config({"message.timestamp.difference.max.ms": "5"}, Release.V3_9).timestamp_after_max_ms == 5


def test_a_compacted_segment_is_rolled_before_the_cleaner_is_late() -> None:
    settings = {"max.compaction.lag.ms": "9", "segment.ms": "10"}
    assert read_config(settings).max_segment_ms == 10
    assert read_config(settings | {"cleanup.policy": "compact"}).max_segment_ms == 9
