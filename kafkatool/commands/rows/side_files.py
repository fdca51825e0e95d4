"""The files beside a log as rows: indexes, producer snapshots, checkpoints, meta.properties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkatool.commands.rows.batches import LogPlace
from kafkatool.commands.rows.row_table import RowTable
from kafkatool.engine.batches.row_fields import FILE, TOPIC, int64, ints, text, time_ms
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.format import kinds, offset_index, time_index, txn_index
from kafkatool.format.kinds import FileKind

SideRow = dict[str, object]


_OF_PARTITION = (FILE, *TOPIC)
_VERSION = int64("version", "format version")

INDEX_ENTRY = RowTable(
    "index_entry",
    "dump-log",
    "An entry of an .index file.",
    *_OF_PARTITION,
    int64("slot", "number of the entry, from 0"),
    int64("offset", "offset that it leads to"),
    int64("position", "byte in the .log where the batch of that offset begins"),
)
TIME_INDEX_ENTRY = RowTable(
    "time_index_entry",
    "dump-log",
    "An entry of a .timeindex file.",
    *_OF_PARTITION,
    int64("slot", "number of the entry, from 0"),
    time_ms("timestamp_ms", "greatest timestamp up to that offset"),
    int64("offset", "offset that it leads to"),
)
ABORTED_TRANSACTION = RowTable(
    "aborted_transaction",
    "dump-log",
    "An entry of a .txnindex file.",
    *_OF_PARTITION,
    int64("version", "format version of the entry"),
    int64("producer_id", "id of the producer"),
    int64("first_offset", "first offset of the transaction"),
    int64("last_offset", "offset of the marker that aborted it"),
    int64("last_stable_offset", "last stable offset when it was aborted"),
)
PRODUCER_STATE = RowTable(
    "producer_state",
    "dump-log",
    "A producer in a .snapshot file.",
    *_OF_PARTITION,
    int64("producer_id", "id of the producer"),
    int64("producer_epoch", "its epoch"),
    int64("last_sequence", "sequence number of its last record"),
    int64("last_offset", "offset of its last record"),
    int64("offset_delta", "last minus first offset of its last batch"),
    time_ms("timestamp_ms", "timestamp of its last batch"),
    int64("coordinator_epoch", "epoch of the coordinator that wrote its last marker"),
    int64("current_txn_first_offset", "first offset of its open transaction; -1 for none"),
)
LEADER_EPOCH = RowTable(
    "leader_epoch",
    "dump-log",
    "A line of a leader-epoch-checkpoint.",
    *_OF_PARTITION,
    int64("epoch", "the leader epoch"),
    int64("start_offset", "first offset of that epoch"),
)
PARTITION_METADATA = RowTable(
    "partition_metadata",
    "dump-log",
    "A partition.metadata file.",
    *_OF_PARTITION,
    _VERSION,
    text("topic_id", "id of the topic"),
)
CHECKPOINT_ENTRY = RowTable(
    "checkpoint_entry",
    "dump-log",
    "A line of one of the offset checkpoints of a log directory.",
    FILE,
    text("checkpoint", "name of the checkpoint"),
    text("topic", "topic of the line"),
    int64("partition", "partition of the line"),
    int64("offset", "offset of the line"),
)
META_PROPERTIES = RowTable(
    "meta_properties",
    "dump-log",
    "A meta.properties file.",
    FILE,
    _VERSION,
    text("cluster_id", "id of the cluster"),
    int64("node_id", "id of the node; the broker's in version 0"),
    text("directory_id", "id of the log directory"),
)
QUORUM_STATE = RowTable(
    "quorum_state",
    "dump-log",
    "A quorum-state file.",
    FILE,
    int64("data_version", "format version"),
    int64("leader_id", "the leader that this node knows; -1 for none"),
    int64("leader_epoch", "its epoch"),
    int64("voted_id", "the node that this one has voted for; -1 for none"),
    text("voted_directory_id", "its directory id; null in version 0"),
    ints("current_voters", "ids of the voters; null from version 1 on"),
)
CLEAN_SHUTDOWN = RowTable(
    "clean_shutdown",
    "dump-log",
    "A .kafka_cleanshutdown file.",
    FILE,
    int64("version", "format version; null where unreadable"),
    int64("broker_epoch", "epoch of the broker that shut down; null where unreadable"),
)


def side_rows(kind: FileKind, place: LogPlace, guest: Guest) -> Iterator[SideRow]:
    """Yield the rows of one file. Raises FormatError if its bytes are not what its name says."""
    raw = read_small_file(place.path, guest)
    table, read = _READERS[kind]
    front: SideRow = {"kind": table.kind, "file": place.path}
    if is_of_partition(table):
        front |= {"topic": place.topic, "partition": place.partition}
    for row in read(raw, place):
        yield {**front, **row}


def side_table(kind: FileKind) -> RowTable | None:
    """Return the rows' table of a kind of file; None if it has none."""
    found = _READERS.get(kind)
    return found[0] if found else None


