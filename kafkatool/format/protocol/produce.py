"""Produce: refused, and listed all the same, because librdkafka concludes from it what else we understand."""

TABLE = """
0 ProduceRequest v3-8 flexible 9
  transactionalId string?
  acks int16
  timeoutMs int32
  topicData []TopicProduceData
    name string
    partitionData []PartitionProduceData
      index int32
      records records?
0 ProduceResponse v3-8 flexible 9
  responses []TopicProduceResponse
    name string
    partitionResponses []PartitionProduceResponse
      index int32
      errorCode int16
      baseOffset int64 = -1
      logAppendTimeMs int64 = -1
      logStartOffset int64 v5+ = -1
      recordErrors []BatchIndexAndErrorMessage v8+
        batchIndex int32
        batchIndexErrorMessage string? = null
      errorMessage string? v8+ = null
  throttleTimeMs int32
"""
