"""A real Kafka broker on loopback: one KRaft process, both roles, in a directory of its own.

with Broker("4.3.1") as broker:
    broker.client.create_topic("t", {"compression.type": "zstd"})
    broker.client.produce("t", [Record(b"k", b"v")])
    broker.stop()                     # cleanly; kill() is SIGKILL
    (broker.log_dir / "t-0").iterdir()
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kafka import class_archive, peers
from tests.kafka.java_client import JavaClient
from tests.kafka.librdkafka import Librdkafka

GOES_OFFLINE = ("Stopping serving logs in dir", "Failed to create or validate data directory")
"""What a broker says, with its path behind it, of a log directory that it leaves out."""

# Of a broker that does what it should, nobody waits for the end of these.
_START_SECONDS = 180
_STOP_SECONDS = 120

# Small, quick and quiet: one replica and one partition of everything internal, no waiting at start.
_DEFAULTS: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    # Test records carry old timestamps, and would be gone within a second.
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
}


class BrokerFailedError(Exception):
    """The broker did not come up; the message holds the end of its log."""


class Serving:
    """Something that serves Kafka's protocol: `with` starts it and, in the end, removes all that it wrote."""

    version: str
    bootstrap: str

    @cached_property
    def client(self) -> Librdkafka:
        """librdkafka's admin, producer and consumer."""
        return Librdkafka(self.bootstrap)

    @cached_property
    def java(self) -> JavaClient:
        """The Java client of the broker's own release: its framings differ from librdkafka's."""
        return JavaClient(self.version, self.bootstrap)

    def start(self) -> None:
        """Start, and wait until it serves."""
        raise NotImplementedError

    def close(self) -> None:
        """Let the clients go; those who have more to end say so."""
        for name in ("client", "java"):
            if opened := self.__dict__.pop(name, None):
                opened.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Broker(Serving):
    """One broker and controller; everything it writes lies under `root`, which is removed at the end."""

    heap = "512m"
    started_words = b"Kafka Server started"

    def __init__(
        self,
        version: str = peers.NEWEST,
        properties: Mapping[str, str] | None = None,
        *,
        log_dirs: int = 1,
        dynamic_quorum: bool = False,
        profiles: tuple[str, ...] = (),
        java_options: Sequence[str] | None = None,
        metadata_version: str | None = None,
    ) -> None:
        """`metadata_version`: that of an older release, as in the middle of a rolling upgrade."""
        self.version = version
        self._metadata_version = metadata_version
        self._java_options = class_archive.flags(version) if java_options is None else java_options
        self.root = Path(tempfile.mkdtemp(prefix=f"kafkatool-broker-{version}-"))
        self.log_dirs = [self.root / f"logs{number}" for number in range(1, log_dirs + 1)]
        self.cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
        self.properties = {**_DEFAULTS, **_of_release(version), **(properties or {})}
        self._dynamic_quorum = dynamic_quorum
        self._classpath = peers.classpath(version, *profiles)
        self._process: subprocess.Popen[bytes] | None = None
        self._formatted = False
        self._settle_addresses()

    @property
    def log_dir(self) -> Path:
        """The first log directory; the metadata log is in it."""
        return self.log_dirs[0]

    @property
    def log_file(self) -> Path:
        """What the broker said since it was first started, each line with its time in UTC."""
        return self.root / "broker.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Format the directories at the first start, start, and wait until it serves."""
        self._write_properties()
        if not self._formatted:
            self.format()
        with self.log_file.open("ab") as log:
            seen = log.tell()
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._properties_file)), stdout=log, stderr=log
            )
        self._wait_until_started(seen)

    def stop(self) -> None:
        """Stop cleanly (SIGTERM) and wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise BrokerFailedError(f"it did not stop in {_STOP_SECONDS} s") from None

    def kill(self) -> None:
        """SIGKILL: indexes stay preallocated, no clean-shutdown marker."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self, seconds: float = _STOP_SECONDS) -> int:
        """Wait until a broker that stops by itself is gone; its exit code."""
        assert self._process is not None
        return self._process.wait(seconds)

    def restart(self, properties: Mapping[str, str] | None = None) -> None:
        """Stop if it runs, change some properties, start on the same directories and ports."""
        self.stop()
        self.properties.update(properties or {})
        self.start()

    def close(self) -> None:
        """Kill what runs and remove everything."""
        super().close()
        self.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def _properties_file(self) -> Path:
        return self.root / "server.properties"

    def _settle_addresses(self) -> None:
        broker, controller, sasl = free_ports(3)
        self.bootstrap = f"127.0.0.1:{broker}"
        self.sasl_bootstrap = f"127.0.0.1:{sasl}"
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}"
        if any(name.startswith("listener.name.sasl.") for name in self.properties):
            listeners += f",SASL://{self.sasl_bootstrap}"
        self.properties["listeners"] = listeners
        self.properties["log.dirs"] = ",".join(map(str, self.log_dirs))
        if self._dynamic_quorum:
            self.properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
        else:
            self.properties["controller.quorum.voters"] = f"1@127.0.0.1:{controller}"

    def _write_properties(self) -> None:
        lines = (f"{name}={value}\n" for name, value in sorted(self.properties.items()))
        self._properties_file.write_text("".join(lines))

    def format(self) -> None:
        """Make the directories this node's own, as `start` does the first time."""
        self._write_properties()
        words = ["kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(self._properties_file)]
        if self._dynamic_quorum:
            words.append("--standalone")
        if self._metadata_version is not None:
            words += ["--release-version", self._metadata_version]
        done = subprocess.run(self._java(*words), capture_output=True, text=True, timeout=_START_SECONDS)
        if done.returncode != 0:
            raise BrokerFailedError((done.stdout + done.stderr)[-4000:])
        self._formatted = True

    def _java(self, *words: str) -> list[str]:
        return [
            peers.require_java(),
            *(f"-Xmx{self.heap}", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *self._java_options,
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dlog4j2.disable.jmx=true"),
            *("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Duser.timezone=UTC"),
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
            *("-cp", self._classpath),
            *words,
        ]

    def _wait_until_started(self, seen: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.running:
            if self.started_words in self._said_since(seen):
                return
            time.sleep(0.05)
        said = self._said_since(seen).decode(errors="replace")
        self.kill()
        why = "".join(
            line for line in said.splitlines(keepends=True) if " ERROR " in line or "Caused by" in line
        )
        raise BrokerFailedError(f"{why[:4000]}\n{said[-4000:]}")

    def _said_since(self, position: int) -> bytes:
        with self.log_file.open("rb") as log:
            log.seek(position)
            return log.read()


def _of_release(version: str) -> dict[str, str]:
    """What must be said to an old release that a new one does by itself."""
    if version.startswith("3."):
        return {"group.coordinator.rebalance.protocols": "classic,consumer"}
    return {}


# Below those that the system hands out: a client that connects meanwhile never sits on a port of ours.
_PORTS = range(10_000, 32_000)
_BLOCK = 50
_blocks_to_try = iter(random.Random(os.getpid()).sample(_PORTS[::_BLOCK], len(_PORTS) // _BLOCK))


def _own_ports() -> Iterator[int]:
    """Ports that no other process of tests is told: a broker that is not up yet, or down, holds none.

    A block of them belongs to whoever has bound its name, as long as that process lives.
    """
    with ExitStack() as held:
        for first in _blocks_to_try:
            name = held.enter_context(socket.socket(socket.AF_UNIX))
            try:
                name.bind(f"\0kafkatool-tests-ports-{first}")
            except OSError:
                continue
            yield from range(first, first + _BLOCK)


_ports_to_try = _own_ports()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on now; none is told twice."""
    found: list[int] = []
    while len(found) < count:
        port = next(_ports_to_try)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        found.append(port)
    return found
