"""Measure how long the cleaner of a broker takes for a partition, from its own log."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from benchmarks.measure import Sample
from benchmarks.recovery import TOPIC, MeasuredBroker
from tests.kafka.peers import NEWEST

_CLEANED = re.compile(
    rb"cleaned log measured-0 .*?([\d,.]+) MB of log processed in ([\d,.]+) seconds", re.DOTALL
)
_MOST_SECONDS = 120


class Cleaner:
    """A broker whose topic holds a given uncleaned partition, restarted for each measurement."""

    def __init__(self, partition: Path) -> None:
        self._source = partition
        self._broker = MeasuredBroker(NEWEST, {"log.cleaner.backoff.ms": "500"})
        self._broker.start()
        self._broker.client.create_topic(
            TOPIC, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        )
        self._partition = self._broker.log_dir / f"{TOPIC}-0"
        while not (self._partition / "partition.metadata").exists():
            time.sleep(0.05)
        self._broker.stop()

    def run(self) -> Sample:
        """Start the broker, wait until the log is clean, and return the time that its log gives for it."""
        self._place()
        seen = self._broker.log_file.stat().st_size
        self._broker.start()
        deadline = time.monotonic() + _MOST_SECONDS
        while (found := _CLEANED.search(self._broker.log_file.read_bytes()[seen:])) is None:
            if time.monotonic() > deadline:
                raise SystemExit("the broker did not clean the partition")
            time.sleep(0.2)
        self._broker.stop()
        return Sample(float(found[2].replace(b",", b"")), 0)

    def _place(self) -> None:
        """Restore the partition. Links are enough for logs: a broker never changes one that it cleans."""
        (self._broker.log_dir / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        for path in self._partition.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        logs = sorted(self._source.glob("*.log"))
        for path in self._source.iterdir():
            if path.suffix == ".log" and path != logs[-1]:
                _link(path, self._partition / path.name)
            else:
                shutil.copy2(path, self._partition / path.name)

    def close(self) -> None:
        self._broker.close()


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another volume
        shutil.copy2(source, target)
