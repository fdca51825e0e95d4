"""What an operator is told about an offset or a time that is there, is gone, or stands in damage."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kafkatool.format.names import segment_file
from kafkatool.format.state.checkpoint import PartitionOffset, write_offset_checkpoint
from tests.cli import run
from tests.engine.partitions_to_verify import SEGMENT, batch, log_of, write_healthy_log_dir
from tests.logs import TIME
from tests.mutations import flip, put

LOG_STARTS = "log-start-offset-checkpoint"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_healthy_log_dir(tmp_path / "logs")


def answers(*arguments: object) -> list[int]:
    done = run("lookup", "--format", "ndjson", *map(str, arguments))
    return [row["offset"] for row in done.rows]


def test_a_log_start_counts_for_a_partition_that_is_named_itself_too(log_dir: Path) -> None:
    (log_dir / LOG_STARTS).write_bytes(write_offset_checkpoint([PartitionOffset("orders", 0, 4)]))
    for path in (log_dir, log_dir / "orders-0"):
        assert answers("--time", TIME, path) == [4]
        assert answers("--offset", 4, path) == [4]
        done = run("lookup", "--offset", "3", str(path))
        assert (done.exit_code, done.stdout) == (2, b"")
        assert b"offset 3 lies below the start of the log, 4: a broker answers OFFSET_OUT" in done.stderr


def test_a_log_start_below_the_first_segment_means_nothing(log_dir: Path) -> None:
    for file in (log_dir / "orders-0").glob(f"{0:020d}.*"):
        file.unlink()
    (log_dir / LOG_STARTS).write_bytes(write_offset_checkpoint([PartitionOffset("orders", 0, 2)]))
    assert b"below the start of the log, 12" in run("lookup", "--offset", "5", str(log_dir)).stderr
    assert answers("--time", TIME, log_dir) == [SEGMENT]


def test_past_the_end_there_is_nothing(log_dir: Path) -> None:
    done = run("lookup", "--offset", str(3 * SEGMENT), str(log_dir))
    assert (done.exit_code, done.stdout) == (2, b"")
    assert b"nothing at or after 36" in done.stderr


def test_a_batch_with_a_bad_checksum_is_the_answer_and_damage(log_dir: Path) -> None:
    size = len(batch(0))
    flip(log_of(log_dir, 0), size + 100)
    done = run("lookup", "--format", "ndjson", "--offset", "1", str(log_dir))
    assert done.exit_code == 4
    assert json.loads(done.stdout)["position"] == size
    assert f"byte {size}: bad_crc".encode() in done.stderr
    assert b"next: kafkatool verify" in done.stderr
    assert run("lookup", "--offset", "0", str(log_dir)).exit_code == 0


def test_what_a_broken_length_hides_is_not_taken_for_a_gap(log_dir: Path) -> None:
    put(log_of(log_dir, 0), len(batch(0)) + 8, b"\x7f")
    done = run("lookup", "--format", "ndjson", "--offset", "1", str(log_dir))
    assert (done.exit_code, json.loads(done.stdout)["offset"]) == (4, 2)
    assert b"offsets 1 to 1 are at stake" in done.stderr


def test_reserved_zeros_of_the_active_segment_are_no_damage(log_dir: Path) -> None:
    os.truncate(log_of(log_dir, 2), 1 << 16)
    assert run("lookup", "--offset", str(3 * SEGMENT), str(log_dir)).exit_code == 2
    os.truncate(log_of(log_dir, 1), 1 << 16)
    assert run("lookup", "--offset", str(2 * SEGMENT), str(log_dir)).exit_code == 0


@pytest.mark.parametrize("offset", ["-1", str(1 << 63), "x"])
def test_what_is_no_offset_is_refused(log_dir: Path, offset: str) -> None:
    assert run("lookup", "--offset", offset, str(log_dir)).exit_code == 2


def test_an_index_that_is_named_stands_for_its_log_which_has_to_be_there(log_dir: Path) -> None:
    index, log = (log_dir / "orders-0" / segment_file(SEGMENT, name) for name in (".index", ".log"))
    assert answers("--offset", SEGMENT + 1, index, log) == [SEGMENT + 1]
    assert answers("--offset", SEGMENT + 1, index) == [SEGMENT + 1]
    log.unlink()
    done = run("lookup", "--offset", "13", str(index), str(log_dir))
    assert done.exit_code == 2
    assert b"no log" in done.stderr
