"""Run on Spark what outgrows one machine: the same jobs, the same answers.

    session.py    a quiet session, with this package wherever its tasks run
    workers.py    a pool of workers whose processes are Spark's: every job of the engine runs on it
    source.py     the data source `kafkalog`, for queries and notebooks

Only this package imports pyspark, and it is itself imported only where needed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from kafkatool.errors import MissingExtra

if find_spec("pyspark") is None:
    raise MissingExtra("Spark needs", "pyspark")


def register(spark: Any) -> None:
    """Make `spark.read.format("kafkalog")` known to a session.

    options: granularity = segments | batches | records (default), all = true for the raw log,
    splitBytes, failOnDataLoss, onDamage, maxRecordsPerTrigger ...; see `kafkatool.spark.source`.
    """
    from kafkatool.spark.source import register_source

    register_source(spark)
