"""Open transactions on a real broker's disk: what we say of them holds, and what we advise ends them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.advice.table import HOST
from kafkatool.format.batch import TRANSACTIONAL_MASK, NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.cli import of_kind, rows_of, run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.dump_tool import environment, java_command
from tests.kafka.librdkafka import Record
from tests.kafka.raw_produce import raw_produce

pytestmark = pytest.mark.peer

COMPACTED = {"cleanup.policy": "compact"}
HOUR_MS = 3_600_000
TOOL = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture(scope="module")
def broker(newest_broker: Broker) -> Iterator[Broker]:
    """One that takes a batch of a transaction without asking its coordinator, as releases before 3.6 did."""
    verification = "transaction.partition.verification.enable"
    newest_broker.client.alter_broker(1, {verification: "false"})
    yield newest_broker
    newest_broker.client.alter_broker(1, {verification: "true"})


def records(*values: bytes, timestamp_ms: int | None = None) -> list[Record]:
    return [Record(b"k" + value, value, timestamp_ms=timestamp_ms) for value in values]


def open_transaction(directory: Path, *arguments: str) -> dict[str, Any]:
    """The only one of a partition, as compact tells it."""
    done = run("compact", "--format", "ndjson", *arguments, str(directory))
    assert done.exit_code == 0, done.stderr
    (row,) = (row for row in done.rows if row["kind"] != "setting")
    (txn,) = row["open_transactions"]
    return dict(txn)


def transactions_tool(bootstrap: str, *words: str) -> str:
    command = [*java_command(peers.NEWEST), TOOL, "--bootstrap-server", bootstrap, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def follow(advice: str, bootstrap: str) -> str:
    """Do what is printed, to the letter; returns what that prints."""
    program, server, place, *words = shlex.split(advice, comments=True)
    assert (program, server, place) == ("kafka-transactions.sh", "--bootstrap-server", HOST)
    return transactions_tool(bootstrap, *words)


def committed(broker: Broker, topic: str, *partitions: int) -> list[list[bytes | None]]:
    """The values that readers of committed records get of each partition, up to the last stable offset."""
    found = broker.client.consume_all(topic, partitions, isolation_level="read_committed")
    return [[one.record.value for one in found[number]] for number in partitions]


def hanging_batch(producer_id: int, *values: bytes) -> bytes:
    """Of a producer that no coordinator knows, an hour old."""
    at_ms = time.time_ns() // 1_000_000 - HOUR_MS
    return write_batch(
        [NewRecord(b"k" + value, value, at_ms) for value in values],
        base_offset=0,
        attributes=TRANSACTIONAL_MASK,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        partition_leader_epoch=-1,
    )


def test_a_live_transaction_is_in_progress_and_commits_everywhere(broker: Broker) -> None:
    topic, name, client = "verdict-live", "verdict-live", broker.client
    client.create_topic(topic, COMPACTED, partitions=2)
    producer = client.transactional_producer(name, transaction_timeout_ms=600_000)
    producer.begin_transaction()
    for number in (0, 1):
        producer.produce(topic, value=b"v", key=b"k", partition=number)
    producer.flush(60)
    for number in (0, 1):
        txn = open_transaction(broker.log_dir / f"{topic}-{number}", "--at", "now+5s")
        assert (txn["verdict"], txn["fix"], txn["transactional_id"]) == ("in_progress", None, name)
        assert 590_000 < txn["ends_by_ms"] - txn["first_timestamp_ms"] < 620_000
    listed = run("serve", "--list", "--format", "ndjson", str(broker.log_dir / f"{topic}-0"))
    assert json.loads(listed.stdout)["held_by"]["verdict"] == "in_progress"
    client.end_transaction(producer, name, commit=True)
    assert committed(broker, topic, 0, 1) == [[b"v"], [b"v"]]


@pytest.mark.advice("TERMINATE_TRANSACTION")
def test_a_dead_producers_transaction_is_terminated_everywhere(broker: Broker) -> None:
    topic, name, client = "verdict-dead", "verdict-dead", broker.client
    client.create_topic(topic, COMPACTED, partitions=2)
    client.produce(topic, records(b"before"))
    leave_open_and_die(broker.bootstrap, topic, name)
    directory = broker.log_dir / f"{topic}-0"
    assert open_transaction(directory)["verdict"] == "in_progress"
    txn = open_transaction(directory, "--at", "now+11m")
    assert txn["verdict"] == "will_be_aborted"
    follow(txn["fix"], broker.bootstrap)
    for number in (0, 1):
        client.produce(topic, records(b"after"), partition=number)
    assert committed(broker, topic, 0, 1) == [[b"before", b"after"], [b"after"]]


_DIES = """
import sys, time
from confluent_kafka import Producer
bootstrap, topic, name = sys.argv[1:]
settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 600000}
producer = Producer(settings)
producer.init_transactions(60)
producer.begin_transaction()
for number in (0, 1):
    producer.produce(topic, value=b"open", key=b"k", partition=number)
