"""A real broker takes a log that `bench append` wrote for its own, and serves every record of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli import run
from tests.kafka import peers
from tests.kafka.broker import Broker

pytestmark = [pytest.mark.peer]


@pytest.mark.parametrize("codec", ["none"])
def test_a_broker_loads_and_serves_what_bench_wrote(tmp_path: Path, codec: str) -> None:
    peers.require_kafka(peers.NEWEST)
    options = ["--num-records", "20000", "--segment-size", "1M", "--codec", codec, "--no-limits", "--keep"]
    assert run("bench", "append", "--on-live-volume", *options, str(tmp_path / "bench")).exit_code == 0
    with Broker(peers.NEWEST) as broker:
        broker.client.create_topic("bench")
        broker.stop()
        directory = broker.log_dir / "bench-0"
        for path in directory.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in (tmp_path / "bench" / "bench-0").iterdir():
            shutil.copyfile(path, directory / path.name)
        seen = broker.log_file.stat().st_size
        broker.start()
        found = broker.client.consume("bench", 20_000)
        said = broker.log_file.read_bytes()[seen:].decode(errors="replace").splitlines()
    assert len({record.key for record in found}) == 20_000
    assert [line for line in said if ("WARN" in line or "ERROR" in line) and "bench-0" in line] == []
