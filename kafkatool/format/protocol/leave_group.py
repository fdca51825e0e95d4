"""LeaveGroup: members go, one up to version 2, any number in version 3."""

TABLE = """
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
    groupInstanceId string? = null
    errorCode int16
"""
