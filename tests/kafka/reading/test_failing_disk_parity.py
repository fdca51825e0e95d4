"""A broker on a disk that does not give what it holds does what `recover` foretells.

One file of a partition is laid over with the same file from a file system that fails.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkatool.format.names import segment_file
from kafkatool.format.state.checkpoint import PartitionOffset, write_offset_checkpoint
from tests.cli import run
from tests.failing_disk import failing_disk
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.logs import small_segments

pytestmark = [pytest.mark.peer, pytest.mark.soak, pytest.mark.xdist_group("recover")]

TOPIC = "t"
MS_BIND, MNT_DETACH = 4096, 2
LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def laid_over(path: Path, mount: Path, bad: tuple[int, int]) -> Iterator[None]:
    """The file fails to be read in this stretch; nothing else of the directory is changed."""
    mount.mkdir(exist_ok=True)
    files = {path.name: path.read_bytes()}
    with failing_disk(mount, files, {path.name: [bad]}, read_only=False) as disk:
        if LIBC.mount(os.fsencode(disk / path.name), os.fsencode(path), None, MS_BIND, None) != 0:
            pytest.skip("mounting needs root")
        try:
            yield
        finally:
            LIBC.umount2(os.fsencode(path), MNT_DETACH)


@pytest.fixture(scope="module", params=[peers.NEWEST, peers.OLDEST])
def killed(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A killed broker with two log directories; all but the last segment of a partition is flushed."""
    peers.require_kafka(request.param)
    settings = {"log.index.size.max.bytes": "1200", "log.initial.task.delay.ms": "3600000"}
    with Broker(request.param, settings, log_dirs=2) as broker:
        broker.client.create_topic(TOPIC, small_segments(broker.version, 20_000), partitions=2)
        for partition in range(2):
            steps = [[Record(b"k", b"v" * 3000)]] * 10
            broker.client.produce_steps(TOPIC, steps, partition=partition)
        broker.kill()
        for directory in broker.log_dirs:
            points = [
                PartitionOffset(TOPIC, int(path.name[len(TOPIC) + 1 :]), last_base(path))
                for path in directory.glob(f"{TOPIC}-*")
            ]
            (directory / "recovery-point-offset-checkpoint").write_bytes(write_offset_checkpoint(points))
            shutil.copytree(directory, broker.root / f"pristine-{directory.name}")
        yield broker


def last_base(partition: Path) -> int:
    return max(int(path.name[:20]) for path in partition.glob("*.log"))


def restore(broker: Broker) -> Path:
    """The partition in the directory without the metadata log."""
    for directory in broker.log_dirs:
        shutil.rmtree(directory)
        shutil.copytree(broker.root / f"pristine-{directory.name}", directory)
    (partition,) = broker.log_dirs[1].glob(f"{TOPIC}-*")
    return partition


def told(broker: Broker) -> bytes:
    done = run("recover", str(broker.root / "server.properties"))
    assert done.exit_code == 4
    assert b"the disk does not give bytes" in done.stdout
    return done.stdout


def test_a_broker_that_cannot_read_a_batch_does_not_start(killed: Broker) -> None:
    partition = restore(killed)
    log = partition / segment_file(last_base(partition), ".log")
    with laid_over(log, killed.root / "disk", (4096, 8192)):
        assert b"refuse" in told(killed)
        with pytest.raises(BrokerFailedError):
            killed.start()


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_broker_that_cannot_read_a_side_file_leaves_the_directory_out(killed: Broker, name: str) -> None:
    partition = restore(killed)
    with laid_over(partition / name, killed.root / "disk", (0, 4096)):
        foretold = told(killed)
        assert b"offline" in foretold
        assert b"refuse" not in foretold
        start_without_the_second_directory(killed)


def test_a_broker_that_cannot_read_a_snapshot_empties_the_segment_behind_it(killed: Broker) -> None:
    partition = restore(killed)
    base = last_base(partition)
    log = partition / segment_file(base, ".log")
    size = log.stat().st_size
    assert size > 0
    with laid_over(partition / segment_file(base, ".snapshot"), killed.root / "disk", (0, 4096)):
        foretold = told(killed)
        assert b"offline" in foretold
        assert f"a broker from 4.0 on first empties {log.name}".encode() in foretold
        start_without_the_second_directory(killed)
    assert log.stat().st_size == (size if killed.version.startswith("3.") else 0)


def start_without_the_second_directory(broker: Broker) -> None:
    said = broker.log_file.stat().st_size
    broker.start()
    try:
        words = f"Stopping serving logs in dir {broker.log_dirs[1]}".encode()
        wait_until(lambda: words in broker.log_file.read_bytes()[said:], "the directory to go offline")
    finally:
        broker.kill()
