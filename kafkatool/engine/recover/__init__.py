"""Follow a broker through its start-up, and do what it would do, as a plan."""
