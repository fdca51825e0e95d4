"""`__transaction_state`: each transactional id's producer, state and partitions.

Up to 4.0 kafka-dump-log had its own text for these, not JSON, and ended with an exception on any damage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from kafkatool.format.java_values import java_hash
from kafkatool.format.release import Release
from kafkatool.format.schema import DecoderThrows
from kafkatool.format.schema.coordinator import TOMBSTONE, Coordinator, UnknownType
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.reading import Unreadable
from kafkatool.format.schema.tables.transaction_state import TABLE

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)

TOPIC = Coordinator(TABLE)

Partition = tuple[str, int]


def decode_text(
    release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
) -> tuple[str, str | None]:
    if release >= Release.V4_1:
        return TOPIC.text(release, offset, key, value)
    if key is None:
        raise DecoderThrows("the record has no key")
    try:
        entry = TOPIC.read(release, key, None)
        transactional_id = entry.key["transactionalId"]
        key_text = f"transaction_metadata::transactionalId={transactional_id}"
        if value is None:
            return key_text, TOMBSTONE
        entry = TOPIC.read(release, key, value)
    except UnknownType as error:
        return f"unknown::version={error.record_type}", None
    except Unreadable as error:
        raise DecoderThrows(error.reason) from None
    return key_text, _transaction_text(release, cast(Tree, entry.value))


def decode_row(key: bytes | None, value: bytes | None) -> Tree:
    row = TOPIC.row(key, value)
    found = row.get("value")
    if isinstance(found, dict) and 0 <= found["transactionStatus"] < len(STATES):
        found["transactionStatusName"] = STATES[found["transactionStatus"]]
    return row


def _transaction_text(release: Release, value: Tree) -> str:
    status = cast(int, value["transactionStatus"])
    if not 0 <= status < len(STATES):
        raise DecoderThrows(f"Unknown transaction state id {status} from the transaction status message")
    if not 0 <= cast(int, value.get("clientTransactionVersion", 0)) <= 2:
        raise DecoderThrows("unknown transaction version")
    topics = cast("list[Tree] | None", value["transactionPartitions"])
    if status and topics is None:
        raise DecoderThrows("the partitions of a transaction that has begun are null")
    partitions = _scala_set_order(topics or ()) if status else []
    return (
        f"producerId:{value['producerId']},producerEpoch:{value['producerEpoch']},state={STATES[status]},"
        f"partitions=[{','.join(f'{topic}-{partition}' for topic, partition in partitions)}],"
        f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={value['transactionTimeoutMs']}"
    )


def _scala_set_order(topics: Iterable[Tree]) -> list[Partition]:
    """Return the partitions in the order of Scala's mutable hash set, which is what the tool prints."""
    size = 16
    members: dict[Partition, int] = {}
    for topic in topics:
        name = cast(str, topic["topic"])
        added = dict.fromkeys((name, partition) for partition in cast(list[int], topic["partitionIds"]))
        size = max(size, _table_size(int((len(added) + 1) / 0.75)))
        for partition in added:
            # A larger set comes as a hash set, which is added without checking the table's load.
            if len(added) <= 4 and len(members) + 1 >= size * 0.75:
                size *= 2
            members.setdefault(partition, _spread_hash(partition))
    return sorted(members, key=lambda member: (members[member] & (size - 1), members[member]))


def _table_size(wanted: int) -> int:
    return 1 << max(2, (wanted - 1).bit_length())


def _spread_hash(partition: Partition) -> int:
    """Return TopicPartition.hashCode, its upper half mixed into the lower, as a signed number."""
    value = (31 * (31 + partition[1]) + java_hash(partition[0])) & 0xFFFFFFFF
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value
