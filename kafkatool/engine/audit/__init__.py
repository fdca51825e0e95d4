"""Audit the logs of many brokers into tables that outlive the run.

sums.py             sums over the batches of a log, gathered while it is verified
batch_files.py      the batches of a log as Parquet, written in the same walk
root.py             one root: its partitions, with findings, retention and compaction
kept_partition.py   what is kept about a partition from one run to the next, as JSON
arrow_tables.py     rows and files of the tables
lake.py             runs in a directory: each is complete or does not exist
run.py              one run over many roots
run_report.py       a report on a run, and what is new since another
"""
