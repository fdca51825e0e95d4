"""`cat` and `export` against a real broker: the same records that Kafka's console consumer prints."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.dump_tool import environment, java_command
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.logs import wait_until_cleaned

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("cat")]

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
TEMPLATE = "Offset:%o\\t%k\\t%s\\n"


@pytest.fixture(scope="module", params=[pytest.param(peers.OLDEST, marks=pytest.mark.soak), peers.NEWEST])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    version = str(request.param)
    peers.require_kafka(version)
    settings = {"replica.high.watermark.checkpoint.interval.ms": "300", "log.index.interval.bytes": "512"}
    with Broker(version, settings) as running:
        yield running


def consumed(broker: Broker, topic: str, isolation: str) -> list[str]:
    """Every line that the console consumer prints; where the topic ends, another client has to tell."""
    settings = {"isolation_level": isolation, "auto_offset_reset": "earliest"}
    count = len(broker.client.consume_all(topic, [0], **settings)[0])
    setting = "--property" if broker.version < "4.2" else "--formatter-property"
    command = [
        *java_command(broker.version),
        *(CONSUMER, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0"),
        *("--offset", "earliest", "--isolation-level", isolation, "--max-messages", str(count)),
        *(setting, "print.offset=true", setting, "print.key=true"),
    ]
    done = subprocess.run(command, capture_output=True, env=environment(), check=False, timeout=120)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == count > 0, done.stderr.decode()[-2000:]
    return [line.replace("\tnull", "\tNULL") for line in lines]


def printed(broker: Broker, topic: str, *options: str) -> list[str]:
    done = run("cat", "-Z", "-f", TEMPLATE, *options, str(broker.log_dir / f"{topic}-0"))
    assert done.exit_code == 0, done.stderr
    return done.stdout.decode().splitlines()


class Chaos:
    """Producers of both clients, transactions begun, committed, aborted and left open among plain records."""

    def __init__(self, broker: Broker, topic: str, seed: int, keys: int = 1 << 30) -> None:
        self.broker = broker
        self.keys = keys
        self.topic = topic
        self.chance = random.Random(seed)
        self.count = 0
        self.producers: dict[str, Any] = {}
        self.open: set[str] = set()

    def play(self, steps: int) -> None:
        for _ in range(steps):
            name = f"{self.topic}-{self.chance.randrange(4)}"
            kind = self.chance.choice(["plain", "send", "send", "send", "commit", "abort", "java"])
            if kind == "plain":
                self.broker.client.produce(self.topic, self._records(3), linger_ms=1)
            elif kind == "send":
                self._send(name)
            elif kind == "java":
                self._java()
            elif name in self.open:
                self._end(name, kind == "commit")

    def end_all(self) -> None:
        for name in sorted(self.open):
            self._end(name, self.chance.random() < 0.5)

    def leave_one_open(self) -> None:
        self._send(f"{self.topic}-open")
        self.broker.client.produce(self.topic, self._records(2), linger_ms=1)

    def _records(self, most: int) -> list[Record]:
        made = []
        for _ in range(self.chance.randint(1, most)):
            self.count += 1
            value = (
                None if self.count % 17 == 0 else f"value {self.count} ä".encode() * self.chance.randint(1, 9)
            )
            made.append(Record(f"key {self.count % self.keys}".encode(), value))
        return made

    def _producer(self, name: str) -> Any:
        if name not in self.producers:
            # A transaction must not run out while a slow machine goes on.
            timed = {"transaction_timeout_ms": 600_000, "linger_ms": 1}
            self.producers[name] = self.broker.client.transactional_producer(name, **timed)
        return self.producers[name]

    def _send(self, name: str) -> None:
        producer = self._producer(name)
        if name not in self.open:
            producer.begin_transaction()
            self.open.add(name)
        for record in self._records(4):
            producer.produce(self.topic, value=record.value, key=record.key, partition=0)
        assert not producer.flush(60)

    def _end(self, name: str, commit: bool) -> None:
        self.broker.client.end_transaction(self._producer(name), name, commit=commit)
        self.open.discard(name)

    def _java(self) -> None:
        ends = ["commit" if self.chance.random() < 0.5 else "abort" for _ in range(2)]
        script = [step for end in ends for step in (("begin", None), ("send", self._records(3)), (end, None))]
        self.broker.java.transactions(
            self.topic, script, transactional_id=f"{self.topic}-java", compression_type="lz4"
        )


def segments(version: str) -> dict[str, str]:
    """Small enough for transactions to span several."""
    return {("segment.bytes" if version < "4" else "internal.segment.bytes"): "4000"}


def test_cat_prints_what_a_console_consumer_prints(broker: Broker, tmp_path: Path) -> None:
    broker.client.create_topic("chaos", segments(broker.version))
    chaos = Chaos(broker, "chaos", 7)
    chaos.play(60)
    chaos.leave_one_open()
    committed = consumed(broker, "chaos", "read_committed")
    everything = consumed(broker, "chaos", "read_uncommitted")
    assert 0 < len(committed) < len(everything)
    assert len(list((broker.log_dir / "chaos-0").glob("*.log"))) > 2
    wait_until(lambda: printed(broker, "chaos") == committed, "the checkpoint")
    assert printed(broker, "chaos", "--all", "--control", "none") == everything
    assert printed(broker, "chaos", "--tail", "5") == committed[-5:]
    middle = int(committed[len(committed) // 2].partition("\t")[0].removeprefix("Offset:"))
    assert printed(broker, "chaos", "--from", str(middle)) == committed[len(committed) // 2 :]
    _without_side_files(broker, committed)
    _exported(broker, committed, tmp_path)


def _without_side_files(broker: Broker, committed: list[str]) -> None:
    """Neither indexes nor snapshots are needed."""
    copy = broker.root / "copy" / "chaos-0"
    copy.mkdir(parents=True)
    for path in (broker.log_dir / "chaos-0").glob("*.log"):
        (copy / path.name).write_bytes(path.read_bytes())
    done = run("cat", "-q", "-Z", "-f", TEMPLATE, str(copy))
    assert done.stdout.decode().splitlines() == committed
    middle = committed[len(committed) // 2]
    offset = middle.partition("\t")[0].removeprefix("Offset:")
    done = run("cat", "-q", "-Z", "-f", TEMPLATE, "--from", offset, str(copy))
    assert done.stdout.decode().splitlines() == committed[len(committed) // 2 :]


def _exported(broker: Broker, committed: list[str], tmp_path: Path) -> None:
    done = run("export", "-o", str(tmp_path / "out"), str(broker.log_dir / "chaos-0"))
    assert done.exit_code == 0, done.stderr
    files = sorted((tmp_path / "out" / "chaos-0").glob("*.parquet"))
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    assert len(files) > 2
    assert [
        f"Offset:{row['offset']}\t{row['key'].decode()}\t"
        + ("NULL" if row["value"] is None else row["value"].decode())
        for row in rows
    ] == committed


def test_a_cleaned_log_gives_what_a_consumer_gets(broker: Broker) -> None:
    """Cleaning leaves batches without records, and markers without data or data of which most is gone."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "1"}
    broker.client.create_topic("cleaned", {**settings, **segments(broker.version)})
    chaos = Chaos(broker, "cleaned", 3, keys=5)
    chaos.play(50)
    chaos.end_all()
    broker.client.produce("cleaned", chaos._records(3), linger_ms=1)
    wait_until_cleaned(broker, "cleaned")  # after that, it stays as it is
    committed = consumed(broker, "cleaned", "read_committed")
    everything = consumed(broker, "cleaned", "read_uncommitted")
    assert len(committed) < chaos.count
    assert printed(broker, "cleaned", "--high-watermark", "end") == committed
    assert printed(broker, "cleaned", "--all", "--control", "none") == everything


