"""Three brokers and a controller on loopback, to make replicas: leaders and followers, in sync and not.

with Cluster() as cluster:
    cluster.create_topic("t", [1, 2, 3])          # the first leads
    cluster.produce("t", steps, acks="1")
    cluster.nodes[1].kill()
    cluster.wait_for("t", leader=2)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType

from tests.kafka import peers
from tests.kafka.broker import Broker, free_ports
from tests.kafka.java_client import JavaClient
from tests.kafka.librdkafka import Librdkafka, Record, wait_until

_CONTROLLER = 100
_BROKERS = (1, 2, 3)

# Every replica of everything, and no record in the metadata log that nobody asked for.
_DEFAULTS = {
    "log.index.size.max.bytes": "120",
    "metadata.max.idle.interval.ms": "0",
    "transaction.state.log.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "replica.high.watermark.checkpoint.interval.ms": "300",
}


class Node(Broker):
    """One process of a cluster: a broker with two log directories, or the controller."""

    heap = "256m"

    def __init__(
        self, number: int, role: str, quorum: str, cluster_id: str, extra: Mapping[str, str]
    ) -> None:
        is_broker = role == "broker"
        super().__init__(peers.NEWEST, {**_DEFAULTS, **extra}, log_dirs=2 if is_broker else 1)
        self.number = number
        self.cluster_id = cluster_id
        listener = f"PLAINTEXT://{self.bootstrap}" if is_broker else f"CONTROLLER://{quorum.split('@')[1]}"
        self.properties |= {
            "process.roles": role,
            "node.id": str(number),
            "listeners": listener,
            "controller.quorum.voters": quorum,
        }

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and says nothing, until `resume` or `kill`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        """Where this broker keeps its replica."""
        name = f"{topic}-{partition}"
        return next(folder / name for folder in self.log_dirs if (folder / name).exists())


class Cluster:
    """A controller (node 100) and the brokers 1, 2 and 3; everything they wrote is removed at the end."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        quorum = f"{_CONTROLLER}@127.0.0.1:{free_ports(1)[0]}"
        self.controller = Node(_CONTROLLER, "controller", quorum, "", properties or {})
        self.controller.cluster_id = "kafkatool-cluster-0001"
        self.nodes = {
            number: Node(number, "broker", quorum, self.controller.cluster_id, properties or {})
            for number in _BROKERS
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @cached_property
    def client(self) -> Librdkafka:
        return Librdkafka(self.bootstrap)

    @cached_property
    def java(self) -> JavaClient:
        """The Java admin, which also sends any request of the protocol to the broker named."""
        return JavaClient(peers.NEWEST, self.bootstrap)

    def start(self) -> None:
        """The controller first, then the brokers side by side."""
        self.controller.start()
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(Node.start, self.nodes.values()))

    def stop(self) -> None:
        """Stop the brokers cleanly, one by one (each hands over what it leads), then the controller."""
        for node in (*self.nodes.values(), self.controller):
            node.stop()

    def close(self) -> None:
        """Kill what runs and remove everything."""
        with ExitStack() as closing:
            for process in (self.controller, *self.nodes.values()):
                closing.callback(process.close)
            for name in ("client", "java"):
                if opened := self.__dict__.pop(name, None):
                    closing.callback(opened.close)

    def create_topic(
        self, topic: str, replicas: Sequence[int], config: Mapping[str, str] | None = None
    ) -> None:
        """One partition on these nodes; returns when the first of them leads and all are in sync."""
        self.client.create_topic(topic, config, replicas=replicas)
        self.wait_for(topic, leader=replicas[0], in_sync=replicas)

    def produce(self, topic: str, steps: Sequence[Sequence[Record]], *, acks: str = "all") -> None:
        """One batch for each step; idempotent where the acknowledgements allow it."""
        self.client.produce_steps(topic, steps, acks=acks, enable_idempotence=acks == "all")

    def reassign(self, topic: str, replicas: Sequence[int]) -> None:
        """Put the partition on these nodes and wait until they are in sync."""
        partition = {"partitionIndex": 0, "replicas": list(replicas)}
        data = {"timeoutMs": 10_000, "topics": [{"name": topic, "partitions": [partition]}]}
        self._request(next(iter(self.nodes.values())), "AlterPartitionReassignments", data)
        self.wait_for(topic, in_sync=replicas)

    def move(self, topic: str, number: int, target: Path, bytes_per_second: int) -> None:
        """Let a node begin to move its replica to its other log directory, slowly."""
        throttle = {"replica.alter.log.dirs.io.max.bytes.per.second": str(bytes_per_second)}
        self.java.call("config", type="BROKER", name=str(number), configs=throttle)
        data = {"dirs": [{"path": str(target), "topics": [{"name": topic, "partitions": [0]}]}]}
        self._request(self.nodes[number], "AlterReplicaLogDirs", data)

    def wait_for(
        self, topic: str, *, leader: int | None = None, in_sync: Sequence[int] | None = None
    ) -> None:
        """Wait until this node leads (-1: none does) and exactly these are in sync, where given."""

        def settled() -> bool:
            now, isr = self.client.placement(topic)
            return leader in (None, now) and (in_sync is None or set(in_sync) == isr)

        wait_until(settled, f"{topic}: leader {leader}, in sync {in_sync}", 40)

    def _request(self, node: Node, api: str, data: Mapping[str, object]) -> None:
        address = {"bootstrap.servers": node.bootstrap}
        answer = self.java.call("request", config=address, api=api, version=_VERSIONS[api], data=data)
        if failed := [code for code in _error_codes(answer) if code]:
            raise RuntimeError(f"{api}: error {failed[0]}: {answer}")

    def __enter__(self) -> Cluster:
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


_VERSIONS = {"AlterPartitionReassignments": 0, "AlterReplicaLogDirs": 2}


def _error_codes(answer: object) -> list[int]:
    """Every error code in an answer, however deep."""
    if isinstance(answer, list):
        return [code for item in answer for code in _error_codes(item)]
    if not isinstance(answer, dict):
        return []
    own = [answer["errorCode"]] if "errorCode" in answer else []
    return own + [code for value in answer.values() for code in _error_codes(value)]
