"""Serve log directories to Kafka clients, read-only.

catalog      the topics and partitions to serve
partitions   one partition: its offsets, its transactions, and what a fetch returns
segments     one log file: find the byte of an offset, and work around damage
groups       the coordinator of consumer groups; committed keeps their offsets
answers      turn a request into its answer
connections  one client; server handles all of them
"""
