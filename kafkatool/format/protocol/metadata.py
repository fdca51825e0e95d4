"""Metadata: brokers, topics and who leads their partitions.

Up to version 8: clients take leader epochs from later ones for reliable, and topic ids then go into Fetch.
"""

TABLE = """
3 MetadataRequest v0-8 flexible 9
  topics []Topic?
    name string
  allowAutoTopicCreation bool v4+
  includeClusterAuthorizedOperations bool v8+
  includeTopicAuthorizedOperations bool v8+
3 MetadataResponse v0-8 flexible 9
  throttleTimeMs int32 v3+
  brokers []Broker
    nodeId int32
    host string
    port int32
    rack string? v1+ = null
  clusterId string? v2+ = null
  controllerId int32 v1+ = -1
  topics []Topic
    errorCode int16
    name string
    isInternal bool v1+
    partitions []Partition
      errorCode int16
      partitionIndex int32
      leaderId int32
      leaderEpoch int32 v7+ = -1
      replicaNodes []int32
      isrNodes []int32
      offlineReplicas []int32 v5+
    topicAuthorizedOperations int32 v8+ = -2147483648
  clusterAuthorizedOperations int32 v8+ = -2147483648
"""
