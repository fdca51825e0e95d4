"""Heartbeat: a member is alive, and learns whether it has to join again."""

TABLE = """
12 HeartbeatRequest v0-3 flexible 4
  groupId string
  generationId int32
  memberId string
  groupInstanceId string? v3+ = null
12 HeartbeatResponse v0-3 flexible 4
  throttleTimeMs int32 v1+
  errorCode int16
"""
