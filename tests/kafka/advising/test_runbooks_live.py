"""Runbooks that end in a living broker: it starts again, it serves again what was lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.engine.advice.table import Advice
from kafkatool.format.batch import read_header
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError
from tests.kafka.cluster import Cluster
from tests.kafka.kafka_scripts import follow, write_scripts
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.recover_damages import RECOVERY_POINTS
from tests.mutations import flip, put
from tests.runbooks import Desk, unchanged
from tests.transcripts import write_sample

pytestmark = pytest.mark.peer

TIME_MS = 1_700_000_000_000


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def records(count: int) -> list[Record]:
    """Null and empty, doubled headers, times of their own."""
    headers = (("trace", b"1"), ("trace", None))
    return [
        Record(b"k%d" % number, None if number % 4 == 0 else b"v" * number, headers, TIME_MS + number)
        for number in range(count)
    ]


def read(broker: Broker, topic: str, partition: int) -> list[Record]:
    return [one.record for one in broker.client.consume_all(topic, [partition])[partition]]


# --- a topic deleted by mistake, a dead broker --------------------------------------------------------


def test_a_deleted_topic_comes_back(newest_broker: Broker, desk: Desk) -> None:
    topic, client = "runbook-deleted-1", newest_broker.client
    client.create_topic(topic, partitions=2)
    client.create_topic(f"{topic}-0")  # its directories look alike
    client.produce(topic, records(20), partition=0)
    client.transaction(topic, [[Record(b"a", b"aborted")]], transactional_id=topic, commit=False, partition=1)
    client.transaction(topic, [records(3)], transactional_id=topic, commit=True, partition=1)
    client.delete_topic(topic)
    client.delete_topic(f"{topic}-0")
    wait_until(lambda: len(list(newest_broker.log_dir.glob(f"{topic}-*-delete"))) == 3, "the deletion")
    saved = newest_broker.root / "saved"
    words = (newest_broker.log_dir, topic, saved)
    held = desk.run("topic-deleted-by-mistake", *words)
    assert held.exit_code == 0, held.text
    assert sorted(path.name for path in saved.iterdir()) == [f"{topic}-0", f"{topic}-1"]
    logs = list(saved.rglob("*.log"))
    assert [path.stat().st_nlink for path in logs] == [2, 2], "they stay when the broker unlinks its own"
    client.create_topic(topic, partitions=2)
    told = desk.run("topic-deleted-by-mistake", *words, newest_broker.bootstrap)
    assert (told.exit_code, f"{topic}-0: up to 20 records" in told.text) == (4, True), told.text
    assert read(newest_broker, topic, 0) == []
    again = f"{topic}-again"
    client.create_topic(again, partitions=2)
    copied = desk.run("topic-deleted-by-mistake", *words, newest_broker.bootstrap, again, "--apply")
    assert copied.exit_code == 0, copied.text
    assert read(newest_broker, again, 0) == records(20)
    assert read(newest_broker, again, 1) == records(3)
    assert read(newest_broker, topic, 0) == []


def test_a_topic_that_is_not_there_is_not_made_up(newest_broker: Broker, desk: Desk) -> None:
    saved = newest_broker.root / "nothing"
    assert desk.run("topic-deleted-by-mistake", newest_broker.log_dir, "no-such", saved).exit_code == 3
    assert not saved.exists()


def test_the_topics_of_a_dead_broker_are_copied_around_damage(newest_broker: Broker, desk: Desk) -> None:
    disk = desk.directory / "disk"
    write_sample(disk)
    for old, new in {"clicks-1": "runbook-dead-0", "payments-0": "runbook-paid-0"}.items():
        (disk / old).rename(disk / new)
    for topic in ("runbook-dead", "runbook-paid"):
        newest_broker.client.create_topic(topic)
    words = (disk, newest_broker.bootstrap, "runbook-dead", "runbook-paid")
    with unchanged(disk):
        told = desk.run("dead-broker", *words)
    assert told.exit_code == 4, told.text
    for cost in ("offsets are new", "consumer groups", "transaction", "Nothing was copied; --apply does it"):
        assert cost in told.text
    assert read(newest_broker, "runbook-dead", 0) == []
    ended = desk.run("dead-broker", *words, "--apply")
    assert ended.exit_code == 0, ended.text
    keys = [record.key for record in read(newest_broker, "runbook-dead", 0)]
    assert keys == [b"visitor-0"] * 2 + [b"visitor-2"] * 2 + [b"visitor-3"] * 2
    assert [record.value for record in read(newest_broker, "runbook-paid", 0)] == [b"12.50", b"99.00"]

    # Once more would append all of it again: one topic that is not empty stops it, and nothing is written.
    newest_broker.client.create_topic("runbook-new")
    once_more = (disk, newest_broker.bootstrap, "runbook-paid=runbook-new", "runbook-dead", "--apply")
    refused = desk.run("dead-broker", *once_more)
    assert refused.exit_code == 5, refused.text
    assert "runbook-dead-0: is not empty" in refused.text
    assert "--create --topic runbook-dead-restored --partitions 1" in refused.text
    assert "runbook-dead=runbook-dead-restored" in refused.text
    assert len(read(newest_broker, "runbook-dead", 0)) == 6
    assert read(newest_broker, "runbook-new", 0) == []


def test_what_stands_behind_an_open_transaction_is_asked_for(newest_broker: Broker, desk: Desk) -> None:
    topic, client = "runbook-open", newest_broker.client
    client.create_topic(topic)
    client.transaction(topic, [[Record(b"o", b"open")]], transactional_id=topic, commit=None)
    client.produce(topic, [Record(b"b", b"behind")])
    disk = desk.directory / "disk"
    shutil.copytree(newest_broker.log_dir / f"{topic}-0", disk / f"{topic}-copy-0")
    client.create_topic(f"{topic}-copy")
    words = (disk, newest_broker.bootstrap, f"{topic}-copy")
    hidden = desk.run("copy-from-disk", *words, "--apply")
    assert (hidden.exit_code, "0 records copied, 0 refused, 2 offsets left" in hidden.text) == (4, True)
    assert read(newest_broker, f"{topic}-copy", 0) == []
    ended = desk.run("copy-from-disk", *words, "--apply", SERVE_OPTIONS="--last-stable-offset end")
    assert ended.exit_code == 0, ended.text
    assert [one.value for one in read(newest_broker, f"{topic}-copy", 0)] == [b"open", b"behind"]


# --- a broker that does not start ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed() -> Iterator[Broker]:
    """A broker that was killed, with three segments in each of three partitions."""
    peers.require_kafka(peers.NEWEST)
    with Broker(peers.NEWEST, {"log.index.size.max.bytes": "1200"}) as broker:
        broker.client.create_topic("t", {"internal.segment.bytes": "600"}, partitions=3)
        for partition in range(3):
            steps = [[record] for record in records(12)]
            broker.client.produce_steps("t", steps, partition=partition)
        broker.kill()
        yield broker


@pytest.mark.xdist_group("runbooks")
def test_a_broker_that_does_not_start_starts_after_its_runbooks(killed: Broker, desk: Desk) -> None:
    """A checkpoint, an index and a batch out of its place, all in one night."""
    data, kept, config = killed.log_dir, desk.directory / "kept", killed.root / "server.properties"
    (data / RECOVERY_POINTS).write_text("0\n5\nt 0 0\n")
    index = min((data / "t-1").glob("*.index"))
    index.write_bytes(b"\xff" * 16)
    log = max((data / "t-2").glob("*.log"))
    lost = read_header(log.read_bytes(), 0)
    put(log, 0, (1).to_bytes(8, "big"))
    with pytest.raises(BrokerFailedError):
        killed.start()
    assert desk.run("broker-will-not-start", config).exit_code == 4

    by_hand = ("--apply", "--offline")  # it died a moment ago
    ends = [
        desk.run("bad-checkpoint", data / RECOVERY_POINTS, kept, "--apply"),  # 4: there is more
        desk.run("corrupt-index", data / "t-1", kept, *by_hand),
        desk.run("offsets-outside-a-segment", data / "t-2", kept, *by_hand),
    ]
    assert [ended.exit_code for ended in ends] == [4, 0, 0], ends

    told = desk.run("broker-will-not-start", config)
    assert told.exit_code == 0, told.text
    killed.start()
    try:
        ready = desk.run("before-an-upgrade", config)
        assert ready.exit_code == 0, ready.text
        for partition in (0, 1):
            assert read(killed, "t", partition) == records(12)
        offsets = [one.offset for one in killed.client.consume_all("t", [2])[2]]
        assert offsets == [offset for offset in range(12) if offset != lost.base_offset]
    finally:
        killed.kill()


# --- one bad replica of three -------------------------------------------------------------------------


@pytest.mark.soak
def test_a_bad_replica_is_fetched_again(desk: Desk) -> None:
    peers.require_kafka(peers.NEWEST)
    with Cluster() as cluster:
        cluster.create_topic("t", [1, 2, 3])
        cluster.produce("t", [[record] for record in records(12)])
        node = cluster.nodes[1]
        node.stop()
        cluster.wait_for("t", leader=2, in_sync=[2, 3])
        partition = node.partition_dir("t")
        flip(partition / "00000000000000000000.log", 300, 4)
        kept = desk.directory / "kept"
        codes = {
            number: desk.run("crc-errors-one-bad-replica", one.partition_dir("t"), kept).exit_code
            for number, one in cluster.nodes.items()
        }
        assert codes == {1: 4, 2: 0, 3: 0}
        scripts, described = write_scripts(desk.directory / "scripts"), desk.directory / "described"
        follow(Advice.DESCRIBE(), scripts, {"HOST:PORT": cluster.nodes[2].bootstrap, "FILE": described})
        ended = desk.run("crc-errors-one-bad-replica", partition, kept, described, "--apply", "--offline")
        assert ended.exit_code == 0, ended.text
        node.start()
        cluster.wait_for("t", in_sync=[1, 2, 3])
        copies = {
            one.partition_dir("t").joinpath("00000000000000000000.log").read_bytes()
            for one in cluster.nodes.values()
        }
        assert len(copies) == 1
