"""Topic settings: the names, defaults and limits of real brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkatool.engine.cluster.topic_config import keys_of, read_config
from kafkatool.errors import UsageError
from kafkatool.format.release import Release
from tests.kafka.broker import Broker

pytestmark = pytest.mark.peer

EDGES = ("-3", "-2", "-1", "0", "1", "2", "3", "4", "9", "10", "13", "14", "17", "18", "22", "23")
LARGE = ("1048575", "1048576", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808")
TEXTS = ("", " 5 ", "0.5", "1.5", "true", "TRUE", "maybe", "compact", "compact,delete", "compact, delete",
         "producer", "zstd", "LogAppendTime", "logappendtime", "*", "1:2", "1:2,3:4", "x",
         "+7", "1_0", "1_048_576", "\u0667", "0x10", "7L", "1e3")  # fmt: skip
# The test broker sets this one for itself.
NOT_DEFAULT = {"retention.ms"}
# Settings that a broker changes only together with others, or that are none of a log's business.
NOT_ALONE = {"remote.storage.enable", "local.retention.ms", "local.retention.bytes", "min.compaction.lag.ms"}


def describe(broker: Broker, topic: str) -> dict[str, str]:
    import confluent_kafka.admin

    library: Any = confluent_kafka.admin
    resource = library.ConfigResource(library.ResourceType.TOPIC, topic)
    future = broker.client._admin.describe_configs([resource])[resource]
    return {name: entry.value for name, entry in future.result(20).items()}


def as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def test_names_and_defaults_are_the_brokers(any_broker: Broker) -> None:
    any_broker.client.create_topic("settings")
    theirs = describe(any_broker, "settings")
    ours = {name: as_text(key.default) for name, key in keys_of(Release.parse(any_broker.version)).items()}
    ours.pop("internal.segment.bytes", None)  # known to brokers, and shown by none
    assert set(ours) == set(theirs)
    wrong = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
    assert {name: pair for name, pair in wrong.items() if name not in NOT_DEFAULT} == {}


def is_taken(broker: Broker, name: str, text: str) -> bool:
    try:
        broker.client.alter_config("limits", {name: text})
    except Exception as error:
        if "INVALID_CONFIG" in str(error) or "INVALID_REQUEST" in str(error):
            return False
        raise
    return True


def is_ours(settings: dict[str, str], release: Release) -> bool:
    try:
        read_config(settings, release)
    except UsageError:
        return False
    return True


def test_values_are_taken_and_refused_as_by_the_broker(newest_broker: Broker) -> None:
    newest_broker.client.create_topic("limits")
    release = Release.parse(newest_broker.version)
    wrong = []
    for name in sorted(set(keys_of(release)) - NOT_ALONE):
        for text in (*EDGES, *LARGE, *TEXTS):
            theirs, ours = is_taken(newest_broker, name, text), is_ours({name: text}, release)
            if theirs != ours:
                wrong.append((name, text, theirs))
        newest_broker.client.alter_config("limits", {name: as_text(_default(name, release))})
    assert wrong == []
    assert is_taken(newest_broker, "segment.ms", "5")
    assert not is_taken(newest_broker, "segment.ms", "0")


def _default(name: str, release: Release) -> object:
    default = keys_of(release)[name].default
    return 1 << 30 if default is None else default
