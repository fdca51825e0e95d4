"""Replicas of one partition on several nodes, as a cluster of three brokers leaves them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.kafka.cluster import Cluster, Node
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.cases import write_case
from tests.kafka.making.logs import create, short, small_segments
from tests.kafka.zookeeper import ZooKeeperBroker

_METADATA = "__cluster_metadata-0"
_NOTE = "\n\nRegenerate with `python -m tests.kafka.make_fixtures replicas`."


def _steps(start: int, count: int) -> list[list[Record]]:
    """One batch for each offset, all of one size; the value says which offset was meant.

    Their time is now: a broker that starts again forgets producers that wrote nothing for a day, and the
    snapshots of the nodes would differ for that reason alone.
    """
    now = time.time_ns() // 1_000_000
    numbers = range(start, start + count)
    return [[Record(b"k%d" % (n % 5), b"%03d " % n * 6, (), now + n - start)] for n in numbers]


def _home(node: Node, topic: str) -> Path:
    """The log directory that holds this node's replica."""
    return node.partition_dir(topic).parent


def _config(cluster: Cluster) -> dict[str, str]:
    return {**small_segments(cluster.controller.version, 900), "index.interval.bytes": "200"}


def make_behind() -> None:
    """A follower does not answer: the others have records above the high watermark."""
    with Cluster({"broker.session.timeout.ms": "9000"}) as cluster:
        cluster.create_topic("behind", [1, 2, 3], _config(cluster))
        cluster.produce("behind", _steps(0, 8))
        _wait_for_high_watermark(cluster.nodes.values(), "behind", 8)
        cluster.nodes[3].pause()
        cluster.produce("behind", _steps(8, 7), acks="1")
        time.sleep(1)  # node 2 fetches, and the high watermarks are checkpointed once more
        for node in cluster.nodes.values():
            node.kill()
        _write(
            cluster,
            "behind",
            {f"node{number}": [_home(node, "behind")] for number, node in cluster.nodes.items()},
            "Node 1 led, nodes 2 and 3 were in sync; 8 records with `acks=all`. Node 3 was paused (SIGSTOP) "
            "and stayed in the set of replicas in sync; 7 more records with `acks=1` reached nodes 1 and 2 "
            "and could not be committed. Then SIGKILL for all three: the high watermark checkpoints of "
            "nodes 1 and 2 lie 7 below their log ends.",
        )


def _wait_for_high_watermark(nodes: Iterable[Node], topic: str, offset: int) -> None:
    line = f"{topic} 0 {offset}"
    for node in nodes:
        path = _home(node, topic) / "replication-offset-checkpoint"
        wait_until(partial(_has_line, path, line), f"{line} in {path}")


def _has_line(path: Path, line: str) -> bool:
    return line in path.read_text().splitlines()


def make_epochs() -> None:
    """Leaders come and go; each has written something."""
    with Cluster() as cluster:
        cluster.create_topic("epochs", [1, 2], _config(cluster))
        cluster.produce("epochs", _steps(0, 6))
        for name, commit in (("one", True), ("two", False)):
            cluster.client.transaction("epochs", _steps(0, 2), transactional_id=name, commit=commit)
        cluster.reassign("epochs", [1, 2, 3])
        _change_leaders(cluster)
        cluster.stop()
        _write(
            cluster,
            "epochs",
            {
                "node3": cluster.nodes[3].log_dirs,
                "node1": [_home(cluster.nodes[1], "epochs")],
                "node2": [_home(cluster.nodes[2], "epochs")],
            },
            "The partition was on nodes 1 and 2, and came to node 3 by reassignment after 6 records and two "
            "transactions, the second aborted. Then node 1, 2 and 1 again were stopped (the last by "
            "SIGKILL) and started, with 4 records written while each was down. At the end the nodes were "
            "stopped cleanly in the order 1, 2, 3.",
        )


def _change_leaders(cluster: Cluster) -> None:
    for start, (number, successor, cleanly) in enumerate(((1, 2, True), (2, 1, True), (1, 2, False))):
        leaving = cluster.nodes[number]
        if cleanly:
            leaving.stop()
        else:
            leaving.kill()
        cluster.wait_for("epochs", leader=successor)
        cluster.produce("epochs", _steps(12 + 4 * start, 4))
        leaving.start()
        cluster.wait_for("epochs", in_sync=[1, 2, 3])


def make_unclean() -> None:
    """A leader comes back and must throw away what only it had."""
    with Cluster() as cluster:
        first, second = cluster.nodes[1], cluster.nodes[2]
        cluster.create_topic("unclean", [1, 2], _config(cluster))
        cluster.produce("unclean", _steps(0, 10))
        second.stop()
        cluster.wait_for("unclean", leader=1, in_sync=[1])
        cluster.produce("unclean", _steps(10, 12), acks="1")
        _wait_for_high_watermark([first], "unclean", 22)
        first.kill()
        cluster.wait_for("unclean", leader=-1)
        before = Path(shutil.copytree(_home(first, "unclean"), first.root / "before" / "logs1"))
        second.start()
        cluster.client.elect_unclean("unclean")
        cluster.wait_for("unclean", leader=2)
        cluster.produce("unclean", _steps(100, 5))
        first.start()
        cluster.wait_for("unclean", in_sync=[1, 2])
        cluster.stop()
        _write(
            cluster,
            "unclean",
            {
                "node1": [_home(first, "unclean")],
                "node1-before": [before],
                "node2": [_home(second, "unclean")],
            },
            "10 records on nodes 1 (leader) and 2. Node 2 was stopped, node 1 took and committed 12 more "
            "alone and was killed (`node1-before`). Node 2 came back, was made leader by an unclean "
            "election and took 5 other records. Node 1 came back, recovered, truncated its log to 10 and "
            "followed (`node1`); both were stopped cleanly.",
        )


