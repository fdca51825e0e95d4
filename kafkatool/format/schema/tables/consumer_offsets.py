"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 LegacyOffsetCommit rigid since 4.1
  key: group string, topic string, partition int32
  offset int64
  metadata string
  commitTimestamp int64
1 OffsetCommit v0-4 flexible 4
  key: group string, topic string, partition int32
  offset int64
  leaderEpoch int32 v3+ = -1
  metadata string
  commitTimestamp int64
  expireTimestamp int64 v1 = -1
  topicId uuid v4+ tag 0 since 4.1
2 GroupMetadata v0-4 flexible 4
  key: group string
  protocolType string
  generation int32
  protocol string?
  leader string?
  currentStateTimestamp int64 v2+ = -1
  members []MemberMetadata
  struct MemberMetadata
    memberId string
    groupInstanceId string? v3+ = null
    clientId string
    clientHost string
    rebalanceTimeout int32 v1+ = -1
    sessionTimeout int32
    subscription bytes
    assignment bytes
3 ConsumerGroupMetadata
  key: groupId string
  epoch int32
  metadataHash int64 tag 0 since 4.1
4 ConsumerGroupPartitionMetadata
  key: groupId string
  topics []TopicMetadata
    topicId uuid
    topicName string
    numPartitions int32
    partitionMetadata []PartitionMetadata
      partition int32
      racks []string
5 ConsumerGroupMemberMetadata
  key: groupId string, memberId string
  instanceId string?
  rackId string?
  clientId string
  clientHost string
  subscribedTopicNames []string
  subscribedTopicRegex string?
  rebalanceTimeoutMs int32 = -1
  serverAssignor string?
  classicMemberMetadata ClassicMemberMetadata? tag 0
    sessionTimeoutMs int32
    supportedProtocols []ClassicProtocol
      name string
      metadata bytes
6 ConsumerGroupTargetAssignmentMetadata
  key: groupId string
  assignmentEpoch int32
  assignmentTimestamp int64 tag 0 since 4.3
7 ConsumerGroupTargetAssignmentMember
  key: groupId string, memberId string
  topicPartitions []TopicPartition
    topicId uuid
    partitions []int32
8 ConsumerGroupCurrentMemberAssignment
  key: groupId string, memberId string
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  assignedPartitions []TopicPartitions
  partitionsPendingRevocation []TopicPartitions
  struct TopicPartitions
    topicId uuid
    partitions []int32
    assignmentEpochs []int32? tag 0 since 4.3
9 ShareGroupPartitionMetadata since 4.0 until 4.0
  key: groupId string
  topics []TopicMetadata
    topicId uuid
    topicName string
    numPartitions int32
    partitionMetadata []PartitionMetadata
      partition int32
      racks []string
10 ShareGroupMemberMetadata since 4.0
  key: groupId string, memberId string
  rackId string?
  clientId string
  clientHost string
  subscribedTopicNames []string
11 ShareGroupMetadata since 4.0
  key: groupId string
  epoch int32
  metadataHash int64 since 4.1
12 ShareGroupTargetAssignmentMetadata since 4.0
  key: groupId string
  assignmentEpoch int32
  assignmentTimestamp int64 tag 0 since 4.3
13 ShareGroupTargetAssignmentMember since 4.0
  key: groupId string, memberId string
  topicPartitions []TopicPartition
    topicId uuid
    partitions []int32
14 ShareGroupCurrentMemberAssignment since 4.0
  key: groupId string, memberId string
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  assignedPartitions []TopicPartitions
  struct TopicPartitions
    topicId uuid
    partitions []int32
15 ShareGroupStatePartitionMetadata since 4.0
  key: groupId string
  initializingTopics []TopicPartitionsInfo since 4.1
  initializedTopics []TopicPartitionsInfo
  deletingTopics []TopicInfo
  struct TopicPartitionsInfo
    topicId uuid
    topicName string
    partitions []int32
  struct TopicInfo
    topicId uuid
    topicName string
16 ConsumerGroupRegularExpression since 4.0
  key: groupId string, regularExpression string
  topics []string
  version int64
  timestamp int64
17 StreamsGroupMetadata since 4.1
  key: groupId string
  epoch int32
  metadataHash int64
  validatedTopologyEpoch int32 tag 0 = -1 since 4.2
  lastAssignmentConfigs []LastAssignmentConfig? tag 1 since 4.2
  struct LastAssignmentConfig
    key string
    value string
19 StreamsGroupMemberMetadata since 4.1
  key: groupId string, memberId string
  instanceId string?
  rackId string?
  clientId string
  clientHost string
  rebalanceTimeoutMs int32 = -1
  topologyEpoch int32
  processId string
  userEndpoint Endpoint? = null
  clientTags []KeyValue
  struct Endpoint
    host string
    port uint16
  struct KeyValue
    key string
    value string
20 StreamsGroupTargetAssignmentMetadata since 4.1
  key: groupId string
  assignmentEpoch int32
  assignmentTimestamp int64 tag 0 since 4.3
21 StreamsGroupTargetAssignmentMember since 4.1
  key: groupId string, memberId string
  activeTasks []TaskIds
  standbyTasks []TaskIds
  warmupTasks []TaskIds
  struct TaskIds
    subtopologyId string
    partitions []int32
22 StreamsGroupCurrentMemberAssignment since 4.1
  key: groupId string, memberId string
  memberEpoch int32
  previousMemberEpoch int32
  state int8
  activeTasks []TaskIds
  standbyTasks []TaskIds
  warmupTasks []TaskIds
  activeTasksPendingRevocation []TaskIds
  standbyTasksPendingRevocation []TaskIds
  warmupTasksPendingRevocation []TaskIds
  struct TaskIds
    subtopologyId string
    partitions []int32
    assignmentEpochs []int32? tag 0 since 4.2
23 StreamsGroupTopology since 4.1
  key: groupId string
  epoch int32
  subtopologies []Subtopology
    subtopologyId string
    sourceTopics []string
    sourceTopicRegex []string
    stateChangelogTopics []TopicInfo
    repartitionSinkTopics []string
    repartitionSourceTopics []TopicInfo
    copartitionGroups []CopartitionGroup
      sourceTopics []int16
      sourceTopicRegex []int16
      repartitionSourceTopics []int16
  struct TopicConfig
    key string
    value string
  struct TopicInfo
    name string
    partitions int32
    replicationFactor int16
    topicConfigs []TopicConfig
"""
