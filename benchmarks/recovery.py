"""Measure how long a killed broker takes to recover a segment, from its own log."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from benchmarks.measure import Sample
from kafkatool.engine.broker.derived_files import index_segment
from kafkatool.engine.files.source import Guest, open_source
from tests.kafka.broker import Broker
from tests.kafka.peers import NEWEST

TOPIC = "measured"
_LOADED = re.compile(rb"Completed load of .*topic=measured, partition=0.* in (\d+)ms")


class MeasuredBroker(Broker):
    """A broker started as Kafka's own script does: the tests' faster start has flags that slow a scan."""

    heap = "1g"

    def _java(self, *words: str) -> list[str]:
        slow = {"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
        return [word for word in super()._java(*words) if word not in slow]


class RecoveryScan:
    """A broker whose topic holds one given segment, killed and restarted for each measurement."""

    def __init__(self, log: Path) -> None:
        self._broker = MeasuredBroker(NEWEST)
        self._broker.start()
        self._broker.client.create_topic(TOPIC)
        self._partition = self._broker.log_dir / f"{TOPIC}-0"
        while not (self._partition / "partition.metadata").exists():
            time.sleep(0.05)
        self._broker.kill()
        self._place(log)

    def _place(self, log: Path) -> None:
        """Write the segment with good indexes: without them a broker scans twice."""
        target = self._partition / log.name
        shutil.copyfile(log, target)
        with open_source(log, Guest(cache_keep=True)) as source:
            built = index_segment(source, 0, 4096)
        target.with_suffix(".index").write_bytes(built.offset_entries)
        target.with_suffix(".timeindex").write_bytes(built.time_entries)

    def run(self) -> Sample:
        """Start the broker; return the time that loading the partition took."""
        seen = self._broker.log_file.stat().st_size
        self._broker.start()
        self._broker.kill()
        said = self._broker.log_file.read_bytes()[seen:]
        found = _LOADED.search(said)
        if found is None or b"Recovering unflushed segment" not in said:
            raise SystemExit("the broker did not recover the segment")
        return Sample(int(found[1]) / 1000, 0)

    def close(self) -> None:
        self._broker.close()
