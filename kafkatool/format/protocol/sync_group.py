"""SyncGroup: the leader hands in who gets which partitions, and everybody is told."""

TABLE = """
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
"""
