"""Take whole partitions out of a log directory, judged by what the rest of the cluster has."""
