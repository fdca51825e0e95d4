"""Serve log directories to Kafka clients, read-only.

catalog      which topics and partitions there are to serve
partitions   one of them: its offsets, its transactions, and what a fetch gets of it
segments     one log file: from an offset to a byte, and around damage
groups       the coordinator of consumer groups; committed keeps their offsets
answers      a request in, the answer out
connections  one client; server: all of them
"""
