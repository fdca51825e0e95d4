"""DescribeGroups: the members of groups and what they read, for those who look after them."""

TABLE = """
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
"""
