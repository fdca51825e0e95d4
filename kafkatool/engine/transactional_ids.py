"""Whose a producer id is: what the partitions of `__transaction_state` on a disk say of transactional ids.

All records of a transactional id are in one partition, and the newest of them counts; a tombstone takes the
id away. A broker holds all of these in memory too, and more of each.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from kafkatool.engine.broker_dirs import NearbyLogDirs
from kafkatool.engine.logdir import LogDir, Partition, PartitionState
from kafkatool.engine.scan import Batch, Run, scan_runs
from kafkatool.engine.source import Guest, open_source
from kafkatool.errors import KafkatoolError
from kafkatool.format.batch import CONTROL_MASK, BatchHeader
from kafkatool.format.columns import RecordColumns, RecordDecoder
from kafkatool.format.schema import Decoder, decode_row

TOPIC = "__transaction_state"
# Far more than a cluster has. Those that are met later are not taken, so that no log can fill the memory.
MOST_IDS = 1_000_000


class TransactionalId(NamedTuple):
    """The newest that is known of a transactional id."""

    name: str
    producer_epoch: int
    state: str
    last_update_ms: int


class TransactionalIds:
    """Looked up by producer id. Nothing is read before somebody asks, and the same directories once.

    Among `paths` may be the configurations of brokers, which name more log directories.
    """

    def __init__(self, log_dirs: Sequence[LogDir], paths: Sequence[str], guest: Guest) -> None:
        self._nearby, self._guest = NearbyLogDirs(log_dirs, paths, guest), guest
        self._read: dict[frozenset[str], dict[int, TransactionalId]] = {}

    def near(self, log_dir: LogDir) -> dict[int, TransactionalId]:
        """By producer id, all that a log directory and the others of its cluster and its broker know."""
        log_dirs = self._nearby.of(log_dir)
        key = frozenset(os.path.realpath(one.path) for one in log_dirs)
        if key not in self._read:
            partitions = [one for log_dir in log_dirs for one in log_dir.partitions]
            self._read[key] = read_transactional_ids(partitions, self._guest)
        return self._read[key]


def read_transactional_ids(partitions: Iterable[Partition], guest: Guest) -> dict[int, TransactionalId]:
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
    for alike in copies.values():
        _end, values = max((newest_values(one, guest) for one in alike), key=lambda read: read[0])
        for key, value in values.items():
            _take(key, value, found, others)
    return {**others, **found}


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
    )
    found[row["producerId"]] = one
    for field in ("previousProducerId", "nextProducerId"):
        if row.get(field, -1) >= 0:
            others[row[field]] = one


def newest_values(partition: Partition, guest: Guest) -> tuple[int, dict[bytes, bytes]]:
    """The last offset of a partition, and the newest value of each key, which are few of all records."""
    last_offset, values = -1, dict[bytes, bytes]()
    decoder = RecordDecoder()
    for segment in partition.live_segments:
        if segment.log is None:
            continue
        for columns in record_columns(segment.log.path, decoder, guest):
            if len(columns):
                last_offset = max(last_offset, int(columns.offset[-1]))
                _update(values, columns)
    return last_offset, values


def record_columns(path: str, decoder: RecordDecoder, guest: Guest) -> Iterator[RecordColumns]:
    """The records of a log, those of good batches; a log that cannot be read ends where that is."""
    try:
        with open_source(path, guest) as source:
            for item in scan_runs(source):
                if isinstance(item, Run):
                    pieces = decoder.decode(item.window, item.start, item.end, item.position)
                elif isinstance(item, Batch) and item.is_valid and isinstance(item.header, BatchHeader):
                    # Too large for a window; what is too large for the memory is empty here.
                    window = bytes(item.data or b"")
                    pieces = decoder.decode(window, 0, len(window), item.position)
                else:
                    continue
                yield from (piece for piece in pieces if isinstance(piece, RecordColumns))
    except (FileNotFoundError, KafkatoolError):
        return


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
