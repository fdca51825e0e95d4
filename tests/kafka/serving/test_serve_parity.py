"""`serve` against real clients and a real broker: the same records, the same bytes, from one directory."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.consumers import CLIENTS, Seen, confluent, of_cat, run_java_console, run_kafkajs
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.logs import wait_until_cleaned
from tests.logs import TIME
from tests.mutations import flip
from tests.serving import RawClient, Served

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("serve")]

TOPICS = {"codecs": 1, "plain": 3, "txn": 1, "compacted": 1, "open": 1}
SMALL = {"internal.segment.bytes": "2000", "index.interval.bytes": "512"}


class Data:
    """What the broker served of its directory before it was stopped."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.records: dict[tuple[str, bool], list[Seen]] = {}
        self.slices: dict[tuple[str, int, int, int, bool], bytes] = {}
        self.times: dict[int, int] = {}


def records(start: int, count: int) -> list[Record]:
    return [
        Record(
            None if number % 7 == 3 else b"key %d" % (number % 5),
            None if number % 11 == 5 else b"value %d %s" % (number, b"x" * (number % 90)),
            timestamp_ms=TIME + 1000 * number,
        )
        for number in range(start, start + count)
    ]


def fill(broker: Broker) -> None:
    client = broker.client
    client.create_topic("codecs")
    for at, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        client.produce("codecs", records(at * 20, 20), compression_type=codec)
    client.create_topic("plain", SMALL, partitions=3)
    client.produce_steps("plain", [records(at * 10, 10) for at in range(20)], linger_ms=1)
    client.produce("plain", records(0, 15), partition=1)
    client.create_topic("txn")
    for at, commit in enumerate((True, False, True, False)):
        client.produce("txn", records(at * 10, 3))
        client.transaction(
            "txn",
            [records(at * 10 + 3, 3), records(at * 10 + 6, 2)],
            transactional_id=f"t{at}",
            commit=commit,
        )
    client.produce("txn", records(50, 3))
    client.create_topic("open")
    client.produce("open", records(0, 5))
    client.transaction("open", [records(5, 5)], transactional_id="never-ended", commit=None)
    client.produce("open", records(10, 5))
    client.create_topic(
        "compacted", {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    )
    keyed = [[Record(b"key %d" % (at % 4), b"value %d" % at, timestamp_ms=TIME + at)] for at in range(60)]
    client.produce_steps("compacted", keyed, linger_ms=1)
    wait_until_cleaned(broker, "compacted")  # after that, it stays as it is
    assert len(confluent(broker.bootstrap, "compacted", 1, False)) < 50


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    peers.require_kafka(peers.NEWEST)
    target = tmp_path_factory.mktemp("serve") / "logs"
    with Broker(
        peers.NEWEST, {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "600000"}
    ) as broker:
        fill(broker)
        broker.client.run_group("half-way", ["plain"], 100)
        made = Data(target)
        for topic, count in TOPICS.items():
            for committed in (False, True):
                made.records[topic, committed] = confluent(broker.bootstrap, topic, count, committed)
        port = int(broker.bootstrap.rpartition(":")[2])
        made.slices = all_slices(port, made)
        with RawClient(port) as client:
            made.times = {when: client.offset("plain", when) for when in asked_times()}
        broker.stop()
        shutil.copytree(broker.log_dir, target)
    return made


def asked_times() -> list[int]:
    return [-3, -2, -1, TIME, TIME + 500, TIME + 77_000, TIME + 199_000, TIME + 999_999_999]


def all_slices(port: int, data: Data) -> dict[tuple[str, int, int, int, bool], bytes]:
    """The records in the answers to many requests, walking through every partition."""
    found = {}
    with RawClient(port) as client:
        for topic, count in TOPICS.items():
            for partition in range(count):
                end = client.offset(topic, -1, partition=partition)
                for size in (1, 700, 3000, 1 << 20):
                    for offset in range(0, end + 1, 11):
                        for committed in (False, True):
                            answer = client.fetch(
                                topic, offset, partition=partition, max_bytes=size, committed=committed
                            )
                            assert answer["errorCode"] == 0, (topic, offset)
                            found[topic, partition, size, offset, committed] = answer["records"] or b""
    return found


@pytest.fixture(scope="module")
def server(data: Data) -> Iterator[Served]:
    before = listing(data.log_dir)
    with Served(data.log_dir) as running:
        yield running
        assert running.stop() == 0, running.stderr()
        assert "this should not happen" not in running.stderr()
    assert listing(data.log_dir) == before, "the directory was written to"


def listing(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(directory)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.stat().st_size < 1 << 20 else b"",
        )
        for path in directory.rglob("*")
        if path.is_file()
    }


def printed(data: Data, topic: str, committed: bool) -> list[Seen]:
    options = [] if committed else ["--all", "--control", "none"]
    paths = [str(data.log_dir / f"{topic}-{number}") for number in range(TOPICS[topic])]
    done = run("cat", "--format", "ndjson", "--high-watermark", "end", *options, *paths)
    return of_cat(done.stdout.splitlines())


