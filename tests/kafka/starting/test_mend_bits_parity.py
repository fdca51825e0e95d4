"""A bit flips in the log of a broker that is down; `recover --mend-bits` brings every record back.

One topic, a partition for every place of a bit, with a codec each by turns. Whoever starts the broker without
mending loses records; after mending it serves all that it ever acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkatool.format.batch import HEADER_SIZE
from tests.cli import Row, Run, run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Placed, Record
from tests.kafka.making.logs import small_segments
from tests.kafka.recover_damages import Killed
from tests.log_dirs import read_tree
from tests.mutations import flip

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("recover")]

TOPIC = "flipped"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Place(NamedTuple):
    """A bit: of which segment and batch, and where in that."""

    segment: int
    batch: int
    byte: Callable[[int], int]
    bit: int


PLACES = {
    "the first batch of the log": Place(0, 0, lambda size: size - 3, 1),
    "a body in a closed segment": Place(1, 1, lambda size: size // 2 + HEADER_SIZE // 2, 4),
    "a length": Place(1, 1, lambda size: 11, 3),
    "a length that reaches beyond the file": Place(1, 1, lambda size: 9, 6),
    "a checksum": Place(1, 1, lambda size: 19, 7),
    "a magic that no consumer knows": Place(1, 1, lambda size: 16, 0),
    "a magic of an old format": Place(1, 1, lambda size: 16, 1),
    "a codec": Place(1, 1, lambda size: 22, 0),
    "a producer id": Place(1, 1, lambda size: 50, 0),
    "a count of records": Place(1, 1, lambda size: 60, 2),
    "the last batch of a closed segment": Place(1, -1, lambda size: size - 9, 6),
    "a body in the active segment": Place(-1, 0, lambda size: size - 3, 0),
    "the last batch of the log": Place(-1, -1, lambda size: size - 2, 5),
}


@pytest.fixture(scope="module")
def killed() -> Iterator[tuple[Broker, dict[int, list[Placed]]]]:
    """A broker, killed, and what it had acknowledged, by partition."""
    peers.require_kafka(peers.NEWEST)
    with Broker(peers.NEWEST, {"log.index.size.max.bytes": "12000"}) as broker:
        client = broker.client
        client.create_topic(TOPIC, small_segments(broker.version, 900), partitions=len(PLACES))
        for partition in range(len(PLACES)):
            steps = [[Record(b"k%d" % at, b"value %d " % at * 9) for at in range(3)]] * 12
            codec = CODECS[partition % len(CODECS)]
            client.produce_steps(TOPIC, steps, partition=partition, compression_type=codec)
        kept = client.consume_all(TOPIC, range(len(PLACES)))
        broker.kill()
        yield broker, kept


def flip_at(directory: Path, place: Place) -> None:
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    log = Killed(directory, bases)
    position, size = log.batches(place.segment)[place.batch]
    flip(log.file(place.segment, ".log"), position + place.byte(size), place.bit)


def logs(tree: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in tree.items() if name.endswith(".log") and name.startswith(TOPIC)}


def test_a_broker_serves_every_record_of_a_mended_log(
    killed: tuple[Broker, dict[int, list[Placed]]],
) -> None:
    broker, kept = killed
    whole = read_tree(broker.log_dir)
    for partition, place in enumerate(PLACES.values()):
        flip_at(broker.log_dir / f"{TOPIC}-{partition}", place)
    damaged = read_tree(broker.log_dir)
    assert sum(damaged[name] != data for name, data in logs(whole).items()) == len(PLACES)

    foretold = run("recover", "--format", "ndjson", str(broker.log_dir))
    lost = {row["partition"] for row in recoveries(foretold) if row["what"] in ("cut", "unreadable")}
    assert lost == set(range(len(PLACES)))

    words = ("recover", "--mend-bits", "--apply", "--offline", "--format", "ndjson")
    done = run(*words, str(broker.log_dir))
    assert done.exit_code == 0, done.stderr
    assert {row["partition"] for row in recoveries(done) if row["what"] == "mend"} == set(range(len(PLACES)))
    assert logs(read_tree(broker.log_dir)) == logs(whole)

    journal = done.of("plan")[0]["journal"]
    undone = run("recover", "--undo", journal, "--apply", "--offline")
    assert undone.exit_code == 0, undone.stderr
    assert read_tree(broker.log_dir) == damaged

    assert run(*words, str(broker.log_dir)).exit_code == 0
    broker.start()
    assert broker.client.consume_all(TOPIC, range(len(PLACES)), check_crcs=True) == kept
    broker.kill()


def recoveries(done: Run) -> list[Row]:
    return [row for row in done.of("recovery") if row["topic"] == TOPIC]
