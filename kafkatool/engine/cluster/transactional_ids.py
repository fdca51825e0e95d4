"""Find the transactional id of a producer id in the partitions of `__transaction_state` on disk.

All records of a transactional id are in one partition, and the newest counts; a tombstone removes the id. A
broker holds all of these in memory too, and more of each.
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
"""The default of `transaction.state.log.num.partitions`, where no metadata has the number."""
UNFINISHED = (FindingClass.TORN_TAIL, FindingClass.ZERO_FILLED, FindingClass.IN_FLIGHT)
"""How a log ends that is being written, or was not closed by its broker: nothing is lost with these."""
# Far more than a cluster has. Any beyond are ignored, so that no log can fill the memory.
MOST_IDS = 1_000_000


class TransactionalId(NamedTuple):
    """The newest state of a transactional id."""

    name: str
    producer_epoch: int
    state: str
    last_update_ms: int
    producer_id: int = -1
    timeout_ms: int = -1
    start_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    """Partitions of its transaction, until the coordinator knows that all have their markers."""
    version: int = 0
    """Protocol of its last transaction: from 2 on, every transaction has an epoch of its own."""

    @property
    def is_two_phase(self) -> bool:
        """Whether only its own client ends it: a coordinator never aborts it for its age."""
        return self.timeout_ms == MAX_INT32


class KnownIds(NamedTuple):
    """The transactional ids in some partitions of `__transaction_state`."""

    ids: dict[int, TransactionalId]
    """By producer id."""
    whole: frozenset[int]
    """Partitions that were read completely: an id that they lack does not exist there."""


class CoordinatorState(NamedTuple):
    """What the coordinators' partitions on some disks contain."""

    ids: dict[int, TransactionalId]
    missing: tuple[int, ...]
    """Partitions of `__transaction_state` that are not here, not complete, or from an out-of-sync replica."""
    release: Release | None = None
    """The release in the cluster's metadata; the brokers may be newer."""


class TransactionalIds:
    """Transactional ids by producer id, read on demand, and once per set of directories.

    `paths` may include brokers' configurations, which name more log directories.
    """

    def __init__(self, log_dirs: Sequence[LogDir], paths: Sequence[str], guest: Guest) -> None:
        self._nearby, self._guest = NearbyLogDirs(log_dirs, paths, guest), guest
        self._read: dict[frozenset[str], CoordinatorState] = {}

    def log_dirs_near(self, log_dir: LogDir) -> list[LogDir]:
        """Return a log directory and the others of its cluster and its broker."""
        return self._nearby.of(log_dir)

    def near(self, log_dir: LogDir) -> CoordinatorState:
        """Return what is known in a log directory and the others of its cluster and its broker."""
        log_dirs = self.log_dirs_near(log_dir)
        key = frozenset(os.path.realpath(one.path) for one in log_dirs)
        if key not in self._read:
            self._read[key] = read_coordinator_state(log_dirs, self._guest)
        return self._read[key]


def read_coordinator_state(log_dirs: Sequence[LogDir], guest: Guest) -> CoordinatorState:
    """Return the coordinators' state in these directories, and which of their partitions are missing."""
    known = read_transactional_ids((one for log_dir in log_dirs for one in log_dir.of_topic(TOPIC)), guest)
    cluster = read_cluster_view([one for log_dir in log_dirs for one in log_dir.metadata], guest)
    in_sync = {number for number in known.whole if _is_in_sync(number, log_dirs, cluster)}
    numbers = {number for topic_id, number in cluster.partitions if cluster.topic_ids.get(topic_id) == TOPIC}
    missing = sorted((numbers or set(range(DEFAULT_PARTITIONS))) - in_sync)
    return CoordinatorState(known.ids, tuple(missing), cluster.release)


def _is_in_sync(number: int, log_dirs: Sequence[LogDir], cluster: ClusterView) -> bool:
    """Return whether a copy here is from an in-sync node; unknown nodes count as in sync."""
    replicas = cluster.replicas_of(TOPIC, None, number)
    holders = [
        None if one.meta is None else one.meta.node_id
        for one in log_dirs
        if any(each.partition == number for each in one.of_topic(TOPIC))
    ]
    return replicas is None or any(node is None or node in replicas.isr for node in holders)


def read_transactional_ids(partitions: Iterable[Partition], guest: Guest) -> KnownIds:
    """Return the transaction state in these partitions by producer id; damage is skipped.

    Of several copies of a partition, the one that reaches furthest counts. A producer id that a transactional
    id gave up, or is about to take, leads to it as well if no other has it.
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
        whole.clear()  # some were ignored: a missing id proves nothing
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
    """The newest value of each key: far fewer than all records."""

    last_offset: int
    values: dict[bytes, bytes]
    is_whole: bool
    """Whether no record was skipped because of damage; a tail being written does not count."""


def newest_values(partition: Partition, guest: Guest) -> NewestValues:
    """Return the newest value of each key in a compacted partition."""
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
    """Yield the records of a log's good batches, up to where it cannot be read.

    `losses` gets what could not be read.
    """
    losses = [] if losses is None else losses
    try:
        with open_source(path, guest) as source:
            for item in scan_runs(source):
                if isinstance(item, BatchRun):
                    pieces = decoder.decode(item.window, item.start, item.end, item.position)
                elif isinstance(item, Batch) and item.is_valid and isinstance(item.header, BatchHeader):
                    # Too large for a window; one too large for memory is empty here.
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
    # As lists: iterating over numpy values is slow.
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
