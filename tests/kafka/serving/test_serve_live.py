"""`serve --follow` beside a broker that writes: what its checkpoint has passed, clients can read."""

from __future__ import annotations

from functools import partial

import pytest

from tests.kafka.broker import Broker
from tests.kafka.consumers import kafka_python
from tests.kafka.librdkafka import Record, wait_until
from tests.serving import RawClient, served

pytestmark = pytest.mark.peer


def test_records_come_through_as_the_broker_takes_them(newest_broker: Broker) -> None:
    topic = "serve-live"
    newest_broker.client.create_topic(topic, {"internal.segment.bytes": "2000"})
    newest_broker.client.produce(topic, [Record(b"k", b"first")])
    with served("--follow", newest_broker.log_dir) as running, running.client() as client:
        assert "a broker is running on it" in running.stderr()
        for round_number in range(3):
            steps = [[Record(b"k", b"round %d" % round_number)] * 10 for _ in range(4)]
            newest_broker.client.produce_steps(topic, steps, linger_ms=5)
            end = newest_broker.client.end_offset(topic)
            reached = partial(_has_reached, client, topic, end)
            wait_until(reached, "the checkpoint, written every five seconds")
        ours = kafka_python(running.bootstrap, topic, 1, True)
        assert ours == kafka_python(newest_broker.bootstrap, topic, 1, True)
        assert len(ours) == 121


def _has_reached(client: RawClient, topic: str, end: int) -> bool:
    return client.offset(topic, -1) == end
