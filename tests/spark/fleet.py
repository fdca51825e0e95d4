"""Log directories that a real broker wrote: every codec, transactions, compacted topics; then bad luck."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record
from tests.kafka.making.logs import wait_until_cleaned
from tests.mutations import flip, put

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20  # the least that a broker takes


def write_fleet(target: Path, seed: int, *, version: str = peers.NEWEST, copies: int = 1) -> list[Path]:
    """So many directories of the same shape and other content; the broker is gone afterwards."""
    peers.require_kafka(version)
    chance = random.Random(seed)
    made = []
    with Broker(version) as broker:
        client = broker.client
        for codec in CODECS:
            client.create_topic(
                f"orders-{codec}", {"segment.bytes": str(SEGMENT_BYTES)}, partitions=chance.randint(1, 2)
            )
        client.create_topic("payments", {"segment.bytes": str(SEGMENT_BYTES)})
        compacted = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
        # Never clean enough: what there is to compact stays.
        client.create_topic("users", {**compacted, "min.cleanable.dirty.ratio": "1.0"}, partitions=2)
        client.create_topic("profiles", {**compacted, "min.cleanable.dirty.ratio": "0.01"})
        for number in range(copies):
            client.produce("profiles", _updates(chance, 1_300_000), batch_size=9000)
            for codec in CODECS:
                size = 2_600_000 if codec == "none" else 600_000
                client.produce(
                    f"orders-{codec}", _records(chance, size), compression_type=codec, batch_size=9000
                )
            for partition in range(2):
                client.produce("users", _updates(chance, 1_300_000), partition=partition, batch_size=9000)
            for commit in (True, False, True):
                client.transaction(
                    "payments",
                    [_records(chance, 300_000) for _ in range(2)],
                    transactional_id=f"t{chance.randrange(3)}",
                    commit=commit,
                )
            wait_until_cleaned(broker, "profiles")
            broker.stop()
            directory = target / f"broker-{number}"
            shutil.copytree(broker.log_dir, directory)
            made.append(directory)
            if number + 1 < copies:
                broker.start()
    return made


def _records(chance: random.Random, size: int) -> list[Record]:
    found, left = [], size
    while left > 0:
        value = f'{{"customer_id": {chance.randrange(50)}, "text": "{"x" * chance.randrange(400)}"}}'
        body = value.encode() + chance.randbytes(chance.randrange(200)).hex().encode()
        headers = [("trace", b"%d" % left)] if chance.random() < 0.1 else []
        key = None if chance.random() < 0.2 else b"key-%d" % chance.randrange(1000)
        found.append(Record(key, body if chance.random() < 0.95 else None, headers))
        left -= len(body) + 20
    return found


def _updates(chance: random.Random, size: int) -> list[Record]:
    found, left = [], size
    while left > 0:
        value = chance.randbytes(chance.randrange(50, 400))
        found.append(Record(b"user-%d" % chance.randrange(3000), value if chance.random() < 0.9 else None))
        left -= len(value) + 20
    return found


def damage(directory: Path, seed: int) -> Path:
    """A copy of a directory with a flipped bit in one closed segment, and an index that lies in another."""
    chance = random.Random(seed)
    target = directory.with_name(f"{directory.name}-damaged-{seed}")
    shutil.copytree(directory, target)
    log = sorted((target / "orders-none-0").glob("*.log"))[0]
    size = log.stat().st_size
    flip(log, chance.randrange(size // 4, size // 2), chance.randrange(8))
    index = sorted((target / "users-0").glob("*.index"))[0]
    lies = index.read_bytes()
    entry = 8 * chance.randrange(2, len(lies) // 8 - 1)
    position = int.from_bytes(lies[entry + 4 : entry + 8], "big") + chance.randrange(1, 50)
    put(index, entry + 4, position.to_bytes(4, "big"))
    return target
