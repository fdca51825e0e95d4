"""A transaction that a client of a real broker left open is led back to its transactional id."""

from __future__ import annotations

import pytest

from tests.cli import run
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record

pytestmark = pytest.mark.peer


def test_a_transaction_left_open_is_named_by_its_transactional_id(any_broker: Broker) -> None:
    """Beside the running broker; another client's transaction, which has ended, is in the state as well."""
    topic, client = "left-open", any_broker.client
    client.create_topic(topic, {"cleanup.policy": "compact"})
    steps = [[Record(b"k", b"v")]]
    client.transaction(topic, steps, transactional_id="left-open-ended", commit=True)
    client.transaction(topic, steps, transactional_id="left-open-hangs", commit=None)
    done = run("compact", "--format", "ndjson", str(any_broker.log_dir / f"{topic}-0"))
    assert done.exit_code == 0, done.stderr
    (row,) = (row for row in done.rows if row["kind"] != "setting")
    (txn,) = row["open_transactions"]
    assert (txn["first_offset"], txn["transactional_id"]) == (2, "left-open-hangs")
