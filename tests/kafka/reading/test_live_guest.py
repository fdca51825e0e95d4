"""Beside a broker at work: nothing is disturbed, nothing breaks, and what is said is true."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.batches.scan import Batch, scan
from kafkatool.engine.files.page_cache import Residency
from kafkatool.engine.files.source import Guest, open_source
from tests.cli import parse_rows
from tests.engine.cold import evict_or_skip
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record, wait_until

pytestmark = pytest.mark.peer

LONG_TOPIC = "long." * 49


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One that rolls and deletes all the time."""
    peers.require_kafka(peers.NEWEST)
    with Broker(peers.NEWEST, {"log.segment.bytes": "1048576", "log.retention.bytes": "8388608"}) as running:
        yield running


def ls(*arguments: object) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "kafkatool", "ls", "--format", "ndjson", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return parse_rows(result.stdout)


def produce(broker: Broker, topic: str, mebibytes: int) -> None:
    records = [Record(b"k", os.urandom(1000)) for _ in range(1000)]
    broker.client.produce_steps(topic, [records] * mebibytes)


def residency(log_dir: Path) -> dict[tuple[str, int], int]:
    """For every page of every file, whether it is in memory."""
    pages: dict[tuple[str, int], int] = {}
    for path in sorted(log_dir.rglob("*")):
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        found = Residency.of(fd, os.fstat(fd).st_size) if path.is_file() else None
        os.close(fd)
        if found is not None:
            with found:
                answer = found.pages(0, found.page_count) or b""
            pages.update({(str(path), number): value for number, value in enumerate(answer)})
    return pages


def scan_everything(log_dir: Path) -> int:
    """Read every log there is to its end; return how many batches were seen."""
    count = 0
    for path in sorted(log_dir.rglob("*.log")):
        try:
            source = open_source(path, Guest())
        except FileNotFoundError:
            continue
        with source:
            count += sum(isinstance(item, Batch) for item in scan(source))
    return count


def test_the_offsets_are_those_the_broker_serves(broker: Broker) -> None:
    broker.client.create_topic("offsets", partitions=2)
    produce(broker, "offsets", 3)
    found = {row["directory"]: row for row in ls(broker.log_dir) if row["kind"] == "partition"}
    assert found["offsets-0"]["last_offset"] + 1 == broker.client.end_offset("offsets")
    assert found["offsets-0"]["first_offset"] == 0
    assert found["offsets-1"]["last_offset"] is None
    assert found["offsets-0"]["problem"] is None
    assert found["__cluster_metadata-0"]["state"] == "metadata"


def test_scanning_leaves_the_cache_as_it_was(broker: Broker) -> None:
    broker.client.create_topic("cache")
    produce(broker, "cache", 7)
    for path in sorted((broker.log_dir / "cache-0").glob("*.log"))[:-1:2]:
        evict_or_skip(path)
    before = residency(broker.log_dir)
    assert scan_everything(broker.log_dir) > 0
    ls("--segments", broker.log_dir)
    after = residency(broker.log_dir)
    changed = sum(after.get(page) != value for page, value in before.items())
    assert 0 in before.values()
    assert changed < len(before) / 100


def test_rolling_and_deleting_meanwhile_breaks_nothing(broker: Broker) -> None:
    broker.client.create_topic("busy", {"file.delete.delay.ms": "100"})
    writer = threading.Thread(target=produce, args=(broker, "busy", 40))
    writer.start()
    rounds = 0
    while writer.is_alive() or rounds < 3:
        scan_everything(broker.log_dir)
        ls("--segments", broker.log_dir)
        rounds += 1
    writer.join()


def test_dump_log_sees_no_damage_in_what_is_being_written(broker: Broker) -> None:
    broker.client.create_topic("written", {"file.delete.delay.ms": "100"})
    writer = threading.Thread(target=produce, args=(broker, "written", 40))
    writer.start()
    command = [sys.executable, "-m", "kafkatool", "dump-log", "--format", "ndjson", str(broker.log_dir)]
    rounds = 0
    while writer.is_alive() or rounds < 3:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        found = [row for row in parse_rows(result.stdout) if row["kind"] == "damage"]
        assert {row["class"] for row in found} <= {"in_flight"}
        assert result.returncode == 0, result.stderr
        rounds += 1
    writer.join()


def test_the_real_name_of_a_long_topic_is_known_after_its_deletion(broker: Broker) -> None:
    broker.client.create_topic(LONG_TOPIC)
    broker.client.produce(LONG_TOPIC, [Record(b"k", b"v")])
    broker.client.delete_topic(LONG_TOPIC)
    wait_until(lambda: any(broker.log_dir.glob("long*-delete")), "the directory to be renamed")
    (found,) = [row for row in ls("--state", "deleted", broker.log_dir) if row["kind"] == "partition"]
    assert (found["topic"], found["state"], found["last_offset"]) == (LONG_TOPIC, "deleted", 0)
    assert LONG_TOPIC not in found["directory"]
