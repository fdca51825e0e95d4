"""The peer itself: what a broker was given comes back, from both clients."""

from __future__ import annotations

import pytest

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record

pytestmark = pytest.mark.peer

RECORDS = [
    Record(b"key", b"value", (("h", b"1"), ("h", None), ("", b"")), 1_700_000_000_000),
    Record(None, b"", (), 1_700_000_000_001),
    Record(b"", None, (), 1_700_000_000_002),
]


@pytest.mark.soak
def test_what_librdkafka_produced_the_java_client_consumes(newest_broker: Broker) -> None:
    newest_broker.client.create_topic("to-java")
    newest_broker.client.produce("to-java", RECORDS, compression_codec="zstd")
    assert newest_broker.java.consume("to-java", len(RECORDS), group_id="to-java") == RECORDS


@pytest.mark.soak
def test_what_the_java_client_produced_librdkafka_consumes(newest_broker: Broker) -> None:
    newest_broker.client.create_topic("to-librdkafka")
    newest_broker.java.produce("to-librdkafka", [RECORDS], compression_type="snappy")
    assert newest_broker.client.consume("to-librdkafka", len(RECORDS)) == RECORDS


def test_only_committed_transactions_are_read(newest_broker: Broker) -> None:
    newest_broker.client.create_topic("txn")
    newest_broker.client.transaction("txn", [RECORDS[:1]], transactional_id="a", commit=False)
    script = [("begin", None), ("send", RECORDS[1:]), ("commit", None)]
    newest_broker.java.transactions("txn", script, transactional_id="b")
    assert newest_broker.client.consume("txn", 2, isolation_level="read_committed") == RECORDS[1:]


def test_a_killed_broker_leaves_no_marker_and_a_stopped_one_does() -> None:
    peers.require_kafka(peers.NEWEST)
    with Broker(log_dirs=2) as broker:
        broker.client.create_topic("t", partitions=2)
        broker.kill()
        assert [(folder / ".kafka_cleanshutdown").exists() for folder in broker.log_dirs] == [False, False]
        broker.restart({"log.index.size.max.bytes": "4096"})
        broker.client.produce("t", RECORDS, partition=1)
        assert broker.client.end_offset("t", 1) == len(RECORDS)
        broker.stop()
        assert [(folder / ".kafka_cleanshutdown").exists() for folder in broker.log_dirs] == [True, True]
