"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 ShareSnapshot since 4.0
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
1 ShareUpdate since 4.0
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