def make_moving() -> None:
    """A follower's replica on its way to the other log directory."""
    with Cluster({"replica.fetch.max.bytes": "300", "replica.fetch.response.max.bytes": "300"}) as cluster:
        mover = cluster.nodes[2]
        cluster.create_topic("moving", [1, 2, 3], {"index.interval.bytes": "200"})
        cluster.produce("moving", _steps(0, 14))
        old = _home(mover, "moving")
        target = next(folder for folder in mover.log_dirs if folder != old)
        cluster.move("moving", 2, target, bytes_per_second=1)
        wait_until(lambda: _has_data(target.glob("moving-0.*-future/*.log")), "the future replica")
        cluster.produce("moving", _steps(14, 4))
        time.sleep(1)
        mover.kill()
        cluster.stop()
        _write(
            cluster,
            "moving",
            {"node2": mover.log_dirs},
            f"14 records on all three nodes. Node 2, a follower, was told to move its replica from "
            f"`{old.name}` to `{target.name}`, with a throttle of 1 byte/s; 4 more records came meanwhile. "
            "Node 2 was killed, the others stopped cleanly.",
        )


def _has_data(paths: Iterable[Path]) -> bool:
    return any(path.stat().st_size > 0 for path in paths)


def make_offline() -> None:
    """A broker loses one of its disks and goes on with the other."""
    with Cluster() as cluster:
        node = cluster.nodes[3]
        for topic in ("kept", "lost"):
            cluster.create_topic(topic, [3, 1], _config(cluster))
            cluster.produce(topic, _steps(0, 6))
        if [_home(node, topic) for topic in ("kept", "lost")] != node.log_dirs:
            raise RuntimeError("the broker placed its partitions otherwise than was expected")
        node.log_dirs[1].rename(node.root / "gone")
        cluster.wait_for("lost", leader=1, in_sync=[1])
        for topic in ("kept", "lost"):
            cluster.produce(topic, _steps(6, 5))
        cluster.stop()
        _write(
            cluster,
            "offline",
            {"node3": node.log_dirs[:1], "node1": [_home(cluster.nodes[1], "lost")]},
            "Node 3 led `kept` (in `logs1`) and `lost` (in `logs2`), node 1 followed; 6 records each. "
            "`logs2` of node 3 vanished while it ran: it went on with `logs1`, and node 1 took over "
            "`lost`. 5 more records each, then all were stopped cleanly.",
        )


def make_zookeeper() -> None:
    """The directory of a broker that keeps its metadata in ZooKeeper."""
    with ZooKeeperBroker({"log.index.size.max.bytes": "120"}) as broker:
        said = create(broker, "old-ways", small_segments(broker.version, 900))
        broker.client.produce_steps("old-ways", _steps(0, 14))
        broker.client.run_group("group", ["old-ways"], 14)
        broker.stop()
        origin = (
            f"The log directory of an Apache Kafka {broker.version} broker in ZooKeeper mode, stopped "
            f"cleanly, without `.lock`.\n\n{said}{_NOTE}"
        )
        write_case("replicas", f"zookeeper-{short(broker.version)}", {"node1/logs1": broker.log_dir}, origin)


def _write(cluster: Cluster, case: str, folders: Mapping[str, Sequence[Path]], said: str) -> None:
    """Keep these log directories whole, but of the metadata logs only that of the first name."""
    version = cluster.controller.version
    known_to = next(iter(folders))
    sources: dict[str, Path] = {}
    for name, log_dirs in folders.items():
        for log_dir in log_dirs:
            left_out = () if name == known_to else (_METADATA, "bootstrap.checkpoint")
            for path in sorted(log_dir.iterdir()):
                if path.name not in (".lock", *left_out):
                    sources[f"{name}/{log_dir.name}/{path.name}"] = path
    _trim(cluster)
    origin = (
        f"Log directories of an Apache Kafka {version} cluster of three brokers (`log.index.size.max.bytes"
        f"=120`, two log directories each) and a controller.\n\n{said}\n\nKept are the log directories that "
        f"matter, without `.lock`. The metadata log is only that of `{known_to}`, its indexes without their "
        f"preallocated zeros.{_NOTE}"
    )
    write_case("replicas", f"{case}-{short(version)}", sources, origin)


def _trim(cluster: Cluster) -> None:
    """Cut the zeros behind the last entry of a metadata log's indexes, as a clean stop would."""
    for suffix, entry_size in ((".index", 8), (".timeindex", 12)):
        for node in cluster.nodes.values():
            for path in (node.log_dir / _METADATA).glob(f"*{suffix}"):
                used = len(path.read_bytes().rstrip(b"\0"))
                os.truncate(path, -(-used // entry_size) * entry_size)


def make_replicas() -> None:
    """All of these."""
    for make in (make_behind, make_epochs, make_unclean, make_moving, make_offline, make_zookeeper):
        make()
