"""Audits on Spark, and what they leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafkatool.engine.audit.arrow_tables import TABLES, read_table
from tests.cli import Run, run
from tests.spark.matrix import NOW


def tables(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of the current run, in an order that never varies."""
    found = {}
    for name in TABLES:
        rows = read_table(str(lake / "current"), name).to_pylist()
        for row in rows:
            row.pop("verified_at_ms", None)  # when it was read, by the clock
        found[name] = sorted(rows, key=lambda row: [str(value) for value in row.values()])
    return found


def audit(lake: Path, *roots: object) -> Run:
    return run("pipeline", "run", "--spark", "local[2]", "--now", NOW, "--out", str(lake), *map(str, roots))
