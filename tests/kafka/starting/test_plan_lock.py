"""A broker at work is never disturbed, and does not start while we are at work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.lock import hold_lock
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.librdkafka import Record

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("command", ["rebuild-index", "recover"])
def test_a_directory_that_a_broker_runs_on_is_refused(
    command: str, newest_broker: Broker, tmp_path: Path
) -> None:
    topic = f"locked-{command}"
    newest_broker.client.create_topic(topic)
    newest_broker.client.produce(topic, [Record(b"k", b"v")])
    directory = newest_broker.log_dir / f"{topic}-0"
    (directory / "00000000000000000000.timeindex").unlink()  # gives both something to do
    for more in ([], ["--offline"], ["--backup-dir", str(tmp_path / "kept")]):
        done = run(command, "--apply", *more, str(directory))
        assert done.exit_code == 5, done
        assert b"a broker is running" in done.stderr
    assert not [name for name in os.listdir(directory) if "kafkatool" in name]
    assert run(command, str(directory)).exit_code == 0  # to look is allowed


def test_a_broker_does_not_start_while_we_hold_the_lock() -> None:
    peers.require_kafka(peers.NEWEST)
    broker = Broker(peers.NEWEST)
    try:
        broker.start()
        broker.stop()
        with hold_lock(str(broker.log_dir), Disk()), pytest.raises(BrokerFailedError):
            broker.start()
        assert b"Failed to acquire lock" in broker.log_file.read_bytes()
        assert not (broker.log_dir / ".lock").exists()
        broker.start()
    finally:
        broker.close()
