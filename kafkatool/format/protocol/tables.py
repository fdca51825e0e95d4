"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 ProduceRequest v3-8 flexible 9
  transactionalId string? = null
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
      baseOffset int64
      logAppendTimeMs int64 = -1
      logStartOffset int64 v5+ = -1
      recordErrors []BatchIndexAndErrorMessage v8+
        batchIndex int32
        batchIndexErrorMessage string? = null
      errorMessage string? v8+ = null
  throttleTimeMs int32
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
  responses []FetchableTopicResponse
    topic string
    partitions []PartitionData
      partitionIndex int32
      errorCode int16
      highWatermark int64
      lastStableOffset int64 = -1
      logStartOffset int64 v5+ = -1
      abortedTransactions []AbortedTransaction?
        producerId int64
        firstOffset int64
      preferredReadReplica int32 v11+ = -1
      records records?
2 ListOffsetsRequest v1-7 flexible 6
  replicaId int32
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
3 MetadataRequest v0-8 flexible 9
  topics []MetadataRequestTopic?
    name string
  allowAutoTopicCreation bool v4+ = true
  includeClusterAuthorizedOperations bool v8+
  includeTopicAuthorizedOperations bool v8+
3 MetadataResponse v0-8 flexible 9
  throttleTimeMs int32 v3+
  brokers []MetadataResponseBroker
    nodeId int32
    host string
    port int32
    rack string? v1+ = null
  clusterId string? v2+ = null
  controllerId int32 v1+ = -1
  topics []MetadataResponseTopic
    errorCode int16
    name string
    isInternal bool v1+
    partitions []MetadataResponsePartition
      errorCode int16
      partitionIndex int32
      leaderId int32
      leaderEpoch int32 v7+ = -1
      replicaNodes []int32
      isrNodes []int32
      offlineReplicas []int32 v5+
    topicAuthorizedOperations int32 v8+ = -2147483648
  clusterAuthorizedOperations int32 v8+ = -2147483648
8 OffsetCommitRequest v2-7 flexible 8
  groupId string
  generationIdOrMemberEpoch int32 = -1
  memberId string
  groupInstanceId string? v7+ = null
  retentionTimeMs int64 v0-4 = -1
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
      committedOffset int64
      committedLeaderEpoch int32 v5+ = -1
      metadata string?
      errorCode int16
  errorCode int16 v2+
10 FindCoordinatorRequest v0-2 flexible 3
  key string
  keyType int8 v1+
10 FindCoordinatorResponse v0-2 flexible 3
  throttleTimeMs int32 v1+
  errorCode int16
  errorMessage string? v1+
  nodeId int32
  host string
  port int32
11 JoinGroupRequest v0-5 flexible 6
  groupId string
  sessionTimeoutMs int32
  rebalanceTimeoutMs int32 v1+ = -1
  memberId string
  groupInstanceId string? v5+ = null
  protocolType string
  protocols []JoinGroupRequestProtocol
    name string
    metadata bytes
11 JoinGroupResponse v0-5 flexible 6
  throttleTimeMs int32 v2+
  errorCode int16
  generationId int32 = -1
  protocolName string
  leader string
  memberId string
  members []JoinGroupResponseMember
    memberId string
    groupInstanceId string? v5+ = null
    metadata bytes
12 HeartbeatRequest v0-3 flexible 4
  groupId string
  generationId int32
  memberId string
  groupInstanceId string? v3+ = null
12 HeartbeatResponse v0-3 flexible 4
  throttleTimeMs int32 v1+
  errorCode int16
13 LeaveGroupRequest v0-3 flexible 4
  groupId string
  memberId string v0-2
  members []MemberIdentity v3+
    memberId string
    groupInstanceId string? = null
13 LeaveGroupResponse v0-3 flexible 4
  throttleTimeMs int32 v1+
  errorCode int16
  members []MemberResponse v3+
    memberId string
    groupInstanceId string?
    errorCode int16
14 SyncGroupRequest v0-3 flexible 4
  groupId string
  generationId int32
  memberId string
  groupInstanceId string? v3+ = null
  assignments []SyncGroupRequestAssignment
    memberId string
    assignment bytes
14 SyncGroupResponse v0-3 flexible 4
  throttleTimeMs int32 v1+
  errorCode int16
  assignment bytes
15 DescribeGroupsRequest v0-4 flexible 5
  groups []string
  includeAuthorizedOperations bool v3+
15 DescribeGroupsResponse v0-4 flexible 5
  throttleTimeMs int32 v1+
  groups []DescribedGroup
    errorCode int16
    groupId string
    groupState string
    protocolType string
    protocolData string
    members []DescribedGroupMember
      memberId string
      groupInstanceId string? v4+ = null
      clientId string
      clientHost string
      memberMetadata bytes
      memberAssignment bytes
    authorizedOperations int32 v3+ = -2147483648
16 ListGroupsRequest v0-2 flexible 3
16 ListGroupsResponse v0-2 flexible 3
  throttleTimeMs int32 v1+
  errorCode int16
  groups []ListedGroup
    groupId string
    protocolType string
17 SaslHandshakeRequest v0-1 rigid
  mechanism string
17 SaslHandshakeResponse v0-1 rigid
  errorCode int16
  mechanisms []string
18 ApiVersionsRequest v0-4 flexible 3
  clientSoftwareName string v3+
  clientSoftwareVersion string v3+
18 ApiVersionsResponse v0-4 flexible 3
  errorCode int16
  apiKeys []ApiVersion
    apiKey int16
    minVersion int16
    maxVersion int16
  throttleTimeMs int32 v1+
  supportedFeatures []SupportedFeatureKey v3+ tag 0
    name string
    minVersion int16
    maxVersion int16
  finalizedFeaturesEpoch int64 v3+ tag 1 = -1
  finalizedFeatures []FinalizedFeatureKey v3+ tag 2
    name string
    maxVersionLevel int16
    minVersionLevel int16
  zkMigrationReady bool v3+ tag 3
32 DescribeConfigsRequest v0-3 flexible 4
  resources []DescribeConfigsResource
    resourceType int8
    resourceName string
    configurationKeys []string?
  includeSynonyms bool v1+
  includeDocumentation bool v3+
32 DescribeConfigsResponse v0-3 flexible 4
  throttleTimeMs int32
  results []DescribeConfigsResult
    errorCode int16
    errorMessage string?
    resourceType int8
    resourceName string
    configs []DescribeConfigsResourceResult
      name string
      value string?
      readOnly bool
      isDefault bool v0
      configSource int8 v1+ = -1
      isSensitive bool
      synonyms []DescribeConfigsSynonym v1+
        name string
        value string?
        source int8
      configType int8 v3+
      documentation string? v3+
36 SaslAuthenticateRequest v0-1 flexible 2
  authBytes bytes
36 SaslAuthenticateResponse v0-1 flexible 2
  errorCode int16
  errorMessage string?
  authBytes bytes
  sessionLifetimeMs int64 v1+
60 DescribeClusterRequest v0-1
  includeClusterAuthorizedOperations bool
  endpointType int8 v1+ = 1
60 DescribeClusterResponse v0-1
  throttleTimeMs int32
  errorCode int16
  errorMessage string? = null
  endpointType int8 v1+ = 1
  clusterId string
  controllerId int32 = -1
  brokers []DescribeClusterBroker
    brokerId int32
    host string
    port int32
    rack string? = null
  clusterAuthorizedOperations int32 = -2147483648
"""
