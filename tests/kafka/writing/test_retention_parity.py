"""The segments that `retention` says a broker deletes are those that it deletes: random logs, two releases.

A broker that does not check writes a topic for every workload and is stopped, or killed. The log directory is
copied, the broker starts again and checks, and what is left is compared with what was foretold of the copy,
and with what `retention --apply` makes of it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.cluster.effective_settings import Sources
from kafkatool.engine.cluster.remote_copies import RemoteCopies, read_remote_copies
from kafkatool.engine.cluster.view import read_cluster_view
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState, read_log_dir
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.retention.deletion import plan_deletion, refuse_guesses
from kafkatool.engine.retention.logs import JudgedLog, RetentionRequest, copied_of, judge
from kafkatool.engine.retention.rules import Decision, RetentionRule
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import Release
from kafkatool.format.schema.remote_log_metadata import metadata_partition
from kafkatool.format.state.checkpoint import read_leader_epochs, read_offset_checkpoint
from kafkatool.format.uuids import parse_uuid
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.cluster import Cluster
from tests.kafka.librdkafka import Librdkafka, Record, wait_until
from tests.kafka.making.logs import small_segments
from tests.kafka.making.tiered import PROPERTIES as TIERED
from tests.kafka.raw_produce import raw_produce
from tests.logs import GUEST

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("retention")]

MINUTE_MS = 60_000
BATCH = len(write_batch([NewRecord(b"k0", b"v" * 100, 1 << 40)]))
KEPT = {
    # What is deleted keeps its name with .deleted behind it for longer than any test takes.
    "log.segment.delete.delay.ms": "3600000",
}
HELD_OFF = {
    **KEPT,
    # The first check comes after a delay of its own, whatever the interval is.
    "log.initial.task.delay.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.enable": "false",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}
CHECKING = {
    **KEPT,
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "500",
}
# The log start reaches the disk by the tasks that the delay holds up, or by a clean stop.
BEFORE_A_KILL = {**HELD_OFF, "log.initial.task.delay.ms": "500"}
ENDLESS = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
SENTINELS = {"plain": "delete", "compacted": "compact,delete"}


class Workload:
    """One topic, by a seed: its settings and its records, minutes away from every limit."""

    def __init__(self, seed: int, version: str) -> None:
        self.random = random.Random(seed)
        self.version = version
        self.topic = f"w{seed}"
        self.config = self._config()
        self.old_files = self.random.random() < 0.15
        """Records without timestamps, in files that are not of today."""
        self.deletes_records = "delete" in self.config["cleanup.policy"]

    def _config(self) -> dict[str, str]:
        pick = self.random
        policies = ["delete"] * 6 + ["compact", "compact,delete"]
        if Release.parse(self.version) >= Release.V4_2:
            policies.append("")
        found = {
            "cleanup.policy": pick.choice(policies),
            "index.interval.bytes": pick.choice(["1", "200", "4096"]),
            "segment.index.bytes": "12000",
            "min.compaction.lag.ms": str(1 << 60),
            "max.compaction.lag.ms": str(1 << 61),
            "message.timestamp.after.max.ms": str(1 << 60),
            **small_segments(self.version, pick.choice([2, 3, 5]) * BATCH + 10),
        }
        if pick.random() < 0.8:
            found["retention.ms"] = str(pick.choice([-1, 0, 10, 20, 30, 40]) * MINUTE_MS).replace(
                "-60000", "-1"
            )
        if pick.random() < 0.5:
            found["retention.bytes"] = str(
                pick.choice([-1, 0, BATCH, *(BATCH * pick.randrange(1, 20) for _ in "abc")])
            )
        if pick.random() < 0.2:
            found["segment.ms"] = str(8 * MINUTE_MS)
        if pick.random() < 0.1:
            found["message.timestamp.type"] = "LogAppendTime"
        return found

    def write(self, broker: Broker) -> None:
        broker.client.create_topic(self.topic, self.config)
        self.fill(broker, broker.client)

    def fill(self, leader: Broker, client: Librdkafka) -> None:
        pick = self.random
        count = pick.choice([0, 1, 4, 9, 14, 20])
        now_ms = time.time_ns() // 1_000_000
        for number in range(count):
            # Older first, most of the time; now and then something from the future.
            age = (
                pick.choice([5, 15, 25, 35, 45]) if pick.random() < 0.3 else 45 - 40 * number // max(count, 1)
            )
            age = -pick.choice([20, 200]) if pick.random() < 0.04 else age // 10 * 10 + 5
            stamp = -1 if self.old_files else now_ms - age * MINUTE_MS
            batch = write_batch([NewRecord(b"k%d" % (number % 5), b"v" * 100, stamp)])
            send(leader, self.topic, batch)
        if self.deletes_records and count and pick.random() < 0.3:
            client.delete_records(self.topic, pick.randrange(count + 1))

    def age_files(self, log_dir: Path) -> None:
        if self.old_files:
            for path in (log_dir / f"{self.topic}-0").glob("*.log"):
                then = time.time() - 60 * self.random.choice([5, 15, 25, 35])
                os.utime(path, (then, then))


def send(broker: Broker, topic: str, batch: bytes) -> None:
    """A broker may be the leader before it knows that it is."""
    wait_until(lambda: raw_produce(broker.bootstrap, topic, batch).error == 0, f"{topic} to take a batch")


def names(directory: Path, *suffixes: str) -> set[str]:
    return {path.name for path in directory.iterdir() if path.name.endswith(suffixes)}


def read_sources(log_dirs: list[Path], broker: Broker) -> Sources:
    partitions = [one for path in log_dirs for one in read_log_dir(str(path), GUEST).partitions]
    metadata = [one for one in partitions if one.state is PartitionState.METADATA]
    cluster = read_cluster_view(metadata, GUEST)
    assert cluster.release == Release.parse(broker.version)
    return Sources(
        Release.parse(broker.version),
        server={**broker.properties, **CHECKING},
        cluster=cluster,
        node_id=int(broker.properties["node.id"]),
    )


def foretell(copy: Path, sources: Sources) -> dict[str, JudgedLog]:
    log_dir = read_log_dir(str(copy), GUEST)
    how = RetentionRequest(time.time_ns() // 1_000_000)
    asked = [one for one in log_dir.partitions if one.state is PartitionState.ACTIVE]
    return {one.directory: judge(one, log_dir, sources, how, GUEST) for one in asked}


def left_of(judged: JudgedLog) -> set[str]:
    bases = [one.segment.base_offset for one in judged.outcome.verdicts if one.decision is Decision.KEEP]
    bases += [] if judged.outcome.rolls_at is None else [judged.outcome.rolls_at]
    return {f"{base:020d}.log" for base in bases}


def wait_for_two_checks(broker: Broker, replicas: list[int] | None = None) -> None:
    """Until both who delete have been through all logs twice: they come to later topics later."""
    wait_until_deleted(broker, list(SENTINELS))
    for number in range(2):
        later = {f"{topic}-{number}-{broker.pid}": policy for topic, policy in SENTINELS.items()}
        for topic, policy in later.items():
            config = {"retention.ms": "1", "cleanup.policy": policy}
            broker.client.create_topic(topic, config, replicas=replicas)
            broker.client.produce(topic, [Record(b"k", b"v", timestamp_ms=1)])
        wait_until_deleted(broker, list(later))


def wait_until_deleted(broker: Broker, topics: list[str]) -> None:
    """Until the first segment of each is gone."""
    for topic in topics:
        directory = home(broker, topic)
        wait_until(lambda at=directory: f"{0:020d}.log" not in names(at, ".log"), f"the end of {topic}")  # type: ignore[misc]


def home(broker: Broker, topic: str) -> Path:
    """The directory of its only partition; a topic is there a little before that."""
    places = [one / f"{topic}-0" for one in broker.log_dirs]
    wait_until(lambda: any(one.exists() for one in places), f"the directory of {topic}")
    return next(one for one in places if one.exists())


def wait_for_checkpoints(broker: Broker, topics: Iterable[str], *, with_starts: bool = False) -> None:
    """Until the disk knows what is committed and, if asked, where the logs begin."""
    for topic in topics:
        directory = home(broker, topic)
        low, high = broker.client.watermarks(topic, [0])[0]

        def written(at: Path = directory, of: str = topic, low: int = low, high: int = high) -> bool:
            if checkpointed(at, "replication-offset-checkpoint", of) != high:
                return False
            base = min(int(name[:20]) for name in names(at, ".log"))
            # A log that begins with its first segment has no line.
            starts = checkpointed(at, "log-start-offset-checkpoint", of)
            return not with_starts or max(base, starts or 0) >= low

        wait_until(written, f"the checkpoints of {topic}")


def checkpointed(directory: Path, name: str, topic: str) -> int | None:
    path = directory.parent / name
    entries = read_offset_checkpoint(path.read_bytes()) if path.exists() else []
    return next((one.offset for one in entries if one.topic == topic), None)


def fill(broker: Broker, workloads: list[Workload]) -> None:
    for workload in workloads:
        workload.write(broker)
    old = write_batch([NewRecord(b"k", b"v", 1)])
    for topic, policy in SENTINELS.items():
        broker.client.create_topic(topic, {"retention.ms": "1", "cleanup.policy": policy})
        send(broker, topic, old)


def compare(
    broker: Broker, copy: Path, foretold: dict[str, JudgedLog], *, was_clean: bool
) -> set[RetentionRule]:
    """What the broker left and what was foretold; the rules that were seen."""
    seen = set()
    for directory, judged in foretold.items():
        live = broker.log_dir / directory
        told = [(one.segment.base_offset, str(one.rule)) for one in judged.outcome.verdicts]
        assert names(live, ".log") == left_of(judged), (directory, judged.settings.settings, told)
        kinds = [".log.deleted", ".index.deleted", ".timeindex.deleted"]
        assert names(live, *kinds) == names(copy / directory, *kinds), directory
        if was_clean:
            # Snapshots up to the log start are dropped when a log is loaded, before anybody checks.
            start, kind = judged.facts.log_start, ".snapshot.deleted"
            ours = {name for name in names(copy / directory, kind) if int(name[:20]) > start}
            assert names(live, kind) == ours, directory
        mine, theirs = (
            read_leader_epochs((at / directory / "leader-epoch-checkpoint").read_bytes())
            for at in (copy, broker.log_dir)
        )
        epochs = LeaderEpochs(mine)
        epochs.assign(theirs[-1].epoch, judged.facts.log_end)  # the restart began another one
        assert epochs.entries == theirs, directory
        seen |= {one.rule for one in judged.outcome.verdicts}
    return seen


def run(version: str, seeds: range, copy: Path, *, was_clean: bool, serve: bool = True) -> set[RetentionRule]:
    peers.require_kafka(version)
    with Broker(version, HELD_OFF if was_clean else BEFORE_A_KILL) as broker:
        if not was_clean:
            time.sleep(5)  # until its first check, of nothing, is over
        workloads = [Workload(seed, version) for seed in seeds]
        fill(broker, workloads)
        if not was_clean:
            wait_for_checkpoints(broker, (one.topic for one in workloads), with_starts=True)
        (broker.stop if was_clean else broker.kill)()
        for workload in workloads:
            workload.age_files(broker.log_dir)
        shutil.copytree(broker.log_dir, copy)
        foretold = foretell(copy, read_sources([copy], broker))
        broker.restart(CHECKING)
        wait_for_two_checks(broker)
        judged = list(foretold.values())
        refuse_guesses(judged)
        plan = plan_deletion(str(copy), judged, GUEST, int(time.time() * 1000))
        apply(plan, Disk(), Applying(int(time.time() * 1000), offline=True))
        seen = compare(broker, copy, foretold, was_clean=was_clean)
        if serve:
            serve_what_is_left(broker, copy, foretold)
        return seen


def serve_what_is_left(broker: Broker, copy: Path, foretold: dict[str, JudgedLog]) -> None:
    """A broker takes what --apply left, and serves it from where the log begins now."""
    broker.stop()
    shutil.rmtree(broker.log_dir)
    shutil.copytree(copy, broker.log_dir)
    broker.restart(HELD_OFF)
    for directory, judged in foretold.items():
        topic = directory.rpartition("-")[0]
        if not topic.startswith("__"):
            end = judged.facts.log_end
            assert broker.client.end_offset(topic) == end, topic
            assert names(broker.log_dir / directory, ".log") == left_of(judged)
            assert names(broker.log_dir / directory, ".deleted") == set()


@pytest.mark.parametrize("version", [peers.NEWEST, pytest.param(peers.OLDEST, marks=pytest.mark.soak)])
def test_a_broker_deletes_what_was_foretold_after_a_clean_stop(version: str, tmp_path: Path) -> None:
    seen = run(version, range(24), tmp_path / "copy", was_clean=True, serve=version == peers.NEWEST)
    assert {
        RetentionRule.START_OFFSET,
        RetentionRule.SIZE,
        RetentionRule.TIME,
        RetentionRule.ACTIVE,
        RetentionRule.AFTER_KEPT,
        RetentionRule.POLICY,
    } <= seen


@pytest.mark.soak
@pytest.mark.parametrize("version", [peers.NEWEST, peers.OLDEST])
@pytest.mark.parametrize("was_clean", [True, False], ids=["stopped", "killed"])
def test_a_broker_deletes_what_was_foretold_of_many_logs(
    version: str, was_clean: bool, tmp_path: Path
) -> None:
    count = int(os.environ.get("KAFKATOOL_SOAK_SEEDS", "100"))
    run(version, range(1000, 1000 + count), tmp_path / "copy", was_clean=was_clean)


def hold_off(workloads: list[Workload]) -> dict[str, dict[str, str]]:
    """Let nothing of them be deleted; returns the settings that end this, those of the sentinels too."""
    wanted = {one.topic: {name: one.config.get(name, ENDLESS[name]) for name in ENDLESS} for one in workloads}
    for one in workloads:
        one.config, one.old_files, one.deletes_records = {**one.config, **ENDLESS}, False, False
    expired = {name: {"retention.ms": "1", "cleanup.policy": policy} for name, policy in SENTINELS.items()}
    return {**wanted, **expired}


@pytest.mark.parametrize("version", [peers.NEWEST, pytest.param(peers.OLDEST, marks=pytest.mark.soak)])
def test_a_broker_that_runs_deletes_what_was_foretold_beside_it(version: str, tmp_path: Path) -> None:
    """Its settings are changed when the directory has been copied: nothing is loaded anew."""
    peers.require_kafka(version)
    with Broker(version, {**HELD_OFF, **CHECKING}) as broker:
        workloads = [Workload(seed, version) for seed in range(100, 116)]
        wanted = hold_off(workloads)
        for one in workloads:
            one.write(broker)
        for topic in SENTINELS:
            broker.client.create_topic(topic, ENDLESS)
            send(broker, topic, write_batch([NewRecord(b"k", b"v", 1)]))
        wait_for_checkpoints(broker, (one.topic for one in workloads))
        copy = tmp_path / "copy"
        shutil.copytree(broker.log_dir, copy, ignore=shutil.ignore_patterns("*.tmp"))
        for topic, config in wanted.items():
            broker.client.alter_config(topic, config)
        wait_for_two_checks(broker)
        foretold = foretell(copy, read_sources([broker.log_dir], broker))
        for directory, judged in foretold.items():
            assert names(broker.log_dir / directory, ".log") == left_of(judged), directory


@pytest.mark.soak
def test_leaders_and_followers_delete_what_was_foretold_of_each(tmp_path: Path) -> None:
    peers.require_kafka(peers.NEWEST)
    with Cluster(HELD_OFF) as cluster:
        workloads = [Workload(seed, peers.NEWEST) for seed in range(200, 224)]
        for workload in workloads:
            workload.old_files = False
            cluster.client.create_topic(workload.topic, workload.config, replicas=[1, 2, 3])
            workload.fill(cluster.nodes[1], cluster.client)
        for topic, policy in SENTINELS.items():
            cluster.client.create_topic(
                topic, {"retention.ms": "1", "cleanup.policy": policy}, replicas=[1, 2, 3]
            )
            send(cluster.nodes[1], topic, write_batch([NewRecord(b"k", b"v", 1)]))
        for node in cluster.nodes.values():
            wait_for_checkpoints(node, (one.topic for one in workloads))
        cluster.stop()
        told: dict[int, dict[Path, JudgedLog]] = {}
        for number, node in cluster.nodes.items():
            copies = {path: tmp_path / f"{number}-{path.name}" for path in node.log_dirs}
            for path, copy in copies.items():
                shutil.copytree(path, copy)
            sources = read_sources(list(copies.values()), node)
            told[number] = {
                path / name: judged
                for path, copy in copies.items()
                for name, judged in foretell(copy, sources).items()
            }
            node.properties.update(CHECKING)
        cluster.start()
        for node in cluster.nodes.values():
            wait_for_two_checks(node, [1, 2, 3])
        for number, foretold in told.items():
            assert foretold
            for directory, judged in foretold.items():
                assert names(directory, ".log") == left_of(judged), (number, directory)


@pytest.mark.soak
@pytest.mark.parametrize("version", [peers.NEWEST, peers.OLDEST])
def test_of_a_tiered_log_goes_here_what_is_copied_and_above_the_local_limit(
    version: str, tmp_path: Path
) -> None:
    peers.require_kafka(version)
    limits = {
        "size": {"local.retention.bytes": str(7 * BATCH)},
        "time": {"local.retention.ms": str(20 * MINUTE_MS)},
    }
    kept = {"local.retention.ms": str(600 * MINUTE_MS), "local.retention.bytes": "-2"}
    metadata = {"rlmm.config.remote.log.metadata.topic.num.partitions": "5"}
    broker = Broker(version, {**HELD_OFF, **CHECKING, **TIERED, **metadata}, profiles=(peers.TIERED,))
    remote = broker.root / "remote"
    broker.properties["rsm.config.dir"] = str(remote)
    with broker:
        broker.client.create_topic("fresh", {"remote.storage.enable": "true"})
        for topic in limits:
            config = {"remote.storage.enable": "true", **kept, **small_segments(version, 2 * BATCH + 10)}
            broker.client.create_topic(topic, {**config, "segment.index.bytes": "600"})
            now_ms = time.time_ns() // 1_000_000
            for age in (45, 45, 45, 45, 35, 35, 35, 5, 5, 5, 5):
                send(broker, topic, write_batch([NewRecord(b"k", b"v" * 100, now_ms - age * MINUTE_MS)]))
            closed = len(names(broker.log_dir / f"{topic}-0", ".log")) - 1
            wait_for_copies(remote, topic, closed)
        wait_for_checkpoints(broker, limits)
        wait_until(lambda: told_of_copies(broker) == len(limits), "the metadata to be written down", 30)
        copy = tmp_path / "copy"
        shutil.copytree(broker.log_dir, copy, ignore=shutil.ignore_patterns("*.tmp"))
        for topic, config in limits.items():
            broker.client.alter_config(topic, config)
        # Those who delete copy nothing: what they do to others says when they have been here.
        for topic, policy in SENTINELS.items():
            broker.client.create_topic(topic, {"retention.ms": "1", "cleanup.policy": policy})
            send(broker, topic, write_batch([NewRecord(b"k", b"v", 1)]))
        wait_for_two_checks(broker)
        sources = read_sources([broker.log_dir], broker)
        log_dir = read_log_dir(str(copy), GUEST)
        copies = RemoteCopies([log_dir], [], GUEST)
        fresh = next(one for one in log_dir.partitions if one.topic == "fresh")
        assert copied_of(fresh, log_dir, sources, copies) == {}
        for topic in limits:
            partition = next(one for one in log_dir.partitions if one.directory == f"{topic}-0")
            highest = partition.live_segments[-1].base_offset - 1
            moment = time.time_ns() // 1_000_000
            copied = copied_of(partition, log_dir, sources, copies)
            judged = judge(partition, log_dir, sources, RetentionRequest(moment), GUEST, copied)
            assert judged.limits.remote_offset == highest
            assert judged.outcome.deleted
            assert judged.outcome.log_start == 0
            assert names(broker.log_dir / f"{topic}-0", ".log") == left_of(judged)
            given = judge(partition, log_dir, sources, RetentionRequest(moment, remote_offset=highest), GUEST)
            assert given.outcome == judged.outcome
            unsure = judge(partition, log_dir, sources, RetentionRequest(moment), GUEST)
            assert [one.decision is Decision.UNKNOWN for one in unsure.outcome.verdicts] == [
                one.decision is Decision.DELETE for one in judged.outcome.verdicts
            ]


def told_of_copies(broker: Broker) -> int:
    """Of how many partitions all closed segments are copied, as far as the checkpointed metadata says.

    All that the metadata holds of a partition is where it belongs.
    """
    log_dir, done = read_log_dir(str(broker.log_dir), GUEST), 0
    homes = {key: one for one in log_dir.partitions for key in _keys_in(one, log_dir)}
    for key, home in homes.items():
        assert home.partition == metadata_partition(parse_uuid(key[0]) or b"", key[1], 5)
    known = read_remote_copies([log_dir], GUEST).copied
    for one in log_dir.partitions:
        copied = known.get((one.topic_id or "", one.partition or 0))
        if copied is not None and max(copied.values()) == one.live_segments[-1].base_offset - 1:
            done += 1
    return done


def _keys_in(partition: Partition, log_dir: LogDir) -> list[tuple[str, int]]:
    """The partitions that one partition of the metadata tells of."""
    return list(read_remote_copies([replace(log_dir, names={partition.directory: None})], GUEST).copied)


def wait_for_copies(remote: Path, topic: str, count: int) -> None:
    def there() -> int:
        return sum(topic in str(path.parent) for path in remote.rglob("*.log"))

    wait_until(lambda: there() == count, f"{count} copies of {topic}")
