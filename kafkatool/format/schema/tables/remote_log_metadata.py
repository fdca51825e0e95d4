"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 RemoteLogSegmentMetadataRecord
  remoteLogSegmentId RemoteLogSegmentIdEntry
    topicIdPartition TopicIdPartitionEntry
      name string
      id uuid
      partition int32
    id uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs []SegmentLeaderEpochEntry
    leaderEpoch int32
    offset int64
  segmentSizeInBytes int32
  customMetadata bytes? = null
  remoteLogSegmentState int8
  txnIndexEmpty bool tag 0 since 4.0
1 RemoteLogSegmentMetadataUpdateRecord
  remoteLogSegmentId RemoteLogSegmentIdEntry
    topicIdPartition TopicIdPartitionEntry
      name string
      id uuid
      partition int32
    id uuid
  brokerId int32
  eventTimestampMs int64
  customMetadata bytes? = null
  remoteLogSegmentState int8
2 RemotePartitionDeleteMetadataRecord
  topicIdPartition TopicIdPartitionEntry
    name string
    id uuid
    partition int32
  brokerId int32
  eventTimestampMs int64
  remotePartitionDeleteState int8
3 RemoteLogSegmentMetadataSnapshotRecord
  segmentId uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs []SegmentLeaderEpochEntry
    leaderEpoch int32
    offset int64
  segmentSizeInBytes int32
  customMetadata bytes? = null
  remoteLogSegmentState int8
  txnIndexEmpty bool tag 0 since 4.0
"""
