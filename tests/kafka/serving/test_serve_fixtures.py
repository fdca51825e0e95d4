"""Every partition that a broker left among the fixtures, old formats too, read by clients from `serve`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.format.names import parse_partition_directory
from tests.cli import run
from tests.kafka.consumers import kafka_python
from tests.places import FIXTURES
from tests.serving import Served

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("serve-fixtures")]

CASES = {
    f"{kind}.{case.name}.{partition.name}".replace("-0", ""): partition
    for kind in ("legacy", "log", "transactions", "compacted", "odd")
    for case in sorted((FIXTURES / kind).iterdir())
    for partition in sorted(case.iterdir())
    if partition.is_dir() and parse_partition_directory(partition.name) and list(partition.glob("*.log"))
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All of them at once, each under a name of its own."""
    logs = tmp_path_factory.mktemp("fixtures")
    for name, partition in CASES.items():
        shutil.copytree(partition, logs / f"{name}-0")
    with Served("--last-stable-offset", "end", logs) as running:
        yield running
        assert running.stop() == 0, running.stderr()
        assert "this should not happen" not in running.stderr()


def printed(partition: Path) -> list[int]:
    done = run("cat", "--all", "--control", "none", "-f", "%o\\n", str(partition))
    return [int(line) for line in done.stdout.split()]


def test_there_are_cases_of_every_format() -> None:
    assert len(CASES) > 25
    assert any("magic0" in name for name in CASES)
    assert any("magic1" in name for name in CASES)


# What clients give up on, whoever serves it: snappy without frames, lz4 of old, headers that are no text.
BEYOND = {
    "confluent": ("odd.", "legacy.mixed", "legacy.loaded-3.9.mixed"),
    "kafka_python": (
        *("legacy.mixed", "legacy.loaded-3.9.mixed", "legacy.magic0-lz4"),
        *("odd.records", "odd.snappy"),
    ),
}
PAIRS = [(client, name) for name in CASES for client in BEYOND if not name.startswith(BEYOND[client])]


@pytest.mark.parametrize(("client", "name"), PAIRS)
def test_clients_read_what_cat_prints(server: Served, client: str, name: str) -> None:
    found = READERS[client](server.bootstrap, name)
    assert found == printed(CASES[name])


def by_confluent(bootstrap: str, topic: str) -> list[int]:
    from tests.kafka.librdkafka import Librdkafka

    settings = {"isolation_level": "read_uncommitted", "auto_offset_reset": "earliest"}
    return [one.offset for one in Librdkafka(bootstrap).consume_all(topic, [0], **settings)[0]]


def by_kafka_python(bootstrap: str, topic: str) -> list[int]:
    return [row.offset for row in kafka_python(bootstrap, topic, 1, False)]


READERS = {"confluent": by_confluent, "kafka_python": by_kafka_python}
