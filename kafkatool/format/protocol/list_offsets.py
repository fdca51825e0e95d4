"""ListOffsets: the first and last offsets, and the offset of a time."""

TABLE = """
2 ListOffsetsRequest v1-7 flexible 6
  replicaId int32 = -1
  isolationLevel int8 v2+
  topics []ListOffsetsTopic
    name string
    partitions []ListOffsetsPartition
      partitionIndex int32
      currentLeaderEpoch int32 v4+ = -1
      timestamp int64
2 ListOffsetsResponse v1-7 flexible 6
  throttleTimeMs int32 v2+
  topics []ListOffsetsTopicResponse
    name string
    partitions []ListOffsetsPartitionResponse
      partitionIndex int32
      errorCode int16
      timestamp int64 = -1
      offset int64 = -1
      leaderEpoch int32 v4+ = -1
"""
