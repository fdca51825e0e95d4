"""OffsetFetch: what a group has committed. librdkafka crashes where it is not listed."""

TABLE = """
9 OffsetFetchRequest v1-5 flexible 6
  groupId string
  topics []OffsetFetchRequestTopic?
    name string
    partitionIndexes []int32
9 OffsetFetchResponse v1-5 flexible 6
  throttleTimeMs int32 v3+
  topics []OffsetFetchResponseTopic
    name string
    partitions []OffsetFetchResponsePartition
      partitionIndex int32
      committedOffset int64 = -1
      committedLeaderEpoch int32 v5+ = -1
      metadata string?
      errorCode int16
  errorCode int16 v2+
"""
