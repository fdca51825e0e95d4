"""The input of one Spark task."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from kafkatool.spark.planning import LogStretch


@dataclass
class Stretches(InputPartition):
    """Some stretches of logs, read one after another."""

    stretches: list[LogStretch]
