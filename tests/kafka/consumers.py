"""Every client that tests read with, each as a function: all records of a topic, as rows that compare."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests.kafka import peers
from tests.kafka.dump_tool import environment, java_command

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_SECONDS = 120
_MORE_SECONDS = 0.5
_KAFKAJS = Path(__file__).with_name("kafkajs_consumer.js")


class Seen(NamedTuple):
    """A record as a client gave it out."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


Read = Callable[[str, str, int, bool], list[Seen]]
"""Bootstrap, topic, number of partitions, committed records only."""


def kcat(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    """It says "NULL" for null only of lengths."""
    program = peers.require_program("kcat")
    isolation = "read_committed" if committed else "read_uncommitted"
    words = [program, "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]
    words += ["-X", f"isolation.level={isolation}", "-f", "%p\\t%o\\t%T\\t%K\\t%S\\t%k\\t%s\\n"]
    done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=True)
    rows = []
    for line in done.stdout.decode().splitlines():
        partition, offset, when, key_size, size, key, value = line.split("\t")
        rows.append(
            Seen(
                int(partition),
                int(offset),
                int(when),
                None if key_size == "-1" else key.encode(),
                None if size == "-1" else value.encode(),
            )
        )
    return sorted(rows)


def confluent(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    from tests.kafka.librdkafka import Librdkafka

    isolation = "read_committed" if committed else "read_uncommitted"
    found = Librdkafka(bootstrap).consume_all(topic, range(partitions), isolation_level=isolation)
    return sorted(
        Seen(number, one.offset, one.record.timestamp_ms or 0, one.record.key, one.record.value)
        for number, placed in found.items()
        for one in placed
    )


def kafka_python(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        rows: list[Seen] = []
        deadline = time.monotonic() + _SECONDS
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, "it did not come to the end"
            for found in consumer.poll(500).values():
                rows += [Seen(one.partition, one.offset, one.timestamp, one.key, one.value) for one in found]
        return sorted(rows)
    finally:
        consumer.close()


def aiokafka(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    return asyncio.run(_aiokafka(bootstrap, topic, partitions, committed))


async def _aiokafka(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    await consumer.start()
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        rows: list[Seen] = []
        deadline = time.monotonic() + _SECONDS
        while True:
            behind = [place for place in places if await consumer.position(place) < ends[place]]
            if not behind:
                return sorted(rows)
            assert time.monotonic() < deadline, "it did not come to the end"
            for found in (await consumer.getmany(timeout_ms=500)).values():
                rows += [Seen(one.partition, one.offset, one.timestamp, one.key, one.value) for one in found]
    finally:
        await consumer.stop()


def kafkajs(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    """As a group of one: it has no other mode."""
    group, wanted = (
        f"js-{topic}-{committed}-{time.time_ns()}",
        confluent(bootstrap, topic, partitions, committed),
    )
    return run_kafkajs(bootstrap, group, topic, committed, members=1, wanted=len(wanted))


def run_kafkajs(
    bootstrap: str, group: str, topic: str, committed: bool, *, members: int, wanted: int
) -> list[Seen]:
    """What so many members read between them: as many as wanted, and what comes then."""
    node, folder = peers.require_kafkajs()
    words = [node, str(_KAFKAJS), bootstrap, group, topic, str(int(committed))]
    env = {**environment(), "NODE_PATH": str(folder), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    lines: list[bytes] = []
    with ExitStack() as stack:
        running = [stack.enter_context(subprocess.Popen(words, env=env, **piped)) for _ in range(members)]  # type: ignore[call-overload]
        readers = [threading.Thread(target=lines.extend, args=(one.stdout,)) for one in running]
        for one, reader in zip(running, readers, strict=True):
            stack.callback(one.kill)
            reader.start()
        deadline = time.monotonic() + _SECONDS
        while len(lines) < wanted and time.monotonic() < deadline and not any(map(_has_ended, running)):
            time.sleep(0.05)
        time.sleep(_MORE_SECONDS)
        for one in running:
            one.stdin.close()
        errors = [one.stderr.read().decode()[-2000:] for one in running]
        for reader in readers:
            reader.join()
        assert [one.wait(_SECONDS) for one in running] == [0] * members, errors
    return sorted(map(_of_kafkajs, lines))


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def _of_kafkajs(line: bytes) -> Seen:
    row = json.loads(line)
    key, value = (None if row[name] is None else base64.b64decode(row[name]) for name in ("key", "value"))
    return Seen(row["partition"], int(row["offset"]), int(row["timestamp"]), key, value)


def java_console(bootstrap: str, topic: str, partitions: int, committed: bool) -> list[Seen]:
    """It cannot tell where a topic ends: another client can."""
    isolation = "read_committed" if committed else "read_uncommitted"
    count = len(confluent(bootstrap, topic, partitions, committed))
    options = ("--from-beginning", "--isolation-level", isolation, "--max-messages", str(count))
    return run_java_console(bootstrap, topic, *options, idle_ms=1000 * _SECONDS // 2)


def run_java_console(bootstrap: str, topic: str, *options: str, idle_ms: int = 20_000) -> list[Seen]:
    peers.require_kafka(peers.NEWEST)
    shown = [f"print.{name}=true" for name in ("partition", "offset", "timestamp", "key")]
    words = [*java_command(peers.NEWEST), CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic]
    words += [*options, "--timeout-ms", str(idle_ms)]
    for one in shown:
        words += ["--formatter-property", one]
    done = subprocess.run(words, capture_output=True, timeout=_SECONDS, env=environment())
    return sorted(_of_console(line) for line in done.stdout.decode().splitlines() if line)


def _of_console(line: str) -> Seen:
    when, partition, offset, key, value = line.split("\t")
    numbers = [text.partition(":")[2] for text in (when, partition, offset)]
    texts = [None if text == "null" else text.encode() for text in (key, value)]
    return Seen(int(numbers[1]), int(numbers[2]), int(numbers[0]), *texts)


CLIENTS: dict[str, Read] = {
    "kcat": kcat,
    "confluent": confluent,
    "kafka_python": kafka_python,
    "aiokafka": aiokafka,
    "kafkajs": kafkajs,
    "java_console": java_console,
}


def of_cat(lines: Sequence[bytes]) -> list[Seen]:
    """The same rows from what `kafkatool cat --format ndjson` printed."""
    return sorted(_of_cat(json.loads(line)) for line in lines)


def _of_cat(row: dict[str, Any]) -> Seen:
    key, value = (None if row[name] is None else str(row[name]).encode() for name in ("key", "value"))
    return Seen(row["partition"], row["offset"], row["timestamp_ms"], key, value)
