"""Follow a broker through its start: what it would do to each partition, as a plan that can be applied."""
