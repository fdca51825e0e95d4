"""Tiered storage with the plugin of Kafka's test jars: `__remote_log_metadata`, the local index cache."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kafka import peers
from tests.kafka.broker import Broker
from tests.kafka.librdkafka import Record, wait_until
from tests.kafka.making.cases import write_case
from tests.kafka.making.logs import START_MS, short, small_segments

PROPERTIES = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "remote.log.metadata.manager.class.name": (
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
    ),
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "remote.log.manager.task.interval.ms": "500",
    "log.index.size.max.bytes": "600",
}


def make_tiered(version: str) -> None:
    """Copy segments away, read some back through their indexes, delete records and a whole topic."""
    broker = Broker(version, PROPERTIES, profiles=(peers.TIERED,))
    broker.properties["rsm.config.dir"] = str(broker.root / "remote")
    with broker:
        said = _fill(broker)
        broker.stop()
        origin = (
            f"Written by an Apache Kafka {version} broker (KRaft, one node) with the tiered-storage plugin "
            f"of its test jars (LocalTieredStorage), stopped cleanly.\n\n{said}\n\n"
            "Regenerate with `python -m tests.kafka.make_fixtures tiered`."
        )
        name = short(version)
        folders = [broker.log_dir / "__remote_log_metadata-0", broker.log_dir / "remote-log-index-cache"]
        write_case("remote-log-metadata", name, [*folders, broker.log_dir / "tiered-0"], origin)


def _fill(broker: Broker) -> str:
    config = {
        "remote.storage.enable": "true",
        "local.retention.ms": "1",
        "index.interval.bytes": "100",
        **small_segments(broker.version, 600),
    }
    for topic in ("tiered", "dropped"):
        broker.client.create_topic(topic, config)
        steps = [[Record(b"%d" % n, b"value %d" % n, (), START_MS + n)] for n in range(12)]
        broker.client.produce_steps(topic, steps)
        broker.client.transaction(topic, steps[:2], transactional_id=topic, commit=False)
        broker.client.produce_steps(topic, steps)
        _wait_until_only_the_active_segment_is_here(broker.log_dir / f"{topic}-0")
    broker.client.consume("tiered", 3, isolation_level="read_committed")
    wait_until(lambda: any((broker.log_dir / "remote-log-index-cache").glob("*.index")), "cached indexes")
    broker.client.delete_records("tiered", 8)
    broker.client.delete_topic("dropped")
    time.sleep(5)
    shown = " ".join(f"`{name}={value}`" for name, value in config.items())
    return (
        f"Topics `tiered` and `dropped`: {shown}. Single-record batches and an aborted transaction; all but "
        "the active segment copied and removed here; `tiered` read from offset 0, then its records below 8 "
        "deleted; `dropped` deleted."
    )


def _wait_until_only_the_active_segment_is_here(folder: Path) -> None:
    wait_until(lambda: len(list(folder.glob("*.log"))) == 1, f"{folder.name} to be copied away")
