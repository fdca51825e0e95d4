"""Whose a producer id is: what the partitions of `__transaction_state` on a disk say of transactional ids.

All records of a transactional id are in one partition, and the newest of them counts; a tombstone takes the
id away. A broker holds all of these in memory too, and more of each.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from kafkatool.engine.batches.damage import Damage, FindingClass
from kafkatool.engine.batches.scan import Batch, BatchRun, scan_runs
from kafkatool.engine.cluster.broker_dirs import NearbyLogDirs
from kafkatool.engine.cluster.view import ClusterView, read_cluster_view
from kafkatool.engine.directory.log_dir import LogDir, Partition, PartitionState
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import KafkatoolError
from kafkatool.format.batch import CONTROL_MASK, MAX_INT32, BatchHeader
from kafkatool.format.columns import RecordColumns, RecordDecoder
from kafkatool.format.names import TopicPartition
from kafkatool.format.release import Release
from kafkatool.format.schema import Decoder, decode_row

TOPIC = "__transaction_state"
DEFAULT_PARTITIONS = 50
"""As `transaction.state.log.num.partitions` is by default, where no metadata says how many there are."""
UNFINISHED = (FindingClass.TORN_TAIL, FindingClass.ZERO_FILLED, FindingClass.IN_FLIGHT)
"""How a log ends that is being written, or that no broker has closed: nothing is lost with these."""
# Far more than a cluster has. Those that are met later are not taken, so that no log can fill the memory.
MOST_IDS = 1_000_000


class TransactionalId(NamedTuple):
    """The newest that is known of a transactional id."""

    name: str
    producer_epoch: int
    state: str
    last_update_ms: int
    producer_id: int = -1
    timeout_ms: int = -1
    start_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    """Those of its transaction, until the coordinator knows that all have their markers."""
    version: int = 0
    """The protocol of its last transaction: from 2 on every transaction has an epoch of its own."""

    @property
    def is_two_phase(self) -> bool:
        """Whether only its own client ends it: a coordinator never aborts such a one for its age."""
        return self.timeout_ms == MAX_INT32


class KnownIds(NamedTuple):
    """What some partitions of `__transaction_state` hold."""

    ids: dict[int, TransactionalId]
    """By producer id."""
    whole: frozenset[int]
    """The partitions of which everything was read: what they do not have is not there."""


class CoordinatorState(NamedTuple):
    """What the coordinators' partitions on some disks know."""

    ids: dict[int, TransactionalId]
    missing: tuple[int, ...]
    """Partitions of `__transaction_state` that are not here, not whole, or from a replica out of sync."""
    release: Release | None = None
    """As the cluster's metadata says; the brokers may be newer."""


class TransactionalIds:
    """Looked up by producer id. Nothing is read before somebody asks, and the same directories once.

    Among `paths` may be the configurations of brokers, which name more log directories.
    """

    def __init__(self, log_dirs: Sequence[LogDir], paths: Sequence[str], guest: Guest) -> None:
        self._nearby, self._guest = NearbyLogDirs(log_dirs, paths, guest), guest
        self._read: dict[frozenset[str], CoordinatorState] = {}

    def log_dirs_near(self, log_dir: LogDir) -> list[LogDir]:
        """A log directory and the others of its cluster and its broker."""
        return self._nearby.of(log_dir)

    def near(self, log_dir: LogDir) -> CoordinatorState:
        """All that a log directory and the others of its cluster and its broker know."""
        log_dirs = self.log_dirs_near(log_dir)
        key = frozenset(os.path.realpath(one.path) for one in log_dirs)
        if key not in self._read:
            self._read[key] = read_coordinator_state(log_dirs, self._guest)
        return self._read[key]


def read_coordinator_state(log_dirs: Sequence[LogDir], guest: Guest) -> CoordinatorState:
    """What the coordinators of these directories know, and which of their partitions are not here."""
    known = read_transactional_ids((one for log_dir in log_dirs for one in log_dir.of_topic(TOPIC)), guest)
    cluster = read_cluster_view([one for log_dir in log_dirs for one in log_dir.metadata], guest)
    in_sync = {number for number in known.whole if _is_in_sync(number, log_dirs, cluster)}
    numbers = {number for topic_id, number in cluster.partitions if cluster.topic_ids.get(topic_id) == TOPIC}
    missing = sorted((numbers or set(range(DEFAULT_PARTITIONS))) - in_sync)
    return CoordinatorState(known.ids, tuple(missing), cluster.release)


def _is_in_sync(number: int, log_dirs: Sequence[LogDir], cluster: ClusterView) -> bool:
    """Whether one of the copies here is of a node in sync; where nobody knows, they are taken to be."""
    replicas = cluster.replicas_of(TOPIC, None, number)
    holders = [
        None if one.meta is None else one.meta.node_id
        for one in log_dirs
        if any(each.partition == number for each in one.of_topic(TOPIC))
    ]
    return replicas is None or any(node is None or node in replicas.isr for node in holders)


