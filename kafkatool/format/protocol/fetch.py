"""Fetch: records, as they lie in the log.

From version 4, the first with batches of magic 2, to 11, the last in which nothing follows the records.
"""

TABLE = """
1 FetchRequest v4-11 flexible 12
  replicaId int32 = -1
  maxWaitMs int32
  minBytes int32
  maxBytes int32 = 2147483647
  isolationLevel int8
  sessionId int32 v7+
  sessionEpoch int32 v7+ = -1
  topics []FetchTopic
    topic string
    partitions []FetchPartition
      partition int32
      currentLeaderEpoch int32 v9+ = -1
      fetchOffset int64
      logStartOffset int64 v5+ = -1
      partitionMaxBytes int32
  forgottenTopicsData []ForgottenTopic v7+
    topic string
    partitions []int32
  rackId string v11+
1 FetchResponse v4-11 flexible 12
  throttleTimeMs int32
  errorCode int16 v7+
  sessionId int32 v7+
  responses []FetchableTopic
    topic string
    partitions []PartitionData
      partitionIndex int32
      errorCode int16
      highWatermark int64
      lastStableOffset int64 = -1
      logStartOffset int64 v5+ = -1
      abortedTransactions []AbortedTransaction? = null
        producerId int64
        firstOffset int64
      preferredReadReplica int32 v11+ = -1
      records records?
"""
