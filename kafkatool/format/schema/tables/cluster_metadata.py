"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
0 RegisterBrokerRecord v0-3 v0-4 from 4.3
  brokerId int32
  isMigratingZkBroker bool v2+
  incarnationId uuid
  brokerEpoch int64
  endPoints []BrokerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []BrokerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
  rack string?
  fenced bool = true
  inControlledShutdown bool v1+
  logDirs []uuid v3+ tag 0
  cordonedLogDirs []uuid? v4+ tag 1 = null since 4.3
1 UnregisterBrokerRecord
  brokerId int32
  brokerEpoch int64
2 TopicRecord
  name string
  topicId uuid
3 PartitionRecord v0-2
  partitionId int32 = -1
  topicId uuid
  replicas []int32
  isr []int32
  removingReplicas []int32
  addingReplicas []int32
  leader int32 = -1
  leaderRecoveryState int8 tag 0
  leaderEpoch int32 = -1
  partitionEpoch int32 = -1
  directories []uuid v1+
  eligibleLeaderReplicas []int32? v2+ tag 1 = null
  lastKnownElr []int32? v2+ tag 2 = null
4 ConfigRecord
  resourceType int8
  resourceName string
  name string
  value string?
5 PartitionChangeRecord v0-2
  partitionId int32 = -1
  topicId uuid
  isr []int32? tag 0 = null
  leader int32 tag 1 = -2
  replicas []int32? tag 2 = null
  removingReplicas []int32? tag 3 = null
  addingReplicas []int32? tag 4 = null
  leaderRecoveryState int8 tag 5 = -1
  directories []uuid? v1+ tag 8 = null
  eligibleLeaderReplicas []int32? v2+ tag 6 = null
  lastKnownElr []int32? v2+ tag 7 = null
7 FenceBrokerRecord
  id int32
  epoch int64
8 UnfenceBrokerRecord
  id int32
  epoch int64
9 RemoveTopicRecord
  topicId uuid
10 DelegationTokenRecord
  owner string
  requester string
  renewers []string
  issueTimestamp int64
  maxTimestamp int64
  expirationTimestamp int64
  tokenId string
11 UserScramCredentialRecord
  name string
  mechanism int8
  salt bytes
  storedKey bytes
  serverKey bytes
  iterations int32
12 FeatureLevelRecord
  name string
  featureLevel int16
14 ClientQuotaRecord
  entity []EntityData
    entityType string
    entityName string?
  key string
  value float64
  remove bool
15 ProducerIdsRecord
  brokerId int32
  brokerEpoch int64 = -1
  nextProducerId int64
17 BrokerRegistrationChangeRecord v0-2 v0-3 from 4.3
  brokerId int32
  brokerEpoch int64
  fenced int8 tag 0
  inControlledShutdown int8 v1+ tag 1
  logDirs []uuid v2+ tag 2
  cordonedLogDirs []uuid? v3+ tag 3 = null since 4.3
18 AccessControlEntryRecord
  id uuid
  resourceType int8
  resourceName string
  patternType int8
  principal string
  host string
  operation int8
  permissionType int8
19 RemoveAccessControlEntryRecord
  id uuid
20 NoOpRecord
21 ZkMigrationStateRecord
  zkMigrationState int8
22 RemoveUserScramCredentialRecord
  name string
  mechanism int8
23 BeginTransactionRecord
  name string? tag 0 = null
24 EndTransactionRecord
25 AbortTransactionRecord
  reason string? tag 0 = null
26 RemoveDelegationTokenRecord
  tokenId string
27 RegisterControllerRecord
  controllerId int32
  incarnationId uuid
  zkMigrationReady bool
  endPoints []ControllerEndpoint
    name string
    host string
    port uint16
    securityProtocol int16
  features []ControllerFeature
    name string
    minSupportedVersion int16
    maxSupportedVersion int16
28 ClearElrRecord since 4.0
  topicName string
"""
