"""The batches of an audit, as they come to lie in its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.audit.batch_files import BatchFiles
from kafkatool.engine.batches.observers import ROWS
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.verify.walk import LogJob
from tests.logs import batches, write_log


def test_every_batch_of_a_long_log_is_a_row_of_its_own(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    count = ROWS + 10
    path = write_log(tmp_path / "t-0", b"".join(batches(count, per_batch=1)))
    size = path.stat().st_size
    job = LogJob(0, observers=(BatchFiles(Disk(), str(tmp_path), "part", 0),))
    [files] = job.map(Split(str(path), 0, size, size), None).observers
    rows = parquet.read_table(tmp_path / files.parts[0])
    assert rows.column("base_offset").to_pylist() == list(range(count))
