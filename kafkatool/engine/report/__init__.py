"""Gather the facts of an incident report, reading every log once.

walked_log.py       one log: the facts of `verify` and the numbers of `stats`, in one walk
gathering.py        all that was named: findings by partition, numbers by topic, retention and compaction
trouble.py          what is wrong with one partition, however much that is, in a few kilobytes
records_around.py   the records before and behind damage, for those who want to see them
"""
