"""A log whose older segments are in remote storage: `recover` keeps of it what a broker keeps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkatool.format.state.checkpoint import read_offset_checkpoint
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.logs import small_segments
from tests.kafka.making.tiered import PROPERTIES
from tests.kafka.recovered_files import read_directory

pytestmark = [pytest.mark.peer, pytest.mark.soak, pytest.mark.xdist_group("recover")]

TOPIC = "tiered"


def fill(broker: Broker) -> None:
    """Segments that are gone from here, and some that are not yet."""
    partition = broker.log_dir / f"{TOPIC}-0"
    config = {
        "remote.storage.enable": "true",
        "local.retention.ms": "1",
        "index.interval.bytes": "100",
        **small_segments(broker.version, 600),
    }
    broker.client.create_topic(TOPIC, config)
    steps = [[Record(b"%d" % number, b"value %d" % number)] for number in range(12)]
    broker.client.produce_steps(TOPIC, steps)
    wait_until(lambda: not (partition / "00000000000000000000.log").exists(), "segments to go")
    broker.client.alter_config(TOPIC, {"local.retention.ms": "3600000"})
    broker.client.transaction(TOPIC, steps[:4], transactional_id="t", commit=False)
    broker.client.produce_steps(TOPIC, steps)


@pytest.mark.parametrize("version", [peers.NEWEST, peers.OLDEST])
def test_what_recover_leaves_of_a_tiered_log_is_what_a_broker_leaves(version: str, tmp_path: Path) -> None:
    peers.require_kafka(version)
    broker = Broker(version, PROPERTIES, profiles=(peers.TIERED,))
    broker.properties["rsm.config.dir"] = str(broker.root / "remote")
    with broker:
        fill(broker)
        wait_until(lambda: starts(broker.log_dir) == [0], "a checkpoint of the log start")
        broker.kill()
        partition = broker.log_dir / f"{TOPIC}-0"
        assert min(int(path.name[:20]) for path in partition.glob("*.log")) > 0
        ours = tmp_path / "logs"
        shutil.copytree(broker.log_dir, ours)
        assert run("recover", "--apply", "--offline", str(ours)).exit_code == 0
        broker.properties["log.initial.task.delay.ms"] = "3600000"
        broker.start()
        broker.kill()
        assert read_directory(ours / partition.name).facts == read_directory(partition).facts


def starts(log_dir: Path) -> list[int]:
    path = log_dir / "log-start-offset-checkpoint"
    entries = read_offset_checkpoint(path.read_bytes()) if path.exists() else []
    return [entry.offset for entry in entries if entry.topic == TOPIC]
