"""Audit the logs of many brokers into tables that outlive the run.

log_walk.py         one log: the facts of `verify`, sums, and its batches as Parquet, in one walk
root.py             one root: its partitions, with findings, retention and compaction
kept_partition.py   what is kept of a partition from one run to the next, as JSON
arrow_tables.py     rows of the tables, and the files of them
lake.py             runs in a directory: each complete or not there
run.py              one run over many roots
run_report.py       what a run says, and what is new since another
"""
