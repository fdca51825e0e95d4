"""Our log and a real broker side by side: the same bytes in, the same answers and the same files out.

Every batch goes to the broker over a plain socket and to our log; what the one refuses, the other must
refuse for the same reason. Then the broker is stopped, and the files are compared. At last it is started
on a log that we wrote.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kafkatool.engine.broker.producer_state import AppendOrigin
from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.log.loading import open_log
from kafkatool.engine.log.log_dir_writer import open_log_dir
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.log.reading import Isolation, offset_for_time, records
from kafkatool.format.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Codec,
    NewRecord,
    read_header,
    seal,
)
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.release import Release
from kafkatool.format.schema.control import write_end_marker
from kafkatool.format.state.partition_metadata import read_partition_metadata
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.broker_log import ERRORS
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.old_requests import old_requests
from tests.kafka.raw_produce import Appended, raw_produce
from tests.logs import content

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("log parity")]

NOW = 1_700_000_000_000
RECOVERING = re.compile(r"Recovering unflushed segment .* ours-0")
NOT_YET = (3, 5, 6)  # no such topic, no leader, not the leader
SEGMENT_BYTES = "segment.bytes"
TOPICS: dict[str, dict[str, str]] = {
    "small": {SEGMENT_BYTES: "1500", "index.interval.bytes": "200", "max.message.bytes": "700"},
    "tiny-index": {"segment.index.bytes": "50", "index.interval.bytes": "60"},
    "timed": {"segment.ms": "1500", "index.interval.bytes": "100"},
    "append-time": {"message.timestamp.type": "LogAppendTime", SEGMENT_BYTES: "2000"},
    "plain": {"compression.type": "uncompressed", "index.interval.bytes": "300"},
    "keyed": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
    "bounded": {"message.timestamp.before.max.ms": "3600000"},
}


@dataclass
class Story:
    """Batches as clients send them, by a few producers who keep to their sequences, mostly."""

    chance: random.Random
    sequences: dict[int, int] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)

    def batches(self, count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield self._strange() if self.chance.random() < 0.2 and self.sent else self._plain()

    def _plain(self) -> bytes:
        count = self.chance.randint(1, 4)
        producer = self.chance.choice([-1, -1, 1000, 1001, 70_000])
        first = -1 if producer < 0 else self.sequences.get(producer, 0)
        if producer >= 0:
            self.sequences[producer] = first + count
        rows = [
            NewRecord(b"k%d" % at, bytes(self.chance.randint(0, 60)), NOW + self.chance.randint(0, 3000))
            for at in range(count)
        ]
        data = write_batch(
            rows,
            codec=self.chance.choice([Codec.NONE, Codec.NONE, Codec.GZIP]),
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 3,
            base_sequence=first,
        )
        self.sent.append(data)
        return data

    def _strange(self) -> bytes:
        """Sent twice, damaged, out of order, too large, or against a rule."""
        last = self.sent[-self.chance.randint(1, min(8, len(self.sent)))]
        header, body = read_header(last), last[HEADER_SIZE:]
        row = NewRecord(b"k", b"v", NOW)
        return self.chance.choice(
            [
                last,
                last[:-1] + bytes([last[-1] ^ 1]),
                last + self._plain(),
                b"\0\0\0\0\0\0\0\1" + last[8:],
                seal(header._replace(records_count=9), body),
                seal(header._replace(attributes=header.attributes | CONTROL_MASK), body),
                seal(header._replace(attributes=header.attributes | TIMESTAMP_TYPE_MASK), body),
                seal(header._replace(max_timestamp=7), body),
                write_batch([row], producer_id=1000, producer_epoch=3, base_sequence=999_999),
                write_batch([row], producer_id=1000, producer_epoch=2, base_sequence=0),
                write_batch([NewRecord(None, b"no key", NOW)]),
                write_batch([NewRecord(b"k", bytes(900), NOW)]),
                write_batch([NewRecord(b"k", b"no time", -1)]),
                write_batch([NewRecord(b"k", b"early", 5), NewRecord(None, b"", NOW)]),
            ]
        )


def release_settings(settings: dict[str, str], version: str) -> dict[str, str]:
    """From 4.1 on small segments have a name of their own."""
    if Release.parse(version) < Release.V4_1 or SEGMENT_BYTES not in settings:
        return settings
    return {("internal." if name == SEGMENT_BYTES else "") + name: text for name, text in settings.items()}


def produce(broker: Broker, topic: str, batch: bytes, version: int = 7) -> Appended:
    """The broker's answer, once it knows that it leads."""
    answers: list[Appended] = []

    def answered() -> bool:
        answers.append(raw_produce(broker.bootstrap, topic, batch, version=version))
        return answers[-1].error not in NOT_YET

    wait_until(answered, f"the broker to lead {topic}")
    return answers[-1]


