"""What is to be said of the logs of a partition comes among its records, where it was met."""

from __future__ import annotations

import os
from pathlib import Path

from kafkatool.engine.jobs.events import Failure, Note
from kafkatool.engine.records.stream import RecordPiece, RecordStream
from tests.engine.disk import write_partition
from tests.engine.transaction_logs import subject_of
from tests.logs import GUEST


def test_a_log_that_is_gone_is_noted_and_one_that_cannot_be_opened_fails(tmp_path: Path) -> None:
    partition = write_partition(tmp_path, "orders-0", segments=3)
    subject = subject_of(partition)
    first, second, third = sorted(partition.glob("*.log"))
    first.unlink()
    second.unlink()
    second.mkdir()
    gone, unreadable, *pieces = RecordStream(subject, GUEST).pieces()
    assert gone == Note(f"{first}: deleted since its directory was listed")
    assert isinstance(unreadable, Failure)
    assert str(second) in unreadable.message
    assert [Path(one.log.path) for one in pieces if isinstance(one, RecordPiece)] == [third] * len(pieces)


def test_a_log_that_was_truncated_says_so_in_the_next_round(tmp_path: Path) -> None:
    partition = write_partition(tmp_path, "orders-0", segments=1)
    stream = RecordStream(subject_of(partition), GUEST, follows=True)
    assert all(isinstance(one, RecordPiece) for one in stream.pieces())
    [log] = partition.glob("*.log")
    size = log.stat().st_size
    os.truncate(log, size // 3)
    stream.look_again()
    assert next(stream.pieces()) == Note(f"{log}: truncated from {size} to {size // 3} bytes")
