"""What lies in log directories, and which part of it the user named.

Directories are listed here; everybody else works with the `LogDir` and `Partition` that come of it.
"""
