"""Gather the facts of an incident report, reading every log once.

gathering.py        all that was named: findings by partition, numbers by topic, retention and compaction
trouble.py          what is wrong with one partition, however much that is, in a few kilobytes
records_around.py   the records before and behind damage, for those who want to see them
"""
