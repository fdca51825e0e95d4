"""Where each setting of a topic comes from, in a broker's order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkatool.engine.cluster.effective_settings import SettingOrigin, Sources, parse_given, read_config_file
from kafkatool.engine.cluster.topic_settings import setting, topic_settings
from kafkatool.engine.cluster.view import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterView, read_cluster_view
from kafkatool.engine.directory.log_dir import read_log_dir, read_partition
from kafkatool.engine.files.source import Guest
from kafkatool.engine.recover.broker_start import BrokerStart
from kafkatool.engine.recover.start_checks import StartChecks
from kafkatool.errors import KafkatoolError, UsageError
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import METADATA_PARTITION, segment_file
from kafkatool.format.release import NEWEST, Release
from tests.places import FIXTURES

HOUR_MS = 3_600_000


def cluster(
    topic: dict[str, str] | None = None,
    broker: dict[str, str] | None = None,
    everywhere: dict[str, str] | None = None,
) -> ClusterView:
    view = ClusterView(is_known=True, topic_ids={"id": "orders"})
    view.settings = {
        (TOPIC_RESOURCE, "orders"): topic or {},
        (BROKER_RESOURCE, "1"): broker or {},
        (BROKER_RESOURCE, ""): everywhere or {},
    }
    return view


def test_each_place_outweighs_those_behind_it() -> None:
    sources = Sources(
        given={"retention.ms": "1"},
        file={"retention.ms": "2"},
        server={"log.retention.ms": "6"},
        cluster=cluster({"retention.ms": "3"}, {"log.retention.ms": "4"}, {"log.retention.ms": "5"}),
        node_id=1,
    )
    found = []
    while True:
        one = sources.of("orders").settings["retention.ms"]
        found.append((one.value, one.origin))
        if one.origin is SettingOrigin.DEFAULT:
            break
        places = {
            SettingOrigin.SET: sources.given,
            SettingOrigin.FILE: sources.file,
            SettingOrigin.TOPIC: sources.cluster.settings[TOPIC_RESOURCE, "orders"],
            SettingOrigin.BROKER: sources.cluster.settings[BROKER_RESOURCE, "1"],
            SettingOrigin.CLUSTER: sources.cluster.settings[BROKER_RESOURCE, ""],
            SettingOrigin.SERVER: sources.server,
        }
        places[one.origin].clear()  # type: ignore[union-attr]
    assert found == [
        *zip(range(1, 7), SettingOrigin, strict=False),
        (7 * 24 * HOUR_MS, SettingOrigin.DEFAULT),
    ]


@pytest.mark.parametrize(
    ("server", "value"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-7"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_of_a_brokers_names_for_one_setting_the_first_counts(server: dict[str, str], value: int) -> None:
    one = Sources(server=server, server_path="s.properties").of("orders").settings["retention.ms"]
    assert (one.value, one.origin) == (value, SettingOrigin.SERVER)
    assert one.source in {f"s.properties: {name}" for name in server}


def test_a_broker_takes_no_retention_of_nothing_and_a_topic_does() -> None:
    for name in ("log.retention.ms", "log.retention.hours"):
        with pytest.raises(KafkatoolError, match="no broker starts with it"):
            Sources(server={name: "0"}).of("orders")
    assert Sources(given={"retention.ms": "0"}).of("orders").config.number("retention.ms") == 0


def test_a_setting_of_this_broker_outweighs_a_smaller_unit_of_its_configuration() -> None:
    sources = Sources(
        server={"log.retention.ms": "9"}, cluster=cluster(broker={"log.retention.hours": "1"}), node_id=1
    )
    assert sources.of("orders").settings["retention.ms"].value == HOUR_MS


def test_what_another_broker_goes_by_says_nothing_here() -> None:
    view = cluster(broker={"log.retention.ms": "4"})
    for node_id in (2, None):
        assert (
            Sources(cluster=view, node_id=node_id).of("orders").settings["retention.ms"].origin
            is SettingOrigin.DEFAULT
        )


def test_a_default_is_certain_only_where_nothing_is_left_that_could_change_it() -> None:
    def uncertain(sources: Sources) -> list[str]:
        return [one.name for one in sources.of("orders").uncertain(["retention.ms", "retention.bytes"])]

    both = ["retention.ms", "retention.bytes"]
    assert uncertain(Sources()) == both
    assert uncertain(Sources(given={"retention.ms": "5"})) == ["retention.bytes"]
    assert uncertain(Sources(cluster=cluster())) == both
    assert uncertain(Sources(server={})) == both
    assert uncertain(Sources(server={}, cluster=cluster())) == []
    assert Sources(cluster=cluster()).of("orders").uncertain(["remote.storage.enable"]) == []
    gap = cluster()
    gap.is_complete = False
    assert uncertain(Sources(server={}, cluster=gap)) == both
    assert (
        uncertain(Sources(server={}, cluster=ClusterView(is_known=True, topic_ids={"id": "other"}))) == both
    )


def test_internal_topics_are_taken_for_what_brokers_make_them_unless_the_metadata_knows_better() -> None:
    policy = Sources().of("__consumer_offsets").settings["cleanup.policy"]
    assert (policy.value, policy.origin, policy.is_certain) == (("compact",), SettingOrigin.DEFAULT, False)
    known = ClusterView(is_known=True, topic_ids={"id": "__consumer_offsets"})
    assert Sources(cluster=known).of("__consumer_offsets").settings["cleanup.policy"].value == ("delete",)


def test_brokers_settings_are_found_the_same_way() -> None:
    name = "log.cleaner.dedupe.buffer.size"
    assert Sources().broker(name).value == 128 << 20
    assert Sources(server={name: "5"}).broker(name).origin is SettingOrigin.SERVER
    assert Sources(server={name: "5"}, cluster=cluster(everywhere={name: "6"})).broker(name).value == 6
    assert Sources(given={name: "7"}, server={name: "5"}).broker(name).value == 7
    assert Sources(given={"log.cleaner.enable": "false"}).broker("log.cleaner.enable").value is False


def test_a_bad_value_on_the_disk_is_told_with_its_place_and_one_that_was_typed_is_usage() -> None:
    with pytest.raises(
        KafkatoolError, match=r"orders: retention.ms=soon: it must be a number \(topic\)"
    ) as raised:
        Sources(cluster=cluster({"retention.ms": "soon"})).of("orders")
    assert not isinstance(raised.value, UsageError)
    with pytest.raises(UsageError):
        Sources(given={"retention.ms": "soon"}).of("orders")


def test_what_a_release_does_not_know_is_left_out_and_told() -> None:
    settings = Sources(Release.V4_3, cluster=cluster({"message.format.version": "3.0"})).of("orders")
    assert settings.ignored == ("message.format.version",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("retention.ms", "write KEY=VALUE"),
        ("retention.mss=1", "did you mean retention.ms"),
        ("retention.ms=-7", "at least -1"),
        ("log.cleaner.enable=maybe", "true or false"),
    ],
)
def test_what_is_set_by_hand_must_be_something_kafka_takes(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_given([text], NEWEST)


def test_a_file_is_a_topics_or_a_brokers(tmp_path: Path) -> None:
    file = tmp_path / "any.properties"
    file.write_text("retention.ms=5\ncleanup.policy=compact\n")
    assert read_config_file(str(file), NEWEST) == ({"retention.ms": "5", "cleanup.policy": "compact"}, None)
    file.write_text("node.id=1\nlog.retention.hours=5\nmin.insync.replicas=2\n")
    topic, server = read_config_file(str(file), NEWEST)
    assert topic == {}
    assert server is not None
    assert Sources(server=server).of("orders").config.number("min.insync.replicas") == 2
    file.write_text("colour=red\n")
    with pytest.raises(UsageError, match="colour is not a setting of topics"):
        read_config_file(str(file), NEWEST)


@pytest.mark.parametrize("level", range(1, 40))
def test_the_release_is_told_by_the_metadata_version(level: int) -> None:
    release = ClusterView(metadata_level=level).release
    assert release is not None
    first = {Release.V4_0: 22, Release.V4_1: 26, Release.V4_2: 28, Release.V4_3: 30}
    assert release == max((one for one in first if first[one] <= level), default=Release.V3_9)


def test_the_metadata_of_a_real_broker_is_read() -> None:
    seen = set()
    for directory in sorted(FIXTURES.rglob("__cluster_metadata-0")):
        view = read_cluster_view([read_partition(str(directory), [])], Guest())
        seen.add(view.release)
        known = topic_settings(str(directory.parent), Guest())
        for (kind, topic), values in view.settings.items():
            if kind == TOPIC_RESOURCE:
                assert known[topic] == values
                own = Sources(view.release or NEWEST, cluster=view).of(topic).settings
                assert all(own[name].origin is SettingOrigin.TOPIC for name in values if name in own)
    assert {Release.V3_9, Release.V4_3} <= seen


@pytest.mark.parametrize("label", ["3.9", "4.3"])
def test_the_release_of_a_broker_is_told_by_its_own_registration(label: str, tmp_path: Path) -> None:
    """As a broker of that release registered, in a cluster whose metadata.version is older, or newer."""
    log_dir = tmp_path / "logs1"
    shutil.copytree(FIXTURES / "log-dir" / f"clean-{label}" / "logs1", log_dir)
    release = Release.parse(label)
    others = {21: Release.V3_9, 28: Release.V4_2}
    for level, of_cluster in others.items():
        _append_metadata(log_dir, b"\x01\x0c\x00\x11metadata.version" + level.to_bytes(2, "big") + b"\x00")
        view = _view(log_dir)
        assert view.release is of_cluster
        assert view.release_of(1) is release
        assert view.release_of(7) is of_cluster, "of a node that never registered"
        assert view.release_of(None) is of_cluster
        listed = read_log_dir(str(log_dir))  # with meta.properties, which says which node it is
        start = BrokerStart([listed], Guest(), 0)
        assert start.how(listed.partitions[0], StartChecks()).release is release
    _append_metadata(log_dir, b"\x01\x01\x00" + (1).to_bytes(4, "big") + bytes(8) + b"\x00")
    assert _view(log_dir).release_of(1) is of_cluster, "it was unregistered"
    assert ClusterView().release_of(1) is None


def _view(log_dir: Path) -> ClusterView:
    return read_cluster_view([read_partition(str(log_dir / METADATA_PARTITION), [])], Guest())


def _append_metadata(log_dir: Path, value: bytes) -> None:
    log = max((log_dir / METADATA_PARTITION).glob("*.log"))
    batch = write_batch(
        [NewRecord(None, value, 0)], base_offset=_view(log_dir).last_offset + 1, partition_leader_epoch=1
    )
    log.write_bytes(log.read_bytes() + batch)


def test_a_topic_that_was_deleted_takes_its_settings_with_it(tmp_path: Path) -> None:
    """Brokers write no record for each of them."""
    topic_id = bytes(range(16))
    records = [
        b"\x01\x02\x00\x07orders" + topic_id + b"\x00",
        b"\x01\x04\x00\x02\x07orders\x0dretention.ms\x03" + b"77" + b"\x00",
    ]
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    log = directory / segment_file(0, ".log")
    log.write_bytes(
        write_batch([NewRecord(None, value, 0) for value in records], base_offset=0, partition_leader_epoch=1)
    )
    assert setting(topic_settings(str(tmp_path), Guest()), "orders", "retention.ms") == "77"
    gone = write_batch(
        [NewRecord(None, b"\x01\x09\x00" + topic_id + b"\x00", 0)], base_offset=2, partition_leader_epoch=1
    )
    log.write_bytes(log.read_bytes() + gone)
    assert setting(topic_settings(str(tmp_path), Guest()), "orders", "retention.ms") is None
