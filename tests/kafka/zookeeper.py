"""A broker of 3.9.2 as it ran before KRaft: a ZooKeeper beside it, and no metadata log in its directory."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping

from tests.kafka import peers
from tests.kafka.broker import Broker, free_ports
from tests.kafka.librdkafka import wait_until

_KRAFT_ONLY = (
    *("process.roles", "node.id", "controller.listener.names", "controller.quorum.voters"),
    "group.coordinator.rebalance.protocols",
)


class ZooKeeperBroker(Broker):
    """One broker (`broker.id=1`) of the last release that knows ZooKeeper; `close` ends both processes."""

    started_words = b"[KafkaServer id=1] started"

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(peers.OLDEST, properties)
        self._zookeeper: subprocess.Popen[bytes] | None = None
        (self._zookeeper_port,) = free_ports(1)
        for name in _KRAFT_ONLY:
            self.properties.pop(name, None)
        self.properties |= {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}",
        }

    def start(self) -> None:
        """ZooKeeper at the first start, then the broker."""
        if self._zookeeper is None:
            self._start_zookeeper()
        super().start()

    def close(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.kill()
            self._zookeeper.wait()
        super().close()

    def _format(self) -> None:
        """The broker writes `meta.properties` itself when it first comes to ZooKeeper."""

    def _start_zookeeper(self) -> None:
        config = self.root / "zookeeper.properties"
        config.write_text(
            f"dataDir={self.root / 'zookeeper'}\nclientPort={self._zookeeper_port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
        )
        with (self.root / "zookeeper.log").open("wb") as log:
            words = self._java("org.apache.zookeeper.server.ZooKeeperServerMain", str(config))
            self._zookeeper = subprocess.Popen(words, stdout=log, stderr=log)
        wait_until(self._zookeeper_answers, "ZooKeeper")

    def _zookeeper_answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._zookeeper_port)) == 0
