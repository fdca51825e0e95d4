"""Whole log directories, and what brokers leave behind: killed, cleaning, moving, deleting, straying."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.cases import top_level_files, write_case
from tests.kafka.making.logs import START_MS, create, short, small_segments, wait_until_cleaned

_NOTE = "\n\nRegenerate with `python -m tests.kafka.make_fixtures dirs`."


def _records(count: int, keys: int = 5) -> list[list[Record]]:
    """One batch for each."""
    return [[Record(b"k%d" % (n % keys), b"%d " % n * 10, (), START_MS + n)] for n in range(count)]


def _compacting(version: str) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "min.compaction.lag.ms": str(2**40),
        **small_segments(version, 700),
    }


def make_clean(version: str) -> None:
    """A small log directory after a clean stop: every checkpoint has something in it."""
    with Broker(version, {"metadata.max.idle.interval.ms": "0"}) as broker:
        broker.client.create_topic("a.topic-1", partitions=2)
        create(broker, "trimmed")
        create(broker, "compacted", {**_compacting(version), "min.compaction.lag.ms": "0"})
        for topic in ("a.topic-1", "trimmed", "compacted"):
            broker.client.produce_steps(topic, _records(12))
        broker.client.run_group("group", ["trimmed"], 12)
        broker.client.delete_records("trimmed", 5)
        wait_until_cleaned(broker, "compacted")
        broker.stop()
        origin = (
            f"The whole log directory of an Apache Kafka {version} broker (KRaft, one node) after a clean "
            f"stop, without `.lock`.{_NOTE}"
        )
        write_case("log-dir", f"clean-{short(version)}", {"logs1": broker.log_dir}, origin)


def make_killed(version: str) -> None:
    """Indexes that were never trimmed, and a preallocated log with zeros behind its batches."""
    with Broker(version, {"log.index.size.max.bytes": "120"}) as broker:
        said = create(broker, "untrimmed", {"index.interval.bytes": "100"})
        config = {"preallocate": "true", **small_segments(version, 2000), "index.interval.bytes": "100"}
        said += "\n" + create(broker, "preallocated", config)
        for topic in ("untrimmed", "preallocated"):
            broker.client.produce_steps(topic, _records(9))
        time.sleep(6)  # until the high watermarks are checkpointed
        broker.kill()
        folders = [broker.log_dir / f"{topic}-0" for topic in ("untrimmed", "preallocated")]
        origin = (
            f"Written by an Apache Kafka {version} broker with `log.index.size.max.bytes=120`, then SIGKILL."
            f"\n\n{said}{_NOTE}"
        )
        write_case("index", f"killed-{short(version)}", [*folders, *top_level_files(broker.log_dir)], origin)


def make_leftovers(version: str) -> None:
    """Directories deleted, moved and strayed, and segments deleted, as a stopped broker leaves them."""
    properties = {
        "metadata.max.idle.interval.ms": "0",
        "replica.fetch.max.bytes": "300",
        "replica.fetch.response.max.bytes": "300",
        "log.index.size.max.bytes": "120",
    }
    with Broker(version, properties, log_dirs=2) as broker:
        names = ["kept", "moving", "doomed", "strayed", "l" * 249]
        for topic in names:
            create(broker, topic, small_segments(version, 700) if topic == "kept" else {})
            broker.client.produce_steps(topic, _records(14))
        broker.stop()
        metadata = _folder(broker, "strayed") / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
        broker.start()
        _start_moving(broker, "moving")
        broker.client.delete_records("kept", 9)
        for topic in ("doomed", "l" * 249):
            broker.client.delete_topic(topic)
        for pattern, count in (("*-delete", 2), ("*-stray", 1), ("kept-0/*.log.deleted", 1)):
            wait_until(partial(_found, broker, pattern, count), pattern)
        broker.stop()
        origin = (
            f"The two log directories of an Apache Kafka {version} broker (KRaft, one node), stopped "
            "cleanly, without `.lock`. Before: two topics were deleted (one with the longest name there can "
            "be), one was moved between the directories with a throttle of 1 byte/s, records were deleted "
            "below the second segment, and `partition.metadata` of one was given another topic id while the "
            f"broker was down.{_NOTE}"
        )
        write_case("log-dir", f"leftovers-{short(version)}", broker.log_dirs, origin)


def _folder(broker: Broker, topic: str) -> Path:
    return next(folder / f"{topic}-0" for folder in broker.log_dirs if (folder / f"{topic}-0").exists())


def _found(broker: Broker, pattern: str, count: int) -> bool:
    return sum(len(list(folder.glob(pattern))) for folder in broker.log_dirs) >= count


def _start_moving(broker: Broker, topic: str) -> None:
    """Ask for a move that a throttle keeps from being finished."""
    throttle = {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}
    broker.java.call("config", type="BROKER", name="1", configs=throttle)
    target = next(folder for folder in broker.log_dirs if not (folder / f"{topic}-0").exists())
    broker.java.call("move", topic=topic, partition=0, dir=str(target))
    wait_until(lambda: _found(broker, "*-future/*.log", 1), "the future replica")
    time.sleep(1)


def make_cleaning(version: str) -> None:
    """Cleaners that could not rename what they wrote: `.cleaned` files, and a swap half done."""
    _stuck_cleaner(version, "cleaned", obstacle="00000000000000000014.log.swap")
    _stuck_cleaner(version, "swap", obstacle="00000000000000000014.log.deleted")


def _stuck_cleaner(version: str, left: str, *, obstacle: str) -> None:
    """No file can be renamed over a directory: the cleaner stops there as if it had been killed."""
    with Broker(version) as broker:
        _write_to_be_cleaned(broker)
        folder = broker.log_dir / "cleaning-0"
        (folder / obstacle / "in the way").mkdir(parents=True)
        broker.client.alter_config("cleaning", {"min.compaction.lag.ms": "0"})
        broker.wait(60)  # its only log directory is offline now
        shutil.rmtree(folder / obstacle)
        origin = (
            f"A compacted topic of an Apache Kafka {version} broker whose cleaner could not rename a file to "
            f"`{obstacle}` (a directory of that name was in the way; it is left out here). The broker took "
            f"its log directory offline and stopped, with `.{left}` files in place.{_NOTE}"
        )
        write_case("leftovers", f"{left}-{short(version)}", [folder], origin)


def _write_to_be_cleaned(broker: Broker) -> None:
    broker.client.create_topic("cleaning", {**_compacting(broker.version), "segment.index.bytes": "120"})
    broker.client.produce_steps("cleaning", _records(30, keys=12))


def make_dirs() -> None:
    """All of these, for the newest and the oldest release."""
    for version in (peers.NEWEST, peers.OLDEST):
        for make in (make_clean, make_killed, make_leftovers, make_cleaning):
            make(version)
