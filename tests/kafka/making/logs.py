"""Ordinary logs: codecs, timestamps, segments and indexes, transactions, deleted records, compaction."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.cases import write_case
from tests.kafka.making.odd_batches import odd_batches
from tests.kafka.raw_produce import raw_produce

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START_MS = 1_700_000_000_000

_ANY_TIME = {
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}

# Null and empty keys and values, headers twice and null, text that is not ASCII, bytes that are no text.
SAMPLE = [
    Record(b"key", b"value", (("h", b"1"), ("h", None), ("", b"")), START_MS),
    Record(None, "Ä€漢🙂".encode(), (), START_MS + 5),
    Record(b"", None, (), START_MS + 1),
    Record(None, b"", (), START_MS + 2),
    Record(b"\xff\x00", b"\x80binary\n\x1b", (("a,b", b"\xff"),), START_MS + 3),
    Record(None, None, (), 0),
]
MORE = [
    Record(b"key %d" % number, b"the same value again", (), START_MS + 10 + number) for number in range(5)
]


def small_segments(version: str, size: int) -> dict[str, str]:
    """4.x refuses a small segment.bytes, but honours an internal setting."""
    name = "segment.bytes" if version.startswith("3.") else "internal.segment.bytes"
    return {name: str(size)}


def short(version: str) -> str:
    return ".".join(version.split(".")[:2])


def make_logs(version: str) -> None:
    """All ordinary logs of one release from one broker."""
    with Broker(version) as broker:
        cases = [
            *_codecs(broker),
            *_times(broker),
            *_segments(broker),
            *_transactions(broker),
            *_compacted(broker),
        ]
        if version == peers.NEWEST:
            cases += _odd(broker)
        broker.stop()
        for kind, name, topics, said in cases:
            write_case(kind, name, [broker.log_dir / f"{topic}-0" for topic in topics], _origin(broker, said))


Made = list[tuple[str, str, list[str], str]]


def _origin(broker: Broker, said: str) -> str:
    return (
        f"Written by an Apache Kafka {broker.version} broker (KRaft, one node), stopped cleanly.\n\n"
        f"{said}\n\nRegenerate with `python -m tests.kafka.make_fixtures`."
    )


def create(broker: Broker, topic: str, config: Mapping[str, str] | None = None) -> str:
    """Create a topic that takes any timestamp; return what ORIGIN.md says about it."""
    broker.client.create_topic(topic, {**_ANY_TIME, **(config or {})})
    shown = " ".join(f"`{name}={value}`" for name, value in (config or {}).items())
    return f"- topic `{topic}`{': ' if shown else ''}{shown}"


def _codecs(broker: Broker) -> Made:
    cases: Made = []
    by_java = f"Produced by the Java client {broker.version}, two batches, `compression.type=%s`."
    for codec in CODECS:
        create(broker, f"{codec}-java")
        broker.java.produce(f"{codec}-java", [SAMPLE, MORE], compression_type=codec)
        cases.append(("log", f"{codec}-java", [f"{codec}-java"], by_java % codec))
    if broker.version != peers.NEWEST:
        topics = [f"{codec}-java" for codec in CODECS]
        return [("log", f"codecs-java-{short(broker.version)}", topics, by_java % "<the codec>")]
    for codec in CODECS:
        topic = f"{codec}-librdkafka"
        create(broker, topic)
        broker.client.produce_steps(topic, [SAMPLE, MORE], compression_codec=codec)
        said = (
            f"Produced by librdkafka (confluent-kafka), idempotent, two batches, `compression.codec={codec}`."
        )
        cases.append(("log", topic, [topic], said))
    return [*cases, *_blocks(broker), *_numbers(broker)]


def _blocks(broker: Broker) -> Made:
    topics = []
    for codec in ("snappy", "lz4"):
        topics.append(f"{codec}-blocks")
        create(broker, topics[-1])
        values = [Record(None, f"{codec} {number} ".encode() * 900, (), START_MS) for number in range(10)]
        broker.java.produce(
            topics[-1], [values], compression_type=codec, batch_size=200_000, enable_idempotence="false"
        )
    said = "Produced by the Java client without idempotence: one batch of more than 64 KiB, several blocks."
    return [("log", "blocks", topics, said)]


def _numbers(broker: Broker) -> Made:
    for topic, form in (("ints", ">i"), ("longs", ">q")):
        create(broker, topic)
        pairs = [(struct.pack(form, number), struct.pack(form, -number)) for number in (0, 1, 123456)]
        broker.client.produce(topic, [Record(key, value, (), START_MS) for key, value in pairs])
    said = "Keys and values of 4 bytes (`ints`) and 8 bytes (`longs`), for the decoder classes."
    return [("log", "numbers", ["ints", "longs"], said)]


def _times(broker: Broker) -> Made:
    said = create(broker, "append-time", {"message.timestamp.type": "LogAppendTime"})
    broker.java.produce("append-time", [SAMPLE, MORE], compression_type="gzip")
    broker.client.produce("append-time", SAMPLE)
    return [
        (
            "log",
            f"append-time-{short(broker.version)}",
            ["append-time"],
            f"{said}\n\nBoth clients, Java's with gzip.",
        )
    ]


def _segments(broker: Broker) -> Made:
    config = {**small_segments(broker.version, 1200), "index.interval.bytes": "200"}
    said = create(broker, "segments", config)
    said += "\n" + create(broker, "deleted", config)
    for topic in ("segments", "deleted"):
        steps = [
            [
                Record(
                    b"%d" % number, b"x" * (20 + 7 * number % 50), (), START_MS + 1000 * (number - number % 3)
                )
            ]
            for number in range(24)
        ]
        broker.client.produce_steps(topic, steps)
    broker.client.delete_records("deleted", 14)
    said += "\n\nSingle-record batches from librdkafka, timestamps not always rising."
    said += "\nIn `deleted` the records below 14 were deleted."
    return [("index", f"segments-{short(broker.version)}", ["segments", "deleted"], said)]


def _transactions(broker: Broker) -> Made:
    config = {**small_segments(broker.version, 700), "index.interval.bytes": "200"}
    said = create(broker, "txn", config)
    java = [
        *(("begin", None), ("send", SAMPLE[:2]), ("send", MORE[:1]), ("commit", None)),
        *(("begin", None), ("send", SAMPLE[2:4]), ("abort", None)),
        *(("begin", None), ("offsets", "txn-group"), ("commit", None)),
        *(("begin", None), ("send", MORE), ("abort", None)),
    ]
    broker.java.transactions("txn", java, transactional_id="java", compression_type="lz4")
    client = broker.client
    client.transaction("txn", [MORE[:2], MORE[2:]], transactional_id="rd-1", commit=True)
    client.transaction("txn", [MORE[:3]], transactional_id="rd-2", commit=False, compression_codec="zstd")
    client.produce("txn", MORE[:2])
    client.transaction(
        "txn", [MORE[:1]], transactional_id="rd-3", commit=None, transaction_timeout_ms=900_000
    )
    said += (
        "\n\nTransactions of both clients, committed and aborted, over several segments; the last is open."
    )
    return [("transactions", f"segments-{short(broker.version)}", ["txn"], said)]


def _compacted(broker: Broker) -> Made:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": str(2**40),
        **small_segments(broker.version, 900),
        "index.interval.bytes": "200",
    }
    said = "\n".join(create(broker, topic, config) for topic in ("compacted", "compacted-txn"))
    _write_to_be_compacted(broker)
    for topic in ("compacted", "compacted-txn"):
        broker.client.alter_config(topic, {"min.compaction.lag.ms": "0"})
        wait_until_cleaned(broker, topic)
    # A marker gets its horizon when the cleaner comes by again and finds nothing left of the transaction.
    broker.client.produce_steps(
        "compacted-txn", [[Record(b"k%d" % (n % 3), b"again", (), START_MS + 50)] for n in range(12)]
    )
    wait_until_cleaned(broker, "compacted-txn")
    said += "\n\nWritten with compaction held off by `min.compaction.lag.ms`, then let go and waited for;"
    said += " `compacted-txn` was written to and cleaned a second time."
    return [("compacted", f"cleaned-{short(broker.version)}", ["compacted", "compacted-txn"], said)]


def _write_to_be_compacted(broker: Broker) -> None:
    def step(start: int, codec: str) -> None:
        records = [
            Record(b"k%d" % (n % 7), b"value %d" % n, (), START_MS + n) for n in range(start, start + 6)
        ]
        broker.client.produce("compacted", records, compression_codec=codec)

    for number, codec in enumerate((*CODECS, *CODECS)):
        step(6 * number, codec)
        if number % 3 == 1:
            dead = [Record(b"k%d" % number, None, (), START_MS + 100), Record(b"gone", None, (), START_MS)]
            broker.client.produce("compacted", dead, compression_codec=codec)
    one_producer = [[Record(b"k%d" % (n % 4), b"one producer", (), START_MS + n) for n in range(3)]] * 3
    broker.client.produce_steps("compacted", one_producer, compression_codec="gzip")
    for number in range(6):
        records = [Record(b"k%d" % (n % 3), b"v%d" % n, (("h", b""),), START_MS + n) for n in range(4)]
        broker.client.transaction(
            "compacted-txn", [records], transactional_id=f"c{number % 3}", commit=number % 3 != 1
        )
    broker.client.produce_steps("compacted-txn", [MORE[:1]] * 8)
    broker.client.produce_steps("compacted", [MORE[:1]] * 8)


def wait_until_cleaned(broker: Broker, topic: str) -> None:
    """Cleaned up to the active segment, which is never cleaned."""
    partition = broker.log_dir / f"{topic}-0"

    def cleaned() -> bool:
        active = max(int(path.stem) for path in partition.glob("*.log"))
        checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        dirty = [int(line.split()[2]) for line in lines if line.startswith(f"{topic} ")]
        return bool(dirty) and dirty[0] >= active and not _leftovers(partition)

    wait_until(cleaned, f"the cleaner to finish {topic}")


def _leftovers(partition: Path) -> bool:
    return any(path.suffix in (".cleaned", ".swap") for path in partition.iterdir())


def _odd(broker: Broker) -> Made:
    told: dict[str, list[str]] = {}
    for topic, what, batch in odd_batches():
        if topic not in told:
            told[topic] = [create(broker, topic), ""]
        answer = raw_produce(broker.bootstrap, topic, batch)
        fate = (
            f"accepted at offset {answer.base_offset}"
            if answer.error == 0
            else f"refused (error {answer.error})"
        )
        told[topic].append(f"- {what}: {fate}")
    said = (
        "Batches made by hand and sent over the produce API; what the broker accepted is what is stored.\n\n"
    )
    return [
        ("odd", topic.removeprefix("odd-"), [topic], said + "\n".join(lines)) for topic, lines in told.items()
    ]
