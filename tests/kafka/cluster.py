"""Some brokers and a controller on loopback, to make replicas: leaders and followers, in sync and not.

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
from pathlib import Path

from tests.kafka import peers
from tests.kafka.broker import Broker, Serving, free_ports
from tests.kafka.librdkafka import Record, wait_until

_CONTROLLER = 100

# No record in the metadata log that nobody asked for.
_DEFAULTS = {
    "log.index.size.max.bytes": "120",
    "metadata.max.idle.interval.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "300",
}


class Node(Broker):
    """One process of a cluster: a broker with two log directories, or the controller."""

    heap = "256m"

    def __init__(
        self, version: str, number: int, role: str, quorum: str, cluster_id: str, extra: Mapping[str, str]
    ) -> None:
        is_broker = role == "broker"
        super().__init__(version, {**_DEFAULTS, **extra}, log_dirs=2 if is_broker else 1)
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


class Cluster(Serving):
    """A controller (node 100) and the brokers from 1 on; everything they wrote is removed at the end.

    Internal topics have a replica on every broker.
    """

    def __init__(
        self, properties: Mapping[str, str] | None = None, *, version: str = peers.NEWEST, brokers: int = 3
    ) -> None:
        quorum, cluster_id = f"{_CONTROLLER}@127.0.0.1:{free_ports(1)[0]}", "kafkatool-cluster-0001"
        everywhere = ("transaction.state.log.replication.factor", "offsets.topic.replication.factor")
        extra = {**dict.fromkeys(everywhere, str(brokers)), **(properties or {})}
        self.controller = Node(version, _CONTROLLER, "controller", quorum, cluster_id, extra)
        self.nodes = {
            number: Node(version, number, "broker", quorum, cluster_id, extra)
            for number in range(1, brokers + 1)
        }
        self.version = version
        self.bootstrap = ",".join(node.bootstrap for node in self.nodes.values())

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
            closing.callback(super().close)

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
            if (placed := self.client.placement(topic)) is None:
                return False
            now, isr = placed
            return leader in (None, now) and (in_sync is None or set(in_sync) == isr)

        wait_until(settled, f"{topic}: leader {leader}, in sync {in_sync}")

    def _request(self, node: Node, api: str, data: Mapping[str, object]) -> None:
        address = {"bootstrap.servers": node.bootstrap}
        answer = self.java.call("request", config=address, api=api, version=_VERSIONS[api], data=data)
        if failed := [code for code in _error_codes(answer) if code]:
            raise RuntimeError(f"{api}: error {failed[0]}: {answer}")


_VERSIONS = {"AlterPartitionReassignments": 0, "AlterReplicaLogDirs": 2}


def _error_codes(answer: object) -> list[int]:
    """Every error code in an answer, however deep."""
    if isinstance(answer, list):
        return [code for item in answer for code in _error_codes(item)]
    if not isinstance(answer, dict):
        return []
    own = [answer["errorCode"]] if "errorCode" in answer else []
    return own + [code for value in answer.values() for code in _error_codes(value)]
