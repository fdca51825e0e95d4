"""ListGroups: all groups that are known here."""

TABLE = """
16 ListGroupsRequest v0-2 flexible 3
16 ListGroupsResponse v0-2 flexible 3
  throttleTimeMs int32 v1+
  errorCode int16
  groups []ListedGroup
    groupId string
    protocolType string
"""
