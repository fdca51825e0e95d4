"""Which of Kafka's messages we read, and in which versions; everything else about them is Kafka's word."""

from __future__ import annotations

from functools import cache

from kafkatool.format.schema.notation import Versions
from tests.kafka import peers
from tests.kafka.making.message_definitions import Definition, read_definitions

# Topic -> the artifact all of whose numbered messages are its records.
TOPICS = {
    "cluster_metadata": "kafka-metadata",
    "consumer_offsets": "kafka-group-coordinator",
    "transaction_state": "kafka-transaction-coordinator",
    "share_group_state": "kafka-share-coordinator",
    "remote_log_metadata": "kafka-storage",
}

# 3.9 defines these, but its reader of the topic does not know their numbers.
UNREAD = {"3.9.2": ("ShareGroupPartitionMetadata", "ShareGroupMemberMetadata", "ShareGroupMetadata")}

# The definitions of these have no number. Those of control records are in the source of Kafka.
CONTROL = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
CONSUMER_PROTOCOL = {0: "ConsumerProtocolSubscription", 1: "ConsumerProtocolAssignment"}
CLIENTS = "kafka-clients"

# What `kafkatool serve` speaks.
SPOKEN = {
    "Produce": Versions(3, 8),  # refused, but librdkafka concludes from it what else we understand
    "Fetch": Versions(4, 11),  # from the first with magic 2 to the last in which nothing follows the records
    "ListOffsets": Versions(1, 7),
    "Metadata": Versions(0, 8),  # from 9 on clients rely on leader epochs, and put topic ids into Fetch
    "OffsetCommit": Versions(2, 7),
    "OffsetFetch": Versions(1, 5),  # librdkafka crashes where it is not listed
    "FindCoordinator": Versions(0, 2),
    "JoinGroup": Versions(0, 5),
    "Heartbeat": Versions(0, 3),
    "LeaveGroup": Versions(0, 3),
    "SyncGroup": Versions(0, 3),
    "DescribeGroups": Versions(0, 4),
    "ListGroups": Versions(0, 2),
    "SaslHandshake": Versions(0, 1),
    "ApiVersions": Versions(0, 4),
    "DescribeConfigs": Versions(0, 3),
    "SaslAuthenticate": Versions(0, 1),
    "DescribeCluster": Versions(0, 1),
}

Messages = dict[str, Definition]


@cache
def definitions(version: str, profile: str = "release") -> dict[str, Messages]:
    """Read what a release defines: the messages of each artifact, by name."""
    found = read_definitions(peers.kafka_jars(version, profile))
    return {
        artifact: {name: one for name, one in messages.items() if name not in UNREAD.get(version, ())}
        for artifact, messages in found.items()
    }


def topic_records(topic: str, version: str) -> Messages:
    """The records of a topic: what has a number in its artifact."""
    messages = definitions(version).get(TOPICS[topic], {})
    return {name: one for name, one in messages.items() if one.number is not None}


def client_messages(names: list[str], version: str, profile: str = "release") -> Messages:
    """Some messages of the clients."""
    found = definitions(version, profile)[CLIENTS]
    return {name: found[name] for name in names}


def spoken_names() -> list[str]:
    """The requests and responses of what is spoken."""
    return [name for api in SPOKEN for name in (f"{api}Request", f"{api}Response")]
