"""Walk one `.log` from batch to batch: what is good, what is damaged, and where its indexes point.

Damage is a value that a walk yields, never an exception. Indexes are hints and are checked before use.
"""
