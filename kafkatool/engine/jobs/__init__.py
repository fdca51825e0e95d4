"""Cut work into splits, run it on any number of workers, and merge the results in order.

A job's answer never depends on the number of workers.
"""
