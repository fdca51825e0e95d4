"""The rows of `ls`: facts about files as NDJSON objects, and the columns that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.directory.extent import Extent, partition_extent, segment_extent
from kafkatool.engine.directory.log_dir import FileEntry, LogDir, Partition, Segment, data_group, unique_files
from kafkatool.engine.directory.space import GROUPS, Space
from kafkatool.engine.files.source import Guest
from kafkatool.format import kinds
from kafkatool.format.kinds import Group
from kafkatool.format.names import TopicPartition

LsRow = dict[str, Any]


class ListingView(StrEnum):
    topics = "topics"
    partitions = "partitions"
    segments = "segments"
    files = "files"
    space = "space"


_SIZES = (Column("size", "SIZE", Look.size), Column("allocated", "ALLOCATED", Look.size))
_TIMES = (
    Column("first_timestamp_ms", "FIRST TIME", Look.time),
    Column("max_timestamp_ms", "GREATEST TIME", Look.time),
)
_OFFSETS = (
    Column("first_offset", "FIRST", Look.number),
    Column("last_offset", "LAST", Look.number),
)
_WHERE = (Column("topic", "TOPIC"), Column("partition", "PARTITION", Look.number))
_STATE = Column("state", "STATE")
_NOTE = Column("problem", "NOTE", blank="")

COLUMNS: dict[ListingView, tuple[Column, ...]] = {
    ListingView.topics: (
        Column("topic", "TOPIC"),
        Column("partitions", "PARTITIONS", Look.number),
        Column("states", "STATES"),
        Column("segments", "SEGMENTS", Look.number),
        *_TIMES,
        *_SIZES,
        _NOTE,
    ),
    ListingView.partitions: (
        *_WHERE,
        _STATE,
        Column("segments", "SEGMENTS", Look.number),
        *_OFFSETS,
        *_TIMES,
        *_SIZES,
        Column("leftover_allocated", "LEFTOVERS", Look.size),
        _NOTE,
    ),
    ListingView.segments: (
        *_WHERE,
        Column("segment", "SEGMENT", Look.number),
        _STATE,
        *_OFFSETS,
        *_TIMES,
        Column("log_size", "LOG", Look.size),
        Column("index_size", "INDEXES", Look.size),
        Column("allocated", "ALLOCATED", Look.size),
        _NOTE,
    ),
    ListingView.files: (
        Column("file", "FILE"),
        Column("file_kind", "KIND"),
        _STATE,
        Column("modified_ms", "MODIFIED", Look.time),
        *_SIZES,
    ),
    ListingView.space: (
        Column("mount", "FILE SYSTEM"),
        Column("what", "WHAT"),
        Column("size", "SIZE", Look.size),
        Column("files", "INODES", Look.number),
        Column("detail", "DETAIL", blank=""),
    ),
}


@dataclass(frozen=True, slots=True)
class ListedPlace:
    """A partition, and the log directory it lies in where that was named."""

    partition: Partition
    log_dir: LogDir | None

    @property
    def name(self) -> dict[str, Any]:
        partition = self.partition
        return {
            "log_dir": self.log_dir.path if self.log_dir else None,
            "directory": partition.directory,
            "topic": partition.topic,
            "partition": partition.partition,
        }

    @property
    def order(self) -> tuple[str, int, str]:
        partition = self.partition
        number = -1 if partition.partition is None else partition.partition
        return partition.topic or partition.directory, number, partition.directory

    def checkpointed(self, offsets: str) -> int | None:
        """The offset of a live partition in one of the log directory's checkpoints."""
        if self.log_dir is None:
            return None
        found: dict[TopicPartition, int] = getattr(self.log_dir, offsets)
        return found.get(self.partition.key)


def _range(extent: Extent) -> LsRow:
    return {
        "first_offset": extent.first_offset,
        "last_offset": extent.last_offset,
        "first_timestamp_ms": extent.first_timestamp_ms,
        "max_timestamp_ms": extent.max_timestamp_ms,
    }


def _weight(files: Iterable[FileEntry]) -> LsRow:
    entries = list(unique_files(files))
    return {
        "files": len(entries),
        "size": sum(entry.size for entry in entries),
        "allocated": sum(entry.allocated for entry in entries),
    }


