"""Derive indexes and producer snapshots from the log again, as a plan."""
