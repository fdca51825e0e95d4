"""Names in a log directory, and what they mean.

<topic>-<partition>                             a partition
<topic>-<partition>.<32 hex>-delete             being deleted; the topic is cut to make all of it fit in 255
<topic>-<partition>.<32 hex>-stray              not in the cluster's metadata; cut likewise
<topic>-<partition>.<32 hex>-future             a copy on its way to this log directory; never cut

<base offset, 20 digits>.log                    and .index .timeindex .txnindex .snapshot
<end offset, 20 digits>-<epoch, 10>.checkpoint  a KRaft snapshot; with -<digits>.checkpoint.part while written
<start offset>_<segment id>.index               in remote-log-index-cache; the id may hold - and _
<any of these>.deleted .cleaned .swap .tmp      a state, after everything else
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from kafkatool.format.java_text import WHITE_SPACE, parse_int, parse_long
from kafkatool.format.uuids import parse_uuid

LONGEST_NAME = 255
LONGEST_TOPIC = 249
REMOTE_INDEX_CACHE = "remote-log-index-cache"
METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = f"{METADATA_TOPIC}-0"

NAMES_KEPT = 1 << 12
"""The same names are asked about again and again, and segments of all partitions share many."""

SNAPSHOT_OFFSET_WIDTH = 20
SNAPSHOT_EPOCH_WIDTH = 10

TopicPartition = tuple[str, int]
"""A partition as checkpoints and consumers name it."""


class DirectoryState(StrEnum):
    """The state that the end of a partition directory's name shows."""

    LIVE = "live"
    DELETE = "delete"
    FUTURE = "future"
    STRAY = "stray"


class FileState(StrEnum):
    """The state that a suffix after the kind shows."""

    LIVE = "live"
    DELETED = "deleted"
    CLEANED = "cleaned"
    SWAP = "swap"
    TMP = "tmp"
    PART = "part"


class PartitionDirectory(NamedTuple):
    topic: str
    partition: int
    state: DirectoryState
    unique_id: str | None

    def may_be_cut(self, name: str) -> bool:
        """Return whether the topic may be only a prefix of the real one; partition.metadata has its id."""
        return self.state in (DirectoryState.DELETE, DirectoryState.STRAY) and len(name) >= LONGEST_NAME


class SnapshotName(NamedTuple):
    """A KRaft snapshot's name: the offset after its last record, and that record's epoch."""

    offset: int
    epoch: int


class RemoteIndexName(NamedTuple):
    start_offset: int
    segment_id: str


@lru_cache(maxsize=NAMES_KEPT)
def parse_partition_directory(name: str) -> PartitionDirectory | None:
    """Read a directory name as a broker does at start-up; None where it would refuse to start."""
    state = next((s for s in DirectoryState if name.endswith(f"-{s}")), DirectoryState.LIVE)
    partition_name, unique_id = name, None
    if state is not DirectoryState.LIVE:
        if not _has_unique_id(name[: -len(state) - 1]):
            return None
        partition_name, unique_id = name[: -len(state) - 1].rsplit(".", 1)
    topic, _dash, number = partition_name.rpartition("-")
    partition = parse_int(number)
    if not topic or partition is None:
        return None
    return PartitionDirectory(topic, partition, state, unique_id)


def _has_unique_id(body: str) -> bool:
    """Match `(\\S+)-(\\S+)\\.(\\S+)` without the backtracking that makes it cubic."""
    dash, dot = body.find("-", 1), body.rfind(".", 0, len(body) - 1)
    return 0 < dash < dot - 1 and not any(space in body for space in WHITE_SPACE)


def partition_directory(directory: PartitionDirectory) -> str:
    """Return the name a broker would give; a topic that is too long is cut."""
    if directory.state is DirectoryState.LIVE:
        return f"{directory.topic}-{directory.partition}"
    tail = f"-{directory.partition}.{directory.unique_id}-{directory.state}"
    if directory.state is DirectoryState.FUTURE:
        return directory.topic + tail
    return directory.topic[: max(0, LONGEST_NAME - len(tail))] + tail


def split_state(name: str) -> tuple[str, FileState]:
    """Split a file name from its state; of several states the last one counts."""
    state = FileState.LIVE
    while True:
        stem, dot, suffix = name.rpartition(".")
        found = _STATE_BY_SUFFIX.get(suffix)
        if not dot or found is None:
            return name, state
        name, state = stem, found if state is FileState.LIVE else state


_STATE_BY_SUFFIX = {str(state): state for state in FileState if state is not FileState.LIVE}


@lru_cache(maxsize=NAMES_KEPT)
def base_offset(name: str) -> int | None:
    """Return the number before the first dot, as a broker reads it; None where that fails."""
    stem, dot, _suffix = name.partition(".")
    return parse_long(stem) if dot else None


def segment_file(offset: int, extension: str) -> str:
    """Return `00000000000000000042.log` for 42 and `.log`."""
    return f"{'-' if offset < 0 else ''}{abs(offset):020d}{extension}"


def parse_snapshot_name(name: str) -> SnapshotName | None:
    """Read the digits of a `.checkpoint` name by position, as Kafka does; None where that throws."""
    if len(name) < SNAPSHOT_OFFSET_WIDTH + 1 + SNAPSHOT_EPOCH_WIDTH:
        return None
    offset = parse_long(name[:SNAPSHOT_OFFSET_WIDTH])
    epoch = parse_int(name[SNAPSHOT_OFFSET_WIDTH + 1 : SNAPSHOT_OFFSET_WIDTH + 1 + SNAPSHOT_EPOCH_WIDTH])
    return None if offset is None or epoch is None else SnapshotName(offset, epoch)


def snapshot_file(snapshot: SnapshotName) -> str:
    return f"{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"


def parse_remote_index_name(name: str) -> RemoteIndexName | None:
    """Read the name of a cached remote index: split at the first _ and the first dot."""
    stem, dot, _suffix = name.partition(".")
    number, underscore, segment_id = stem.partition("_")
    start_offset = parse_long(number)
    if not dot or not underscore or start_offset is None or parse_uuid(segment_id) is None:
        return None
    return RemoteIndexName(start_offset, segment_id)


def topic_problem(topic: str) -> str | None:
    """Return why a broker would not create a topic of this name, or None."""
    if topic in ("", ".", ".."):
        return f"{topic!r} is not allowed"
    if len(topic) > LONGEST_TOPIC:
        return f"it is longer than {LONGEST_TOPIC} characters"
    if not all(char.isascii() and (char.isalnum() or char in "._-") for char in topic):
        return "it holds characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