def _leftovers(files: Iterable[FileEntry]) -> int:
    """What files marked as deleted, cleaned, swap or unfinished take on the disk."""
    return sum(entry.allocated for entry in unique_files(files) if entry.is_leftover)


def logdir_row(log_dir: LogDir) -> LsRow:
    meta = log_dir.meta
    everything = list(log_dir.all_files)
    return {
        "kind": "logdir",
        "log_dir": log_dir.path,
        "cluster_id": meta.cluster_id if meta else None,
        "node_id": meta.node_id if meta else None,
        "directory_id": meta.directory_id if meta else None,
        "meta_version": meta.version if meta else None,
        "clean_shutdown": log_dir.was_shut_down_cleanly,
        "partitions": len(log_dir.partitions),
        "segments": sum(len(partition.segments) for partition in log_dir.partitions),
        **_weight(everything),
        "unknown_files": [entry.path for entry in everything if entry.kind is kinds.UNKNOWN],
        "unknown_directories": unknown_directories(log_dir),
    }


def unknown_directories(log_dir: LogDir) -> list[str]:
    inner = (path for partition in log_dir.partitions for path in partition.unknown_directories)
    return [*log_dir.unknown_directories, *inner]


def partition_row(place: ListedPlace, extent: Extent) -> LsRow:
    partition = place.partition
    return {
        "kind": "partition",
        **place.name,
        "topic_id": partition.topic_id,
        "state": str(partition.state),
        "segments": len(partition.segments),
        **_range(extent),
        "log_start_offset": place.checkpointed("log_starts"),
        "high_watermark": place.checkpointed("high_watermarks"),
        "recovery_point": place.checkpointed("recovery_points"),
        **_weight(partition.files),
        "leftover_allocated": _leftovers(partition.files),
        "problem": extent.problem,
    }


def segment_row(place: ListedPlace, segment: Segment, extent: Extent) -> LsRow:
    log = segment.log
    indexes = [entry for entry in segment.files if entry.kind.group is Group.INDEX]
    return {
        "kind": "segment",
        **place.name,
        "segment": segment.base_offset,
        "state": str(segment.state),
        **_range(extent),
        "log_size": log.size if log else None,
        "index_size": sum(entry.size for entry in indexes),
        **_weight(segment.files),
        "modified_ms": log.modified_ms if log else None,
        "problem": extent.problem,
    }


def file_row(place: ListedPlace | None, log_dir: LogDir | None, entry: FileEntry) -> LsRow:
    nowhere = {
        "log_dir": log_dir.path if log_dir else None,
        "directory": None,
        "topic": None,
        "partition": None,
    }
    return {
        "kind": "file_entry",
        **(place.name if place else nowhere),
        "file": entry.path,
        "file_kind": entry.kind.name,
        "group": data_group(entry),
        "state": str(entry.state),
        "offset": entry.offset,
        "size": entry.size,
        "allocated": entry.allocated,
        "modified_ms": entry.modified_ms,
    }


def topic_rows(places: Iterable[ListedPlace], guest: Guest) -> Iterator[LsRow]:
    """One row a topic, over all the log directories named."""
    topics: dict[str, list[ListedPlace]] = {}
    for place in places:
        topics.setdefault(place.partition.topic or place.partition.directory, []).append(place)
    for topic, members in sorted(topics.items()):
        yield _topic_row(topic, members, [partition_extent(place.partition, guest) for place in members])


def _topic_row(topic: str, members: list[ListedPlace], extents: list[Extent]) -> LsRow:
    states = [str(place.partition.state) for place in members]
    filled = [extent for extent in extents if not extent.is_empty]
    ids = {place.partition.topic_id for place in members} - {None}
    return {
        "kind": "topic",
        "topic": topic,
        "topic_id": ids.pop() if len(ids) == 1 else None,
        "partitions": len(members),
        "states": ",".join(f"{state}:{states.count(state)}" for state in dict.fromkeys(states)),
        "segments": sum(len(place.partition.segments) for place in members),
        "first_timestamp_ms": _if_all_known(min, [extent.first_timestamp_ms for extent in filled]),
        "max_timestamp_ms": _if_all_known(max, [extent.max_timestamp_ms for extent in filled]),
        **_weight(entry for place in members for entry in place.partition.files),
        "problem": next((extent.problem for extent in extents if extent.problem), None),
        "unread": sum(not extent.could_be_read for extent in extents),
    }


