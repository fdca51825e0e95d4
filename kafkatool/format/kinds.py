"""The table of file kinds: from a file's name to what it is. Every name has a kind, if only `unknown`.

A state suffix (`.deleted`, `.swap` …) is not part of the kind: `00000000000000000000.log.swap` is a log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from kafkatool.format import offset_index, time_index, txn_index
from kafkatool.format.names import (
    NAMES_KEPT,
    FileState,
    base_offset,
    parse_remote_index_name,
    parse_snapshot_name,
    split_state,
)
from kafkatool.format.state import (
    checkpoint,
    clean_shutdown,
    partition_metadata,
    producer_snapshot,
    properties,
    quorum_state,
)


class Group(StrEnum):
    """What a file's space is used for, in the words of `ls`."""

    LOG = "log"
    INDEX = "index"
    STATE = "state"
    UNKNOWN = "unknown"


class FileKind(NamedTuple):
    """One kind of file. `read` decodes its whole content; logs are too large for that."""

    name: str
    title: str
    group: Group
    read: Callable[[bytes], object] | None = None

    def __reduce__(self) -> tuple[Callable[[str], FileKind], tuple[str]]:
        """Pickle the name only: every process has the same kinds."""
        return _called, (self.name,)


def _called(name: str) -> FileKind:
    return next(kind for kind in ALL if kind.name == name)


class NamedFile(NamedTuple):
    """What a file name says. `offset` is the number in it: base, end or start offset by kind."""

    kind: FileKind
    state: FileState
    offset: int | None


LOG = FileKind("log", "log segment", Group.LOG)
OFFSET_INDEX = FileKind(
    "index", "offset index", Group.INDEX, lambda buf: list(offset_index.read_entries(buf))
)
TIME_INDEX = FileKind("timeindex", "time index", Group.INDEX, lambda buf: list(time_index.read_entries(buf)))
TXN_INDEX = FileKind(
    "txnindex", "transaction index", Group.INDEX, lambda buf: list(txn_index.read_entries(buf))
)
PRODUCER_SNAPSHOT = FileKind("snapshot", "producer state", Group.STATE, producer_snapshot.read_snapshot)
RAFT_SNAPSHOT = FileKind("checkpoint", "KRaft snapshot", Group.LOG)
BOOTSTRAP = FileKind("bootstrap", "KRaft bootstrap snapshot", Group.LOG)
LEADER_EPOCHS = FileKind(
    "leader-epoch-checkpoint", "leader epochs", Group.STATE, checkpoint.read_leader_epochs
)
PARTITION_METADATA = FileKind(
    "partition.metadata", "topic id", Group.STATE, partition_metadata.read_partition_metadata
)
META_PROPERTIES = FileKind(
    "meta.properties", "owner of the directory", Group.STATE, properties.read_meta_properties
)
QUORUM_STATE = FileKind("quorum-state", "controller election", Group.STATE, quorum_state.read_quorum_state)
CLEAN_SHUTDOWN = FileKind(
    "cleanshutdown", "clean shutdown marker", Group.STATE, clean_shutdown.read_clean_shutdown
)
LOCK = FileKind("lock", "lock of a running broker", Group.STATE)
BACKUP = FileKind("backup", "kept by kafkatool", Group.UNKNOWN)
UNKNOWN = FileKind("unknown", "unknown", Group.UNKNOWN)


def _offsets(name: str, title: str) -> FileKind:
    return FileKind(name, title, Group.STATE, checkpoint.read_offset_checkpoint)


RECOVERY_POINTS = _offsets("recovery-point-offset-checkpoint", "recovery points")
HIGH_WATERMARKS = _offsets("replication-offset-checkpoint", "high watermarks")
LOG_STARTS = _offsets("log-start-offset-checkpoint", "log start offsets")
CLEANER_OFFSETS = _offsets("cleaner-offset-checkpoint", "cleaner offsets")

BY_NAME = {
    **{
        kind.name: kind
        for kind in (
            RECOVERY_POINTS,
            HIGH_WATERMARKS,
            LOG_STARTS,
            CLEANER_OFFSETS,
            LEADER_EPOCHS,
            PARTITION_METADATA,
            META_PROPERTIES,
            QUORUM_STATE,
        )
    },
    ".kafka_cleanshutdown": CLEAN_SHUTDOWN,
    ".lock": LOCK,
    "bootstrap.checkpoint": BOOTSTRAP,
}
BY_EXTENSION = {
    "log": LOG,
    "index": OFFSET_INDEX,
    "timeindex": TIME_INDEX,
    "txnindex": TXN_INDEX,
    "snapshot": PRODUCER_SNAPSHOT,
    "checkpoint": RAFT_SNAPSHOT,
}
ALL = (*BY_EXTENSION.values(), *BY_NAME.values(), BACKUP, UNKNOWN)

# Files that a run of ours keeps or makes carry the run's random id; earlier versions used small numbers.
_BACKUP = re.compile(r"(.+)\.kafkatool-([0-9a-f]{12}|[0-9]+)((?:\.undo)?\.tmp)?")
_CACHED_REMOTELY = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


@lru_cache(maxsize=NAMES_KEPT)
def kind_of(name: str) -> NamedFile:
    """Return what a file is, by its name alone."""
    if _BACKUP.fullmatch(name):
        return NamedFile(BACKUP, FileState.LIVE, None)
    stem, state = split_state(name)
    if stem in BY_NAME:
        return NamedFile(BY_NAME[stem], state, None)
    kind = BY_EXTENSION.get(stem.rpartition(".")[2])
    offset = None if kind is None else _offset(kind, stem)
    if kind is None or offset is None:
        return NamedFile(UNKNOWN, state, None)
    return NamedFile(kind, state, offset)


class KeptName(NamedTuple):
    """The name of a file that a run of ours made: an original that it keeps, a journal, or a temporary."""

    original: str
    run: str
    is_temporary: bool


def parse_kept_name(name: str) -> KeptName | None:
    """Parse the name of a file that applying a plan made; None for any other name."""
    found = _BACKUP.fullmatch(name)
    return KeptName(found[1], found[2], found[3] is not None) if found else None


def _offset(kind: FileKind, stem: str) -> int | None:
    """Return the number in a name of this kind; None where the name does not fit."""
    if kind is RAFT_SNAPSHOT:
        snapshot = parse_snapshot_name(stem)
        return snapshot.offset if snapshot else None
    offset = base_offset(stem)
    if offset is None and kind in _CACHED_REMOTELY:
        remote = parse_remote_index_name(stem)
        return remote.start_offset if remote else None
    return offset
