"""What the internal topics on a disk say of the cluster: topics, settings, replicas, groups, transactions."""
