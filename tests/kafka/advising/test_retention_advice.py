"""What `retention --free` advises is followed; and a broker whose cluster's upgrade is not over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.cluster.view import read_cluster_view
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.source import Guest
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import METADATA_PARTITION
from kafkatool.format.release import Release
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.kafka_scripts import follow, write_scripts
from tests.kafka.librdkafka import wait_until
from tests.kafka.raw_produce import raw_produce

pytestmark = pytest.mark.peer

HOUR_MS = 3_600_000
TOPIC = "clock-ahead"
CONFIG = {
    "retention.ms": str(HOUR_MS),
    "internal.segment.bytes": "1000",  # a batch each
    "message.timestamp.after.max.ms": str(1 << 60),
}


@pytest.mark.soak
def test_a_broker_is_as_new_as_it_registered_whatever_the_metadata_version() -> None:
    """Kafka 4.3 with the metadata.version of 3.9: its brokers were replaced, and nobody ended the upgrade."""
    peers.require_kafka(peers.NEWEST)
    with Broker(peers.NEWEST, metadata_version="3.9") as broker:
        metadata = read_partition(str(broker.log_dir / METADATA_PARTITION), [])
        view = read_cluster_view([metadata], Guest())
        assert view.release is Release.V3_9
        assert view.release_of(1) is Release.V4_3
        # A setting that 4.0 has done away with.
        words = ("retention", "--set", "message.format.version=3.0")
        assert run(*words, "--kafka-version", "3.9", str(broker.log_dir)).exit_code == 0
        assert run(*words, str(broker.log_dir)).exit_code == 2


def send(broker: Broker, partition: int, ages: list[int]) -> None:
    """One batch, a segment of its own; an age below 0 lies in the future."""
    now_ms = time.time_ns() // 1_000_000
    records = [NewRecord(b"k", b"v" * (600 // len(ages)), now_ms - age * HOUR_MS) for age in ages]
    batch = write_batch(records)
    wait_until(lambda: raw_produce(broker.bootstrap, TOPIC, batch, partition=partition).error == 0, "a batch")


def offsets(broker: Broker, partition: int) -> list[int]:
    found = broker.client.consume_all(TOPIC, [partition], auto_offset_reset="earliest")
    return [one.offset for one in found[partition]]


def held(broker: Broker, partition: int) -> dict[str, Any]:
    """What is offered for a partition."""
    path = str(broker.log_dir / f"{TOPIC}-{partition}")
    done = run("retention", "--free", "1", "--format", "ndjson", "--high-watermark", "end", path)
    assert done.exit_code == 0, done.stderr
    return done.of("held")[0]


@pytest.mark.advice("DELETE_RECORDS")
def test_deleting_what_a_clock_ahead_holds_back_deletes_what_was_said_and_no_more(
    newest_broker: Broker, tmp_path: Path
) -> None:
    broker = newest_broker
    broker.client.create_topic(TOPIC, CONFIG, partitions=3)
    for partition in (0, 1):
        for ages in ([5, 5], [5, -24, 5], [5], [-48, 5], [5], [0]):
            send(broker, partition, ages)
    for ages in ([5, -24], [0, 0], [0]):
        send(broker, 2, ages)
    for partition in range(3):
        first = broker.log_dir / f"{TOPIC}-{partition}" / f"{0:020}.log"
        wait_until(lambda at=first, number=partition: at.exists() == (number == 2), "a check")  # type: ignore[misc]
    assert offsets(broker, 0) == list(range(2, 10)), "one record of each of two segments holds all after it"

    many, few = held(broker, 0), held(broker, 2)
    assert (many["record_offset"], many["first_offset"], many["last_offset"]) == (6, 2, 7)
    assert (few["record_offset"], few["first_offset"], few["last_offset"]) == (1, 0, 1)
    scripts = write_scripts(tmp_path / "scripts")
    for row in (many, few):
        follow(row["delete_command"], scripts, {"HOST:PORT": broker.bootstrap})

    def segments(partition: int) -> int:
        return len(list((broker.log_dir / f"{TOPIC}-{partition}").glob("*.log")))

    wait_until(lambda: (segments(0), segments(2)) == (1, 2), "the next check")
    assert many["segments"] == 4
    assert few["segments"] == 1
    assert offsets(broker, 0) == [9], "what the check then deleted by itself had expired"
    assert offsets(broker, 2) == [2, 3, 4]
    assert offsets(broker, 1) == list(range(2, 10)), "nobody spoke of it"
