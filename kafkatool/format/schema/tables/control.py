"""Written by `make schemas` from the definitions in Kafka's jars."""

TABLE = """
2 LeaderChangeMessage v0-1
  version int16
  leaderId int32
  voters []Voter
  grantingVoters []Voter
  struct Voter
    voterId int32
    voterDirectoryId uuid v1+
3 SnapshotHeaderRecord
  version int16
  lastContainedLogTimestamp int64
4 SnapshotFooterRecord
  version int16
5 KRaftVersionRecord
  version int16
  kRaftVersion int16
6 VotersRecord
  version int16
  voters []Voter
    voterId int32
    voterDirectoryId uuid
    endpoints []Endpoint
      name string
      host string
      port uint16
    kRaftVersionFeature KRaftVersionFeature
      minSupportedVersion int16
      maxSupportedVersion int16
"""
