"""The files beside a log as rows: indexes, producer states, checkpoints, identities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafkatool.commands.rows.batches import LogPlace
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.format import kinds, offset_index, time_index, txn_index
from kafkatool.format.kinds import FileKind

SideRow = dict[str, object]


def side_rows(kind: FileKind, place: LogPlace, guest: Guest) -> Iterator[SideRow]:
    """The rows of one file; raises FormatError where its bytes are not what its name says."""
    raw = read_small_file(place.path, guest)
    row_kind, read = _READERS[kind]
    for row in read(raw, place):
        yield {"kind": row_kind, **_where(kind, place), **row}


def row_kind(kind: FileKind) -> str | None:
    """What the rows of such a file are called; None where it has none."""
    found = _READERS.get(kind)
    return found[0] if found else None


def _where(kind: FileKind, place: LogPlace) -> SideRow:
    if kind in _OF_PARTITION:
        return {"file": place.path, "topic": place.topic, "partition": place.partition}
    return {"file": place.path}


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
    """Rows of a file that holds a list of named tuples, or a single one."""

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


_OF_PARTITION = (
    kinds.OFFSET_INDEX,
    kinds.TIME_INDEX,
    kinds.TXN_INDEX,
    kinds.PRODUCER_SNAPSHOT,
    kinds.LEADER_EPOCHS,
    kinds.PARTITION_METADATA,
)
_OFFSETS = (kinds.RECOVERY_POINTS, kinds.HIGH_WATERMARKS, kinds.LOG_STARTS, kinds.CLEANER_OFFSETS)

_READERS: dict[FileKind, tuple[str, Callable[[bytes, LogPlace], Iterable[SideRow]]]] = {
    kinds.OFFSET_INDEX: ("index_entry", _index_rows),
    kinds.TIME_INDEX: ("time_index_entry", _time_index_rows),
    kinds.TXN_INDEX: ("aborted_transaction", _txn_index_rows),
    kinds.PRODUCER_SNAPSHOT: ("producer_state", _listed(kinds.PRODUCER_SNAPSHOT)),
    kinds.LEADER_EPOCHS: ("leader_epoch", _listed(kinds.LEADER_EPOCHS)),
    kinds.PARTITION_METADATA: ("partition_metadata", _listed(kinds.PARTITION_METADATA)),
    kinds.META_PROPERTIES: ("meta_properties", _listed(kinds.META_PROPERTIES)),
    kinds.QUORUM_STATE: ("quorum_state", _listed(kinds.QUORUM_STATE)),
    kinds.CLEAN_SHUTDOWN: ("clean_shutdown", _listed(kinds.CLEAN_SHUTDOWN)),
    **{kind: ("checkpoint_entry", _offset_rows(kind)) for kind in _OFFSETS},
}

SIDE_KEYS: dict[str, tuple[str, ...]] = {
    "index_entry": ("slot", "offset", "position"),
    "time_index_entry": ("slot", "timestamp_ms", "offset"),
    "aborted_transaction": ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
    "producer_state": (
        *("producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "timestamp_ms"),
        *("coordinator_epoch", "current_txn_first_offset"),
    ),
    "leader_epoch": ("epoch", "start_offset"),
    "partition_metadata": ("version", "topic_id"),
    "meta_properties": ("version", "cluster_id", "node_id", "directory_id"),
    "quorum_state": (
        *("data_version", "leader_id", "leader_epoch", "voted_id", "voted_directory_id", "current_voters"),
    ),
    "clean_shutdown": ("version", "broker_epoch"),
    "checkpoint_entry": ("checkpoint", "topic", "partition", "offset"),
}
