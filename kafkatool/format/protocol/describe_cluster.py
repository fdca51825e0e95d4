"""DescribeCluster: the brokers, once more."""

TABLE = """
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
