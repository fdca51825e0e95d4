"""`__remote_log_metadata`: which segments of tiered topics are in remote storage."""

from __future__ import annotations

from typing import cast

from kafkatool.format.release import Release
from kafkatool.format.schema.framed import Framed
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.reading import Unreadable
from kafkatool.format.schema.tables.remote_log_metadata import TABLE

SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")

TOPIC = Framed(TABLE)


def metadata_partition(topic_id: bytes, partition: int, count: int) -> int:
    """Return which of the topic's `count` partitions holds the metadata of a partition of a tiered topic."""
    hashed = 1
    for number in (*(int.from_bytes(half, "big") for half in (topic_id[8:], topic_id[:8])), partition):
        hashed = (31 * hashed + (number >> 32 ^ number)) & 0xFFFFFFFF
    return (_murmur2_of_int(hashed) & 0x7FFFFFFF) % count


def _murmur2_of_int(number: int) -> int:
    """Return Kafka's murmur2 of a number's four bytes, big-endian."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    k = int.from_bytes(number.to_bytes(4, "big"), "little") * multiplier & mask
    k = (k ^ k >> 24) * multiplier & mask
    hashed = (0x9747B28C ^ 4) * multiplier & mask ^ k
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15


def decode_text(
    release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
) -> tuple[None, str]:
    try:
        if value is None:
            raise Unreadable(0, _no_value(release))
        entry = TOPIC.read(release, value)
        return None, _TEXTS[entry.message.api_key](entry.value)
    except Unreadable as error:
        return None, f"Error at offset {offset}, skipping. {error.reason}"


def decode_row(key: bytes | None, value: bytes | None) -> Tree:
    return TOPIC.row(value)


def _no_value(release: Release) -> str:
    """Return the JVM's message for calling a method on null."""
    package = "org.apache.kafka.common.record" + (".internal" if release >= Release.V4_3 else "")
    return (
        'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
        f'"{package}.Record.value()" is null'
    )


def _segment_text(tree: Tree) -> str:
    start, end = cast(int, tree["startOffset"]), cast(int, tree["endOffset"])
    if start < 0:
        raise Unreadable(
            0, f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative"
        )
    if end < start:
        raise Unreadable(
            0,
            f"Unexpected end offset = {end}. "
            f"EndOffset for a remote segment cannot be less than startOffset = {start}",
        )
    epochs = _epochs(tree)
    state = _segment_state(tree)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(tree)}, "
        f"startOffset={start}, endOffset={end}, brokerId={tree['brokerId']}, "
        f"maxTimestampMs={tree['maxTimestampMs']}, eventTimestampMs={tree['eventTimestampMs']}, "
        f"segmentLeaderEpochs={epochs}, segmentSizeInBytes={tree['segmentSizeInBytes']}, "
        f"customMetadata={_custom(tree)}, state={state}{_txn_index(tree)}}}"
    )


def _update_text(tree: Tree) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(tree)}, "
        f"customMetadata={_custom(tree)}, state={_segment_state(tree)}, "
        f"eventTimestampMs={tree['eventTimestampMs']}, brokerId={tree['brokerId']}}}"
    )


def _delete_text(tree: Tree) -> str:
    state = cast(int, tree["remotePartitionDeleteState"])
    if not 0 <= state < len(PARTITION_STATES):
        raise Unreadable(0, "null")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_topic_id_partition(tree)}, "
        f"state={PARTITION_STATES[state]}, eventTimestampMs={tree['eventTimestampMs']}, "
        f"brokerId={tree['brokerId']}}}"
    )


def _snapshot_text(tree: Tree) -> str:
    state = _segment_state(tree)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={tree['segmentId']}, "
        f"startOffset={tree['startOffset']}, endOffset={tree['endOffset']}, "
        f"maxTimestampMs={tree['maxTimestampMs']}, segmentLeaderEpochs={_epochs(tree)}, "
        f"segmentSizeInBytes={tree['segmentSizeInBytes']}, "
        f"customMetadata={_custom(tree)}, state={state}{_txn_index(tree)}}}"
    )


_TEXTS = {0: _segment_text, 1: _update_text, 2: _delete_text, 3: _snapshot_text}


def _segment_id(tree: Tree) -> str:
    entry = cast(Tree, tree["remoteLogSegmentId"])
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_id_partition(entry)}, id={entry['id']}}}"


def _topic_id_partition(tree: Tree) -> str:
    partition = cast(Tree, tree["topicIdPartition"])
    return f"{partition['id']}:{partition['name']}-{partition['partition']}"


def _segment_state(tree: Tree) -> str:
    state = cast(int, tree["remoteLogSegmentState"])
    if not 0 <= state < len(SEGMENT_STATES):
        raise Unreadable(0, "state can not be null")
    return SEGMENT_STATES[state]


def _epochs(tree: Tree) -> str:
    entries = {
        cast(int, entry["leaderEpoch"]): entry["offset"]
        for entry in cast(list[Tree], tree["segmentLeaderEpochs"])
    }
    if not entries:
        raise Unreadable(0, "segmentLeaderEpochs can not be null or empty")
    return "{" + ", ".join(f"{epoch}={entries[epoch]}" for epoch in sorted(entries)) + "}"


def _custom(tree: Tree) -> str:
    custom = cast("bytes | None", tree["customMetadata"])
    return "Optional.empty" if custom is None else f"Optional[CustomMetadata{{{len(custom)} bytes}}]"


def _txn_index(tree: Tree) -> str:
    """Return the field as text; 3.9 does not know it, and does not show it."""
    return f", txnIdxEmpty={str(tree['txnIndexEmpty']).lower()}" if "txnIndexEmpty" in tree else ""