def _if_all_known(choose: Any, values: list[int | None]) -> int | None:
    """The least or greatest value; None if there is none or one of them is unknown: no guesses."""
    if not values or None in values:
        return None
    found: int = choose(values)
    return found


def partition_rows(places: Iterable[ListedPlace], guest: Guest) -> Iterator[LsRow]:
    for place in places:
        extent = partition_extent(place.partition, guest)
        yield {**partition_row(place, extent), "unread": int(not extent.could_be_read)}


def segment_rows(places: Iterable[ListedPlace], guest: Guest) -> Iterator[LsRow]:
    for place in places:
        for segment in place.partition.segments:
            extent = segment_extent(segment, guest)
            yield {**segment_row(place, segment, extent), "unread": int(not extent.could_be_read)}


def file_rows(places: Iterable[ListedPlace], log_dirs: Iterable[LogDir]) -> Iterator[LsRow]:
    for log_dir in log_dirs:
        for entry in (*log_dir.files, *log_dir.remote_cache):
            yield file_row(None, log_dir, entry)
    for place in places:
        for entry in place.partition.files:
            yield file_row(place, place.log_dir, entry)


def total_row(places: list[ListedPlace], log_dirs: list[LogDir]) -> LsRow:
    """Everything that was named, each file once."""
    loose = [entry for log_dir in log_dirs for entry in (*log_dir.files, *log_dir.remote_cache)]
    everything = [*loose, *(entry for place in places for entry in place.partition.files)]
    return {
        "kind": "total",
        "partitions": len(places),
        "segments": sum(len(place.partition.segments) for place in places),
        **_weight(everything),
        "leftover_allocated": _leftovers(everything),
    }


# --- where the space went -----------------------------------------------------------------------------

_GROUP_TITLES = {
    "log": "log data",
    "index": "indexes",
    "state": "checkpoints and snapshots",
    "leftover": "leftovers",
    "unknown": "unknown files",
}


def space_row(space: Space) -> LsRow:
    return {
        "kind": "space",
        "mount": space.mount,
        "log_dirs": list(space.directories),
        "capacity": space.capacity,
        "used": space.used,
        "available": space.available,
        **space.groups,
        "open_deleted": space.open_deleted_size,
        "unexplained": space.unexplained,
        "inodes": space.inodes,
        "inodes_used": space.inodes_used,
        "inodes_by_group": space.file_counts,
        "inodes_open_deleted": len({entry.inode for entry in space.open_deleted}),
        "inodes_unexplained": space.unexplained_inodes,
        "all_processes_seen": space.all_processes_seen,
        "processes": _holders(space),
    }


def _holders(space: Space) -> list[LsRow]:
    """Who holds deleted files, the greatest holder first."""
    held: dict[int, LsRow] = {}
    for entry in space.open_deleted:
        row = held.setdefault(
            entry.pid, {"pid": entry.pid, "command": entry.command, "files": 0, "allocated": 0}
        )
        row["files"] += 1
        row["allocated"] += entry.allocated
    return sorted(held.values(), key=lambda row: (-row["allocated"], row["pid"]))


def space_lines(space: Space) -> Iterator[LsRow]:
    """The same account as lines of a table, from the parts to the whole."""

    def line(what: str, size: int | None, files: int | None = None, detail: str = "") -> LsRow:
        return {"mount": space.mount, "what": what, "size": size, "files": files, "detail": detail}

    for group in GROUPS:
        yield line(_GROUP_TITLES[group], space.groups[group], space.file_counts[group])
    unsure = "" if space.all_processes_seen else "not every process could be asked"
    held = len({entry.inode for entry in space.open_deleted})
    yield line("deleted but still open", space.open_deleted_size, held, unsure)
    for row in _holders(space):
        yield line("  held by", row["allocated"], row["files"], f"{row['command']} (process {row['pid']})")
    yield line("unexplained", space.unexplained, space.unexplained_inodes, "outside these log directories")
    yield line("used", space.used, space.inodes_used)
    yield line("available", space.available, space.inodes - space.inodes_used)
    yield line("capacity", space.capacity, space.inodes, ", ".join(space.directories))