def test_deleted_records_are_hidden_as_a_broker_hides_them(broker: Broker) -> None:
    broker.client.create_topic("trimmed")
    broker.client.produce("trimmed", [Record(b"k%d" % at, b"v%d" % at) for at in range(10)])
    broker.client.delete_records("trimmed", 4)
    committed = consumed(broker, "trimmed", "read_committed")
    assert committed[0].startswith("Offset:4")
    broker.restart()
    try:
        assert printed(broker, "trimmed") == committed
        assert len(printed(broker, "trimmed", "--all")) == 10
    finally:
        broker.client.close()


def test_following_prints_what_a_consumer_gets_while_it_is_written(broker: Broker, tmp_path: Path) -> None:
    broker.client.create_topic("live", segments(broker.version))
    out = tmp_path / "followed"
    command = [sys.executable, "-m", "kafkatool", "cat", "-q", "--follow", "-Z", "-f", TEMPLATE]
    with out.open("wb") as file:
        process = subprocess.Popen(
            [*command, str(broker.log_dir / "live-0")], stdout=file, stderr=subprocess.PIPE
        )
    try:
        chaos = Chaos(broker, "live", 11)
        chaos.play(40)
        chaos.end_all()
        broker.client.produce("live", [Record(b"last", b"last")])
        committed = consumed(broker, "live", "read_committed")
        assert committed[-1].endswith("last\tlast")
        with suppress(TimeoutError):
            wait_until(lambda: out.read_text().splitlines() == committed, "all records")
    finally:
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert out.read_text().splitlines() == committed


def test_a_live_log_is_never_called_damaged(broker: Broker) -> None:
    broker.client.create_topic("busy", segments(broker.version))
    end = time.monotonic() + 6
    while time.monotonic() < end:
        broker.client.produce("busy", [Record(None, os.urandom(300)) for _ in range(8)], linger_ms=1)
        done = run("cat", "--all", "--high-watermark", "end", str(broker.log_dir / "busy-0"))
        assert done.exit_code == 0, done.stderr
