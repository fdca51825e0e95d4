"""verify beside a broker at work, after it was killed, and after it has gone in order: no false alarm."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli import parse_rows
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record, wait_until

pytestmark = pytest.mark.peer

SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that rolls, cleans and deletes all the time."""
    peers.require_kafka(peers.NEWEST)
    with Broker(peers.NEWEST, {"log.retention.bytes": "6291456", "log.segment.bytes": "1048576"}) as running:
        running.client.create_topic("plain", SMALL)
        running.client.create_topic(
            "cleaned",
            {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "2000"},
        )
        yield running


def produce(broker: Broker, stop: threading.Event) -> None:
    while not stop.is_set():
        records = [Record(os.urandom(1) if n % 2 else b"k", os.urandom(700)) for n in range(700)]
        broker.client.produce("plain", records)
        broker.client.produce("cleaned", records)
        for topic, commit in (("plain", True), ("plain", False), ("cleaned", False)):
            steps = [records[:5], records[:3]]
            broker.client.transaction(topic, steps, transactional_id=f"{topic}-{commit}", commit=commit)


def verify(broker: Broker, *options: str) -> list[dict[str, Any]]:
    """What is at least degraded."""
    command = [
        sys.executable,
        "-m",
        "kafkatool",
        "verify",
        "--format",
        "ndjson",
        *options,
        str(broker.log_dir),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 4), done.stderr
    found = parse_rows(done.stdout)
    assert found[-1]["kind"] == "summary"
    bad = [row for row in found[:-1] if row["severity"] != "note"]
    for row in bad:
        print(row["file"], row["class"], row["message"], row["expected"], row["found"])
    return bad


def was_cut_off(row: dict[str, Any]) -> bool:
    """The two things that a kill leaves behind: half a batch, or a marker without its entry.

    The end of a transaction is in its topic before the broker has the entry in the transaction index, and
    after the client was told; a broker makes the entry when it scans the segment at its next start.
    """
    if row["class"] == "torn_tail":
        return True
    is_entry = row["file"].endswith(".txnindex") and row["found"] == "no entry"
    return is_entry and row["below_recovery_point"] is False


def test_nothing_is_wrong_while_a_broker_writes_and_when_it_is_gone(broker: Broker) -> None:
    stop = threading.Event()
    writer = threading.Thread(target=produce, args=(broker, stop))
    writer.start()
    try:
        wait_until(lambda: len(list((broker.log_dir / "plain-0").glob("*.log"))) > 3, "segments")
        for _ in range(2):
            assert verify(broker, "--deep") == []
    finally:
        stop.set()
        writer.join()
    broker.kill()
    assert [row for row in verify(broker) if not was_cut_off(row)] == []
    broker.start()
    broker.stop()
    assert verify(broker, "--deep") == []
