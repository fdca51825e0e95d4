"""Check every batch, and what the files of a log directory promise about each other.

A `Finding` is damage with its place, what other replicas have, and the command to run next.
"""
