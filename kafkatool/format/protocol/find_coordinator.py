"""FindCoordinator: which broker looks after a group."""

TABLE = """
10 FindCoordinatorRequest v0-2 flexible 3
  key string
  keyType int8 v1+
10 FindCoordinatorResponse v0-2 flexible 3
  throttleTimeMs int32 v1+
  errorCode int16
  errorMessage string? v1+ = null
  nodeId int32
  host string
  port int32
"""
