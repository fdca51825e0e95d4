"""JoinGroup: become a member, or tell that one still is; answered when all have come."""

TABLE = """
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
"""
