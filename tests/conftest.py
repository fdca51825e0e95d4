"""Fixtures for all tests: running brokers of the newest and the oldest release, a directory in memory."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from kafkatool.engine.files.disk import DiskFile
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.memory import MEMORY

# A shell without job control starts background programs with interrupts ignored, and children inherit that;
# some tests are about interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The time that a test takes depends on what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

BROKERS = {"newest_broker", "oldest_broker", "any_broker"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all tests that use a broker in one worker, so that each broker is started once."""
    for item in items:
        if BROKERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("brokers"))


def _running(version: str) -> Iterator[Broker]:
    peers.require_kafka(version)
    with Broker(version) as broker:
        yield broker


@pytest.fixture(scope="session")
def newest_broker() -> Iterator[Broker]:
    """Return Kafka 4.3 for the whole session: use a topic name of your own, and do not stop it."""
    yield from _running(peers.NEWEST)


@pytest.fixture(scope="session")
def oldest_broker() -> Iterator[Broker]:
    """Return Kafka 3.9 for the whole session: use a topic name of your own, and do not stop it."""
    yield from _running(peers.OLDEST)


@pytest.fixture(scope="session", params=[peers.NEWEST, peers.OLDEST])
def any_broker(request: pytest.FixtureRequest) -> Broker:
    """Return the broker: the test runs once with each of the two."""
    name = "newest_broker" if request.param == peers.NEWEST else "oldest_broker"
    broker: Broker = request.getfixturevalue(name)
    return broker


@pytest.fixture(autouse=True)
def no_log_stays_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the logs that a test wrote and left open: thousands of tests share one process."""
    opened: list[DiskFile] = []
    real = DiskFile.__init__

    def noted(self: DiskFile, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        opened.append(self)

    monkeypatch.setattr(DiskFile, "__init__", noted)
    yield
    for file in opened:
        file.close()


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """Yield a directory like `tmp_path`, in memory if there is room."""
    with TemporaryDirectory(prefix="kafkatool-test-", dir=MEMORY) as made:
        yield Path(made)
