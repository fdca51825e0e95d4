"""`__share_group_state`: which records of a share partition are acquired, acknowledged or archived."""

from __future__ import annotations

from kafkatool.format.release import Release
from kafkatool.format.schema.coordinator import Coordinator
from kafkatool.format.schema.layout import Tree

TABLE = """
0 ShareSnapshot
  key: groupId string, topicId uuid, partition int32
  snapshotEpoch uint16 until 4.0
  snapshotEpoch int32 since 4.1
  stateEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 tag 0 = -1 since 4.2
  createTimestamp int64 since 4.1
  writeTimestamp int64 since 4.1
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
1 ShareUpdate
  key: groupId string, topicId uuid, partition int32
  snapshotEpoch uint16 until 4.0
  snapshotEpoch int32 since 4.1
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 tag 0 = -1 since 4.2
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
"""

TOPIC = Coordinator(TABLE)


def decode_text(
    release: Release, offset: int, key: bytes | None, value: bytes | None, redacted: bool
) -> tuple[str, str | None]:
    """3.9 has no such decoder; it gets the text of 4.0, the first that has."""
    if release >= Release.V4_1:
        return TOPIC.text(release, offset, key, value)
    return TOPIC.text(
        Release.V4_0, offset, key, value, value_label="type", decoder="share group state topic decoder"
    )


def decode_row(key: bytes | None, value: bytes | None) -> Tree:
    return TOPIC.row(key, value)