def our_answer(log: Log, batch: bytes, now_ms: int) -> tuple[int, int]:
    try:
        done = log.append_as_leader(batch, leader_epoch=0, now_ms=now_ms)
    except LogRefusal as error:
        return ERRORS[type(error)], -1
    assert done is not None
    return 0, done.first_offset


def append_times(directory: Path) -> Iterator[int]:
    """When the broker wrote each batch, from the batches themselves."""
    for path in sorted(directory.glob("*.log")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            header = read_header(data, at)
            yield header.max_timestamp
            at += header.size


@pytest.fixture(scope="module", params=[peers.NEWEST, pytest.param(peers.OLDEST, marks=pytest.mark.soak)])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker of our own: it is stopped and started again."""
    peers.require_kafka(request.param)
    with Broker(request.param) as running:
        yield running


def test_the_same_bytes_give_the_same_answers_and_the_same_files(broker: Broker, tmp_path: Path) -> None:
    answers: dict[str, list[tuple[bytes, int, int]]] = {}
    for name, settings in TOPICS.items():
        broker.client.create_topic(name, release_settings(settings, broker.version))
        answers[name] = []
        for batch in Story(random.Random(name)).batches(120):
            error, offset = produce(broker, name, batch)
            answers[name].append((batch, error, offset))
    old_answers = send_as_old_clients(broker)
    broker.stop()
    for name, settings in TOPICS.items():
        config = read_config(release_settings(settings, broker.version), Release.parse(broker.version))
        theirs, ours = broker.log_dir / f"{name}-0", tmp_path / f"{name}-0"
        times = append_times(theirs)
        log = open_log(Disk(), str(ours), config, now_ms=NOW)
        log.become_leader(0)
        for number, (batch, error, offset) in enumerate(answers[name]):
            is_new = error == 0 and offset == log.log_end_offset
            now_ms = next(times) if is_new and config.uses_append_time else _wall_clock(theirs)
            assert our_answer(log, batch, now_ms) == (error, offset), (name, number)
        log.close()
        assert content(ours) == content(theirs), name
        assert any(error for _, error, _ in answers[name]), name
    assert len(list((tmp_path / "tiny-index-0").glob("*.log"))) > 3
    check_old_clients(broker, old_answers, tmp_path)


def _wall_clock(directory: Path) -> int:
    """About when the broker worked."""
    return int((directory / segment_file(0, ".log")).stat().st_mtime * 1000)


OLD_CLIENTS = {
    "old-plain": {SEGMENT_BYTES: "1500", "index.interval.bytes": "200"},
    "old-append-time": {"message.timestamp.type": "LogAppendTime"},
    "old-zstd": {"compression.type": "zstd"},
}
OLD_REQUESTS = [data for magic in (0, 1) for data in old_requests(magic, [Codec.GZIP])]


def send_as_old_clients(broker: Broker) -> dict[str, list[Appended]]:
    """Messages of magic 0 and 1, to 3.9 with the requests of their time; the others no longer know those."""
    version = 2 if takes_old_messages(broker) else 7
    answers = {}
    for name, settings in OLD_CLIENTS.items():
        broker.client.create_topic(name, release_settings(settings, broker.version))
        answers[name] = [produce(broker, name, data, version) for data in OLD_REQUESTS]
    return answers


def takes_old_messages(broker: Broker) -> bool:
    return Release.parse(broker.version) < Release.V4_0


def check_old_clients(broker: Broker, answers: dict[str, list[Appended]], root: Path) -> None:
    for name, settings in OLD_CLIENTS.items():
        theirs, ours = broker.log_dir / f"{name}-0", root / f"{name}-0"
        if not takes_old_messages(broker):
            assert {answer.error for answer in answers[name]} == {87}
            continue
        config = read_config(release_settings(settings, broker.version), Release.parse(broker.version))
        times = append_times(theirs)
        log = open_log(Disk(), str(ours), config, now_ms=_wall_clock(theirs))
        log.become_leader(0)
        for data, answer in zip(OLD_REQUESTS, answers[name], strict=True):
            is_timed = answer.error == 0 and config.uses_append_time
            found = our_answer(log, data, next(times) if is_timed else _wall_clock(theirs))
            assert found == answer or (answer.error == -1 and found[0] > 0), (name, answer, found)
        log.close()
        assert content(ours) == content(theirs), name
        assert [answer.error for answer in answers[name]].count(0) > 15


def write_our_log(log: Log) -> None:
    """Plain, idempotent and transactional batches; transactions committed, aborted and left open."""
    sequences: dict[int, int] = {}
    for number in range(40):
        producer = 500 + number % 4
        rows = [NewRecord(b"k%d" % number, b"value %d" % at, NOW + 10 * number) for at in range(3)]
        first = sequences.get(producer, 0)
        sequences[producer] = first + len(rows)
        log.append_as_leader(
            write_batch(
                rows,
                codec=Codec(number % 5),
                producer_id=producer,
                producer_epoch=0,
                base_sequence=first,
                attributes=TRANSACTIONAL_MASK if producer != 503 else 0,
            ),
            leader_epoch=0,
            now_ms=NOW,
        )
        if number % 3 == 2 and producer != 503 and number < 36:
            key, value = write_end_marker(number % 2 == 0, 0)
            end = write_batch(
                [NewRecord(key, value, NOW + 10 * number)],
                producer_id=producer,
                producer_epoch=0,
                attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
            )
            log.append_as_leader(end, leader_epoch=0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)


def test_a_broker_serves_what_we_wrote_and_has_nothing_to_say(broker: Broker, tmp_path: Path) -> None:
    if not broker.running:
        broker.restart()
    settings = release_settings({SEGMENT_BYTES: "900", "index.interval.bytes": "200"}, broker.version)
    broker.client.create_topic("ours", settings)
    broker.stop()
    directory = broker.log_dir / "ours-0"
    topic_id = read_partition_metadata((directory / "partition.metadata").read_bytes()).topic_id
    shutil.rmtree(directory)
    config = read_config(settings, Release.parse(broker.version))
    with open_log_dir(Disk(), str(broker.log_dir), now_ms=NOW, offline=True) as log_dir:
        log = log_dir.open_log("ours", 0, config, now_ms=NOW, topic_id=topic_id)
        write_our_log(log)
        log.high_watermark = log.log_end_offset
        expected = {
            level: [Record(row.key, row.value, (), row.timestamp_ms) for row in records(log, 0, level)]
            for level in (Isolation.LOG_END, Isolation.COMMITTED)
        }
        times = {at: visible_offset(log, at) for at in (NOW - 1, NOW, NOW + 105, NOW + 390, NOW + 391)}
        assert log.last_stable_offset < log.log_end_offset
        assert any(segment.aborted() for segment in log.segments)
    before = content(directory)
    for kill in (False, True):
        said = served_without_a_word(broker, expected, times)
        assert "since clean shutdown file was found" in said
        assert not RECOVERING.search(said)
        broker.kill() if kill else broker.stop()
    # The killed broker's next start walks the log, and finds it as it was.
    assert RECOVERING.search(served_without_a_word(broker, expected, times))
    broker.stop()
    after = content(directory)
    assert {name: after[name] for name in before if name != "leader-epoch-checkpoint"} == {
        name: data for name, data in before.items() if name != "leader-epoch-checkpoint"
    }


def visible_offset(log: Log, time_ms: int) -> int | None:
    """What a consumer is told that reads committed records only, as librdkafka's do."""
    found = offset_for_time(log, time_ms)
    return None if found is None or found.offset >= log.last_stable_offset else found.offset


def served_without_a_word(
    broker: Broker, expected: dict[Isolation, list[Record]], times: dict[int, int | None]
) -> str:
    """Start the broker, read everything, and look for warnings about the topic; all that it said."""
    seen = len(broker.log_file.read_bytes())
    broker.start()
    everything, committed = expected[Isolation.LOG_END], expected[Isolation.COMMITTED]
    consume = broker.client.consume
    assert consume("ours", len(everything), isolation_level="read_uncommitted") == everything
    assert consume("ours", len(committed), isolation_level="read_committed") == committed
    assert broker.client.offsets_for_times("ours", list(times)) == list(times.values())
    said = broker.log_file.read_bytes()[seen:].decode(errors="replace")
    warnings = [line for line in said.splitlines() if "WARN" in line or "ERROR" in line]
    assert [line for line in warnings if "ours" in line or "log" in line.lower()] == []
    return said
