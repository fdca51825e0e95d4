"""MirrorMaker copies a served topic, damage and all, into a real broker."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.consumers import Seen, confluent, of_cat
from tests.kafka.dump_tool import environment, java_command
from tests.kafka.librdkafka import wait_until
from tests.logs import batches, write_log
from tests.serving import Served

pytestmark = [pytest.mark.peer, pytest.mark.soak]

STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"


def worker(target: str, folder: Path) -> str:
    bytes_only = "org.apache.kafka.connect.converters.ByteArrayConverter"
    settings = {
        "bootstrap.servers": target,
        "key.converter": bytes_only,
        "value.converter": bytes_only,
        "offset.storage.file.filename": str(folder / "connect.offsets"),
        "offset.flush.interval.ms": "1000",
        "listeners": "http://127.0.0.1:0",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def connector(source: str, target: str, topics: str) -> str:
    settings = {
        "name": "mirror",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "source.cluster.alias": "disk",
        "target.cluster.alias": "new",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
        "topics": topics,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset-syncs.topic.location": "target",
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": "5",
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def without_offsets(rows: list[Seen]) -> list[tuple[object, ...]]:
    """A copy has offsets of its own, without the gaps."""
    return [(row.timestamp_ms, row.key, row.value) for row in rows]


def test_mirror_maker_copies_over_damage(newest_broker: Broker, tmp_path: Path) -> None:
    peers.kafka_jars(peers.NEWEST, peers.MIRROR)
    made = batches(50)
    made[20] = made[20][:80] + bytes([made[20][80] ^ 1]) + made[20][81:]
    logs = tmp_path / "logs"
    write_log(logs / "mirrored-0", b"".join(made))
    printed = run("cat", "--format", "ndjson", str(logs / "mirrored-0"))
    expected = without_offsets(of_cat(printed.stdout.splitlines()))
    assert len(expected) == 147
    with Served("--skip-damage", logs) as running:
        (tmp_path / "worker").write_text(worker(newest_broker.bootstrap, tmp_path))
        (tmp_path / "mirror").write_text(connector(running.bootstrap, newest_broker.bootstrap, "mirrored"))
        command = java_command(peers.NEWEST, quiet=False)
        command[-1] += os.pathsep + peers.classpath(peers.NEWEST, peers.MIRROR)
        with (tmp_path / "connect.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, STANDALONE, str(tmp_path / "worker"), str(tmp_path / "mirror")],
                stdout=log,
                stderr=log,
                env=environment(),
            )
        try:
            wait_until(lambda: _count(newest_broker, "disk.mirrored") >= len(expected), "the copy", 120)
            copied = confluent(newest_broker.bootstrap, "disk.mirrored", 1, False)
            assert without_offsets(copied) == expected
        except (TimeoutError, AssertionError):
            shutil.copy(tmp_path / "connect.log", "/tmp/kafkatool-connect.log")
            raise
        finally:
            process.kill()
            process.wait()
        assert running.stop() == 0, running.stderr()


def _count(broker: Broker, topic: str) -> int:
    try:
        return broker.client.end_offset(topic)
    except Exception:
        return 0
