"""OffsetCommit: how far a group has come."""

TABLE = """
8 OffsetCommitRequest v2-7 flexible 8
  groupId string
  generationIdOrMemberEpoch int32 = -1
  memberId string
  groupInstanceId string? v7+ = null
  retentionTimeMs int64 v2-4 = -1
  topics []OffsetCommitRequestTopic
    name string
    partitions []OffsetCommitRequestPartition
      partitionIndex int32
      committedOffset int64
      committedLeaderEpoch int32 v6+ = -1
      committedMetadata string?
8 OffsetCommitResponse v2-7 flexible 8
  throttleTimeMs int32 v3+
  topics []OffsetCommitResponseTopic
    name string
    partitions []OffsetCommitResponsePartition
      partitionIndex int32
      errorCode int16
"""