def read_transactional_ids(partitions: Iterable[Partition], guest: Guest) -> KnownIds:
    """By producer id, what the transaction state among these partitions holds; damage is passed over.

    Of several copies of a partition the one that reaches furthest counts. A producer id that a transactional
    id has given up, or is about to take, leads to it too where nobody else has it.
    """
    copies: dict[int | None, list[Partition]] = defaultdict(list)
    for partition in partitions:
        if partition.topic == TOPIC and partition.state is PartitionState.ACTIVE:
            copies[partition.partition].append(partition)
    found: dict[int, TransactionalId] = {}
    others: dict[int, TransactionalId] = {}
    whole: set[int] = set()
    for number, alike in copies.items():
        newest = max((newest_values(one, guest) for one in alike), key=lambda read: read.last_offset)
        if newest.is_whole and number is not None:
            whole.add(number)
        for key, value in newest.values.items():
            _take(key, value, found, others)
    if len(found) >= MOST_IDS:
        whole.clear()  # some were not taken: that an id is not among these proves nothing
    return KnownIds({**others, **found}, frozenset(whole))


def _take(
    key: bytes, value: bytes, found: dict[int, TransactionalId], others: dict[int, TransactionalId]
) -> None:
    decoded = decode_row(Decoder.TRANSACTION_LOG, key, value)
    names, row = cast(dict[str, Any], decoded.get("key") or {}), cast(dict[str, Any], decoded.get("value"))
    if not row or len(found) >= MOST_IDS:
        return
    one = TransactionalId(
        str(names["transactionalId"]),
        row["producerEpoch"],
        str(row.get("transactionStatusName", row["transactionStatus"])),
        row["transactionLastUpdateTimestampMs"],
        row["producerId"],
        row["transactionTimeoutMs"],
        row["transactionStartTimestampMs"],
        _partitions(row),
        row.get("clientTransactionVersion", 0),
    )
    found[row["producerId"]] = one
    for field in ("previousProducerId", "nextProducerId"):
        if row.get(field, -1) >= 0:
            others[row[field]] = one


def _partitions(row: dict[str, Any]) -> frozenset[TopicPartition]:
    listed = row.get("transactionPartitions") or ()
    return frozenset((str(one["topic"]), number) for one in listed for number in one["partitionIds"])


class NewestValues(NamedTuple):
    """The newest value of each key, which are few of all records."""

    last_offset: int
    values: dict[bytes, bytes]
    is_whole: bool
    """Whether no record was passed over because of damage; what was being written does not count."""


def newest_values(partition: Partition, guest: Guest) -> NewestValues:
    """What a compacted partition comes to."""
    last_offset, values = -1, dict[bytes, bytes]()
    decoder, losses = RecordDecoder(), list[str]()
    for segment in partition.live_segments:
        if segment.log is None:
            continue
        for columns in record_columns(segment.log.path, decoder, guest, losses):
            if len(columns):
                last_offset = max(last_offset, int(columns.offset[-1]))
                _update(values, columns)
    return NewestValues(last_offset, values, not losses)


def record_columns(
    path: str, decoder: RecordDecoder, guest: Guest, losses: list[str] | None = None
) -> Iterator[RecordColumns]:
    """The records of a log, those of good batches; a log that cannot be read ends where that is.

    What could not be read is said in `losses`.
    """
    losses = [] if losses is None else losses
    try:
        with open_source(path, guest) as source:
            for item in scan_runs(source):
                if isinstance(item, BatchRun):
                    pieces = decoder.decode(item.window, item.start, item.end, item.position)
                elif isinstance(item, Batch) and item.is_valid and isinstance(item.header, BatchHeader):
                    # Too large for a window; what is too large for the memory is empty here.
                    window = bytes(item.data or b"")
                    pieces = decoder.decode(window, 0, len(window), item.position)
                else:
                    if not (isinstance(item, Damage) and item.kind in UNFINISHED):
                        losses.append(f"{path} at byte {item.position}")
                    continue
                for piece in pieces:
                    if isinstance(piece, RecordColumns):
                        yield piece
                    else:
                        losses.append(path)
    except (FileNotFoundError, KafkatoolError) as error:
        losses.append(f"{path}: {error}")


def _update(values: dict[bytes, bytes], columns: RecordColumns) -> None:
    data, attributes = columns.data, columns.batches.attributes[columns.batch]
    # As lists: numpy's own numbers are slow one by one.
    places = (columns.key_start, columns.key_size, columns.value_start, columns.value_size)
    rows = zip(attributes.tolist(), *(column.tolist() for column in places), strict=True)
    for flags, key_start, key_size, value_start, value_size in rows:
        if flags & CONTROL_MASK or key_size < 0:
            continue
        key = bytes(data[key_start : key_start + key_size])
        if value_size < 0:
            values.pop(key, None)
        elif key in values or len(values) < MOST_IDS:
            values[key] = bytes(data[value_start : value_start + value_size])
