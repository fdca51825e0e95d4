"""Gather the facts of an incident report, reading every log once.

gathering.py        all targets: findings per partition, numbers per topic, retention and compaction
trouble.py          what is wrong with one partition, in a few kilobytes however much it is
records_around.py   the records before and after damage, if payloads are requested
"""
