"""What a follower makes of its own copy of a log, beside what our commands make of a copy of that.

A follower comes when there is a log already, fetches it in pieces, and then keeps up. Where segments end by
their age less a random time, it rolls elsewhere than its leader; and it cleans when it likes to.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.cli import run
from tests.kafka import peers
from tests.kafka.cluster import Cluster
from tests.kafka.compaction_workloads import CLEANING, Workload, run_rounds
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.writing import test_retention_parity as retention

# A segment comes in several pieces. Its time index must not fill within one: a follower rolls only between
# them, and gives up the partition.
FETCHING = {"replica.fetch.max.bytes": "500", "log.index.size.max.bytes": "1200"}
ROLLING = {"segment.ms": "4000", "segment.jitter.ms": "4000"}

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("follower")]


@pytest.fixture(scope="module", params=[peers.NEWEST, pytest.param(peers.OLDEST, marks=pytest.mark.soak)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    peers.require_kafka(request.param)
    with Cluster({**CLEANING, **FETCHING}, version=request.param, brokers=2) as running:
        yield running


def replicated(seeds: Iterable[int], cluster: Cluster) -> list[Workload]:
    """Each broker leads some of them; of some the replicas have other segments."""
    found = [Workload(seed, cluster, [1, 2] if seed % 3 else [2, 1]) for seed in seeds]
    for workload in found:
        if workload.seed % 3 != 2:
            workload.config.update(ROLLING)
    return found


def test_every_pass_of_leader_and_follower_is_predicted(cluster: Cluster, tmp_path: Path) -> None:
    run_rounds(replicated((9, 14, 49), cluster), tmp_path, rounds=1)
    copies = [names(path) for path in sorted(tmp_path.glob("*/*/copy/*-0"))]
    assert copies[::2] != copies[1::2]


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 150, 10))
def test_every_pass_over_many_random_replicas_is_predicted(
    cluster: Cluster, tmp_path: Path, first: int
) -> None:
    run_rounds(replicated(range(first, first + 10), cluster), tmp_path, rounds=3)


@pytest.mark.soak
def test_leader_and_follower_delete_what_was_foretold_of_each(cluster: Cluster, tmp_path: Path) -> None:
    workloads = [retention.Workload(seed, cluster.version) for seed in range(313, 324)]
    wanted = retention.hold_off(workloads)
    for at, workload in enumerate(workloads):
        nodes = [1, 2] if at % 2 else [2, 1]
        cluster.create_topic(workload.topic, nodes, workload.config)
        workload.fill(cluster.nodes[nodes[0]], cluster.client)
    for topic in retention.SENTINELS:
        cluster.create_topic(topic, [1, 2], retention.ENDLESS)
        retention.send(cluster.nodes[1], topic, write_batch([NewRecord(b"k", b"v", 1)]))
    for node in cluster.nodes.values():
        retention.wait_for_checkpoints(node, (one.topic for one in workloads))
    homes = {log_dir: node for node in cluster.nodes.values() for log_dir in node.log_dirs}
    for number, log_dir in enumerate(homes):
        shutil.copytree(log_dir, tmp_path / str(number), ignore=shutil.ignore_patterns("*.tmp"))
    for topic, config in wanted.items():
        cluster.client.alter_config(topic, config)
    for node in cluster.nodes.values():
        retention.wait_for_two_checks(node, [1, 2])
    deleted = 0
    for number, (log_dir, node) in enumerate(homes.items()):
        sources = retention.read_sources(node.log_dirs, node)
        for directory, judged in retention.foretell(tmp_path / str(number), sources).items():
            assert names(log_dir / directory) == sorted(retention.left_of(judged)), (log_dir, directory)
            deleted += len(judged.outcome.deleted)
    assert deleted > 20


@pytest.mark.soak
@pytest.mark.parametrize("version", [peers.NEWEST, peers.OLDEST])
def test_what_a_truncated_follower_leaves_in_its_indexes_is_not_called_bad(version: str) -> None:
    """A leader goes on alone, loses its lead, truncates what nobody else has, and is killed."""
    peers.require_kafka(version)
    settings = {"log.index.interval.bytes": "300", "log.index.size.max.bytes": "1200"}

    def steps(count: int, size: int) -> list[list[Record]]:
        return [[Record(b"k", b"v" * size)] for _ in range(count)]

    with Cluster(settings, version=version, brokers=2) as running:
        running.create_topic("t", [1, 2])
        running.produce("t", steps(20, 150))
        old, new = running.nodes[1], running.nodes[2]
        new.pause()
        running.produce("t", steps(30, 150), acks="1")
        old.pause()
        new.resume()
        running.wait_for("t", leader=2)
        running.produce("t", steps(6, 320), acks="1")
        old.resume()
        wait_until(lambda: b"Truncating" in old.log_file.read_bytes(), "a truncation", 40)
        running.wait_for("t", in_sync=[1, 2])
        old.kill()
        noted = run("verify", "--format", "ndjson", "--fail-on", "note", str(old.partition_dir("t")))
        assert noted.exit_code == 4
        assert b'index","position"' in noted.stdout  # a finding in one of the indexes
        assert run("verify", str(old.partition_dir("t"))).exit_code == 0
        old.start()
        running.wait_for("t", in_sync=[1, 2])
        old.stop()
        assert run("verify", "--fail-on", "note", str(old.partition_dir("t"))).exit_code == 0


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.log"))