def expected(data: Data, topic: str, committed: bool) -> list[Seen]:
    """What the broker served, which must be what `cat` prints."""
    found = data.records[topic, committed]
    assert printed(data, topic, committed) == found
    return found


NEEDS_PLUGINS = {("kafkajs", "codecs")}
QUICK = [
    *((name, topic, committed) for name in ("kcat", "confluent", "kafka_python", "aiokafka")
      for topic in TOPICS for committed in (False, True)),
    *(("kafkajs", topic, True) for topic in ("plain", "txn")),
    ("java_console", "txn", True),
]  # fmt: skip
LONG = [
    (name, topic, committed)
    for name in ("kafkajs", "java_console")
    for topic in TOPICS
    for committed in (False, True)
    if (name, topic) not in NEEDS_PLUGINS and (name, topic, committed) not in QUICK
]


@pytest.mark.parametrize(
    ("name", "topic", "committed"), [*QUICK, *(pytest.param(*one, marks=pytest.mark.soak) for one in LONG)]
)
def test_every_client_reads_what_the_broker_served_and_cat_prints(
    data: Data, server: Served, name: str, topic: str, committed: bool
) -> None:
    assert CLIENTS[name](server.bootstrap, topic, TOPICS[topic], committed) == expected(
        data, topic, committed
    )


def test_fetch_answers_carry_the_same_bytes_as_the_brokers(data: Data, server: Served) -> None:
    ours = all_slices(server.port, data)
    assert ours.keys() == data.slices.keys()
    assert len(ours) > 250
    different = [key for key, records in ours.items() if records != data.slices[key]]
    assert different == []


def test_times_give_the_offsets_that_the_broker_gave(data: Data, server: Served) -> None:
    with server.client() as client:
        assert {when: client.offset("plain", when) for when in asked_times()} == data.times


def test_clients_begin_at_a_time(data: Data, server: Served) -> None:
    import subprocess

    from kafka import KafkaConsumer, TopicPartition

    from tests.kafka.librdkafka import Librdkafka

    when = TIME + 77_000
    assert Librdkafka(server.bootstrap).offsets_for_times("plain", [when]) == [data.times[when]]
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap)
    place = TopicPartition("plain", 0)
    assert consumer.offsets_for_times({place: when})[place].offset == data.times[when]
    consumer.close()
    words = [peers.require_program("kcat"), "-b", server.bootstrap, "-C", "-t", "plain", "-p", "0"]
    words += ["-o", f"s@{when}", "-e", "-q", "-f", "%o\n"]
    done = subprocess.run(words, capture_output=True, check=True, timeout=60)
    wanted = [
        row.offset
        for row in data.records["plain", False]
        if row.partition == 0 and row.offset >= data.times[when]
    ]
    assert [int(line) for line in done.stdout.split()] == wanted


def test_a_group_goes_on_where_it_had_committed_on_the_broker(data: Data, server: Served) -> None:
    from tests.kafka.librdkafka import Librdkafka

    everything = len(data.records["plain", True])
    rest = Librdkafka(server.bootstrap).run_group("half-way", ["plain"], everything - 100)
    assert len(rest) == everything - 100


def test_two_members_share_a_topic_and_one_takes_over(data: Data, server: Served) -> None:
    import confluent_kafka

    settings = {
        "bootstrap.servers": server.bootstrap,
        "group.id": "shared",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 200,
    }
    first, second = (confluent_kafka.Consumer(settings) for _ in range(2))
    seen: set[tuple[int, int]] = set()

    def poll(*consumers: Any) -> None:
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                seen.add((message.partition(), message.offset()))

    def shared(*consumers: Any) -> bool:
        poll(*consumers)
        counts = sorted(len(consumer.assignment()) for consumer in consumers)
        return sum(counts) == 3 and counts[0] > 0

    first.subscribe(["plain"])
    wait_until(lambda: shared(first), "all for the first")
    second.subscribe(["plain"])
    wait_until(lambda: shared(first, second), "some for each")
    first.close()
    wait_until(lambda: shared(second), "all for the second")
    wanted = {(row.partition, row.offset) for row in data.records["plain", True]}

    def complete() -> bool:
        poll(second)
        return seen >= wanted

    wait_until(complete, "every record")
    second.close()


def test_two_members_of_aiokafka_share_a_topic_and_one_takes_over(data: Data, server: Served) -> None:
    asyncio.run(_share_by_aiokafka(server.bootstrap))


