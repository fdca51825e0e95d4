"""`cat -f` prints what kcat prints for the same template, record by record and byte by byte."""

from __future__ import annotations

import subprocess

import pytest

from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record

pytestmark = pytest.mark.peer

RECORDS = [
    Record(b"key", b"value", [("a", b"1"), ("b", None), ("a", b"")], 1_700_000_000_123),
    Record(None, None, [], 1_700_000_000_124),
    Record(b"\x00\xff", "à\n%s\\n".encode(), [("ö", b"\xff")], 1_700_000_000_125),
    Record(b"k" * 300, b"v" * 70_000, [], 1_700_000_000_126),
]
TEMPLATES = [
    "%s\\n",
    "%t [%p] at offset %o: key %k: %s\\n",
    "%K %S %T %h|",
    "%R%s",
    "100%% \\t\\r\\\\ \\x41\\n",
]


EMPTY = Record(b"", b"", [], 0)


@pytest.fixture(scope="module")
def broker(newest_broker: Broker) -> Broker:
    for topic, records in (("kcat", [*RECORDS, EMPTY]), ("kcat-null", RECORDS)):
        newest_broker.client.create_topic(topic)
        newest_broker.client.produce(topic, records)
    return newest_broker


# With -Z kcat writes NULL for what is empty too; we tell them apart.
@pytest.mark.parametrize(("topic", "null"), [("kcat", []), ("kcat-null", ["-Z"])])
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_prints_what_kcat_prints(
    broker: Broker, template: str, topic: str, null: list[str]
) -> None:
    kcat = [peers.require_program("kcat"), "-C", "-q", "-e", "-b", broker.bootstrap, "-t", topic, "-p", "0"]
    theirs = subprocess.run([*kcat, *null, "-f", template], capture_output=True, check=True, timeout=60)
    partition = str(broker.log_dir / f"{topic}-0")
    ours = run("cat", *null, "--high-watermark", "end", "-f", template, partition)
    assert ours.stdout == theirs.stdout
