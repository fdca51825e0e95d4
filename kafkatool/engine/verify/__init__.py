"""Check every batch, and every promise that the files of a log directory make about each other.

A `Finding` is damage with its place, what other replicas have, and the command to run next.
"""
