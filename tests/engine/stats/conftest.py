"""A log for those who count."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.format.batch import CONTROL_MASK, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.logs import TIME, write_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batches of every kind: codecs, producers, gaps, times that go back, null keys, headers."""
    pieces = []
    for number in range(60):
        rows = [
            NewRecord(
                None if number % 7 == 0 else b"k%d" % (number * at % 13),
                None if at == 2 else bytes(number),
                TIME + (number * 37 % 50) * 1000 + at,
                [(b"h", b"v")] * (at % 2),
            )
            for at in range(1 + number % 4)
        ]
        pieces.append(
            write_batch(
                rows,
                base_offset=10 * number,
                codec=list(Codec)[number % 5],
                attributes=CONTROL_MASK if number % 11 == 10 else 0,
                producer_id=number % 3 - 1,
            )
        )
    return write_log(tmp_path_factory.mktemp("log"), b"".join(pieces))