async def _share_by_aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaConsumer

    first, second = (
        AIOKafkaConsumer(
            "plain",
            bootstrap_servers=bootstrap,
            group_id="shared-by-aiokafka",
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
        )
        for _ in range(2)
    )
    await first.start()
    await _until(lambda: len(first.assignment()) == 3)
    await second.start()
    await _until(
        lambda: len(first.assignment()) + len(second.assignment()) == 3 and bool(second.assignment())
    )
    await first.stop()
    await _until(lambda: len(second.assignment()) == 3)
    assert await second.getone()
    await second.stop()


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def test_two_members_of_kafka_python_share_a_topic_and_one_takes_over(data: Data, server: Served) -> None:
    from kafka import KafkaConsumer

    first, second = (
        KafkaConsumer(
            "plain",
            bootstrap_servers=server.bootstrap,
            group_id="shared-by-kafka-python",
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
        )
        for _ in range(2)
    )

    def shared(*consumers: Any) -> bool:
        for consumer in consumers:
            consumer.poll(100)
        counts = sorted(len(consumer.assignment()) for consumer in consumers)
        return sum(counts) == 3 and counts[0] > 0

    wait_until(lambda: shared(first), "all for the first")
    # A member joins within poll: the other has to be asked meanwhile.
    with ThreadPoolExecutor(2) as pool:
        wait_until(
            lambda: sum(pool.map(_polled, (first, second))) == 3 and len(second.assignment()) > 0, "both"
        )
    first.close()
    wait_until(lambda: shared(second), "all for the second")
    second.close()


def _polled(consumer: Any) -> int:
    consumer.poll(500)
    return len(consumer.assignment())


@pytest.mark.parametrize("name", ["kafkajs", pytest.param("java_console", marks=pytest.mark.soak)])
def test_two_processes_of_a_group_read_everything_between_them(data: Data, server: Served, name: str) -> None:
    wanted = data.records["plain", True]
    if name == "kafkajs":
        many = {"members": 2, "wanted": len(wanted)}
        found = run_kafkajs(server.bootstrap, "two-of-js", "plain", True, **many)
    else:
        found = _by_two_consoles(server.bootstrap)
    assert set(found) == set(wanted)


def _by_two_consoles(bootstrap: str) -> list[Seen]:
    def read(_number: int) -> list[Seen]:
        return run_java_console(bootstrap, "plain", "--group", "two-of-java", "--from-beginning")

    with ThreadPoolExecutor(2) as pool:
        return [row for rows in pool.map(read, range(2)) for row in rows]


def test_a_fetch_at_damage_fails_and_goes_on_behind_it_if_that_is_wanted(data: Data, tmp_path: Path) -> None:
    damaged = tmp_path / "logs"
    shutil.copytree(data.log_dir, damaged)
    log = sorted((damaged / "plain-0").glob("*.log"))[2]
    flip(log, 100, 2)
    base = int(log.name.partition(".")[0])
    with Served("--verify", damaged) as running, running.client() as client:
        assert client.fetch("plain", base - 1)["errorCode"] == 0
        assert client.fetch("plain", base)["errorCode"] == 2
        assert running.stop() == 0
        assert "--skip-damage goes on at offset" in running.stderr()
    done = run("cat", "--format", "ndjson", *(str(damaged / f"plain-{number}") for number in range(3)))
    left = of_cat(done.stdout.splitlines())
    assert 0 < len(left) < len(data.records["plain", True])
    with Served("--skip-damage", damaged) as running:
        for name in ("kcat", "confluent", "kafka_python", "aiokafka"):
            assert CLIENTS[name](running.bootstrap, "plain", 3, True) == left, name


def test_the_tools_of_kafka_describe_what_is_served(data: Data, server: Served) -> None:
    import subprocess

    from tests.kafka.dump_tool import environment, java_command

    java = java_command(peers.NEWEST)
    words = [
        *java,
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        server.bootstrap,
        "--describe",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Topic: compacted" in done.stdout
    assert "cleanup.policy=compact" in done.stdout
    assert "Topic: plain\tPartition: 2\tLeader: 1" in done.stdout


def test_a_java_member_that_starts_at_the_end_sees_nothing(server: Served) -> None:
    assert run_java_console(server.bootstrap, "plain", "--group", "late", idle_ms=3000) == []


def test_an_idle_consumer_asks_twice_a_second_and_not_a_thousand_times(server: Served) -> None:
    with server.client() as client:
        end = client.offset("plain", -1)
        start = time.monotonic()
        answer = client.fetch("plain", end, max_wait_ms=500)
        assert answer["records"] in (None, b"")
        assert time.monotonic() - start >= 0.45


def test_a_vanished_client_frees_its_long_poll(server: Served) -> None:
    client = server.client()
    asked = {"partition": 0, "fetchOffset": client.offset("plain", -1), "partitionMaxBytes": 1000}
    client.send(
        "fetch", 11, maxWaitMs=30_000, minBytes=1, maxBytes=1000, isolationLevel=0,
        topics=[{"topic": "plain", "partitions": [asked]}],
    )  # fmt: skip
    client.sock.shutdown(socket.SHUT_RDWR)
    client.close()
