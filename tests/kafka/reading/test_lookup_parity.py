"""lookup answers times and offsets as the broker itself does."""

from __future__ import annotations

import json
import random

import pytest

from tests.cli import run
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record
from tests.logs import TIME

pytestmark = pytest.mark.peer


def test_times_are_answered_as_the_broker_answers_them(any_broker: Broker) -> None:
    topic = "lookup"
    small = {"segment.bytes": "1048576", "index.interval.bytes": "200"}
    any_broker.client.create_topic(topic, small)
    dice = random.Random(7)
    stamps = [TIME + 10 * at + dice.randrange(-400, 400) for at in range(300)]
    steps = [
        [Record(b"k", b"v" * 5000, timestamp_ms=stamp) for stamp in stamps[at : at + 3]]
        for at in range(0, len(stamps), 3)
    ]
    any_broker.client.produce_steps(topic, steps)
    directory = str(any_broker.log_dir / f"{topic}-0")
    targets = [TIME - 1000, *dice.sample(range(TIME - 400, TIME + 3400), 60), TIME + 9999]
    expected = any_broker.client.offsets_for_times(topic, targets)
    assert None in expected
    for target, theirs in zip(targets, expected, strict=True):
        ours = run("lookup", "--format", "ndjson", "--time", str(target), directory)
        found = json.loads(ours.stdout)["offset"] if ours.stdout else None
        assert found == theirs, target
