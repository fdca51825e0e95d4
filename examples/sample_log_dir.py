"""Write a small log directory to try kafkatool on: the disk of a broker that lost power.

    python examples/sample_log_dir.py DIR

orders-0              two segments, indexes, and a segment that retention has just marked as deleted
payments-0            a committed and an aborted transaction, with a producer snapshot and a transaction index
clicks-0              one batch of every codec
clicks-1              damaged: a flipped bit in the middle, a torn batch at the end
__consumer_offsets-7  what the group "billing" has committed
returns-0....-delete  a topic that is being deleted

The bytes are the same every time, except that compression libraries may write clicks-0 differently.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.offset_index import write_entries as write_offset_index
from kafkatool.format.schema import Decoder, encode_record
from kafkatool.format.schema.control import write_end_marker
from kafkatool.format.state.checkpoint import (
    EpochStart,
    PartitionOffset,
    write_leader_epochs,
    write_offset_checkpoint,
)
from kafkatool.format.state.partition_metadata import PartitionMetadata, write_partition_metadata
from kafkatool.format.state.producer_snapshot import ProducerState, write_snapshot
from kafkatool.format.state.properties import MetaProperties, write_meta_properties
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.time_index import write_entries as write_time_index
from kafkatool.format.txn_index import AbortedTxn
from kafkatool.format.txn_index import write_entries as write_txn_index

START_MS = 1_772_355_600_000  # 2026-03-01T09:00:00Z
MINUTE_MS = 60_000
LEADER_EPOCH = 3
PREALLOCATED = 10 << 20  # the space that a broker reserves for each index of the segment it writes to


class Segment:
    """Collect the batches of a segment, and the index entries that point to them."""

    def __init__(self, base_offset: int, time_ms: int, index_every: int = 256) -> None:
        self.base_offset = self.offset = base_offset
        self.time_ms = time_ms
        self.log = bytearray()
        self._index_every = index_every
        self._unindexed = 0
        self._last_ms = time_ms
        self._positions: list[OffsetEntry] = []
        self._times: list[TimeEntry] = []

    def append(
        self,
        records: Iterable[tuple[bytes | None, bytes | None]],
        *,
        headers: tuple[tuple[bytes, bytes | None], ...] = (),
        codec: Codec = Codec.NONE,
        attributes: int = 0,
        producer: tuple[int, int] = (-1, -1),
    ) -> None:
        """Append a batch a minute after the last one, records a second apart; producer: (id, sequence)."""
        rows = [
            NewRecord(key, value, self.time_ms + 1000 * number, headers)
            for number, (key, value) in enumerate(records)
        ]
        batch = write_batch(
            rows,
            base_offset=self.offset,
            codec=codec,
            attributes=attributes,
            partition_leader_epoch=LEADER_EPOCH,
            producer_id=producer[0],
            producer_epoch=-1 if producer[0] == -1 else 0,
            base_sequence=producer[1],
        )
        last = self.offset + len(rows) - 1
        if self._unindexed > self._index_every:
            self._positions.append(OffsetEntry(last - self.base_offset, len(self.log)))
            self._times.append(TimeEntry(rows[-1].timestamp_ms, last - self.base_offset))
            self._unindexed = 0
        self.log += batch
        self._unindexed += len(batch)
        self.offset = last + 1
        self._last_ms = rows[-1].timestamp_ms
        self.time_ms += MINUTE_MS

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Append the marker that ends the producer's transaction."""
        marker = write_end_marker(committed, coordinator_epoch=0)
        self.append([marker], attributes=TRANSACTIONAL_MASK | CONTROL_MASK, producer=(producer_id, -1))

    def save(self, directory: Path, *, is_active: bool = True, suffix: str = "") -> None:
        """Write the log and its indexes; those of the active segment are preallocated, others complete."""
        last = TimeEntry(self._last_ms, self.offset - 1 - self.base_offset)
        if not is_active and self._times[-1:] != [last]:
            self._times.append(last)
        for extension, data in (
            (".log", bytes(self.log)),
            (".index", write_offset_index(self._positions)),
            (".timeindex", write_time_index(self._times)),
        ):
            path = directory / (segment_file(self.base_offset, extension) + suffix)
            path.write_bytes(data)
            if is_active and extension != ".log":
                entry_size = 8 if extension == ".index" else 12
                os.truncate(path, PREALLOCATED // entry_size * entry_size)


def write_orders(directory: Path) -> None:
    old = Segment(0, START_MS - 600 * MINUTE_MS)
    old.append([(b"order-1", b'{"item":"lamp","count":1}'), (b"order-2", b'{"item":"desk","count":1}')])
    old.append([(b"order-3", b'{"item":"chair","count":4}')])
    old.save(directory, is_active=False, suffix=".deleted")

    closed = Segment(3, START_MS)
    trace = ((b"trace-id", b"7f3a"), (b"source", b"web"))
    closed.append([(b"order-4", b'{"item":"shelf","count":2}'), (b"order-1", None)], headers=trace)
    closed.append([(None, b"no key"), (b"order-5", b"")])
    closed.append([(b"order-6", b'{"item":"lamp","count":3}')] * 3)
    closed.append([(b"order-7", '{"item":"table","note":"à l\'étage"}'.encode())])
    closed.save(directory, is_active=False)

    active = Segment(11, closed.time_ms)
    active.append([(b"order-8", b'{"item":"desk","count":1}'), (b"order-9", b"\x00\xff\xfe binary")])
    active.append([(b"order-4", b'{"item":"shelf","count":5}')])
    active.save(directory)


def write_payments(directory: Path) -> None:
    good, bad = 4000, 4001
    log = Segment(0, START_MS)
    log.append([(b"p-1", b"12.50"), (b"p-2", b"99.00")], attributes=TRANSACTIONAL_MASK, producer=(good, 0))
    log.append([(b"p-3", b"1000000.00")], attributes=TRANSACTIONAL_MASK, producer=(bad, 0))
    log.end_transaction(good, committed=True)
    log.end_transaction(bad, committed=False)
    log.save(directory)
    aborted = AbortedTxn(0, bad, first_offset=2, last_offset=4, last_stable_offset=5)
    (directory / segment_file(0, ".txnindex")).write_bytes(write_txn_index([aborted]))
    states = [
        ProducerState(good, 0, 1, 1, 1, START_MS + 2 * MINUTE_MS, 0, -1),
        ProducerState(bad, 0, 0, 2, 0, START_MS + 3 * MINUTE_MS, 0, -1),
    ]
    (directory / segment_file(log.offset, ".snapshot")).write_bytes(write_snapshot(states))


def write_clicks(directory: Path) -> None:
    log = Segment(0, START_MS)
    for codec in Codec:
        page = b'{"page":"/start","referrer":"/start","agent":"browser","codec":"%s"}' % codec.label.encode()
        log.append([(b"visitor-%d" % number, page) for number in range(4)], codec=codec)
    log.save(directory)


def write_damaged_clicks(directory: Path) -> None:
    log = Segment(0, START_MS)
    starts = []
    for visitor in range(5):
        starts.append(len(log.log))
        log.append([(b"visitor-%d" % visitor, b'{"page":"/cart"}'), (b"visitor-%d" % visitor, None)])
    log.log[starts[1] + 90] ^= 0x10
    del log.log[starts[4] + 70 :]
    log.save(directory)


def write_consumer_offsets(directory: Path) -> None:
    log = Segment(0, START_MS)
    for offset in (5, 11):
        value: dict[str, object] = {"offset": offset, "metadata": "", "commitTimestamp": log.time_ms}
        key: dict[str, object] = {"group": "billing", "topic": "orders", "partition": 0}
        log.append([encode_record(Decoder.OFFSETS, "OffsetCommit", 3, value, key)])
    log.save(directory)


def write_returns(directory: Path) -> None:
    log = Segment(0, START_MS)
    log.append([(b"order-2", b"broken")])
    log.save(directory)


PARTITIONS = {
    "orders-0": write_orders,
    "payments-0": write_payments,
    "clicks-0": write_clicks,
    "clicks-1": write_damaged_clicks,
    "__consumer_offsets-7": write_consumer_offsets,
    "returns-0.0b8e2f1c7d6a4e5f9a3b2c1d0e4f5a6b-delete": write_returns,
}
TOPIC_IDS = {
    "orders": "Tq7dJ0sWRnSkcXmYq0bV1A",
    "payments": "9uQxW2lzTfGv8hB3nM5kLw",
    "clicks": "aB4cD5eF6gH7iJ8kL9mN0Q",
    "__consumer_offsets": "Zx1Cv2Bn3Mq4We5Rt6Yu7A",
    "returns": "Lk9Jh8Gf7Ds6Aq5Wz4Xe3Q",
}


def write_log_dir(path: Path) -> None:
    """Write the whole log directory; raise FileExistsError instead of writing among other files."""
    path.mkdir(parents=True)
    for name, write in PARTITIONS.items():
        directory = path / name
        directory.mkdir()
        write(directory)
        topic_id = TOPIC_IDS[name.partition(".")[0].rpartition("-")[0]]
        (directory / "partition.metadata").write_bytes(
            write_partition_metadata(PartitionMetadata(0, topic_id))
        )
        (directory / "leader-epoch-checkpoint").write_bytes(
            write_leader_epochs([EpochStart(LEADER_EPOCH, 0)])
        )
    owner = MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg", 1, "J8mNqR5sTuV2wXyZ3aBcDg")
    (path / "meta.properties").write_bytes(write_meta_properties(owner))
    for name, ends in {
        "recovery-point-offset-checkpoint": {("orders", 0): 11, ("payments", 0): 0, ("clicks", 0): 0},
        "replication-offset-checkpoint": {("orders", 0): 14, ("payments", 0): 5, ("clicks", 0): 20},
        "log-start-offset-checkpoint": {("orders", 0): 3},
    }.items():
        entries = [PartitionOffset(topic, number, offset) for (topic, number), offset in ends.items()]
        (path / name).write_bytes(write_offset_checkpoint(entries))
    for file in path.rglob("*"):
        os.utime(file, (START_MS // 1000 + 3600,) * 2)


def write_picture(path: Path) -> None:
    """Write what kafka-topics.sh --describe would print while the broker of the sample is down."""
    whole = "Leader: 2\tReplicas: 1,2\tIsr: 2\tElr: \tLastKnownElr: "
    alone = "Leader: none\tReplicas: 1\tIsr: \tElr: 1\tLastKnownElr: 1"
    numbers = {"clicks": (0, 1), "orders": (0,), "payments": (0,), "__consumer_offsets": (7,)}
    lines = []
    for topic, partitions in numbers.items():
        lines.append(f"Topic: {topic}\tTopicId: {TOPIC_IDS[topic]}\tPartitionCount: {len(partitions)}")
        for number in partitions:
            standing = alone if topic.startswith("__") else whole
            lines.append(f"\tTopic: {topic}\tPartition: {number}\t{standing}")
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: sample_log_dir.py DIR")
    try:
        write_log_dir(Path(sys.argv[1]))
        write_picture(Path(f"{sys.argv[1]}-cluster.txt"))
    except FileExistsError:
        sys.exit(f"{sys.argv[1]} exists already")


if __name__ == "__main__":
    main()
