"""Make everything that follows from a log again: indexes and producer snapshots, as a plan."""
