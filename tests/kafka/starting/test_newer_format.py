"""A directory that Kafka 4.4 formats: its first records are a snapshot, and an older broker may not start."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from kafkatool.format.batch import HEADER_SIZE, read_header, seal
from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker, BrokerFailedError

pytestmark = [pytest.mark.peer, pytest.mark.soak]

NAME = b"metadata.version"
SNAPSHOT = "00000000000000000000-0000000000.checkpoint"


def with_level(raw: bytes, level: int) -> bytes:
    """The batches of a file with another metadata.version in its record."""
    out, at = b"", 0
    while at < len(raw):
        header = read_header(raw[at : at + HEADER_SIZE])
        body = bytearray(raw[at + HEADER_SIZE : at + header.size])
        if (found := body.find(NAME)) >= 0:
            end = found + len(NAME)
            body[end : end + 2] = level.to_bytes(2, "big")
        out += seal(header, bytes(body))
        at += header.size
    return out


def format_as_newer(broker: Broker, level: int) -> Path:
    """Format its directory, and move the first records to where 4.4 has them."""
    broker.format()
    old = broker.log_dir / "bootstrap.checkpoint"
    snapshot = broker.log_dir / "__cluster_metadata-0" / SNAPSHOT
    snapshot.parent.mkdir()
    snapshot.write_bytes(with_level(old.read_bytes(), level))
    old.unlink()
    return snapshot


@pytest.mark.parametrize("version", [peers.OLDEST, peers.NEWEST])
def test_doctor_says_who_formatted_it_and_which_releases_do_not_start_on_it(version: str) -> None:
    peers.require_kafka(version)
    with closing(Broker(version)) as broker:
        snapshot = format_as_newer(broker, 33)
        told = run("doctor", "--format", "ndjson", str(broker.root / "server.properties"))
        notes = json.loads(told.stdout.splitlines()[-1])["notes"]
        said = f"{snapshot}: formatted by Kafka 4.4 or newer, with metadata.version 33"
        assert f"{said}: Kafka 4.2 and older do not start with it" in notes
        if version == peers.OLDEST:
            with pytest.raises(BrokerFailedError):
                broker.start()
        else:
            broker.start()
            broker.client.create_topic("t")
