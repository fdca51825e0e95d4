"""Read the internal topics on a disk: topics, settings, replicas, groups, transactional ids."""
