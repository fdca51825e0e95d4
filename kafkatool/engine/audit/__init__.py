"""Audit the logs of many brokers into tables that outlive the run.

sums.py             what the batches of a log come to, seen while it is verified
batch_files.py      the batches of a log as Parquet, seen in the same walk
root.py             one root: its partitions, with findings, retention and compaction
kept_partition.py   what is kept of a partition from one run to the next, as JSON
arrow_tables.py     rows of the tables, and the files of them
lake.py             runs in a directory: each complete or not there
run.py              one run over many roots
run_report.py       what a run says, and what is new since another
"""
