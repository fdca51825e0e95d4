"""A disk that does not give what it holds: recover and rebuild-index tell, and copy nothing of it.

Brokers were seen on such disks: one that cannot read a batch does not start, one that cannot read the epochs
or a topic id leaves the log directory out, and one that cannot read a snapshot empties the segment behind it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.format.names import segment_file
from tests.cli import run
from tests.engine.disk import flip_second_batch, write_partition
from tests.failing_disk import on_failing_disk
from tests.log_dirs import read_tree

LOG = segment_file(60, ".log")
BLOCK = (8192, 12288)


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return write_partition(tmp_path / "logs", "orders-0", segments=3)


def test_a_log_that_the_disk_does_not_give_keeps_a_broker_from_starting_and_is_not_touched(
    orders: Path, tmp_path: Path
) -> None:
    with on_failing_disk(orders, tmp_path / "disk", LOG, BLOCK):
        told = run("recover", "--apply", "--offline", str(orders))
        kept = run("recover", "--keep-after-damage", str(tmp_path / "saved"), str(orders))
    assert (told.exit_code, kept.exit_code) == (4, 4)
    assert b"refuse" in told.stdout
    assert b"the disk does not give bytes 8192 to 12287" in told.stdout
    assert b"image it" in told.stderr
    assert not list(orders.glob("*.kafkatool-*"))
    assert b"good batches" in kept.stdout
    assert len(list((tmp_path / "saved").iterdir())) == 2


def test_what_lies_behind_a_cut_is_not_copied_from_a_disk_that_does_not_give_it(
    orders: Path, tmp_path: Path
) -> None:
    flip_second_batch(orders, 60)
    with on_failing_disk(orders, tmp_path / "disk", LOG, BLOCK):
        before = sorted(path.name for path in orders.iterdir())
        told = run("recover", str(orders))
        done = run("recover", "--apply", "--offline", str(orders))
    assert b"cut" in told.stdout
    assert told.exit_code == 4
    assert done.exit_code == 5
    assert b"would have to be copied" in done.stderr
    assert sorted(path.name for path in orders.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "what"),
    [("leader-epoch-checkpoint", b"offline"), ("partition.metadata", b"offline")],
)
def test_a_side_file_that_the_disk_does_not_give_costs_the_directory(
    orders: Path, tmp_path: Path, name: str, what: bytes
) -> None:
    with on_failing_disk(orders, tmp_path / "disk", name, (0, 4096)):
        told = run("recover", str(orders))
    assert told.exit_code == 4
    assert what in told.stdout
    assert b"the disk does not give" in told.stdout


def test_a_snapshot_that_the_disk_does_not_give_costs_the_segment_behind_it(
    orders: Path, tmp_path: Path
) -> None:
    run("rebuild-index", "--apply", "--offline", str(orders))
    (orders.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 120\n")
    with on_failing_disk(orders, tmp_path / "disk", segment_file(120, ".snapshot"), (0, 4096)):
        told = run("recover", str(orders))
    assert told.exit_code == 4
    assert b"a broker from 4.0 on first empties 00000000000000000120.log" in told.stdout


def test_rebuild_index_tells_and_goes_on_around_what_the_disk_does_not_give(
    orders: Path, tmp_path: Path
) -> None:
    with on_failing_disk(orders, tmp_path / "disk", LOG, BLOCK):
        told = run("rebuild-index", str(orders))
    assert told.exit_code == 4
    assert b"unreadable" in told.stderr
    assert b"image it" in told.stderr


def test_an_index_that_the_disk_does_not_give_is_made_anew_but_not_copied(
    orders: Path, tmp_path: Path
) -> None:
    with on_failing_disk(orders, tmp_path / "disk", segment_file(60, ".index"), (0, 4096)):
        told = run("rebuild-index", str(orders))
        done = run("rebuild-index", "--apply", "--offline", str(orders))
    assert b"the disk does not give all of it" in told.stdout
    assert done.exit_code == 5
    assert not list(orders.glob("*.kafkatool-*"))


def test_nothing_of_this_is_said_of_a_disk_that_works(orders: Path) -> None:
    before = read_tree(orders)
    assert b"image it" not in run("recover", str(orders)).stderr
    assert read_tree(orders) == before
