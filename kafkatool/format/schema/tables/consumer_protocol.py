"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 ConsumerProtocolSubscription v0-3 rigid
  topics []string
  userData bytes? = null
  ownedPartitions []TopicPartition v1+
    topic string
    partitions []int32
  generationId int32 v2+ = -1
  rackId string? v3+ = null
1 ConsumerProtocolAssignment v0-3 rigid
  assignedPartitions []TopicPartition
    topic string
    partitions []int32
  userData bytes? = null
"""
