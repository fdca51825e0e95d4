"""Write down the plans of reads on the driver's host, so that they can be read again.

One JSON file per plan, by granularity: a query may plan several at once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from kafkatool.spark.planning import LogStretch
from kafkatool.spark.schemas import Granularity


def write_plan(directory: str, granularity: Granularity, packs: Iterable[list[LogStretch]]) -> None:
    """Add one plan to a directory."""
    path = Path(directory, str(granularity), f"{uuid.uuid4().hex}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(stretch) for pack in packs for stretch in pack]))


def read_plan(directory: str) -> list[LogStretch]:
    """Return all planned stretches in and below a directory, each once."""
    found: dict[LogStretch, None] = {}
    for path in sorted(Path(directory).rglob("*.json")):
        found |= dict.fromkeys(LogStretch(**row) for row in json.loads(path.read_text()))
    return list(found)
