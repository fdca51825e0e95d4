"""The internal topics and the metadata log of one release, from a broker asked for all kinds of things."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.java_client import JavaServant
from tests.kafka.librdkafka import Record
from tests.kafka.making.cases import write_case
from tests.kafka.making.logs import MORE, SAMPLE, create, short

_PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin"'

_PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_PLAIN} user_admin="admin";',
    "delegation.token.secret.key": "secret",
    "metadata.max.idle.interval.ms": "6000",
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    "transactional.id.expiration.ms": "3000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "group.share.record.lock.duration.ms": "15000",
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
}

_SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{_PLAIN};"}


def make_internal(version: str) -> None:
    """Groups of every protocol, transactions, shares, and as many kinds of metadata records as there are."""
    with Broker(
        version, {**_PROPERTIES, **_of_release(version)}, dynamic_quorum=version == peers.NEWEST
    ) as broker:
        said = [_do(step, broker) for step in _steps(version)]
        broker.restart()
        broker.client.create_topic("after-restart")
        broker.stop()
        _write_cases(broker, "\n".join(f"- {line}" for line in said))


def _of_release(version: str) -> dict[str, str]:
    if version == peers.OLDEST:
        return {"metadata.log.segment.bytes": "7000", "metadata.log.segment.min.bytes": "1000"}
    if version == peers.NEWEST:
        return {"internal.metadata.log.segment.bytes": "7000"}
    # 4.0 has share groups for those who ask.
    return {
        "unstable.api.versions.enable": "true",
        "group.share.enable": "true",
        "group.coordinator.rebalance.protocols": "classic,consumer,share",
    }


Step = Callable[[Broker], None]


def _steps(version: str) -> list[Step]:
    steps: list[Step] = [_expired_transactions, _data, _classic_groups]
    if version != peers.OLDEST:
        steps += [_new_groups, _share_groups]
    if version == peers.NEWEST:
        steps += [_streams_groups]
    if version in (peers.OLDEST, peers.NEWEST):
        steps += [_metadata, _tokens]
    return [*steps, _transactions]


def _do(step: Step, broker: Broker) -> str:
    step(broker)
    assert step.__doc__ is not None
    return step.__doc__


def _expired_transactions(broker: Broker) -> None:
    """Transactional ids that expired: tombstones in `__transaction_state`."""
    create(broker, "gone")
    broker.client.transaction("gone", [SAMPLE], transactional_id="gone-1", commit=True)
    broker.java.transactions(
        "gone", [("begin", None), ("send", MORE), ("abort", None)], transactional_id="gone-2"
    )
    time.sleep(5)


def _data(broker: Broker) -> None:
    """Topic `data` with two partitions and records in both."""
    broker.client.create_topic("data", partitions=2)
    for partition in (0, 1):
        broker.client.produce("data", [Record(b"k", b"v")] * 3, partition=partition)


def _classic_groups(broker: Broker) -> None:
    """Classic groups of both clients: a static member, deleted offsets, a deleted group, transactions."""
    broker.client.run_group("classic-librdkafka", ["data"], 6)
    broker.client.run_group("classic-static", ["data"], 6, group_instance_id="static-1")
    broker.java.consume("data", 6, group_id="classic-java", client_id="java-client")
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    broker.java.consume("data", 6, group_id="classic-sticky", partition_assignment_strategy=assignor)
    broker.client.run_group("classic-deleted", ["data"], 6)
    broker.java.call("deleteOffsets", group="classic-java", topic="data")
    broker.client.delete_group("classic-deleted")
    for end in ("commit", "abort"):
        script = [("begin", None), ("offsets", f"txn-{end}"), (end, None)]
        broker.java.transactions("data", script, transactional_id=f"offsets-{end}")


def _new_groups(broker: Broker) -> None:
    """Groups of the new protocol by both clients: with a pattern, migrated from a classic one, deleted."""
    broker.client.run_group("new-librdkafka", ["data"], 6, group_protocol="consumer")
    broker.java.consume(
        "data", 6, group_id="new-java", group_protocol="consumer", group_instance_id="static-2"
    )
    broker.java.consume("data", 6, group_id="new-deleted", group_protocol="consumer")
    broker.client.delete_group("new-deleted")
    groups = JavaServant(broker.version, "Groups.java")
    groups.call("regex", bootstrap=broker.bootstrap, group="new-regex", topic="da.*", count=6)
    groups.call("migrate", bootstrap=broker.bootstrap, group="migrated", topic="data", count=6)
    groups.close()


def _share_groups(broker: Broker) -> None:
    """A share group that accepted, released and rejected records; another that was deleted."""
    earliest = {"share.auto.offset.reset": "earliest"}
    for group in ("share", "share-deleted"):
        broker.java.call("config", type="GROUP", name=group, configs=earliest)
    groups = JavaServant(broker.version, "Groups.java")
    groups.call("share", bootstrap=broker.bootstrap, group="share", topic="data", count=9)
    if broker.version == peers.NEWEST:
        groups.call("share", bootstrap=broker.bootstrap, group="share-deleted", topic="data", count=4)
        request = {"groupsNames": ["share-deleted"]}
        broker.java.call("request", api="DeleteGroups", version=2, data=request)
    groups.close()


def _streams_groups(broker: Broker) -> None:
    """A streams group with a state store, by heartbeats made by hand."""
    answer = _heartbeat(broker, "streams", "member-1", 0)
    for _ in range(6):
        time.sleep(0.7)
        answer = _heartbeat(broker, "streams", "member-1", answer["memberEpoch"], answer)
    _heartbeat(broker, "streams", "member-2", 0)
    _heartbeat(broker, "streams", "member-2", -1)


_STORE = {
    "name": "store-changelog",
    "partitions": 0,
    "replicationFactor": 1,
    "topicConfigs": [{"key": "cleanup.policy", "value": "compact"}],
}
_TOPOLOGY = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopologyId": "0",
            "sourceTopics": ["data"],
            "sourceTopicRegex": [],
            "stateChangelogTopics": [_STORE],
            "repartitionSinkTopics": [],
            "repartitionSourceTopics": [],
            "copartitionGroups": [],
        }
    ],
}


def _heartbeat(broker: Broker, group: str, member: str, epoch: int, previous: Any = None) -> Any:
    joining = epoch == 0
    tasks = previous["activeTasks"] if previous and previous["activeTasks"] is not None else []
    data = {
        "groupId": group,
        "memberId": member,
        "memberEpoch": epoch,
        "endpointInformationEpoch": 0,
        "instanceId": None,
        "rackId": "rack" if joining else None,
        "rebalanceTimeoutMs": 60000 if joining else -1,
        "topology": _TOPOLOGY if joining else None,
        "activeTasks": tasks,
        "standbyTasks": [],
        "warmupTasks": [],
        "processId": "process" if joining else None,
        "userEndpoint": {"host": "localhost", "port": 8080} if joining else None,
        "clientTags": [{"key": "zone", "value": "a"}] if joining else None,
        "taskOffsets": None,
        "taskEndOffsets": None,
        "shutdownApplication": False,
    }
    answer = broker.java.call("request", api="StreamsGroupHeartbeat", version=0, data=data)
    if answer["errorCode"] != 0:
        raise RuntimeError(str(answer))
    return answer


def _metadata(broker: Broker) -> None:
    """Configs, quotas, ACLs and SCRAM users set and removed, partitions added, a topic deleted, a feature."""
    call = broker.java.call
    broker.client.create_topic("configured", {"retention.ms": "3600000", "cleanup.policy": "compact,delete"})
    broker.client.alter_config("configured", {"retention.ms": "7200000"})
    call("config", type="TOPIC", name="configured", configs={"retention.ms": None})
    call("config", type="BROKER", name="1", configs={"log.cleaner.threads": "2"})
    call("config", type="BROKER", name="", configs={"message.max.bytes": "2000000"})
    call("config", type="CLIENT_METRICS", name="metrics", configs={"interval.ms": "60000"})
    call("quota", entity={"user": "alice"}, key="producer_byte_rate", value=1024)
    call("quota", entity={"user": "alice", "client-id": None}, key="request_percentage", value=50.25)
    call("quota", entity={"ip": "127.0.0.9"}, key="connection_creation_rate", value=10)
    call("quota", entity={"user": "alice"}, key="producer_byte_rate", value=None)
    for user in ("alice", "bob"):
        call("scram", user=user)
        call("acl", topic="conf", user=f"User:{user}")
    call("unscram", user="bob")
    call("unacl", topic="conf", user="User:bob")
    broker.client.create_topic("short-lived")
    broker.client.delete_topic("short-lived")
    broker.client.create_partitions("configured", 2)
    if broker.version == peers.NEWEST:
        call("feature", feature="transaction.version", level=1, type="SAFE_DOWNGRADE")
        call("feature", feature="transaction.version", level=2)


def _tokens(broker: Broker) -> None:
    """A delegation token kept, and one removed."""
    config = {"bootstrap.servers": broker.sasl_bootstrap, **_SASL}
    broker.java.call("token", config=config)
    time.sleep(1)  # until every thread of the broker knows it
    broker.java.call("untoken", config=config)
    broker.java.call("token", config=config)


def _transactions(broker: Broker) -> None:
    """Transactions committed, aborted, left open, and an id that was only initialised."""
    create(broker, "txn")
    client = broker.client
    client.transaction("txn", [MORE[:1]], transactional_id="open", commit=None)
    client.transaction("txn", [SAMPLE], transactional_id="committed", commit=True)
    client.transaction("txn", [SAMPLE], transactional_id="committed", commit=True)
    client.transaction("txn", [MORE], transactional_id="aborted", commit=False)
    broker.java.transactions("txn", [], transactional_id="only-initialised")
    script = [
        ("begin", None),
        ("send", MORE),
        ("commit", None),
        ("begin", None),
        ("send", SAMPLE),
        ("abort", None),
    ]
    broker.java.transactions("txn", script, transactional_id="java")


def _write_cases(broker: Broker, said: str) -> None:
    origin = (
        f"Written by an Apache Kafka {broker.version} broker (KRaft, one node, both roles), stopped cleanly, "
        f"started again and stopped. It was asked for:\n\n{said}\n\n"
        "Regenerate with `python -m tests.kafka.make_fixtures internal`."
    )
    name = short(broker.version)
    for kind in ("consumer-offsets", "transaction-state", "share-group-state"):
        folder = broker.log_dir / f"__{kind.replace('-', '_')}-0"
        if folder.exists() and _worth_keeping(broker, kind):
            write_case(kind, name, [folder], origin)
    if broker.version in (peers.OLDEST, peers.NEWEST):
        names = ("__cluster_metadata-0", "bootstrap.checkpoint", "meta.properties")
        write_case("cluster-metadata", name, [broker.log_dir / one for one in names], origin)


def _worth_keeping(broker: Broker, kind: str) -> bool:
    # The release between is here for its share groups, whose layout was changed without a new version.
    return kind != "transaction-state" or broker.version in (peers.OLDEST, peers.NEWEST)