def is_of_partition(table: RowTable) -> bool:
    """Return whether rows begin with the file and its partition, or with the file alone."""
    return table.keys[1] == "topic"


def _index_rows(raw: bytes, place: LogPlace) -> Iterator[SideRow]:
    base = place.segment or 0
    for slot, entry in enumerate(offset_index.read_entries(raw[: offset_index.entries_end(raw)])):
        yield {"slot": slot, "offset": entry.offset(base), "position": entry.position}


def _time_index_rows(raw: bytes, place: LogPlace) -> Iterator[SideRow]:
    base = place.segment or 0
    for slot, entry in enumerate(time_index.read_entries(raw[: time_index.entries_end(raw)])):
        yield {"slot": slot, "timestamp_ms": entry.timestamp_ms, "offset": entry.offset(base)}


def _txn_index_rows(raw: bytes, _place: LogPlace) -> Iterator[SideRow]:
    return (entry._asdict() for entry in txn_index.read_entries(raw))


def _listed(kind: FileKind) -> Callable[[bytes, LogPlace], Iterable[SideRow]]:
    """Return a reader of files that hold a list of named tuples, or a single one."""

    def read(raw: bytes, _place: LogPlace) -> Iterator[SideRow]:
        assert kind.read is not None
        values: Any = kind.read(raw)
        for value in values if isinstance(values, list) else [values]:
            yield value._asdict()

    return read


def _offset_rows(kind: FileKind) -> Callable[[bytes, LogPlace], Iterable[SideRow]]:
    def read(raw: bytes, place: LogPlace) -> Iterator[SideRow]:
        return ({"checkpoint": kind.name, **row} for row in _listed(kind)(raw, place))

    return read


_OFFSETS = (kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.LOG_STARTS, kinds.CLEANER_OFFSETS)

_READERS: dict[FileKind, tuple[RowTable, Callable[[bytes, LogPlace], Iterable[SideRow]]]] = {
    kinds.OFFSET_INDEX: (INDEX_ENTRY, _index_rows),
    kinds.TIME_INDEX: (TIME_INDEX_ENTRY, _time_index_rows),
    kinds.TXN_INDEX: (ABORTED_TRANSACTION, _txn_index_rows),
    kinds.PRODUCER_SNAPSHOT: (PRODUCER_STATE, _listed(kinds.PRODUCER_SNAPSHOT)),
    kinds.LEADER_EPOCHS: (LEADER_EPOCH, _listed(kinds.LEADER_EPOCHS)),
    kinds.PARTITION_METADATA: (PARTITION_METADATA, _listed(kinds.PARTITION_METADATA)),
    kinds.META_PROPERTIES: (META_PROPERTIES, _listed(kinds.META_PROPERTIES)),
    kinds.QUORUM_STATE: (QUORUM_STATE, _listed(kinds.QUORUM_STATE)),
    kinds.CLEAN_SHUTDOWN: (CLEAN_SHUTDOWN, _listed(kinds.CLEAN_SHUTDOWN)),
    **{kind: (CHECKPOINT_ENTRY, _offset_rows(kind)) for kind in _OFFSETS},
}