assert producer.flush(60) == 0
print("open", flush=True)
time.sleep(600)
"""


def leave_open_and_die(bootstrap: str, topic: str, name: str) -> None:
    """A transaction in two partitions, of a process that is killed with SIGKILL."""
    words = [sys.executable, "-c", _DIES, bootstrap, topic, name]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        try:
            assert client.stdout.readline() == b"open\n"
        finally:
            client.kill()


@pytest.mark.advice("ABORT_TRANSACTION", "FIND_HANGING")
def test_what_we_call_hanging_so_does_kafka_and_the_advice_ends_it(broker: Broker, tmp_path: Path) -> None:
    topic, client, hanging = "verdict-hanging", broker.client, 987_654_321
    client.create_topic(topic, COMPACTED)
    client.produce(topic, records(b"before"))
    batch = hanging_batch(hanging, b"hanging")
    assert raw_produce(broker.bootstrap, topic, batch, transactional_id="nobody") == (0, 1)
    client.transaction(topic, [records(b"after")], transactional_id="verdict-after", commit=True)
    assert committed(broker, topic, 0) == [[b"before"]]
    table = transactions_tool(broker.bootstrap, "find-hanging", "--broker-id", "1", "--topic", topic)
    assert [line.split()[:3] for line in table.splitlines()[1:]] == [[topic, "0", str(hanging)]]
    alone = tmp_path / "alone"
    shutil.copytree(broker.log_dir / f"{topic}-0", alone / f"{topic}-0")
    asked = open_transaction(alone / f"{topic}-0", "--set", "cleanup.policy=compact")
    assert asked["verdict"] == "ask_coordinator"
    assert str(hanging) in follow(asked["fix"], broker.bootstrap)
    txn = open_transaction(broker.log_dir / f"{topic}-0")
    assert (txn["verdict"], txn["producer_id"], txn["first_offset"]) == ("hanging", hanging, 1)
    follow(txn["fix"], broker.bootstrap)
    assert committed(broker, topic, 0) == [[b"before", b"after"]]


def copied(broker: Broker, target: Path, *names: str) -> Path:
    """These partitions, the metadata and the transactions of a running broker."""
    target.mkdir()
    for name in (*names, "__cluster_metadata-0", "__transaction_state-0"):
        shutil.copytree(broker.log_dir / name, target / name)
    shutil.copy(broker.log_dir / "meta.properties", target)
    return target


def lose_marker(directory: Path) -> None:
    """Cut the last batch of a log, which is the marker."""
    batches = of_kind(rows_of("dump-log", directory), "batch")
    assert batches[-1]["is_control"]
    log = directory / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[: batches[-1]["position"]])


@pytest.mark.parametrize("by", ["librdkafka", "java"])
@pytest.mark.parametrize("has_state", [True, False])
def test_what_was_committed_elsewhere_is_never_to_be_aborted(
    broker: Broker, tmp_path: Path, by: str, has_state: bool
) -> None:
    """Once the client uses one epoch for all its transactions, once (Java's) one for each."""
    topic = f"verdict-lost-{by}-{has_state}"
    broker.client.create_topic(topic, COMPACTED)
    commit_offsets_too(broker, topic, by)
    log_dir = copied(broker, tmp_path / "copy", f"{topic}-0", "__consumer_offsets-0")
    lose_marker(log_dir / f"{topic}-0")
    if not has_state:  # all that is left to prove it is the other log
        (log_dir / "__transaction_state-0" / f"{0:020d}.log").write_bytes(b"")
    txn = open_transaction(log_dir / f"{topic}-0", "--at", "now+1h")
    assert (txn["verdict"], txn["fix"]) == ("marker_lost", None), txn
    assert "never abort" in txn["why"]
    shutil.rmtree(log_dir / "__consumer_offsets-0")
    alone = open_transaction(log_dir / f"{topic}-0", "--at", "now+1h")
    assert alone["verdict"] == ("marker_lost" if has_state else "hanging")


def commit_offsets_too(broker: Broker, topic: str, by: str) -> None:
    """One transaction in a topic and in __consumer_offsets."""
    if by == "java":
        script = [("begin", None), ("send", records(b"v")), ("offsets", topic), ("commit", None)]
        broker.java.transactions(topic, script, transactional_id=topic)
        return
    from confluent_kafka import Consumer, TopicPartition

    producer = broker.client.transactional_producer(topic)
    member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    producer.begin_transaction()
    producer.produce(topic, value=b"v", key=b"k", partition=0)
    place = [TopicPartition(topic, 0, 1)]
    producer.send_offsets_to_transaction(place, member.consumer_group_metadata(), 60)
    member.close()
    broker.client.end_transaction(producer, topic, commit=True)


@pytest.mark.soak
def test_what_a_coordinator_has_forgotten_hangs_and_can_be_ended() -> None:
    """Its state is lost while the broker is down, as by a disk that was replaced."""
    peers.require_kafka(peers.NEWEST)
    topic = "forgotten"
    with Broker(peers.NEWEST) as broker:
        client = broker.client
        client.create_topic(topic, COMPACTED, partitions=2)
        old_ms = time.time_ns() // 1_000_000 - HOUR_MS
        client.transaction(topic, [records(b"kept")], transactional_id="kept", commit=True)
        open_records = records(b"open", timestamp_ms=old_ms)
        client.transaction(topic, [open_records], transactional_id="forgotten", commit=None)
        directory = broker.log_dir / f"{topic}-0"
        assert open_transaction(directory)["verdict"] == "in_progress"
        broker.stop()
        assert doctor_findings(broker) == ["note"]
        shutil.rmtree(broker.log_dir / "__transaction_state-0")
        broker.start()
        table = transactions_tool(broker.bootstrap, "find-hanging", "--broker-id", "1")
        assert [line.split()[:2] for line in table.splitlines()[1:]] == [[topic, "0"]]
        txn = open_transaction(directory)
        assert txn["verdict"] == "hanging"
        follow(txn["fix"], broker.bootstrap)
        client.produce(topic, records(b"after"))
        assert committed(broker, topic, 0) == [[b"kept", b"after"]]
        broker.stop()
        assert doctor_findings(broker) == []


@pytest.mark.soak
def test_a_two_phase_commit_is_left_to_its_client_however_old_it_is() -> None:
    """No client speaks it yet, so the requests are ours; the coordinator writes the state."""
    peers.require_kafka(peers.NEWEST)
    topic = name = "two-phase"
    settings = ("transaction.two.phase.commit.enable", "unstable.api.versions.enable")
    unverified = {"transaction.partition.verification.enable": "false"}
    with Broker(peers.NEWEST, {**dict.fromkeys(settings, "true"), **unverified}) as broker:
        broker.client.create_topic(topic, COMPACTED)
        broker.client.transaction(topic, [records(b"kept")], transactional_id="other", commit=True)
        begun = {"transactionalId": name, "transactionTimeoutMs": 60_000, "producerId": -1}
        begun |= {"producerEpoch": -1, "enable2Pc": True, "keepPreparedTxn": False}
        owner = broker.java.call("request", api="InitProducerId", version=6, data=begun)
        assert owner["errorCode"] == 0, owner
        ids = {"TransactionalId": name, "ProducerId": owner["producerId"], "ProducerEpoch": 0}
        place = {"Topics": [{"name": topic, "partitions": [0]}]}
        added = {f"v3AndBelow{key}": value for key, value in (ids | place).items()}
        broker.java.call("request", api="AddPartitionsToTxn", version=3, data=added)
        batch = hanging_batch(owner["producerId"], b"open")
        assert raw_produce(broker.bootstrap, topic, batch, transactional_id=name) == (0, 2)
        txn = open_transaction(broker.log_dir / f"{topic}-0", "--at", "now+30d")
        assert (txn["verdict"], txn["ends_by_ms"], txn["fix"]) == ("in_progress", None, None)
        assert txn["transactional_id"] == name


def doctor_findings(broker: Broker) -> list[str]:
    """The severities of what doctor says of open transactions."""
    rows = rows_of("doctor", "--elsewhere", broker.log_dir)
    return [row["severity"] for row in rows if row.get("class") == "open_transaction"]
