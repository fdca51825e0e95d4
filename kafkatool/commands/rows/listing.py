"""The rows of `ls`: facts about files as NDJSON objects, and the columns that show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column, Look
from kafkatool.engine.batches import row_fields
from kafkatool.engine.batches.row_fields import (
    TOPIC,
    flag,
    inside,
    int64,
    items,
    size,
    text,
    texts,
    time_ms,
    tree,
    values,
    word,
)
from kafkatool.engine.directory.extent import Extent, partition_extent, segment_extent
from kafkatool.engine.directory.log_dir import FileEntry, LogDir, data_group, unique_files
from kafkatool.engine.directory.selection import SelectedPlace
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


_WEIGHT = (
    int64("files", "number of files", len),
    size("size", "bytes that the files claim to have", lambda files: sum(one.size for one in files)),
    size(
        "allocated",
        "bytes that they take on the disk; less than size where a file is sparse",
        lambda files: sum(one.allocated for one in files),
    ),
)
_PLACE = (
    *inside("log_dir", text("log_dir", "the log directory, where one was named", "path")),
    *inside("partition", text("directory", "the directory of the partition"), *TOPIC),
)
_RANGE = (
    int64("first_offset", "first offset"),
    int64("last_offset", "last offset"),
    time_ms("first_timestamp_ms", "timestamp of the first batch"),
    time_ms("max_timestamp_ms", "greatest timestamp"),
)
_LEFTOVER = size(
    "leftover_allocated", "bytes on the disk of files marked as deleted, cleaned, swap or unfinished"
)
_PROBLEM = text("problem", "what kept the ranges from being found out, or is wrong at the end of the log")
_EXTENT = (*_RANGE, _PROBLEM)

LOGDIRS = RowTable(
    "logdir",
    "ls",
    "A log directory. Comes before all other rows.",
    text("log_dir", "its path", "path"),
    *inside(
        "meta",
        text("cluster_id", "id of the cluster, from meta.properties"),
        int64("node_id", "id of the node"),
        text("directory_id", "id of the log directory"),
        int64("meta_version", "format version of meta.properties", "version"),
    ),
    flag("clean_shutdown", "whether the broker left its mark of a clean shutdown", "was_shut_down_cleanly"),
    int64("partitions", "number of partition directories, in every state", lambda one: len(one.partitions)),
    int64("segments", "number of segments", lambda one: sum(len(each.segments) for each in one.partitions)),
    *_WEIGHT,
    texts(
        "unknown_files",
        "paths of files that are not Kafka's",
        lambda one: [entry.path for entry in one.all_files if entry.kind is kinds.UNKNOWN],
    ),
    texts(
        "unknown_directories",
        "paths of directories that are not Kafka's: brokers refuse one at the top",
        lambda one: unknown_directories(one),
    ),
)
TOPICS = RowTable(
    "topic",
    "ls",
    "A topic, over all the log directories named (--topics).",
    text("topic", "name of the topic"),
    text("topic_id", "its id; null where unknown or where partitions disagree"),
    int64("partitions", "number of partition directories"),
    text("states", "how many are in each state: active:3,stray:1"),
    int64("segments", "number of segments"),
    time_ms("first_timestamp_ms", "least timestamp of the first batches; null where one is unknown"),
    time_ms("max_timestamp_ms", "greatest timestamp; null where one is unknown"),
    *_WEIGHT,
    _PROBLEM,
)
PARTITIONS = RowTable(
    "partition",
    "ls",
    "A partition (--partitions, the default).",
    *_PLACE,
    *inside(
        "partition",
        text("topic_id", "id of the topic, from partition.metadata"),
        word("state", "active, deleted, stray, future, metadata", lambda one: str(one.state)),
        int64("segments", "number of segments", lambda one: len(one.segments)),
    ),
    *_RANGE,
    int64(
        "log_start_offset",
        "from log-start-offset-checkpoint",
        lambda place: _checkpointed(place, "log_starts"),
    ),
    int64(
        "high_watermark",
        "from replication-offset-checkpoint",
        lambda place: _checkpointed(place, "high_watermarks"),
    ),
    int64(
        "recovery_point",
        "from recovery-point-offset-checkpoint",
        lambda place: _checkpointed(place, "recovery_points"),
    ),
    *_WEIGHT,
    _LEFTOVER,
    _PROBLEM,
)
SEGMENTS = RowTable(
    "segment",
    "ls",
    "A segment (--segments).",
    *_PLACE,
    int64("segment", "its base offset", "base_offset"),
    word(
        "state",
        "active, closed, deleted, cleaned, swap; orphan for indexes without a log",
        lambda one: str(one.state),
    ),
    *_RANGE,
    *inside("log", size("log_size", "bytes of the .log; null where it is missing", "size")),
    size(
        "index_size",
        "bytes that its indexes claim to have",
        lambda one: sum(entry.size for entry in one.files if entry.kind.group is Group.INDEX),
    ),
    *_WEIGHT,
    *inside("log", time_ms("modified_ms", "when the .log was last modified")),
    _PROBLEM,
)
FILES = RowTable(
    "file_entry",
    "ls",
    "A file (--files).",
    *_PLACE,
    row_fields.FILE._replace(get="path"),
    text(
        "file_kind",
        "log, index, timeindex, txnindex, snapshot, the name of a checkpoint …, unknown",
        "kind.name",
    ),
    word("group", "what its space is counted as: log, index, state, leftover, unknown", data_group),
    word("state", "live, deleted, cleaned, swap, tmp, part", lambda entry: str(entry.state)),
    int64("offset", "the offset in its name"),
    size("size", "bytes that it claims to have"),
    size("allocated", "bytes that it takes on the disk"),
    time_ms("modified_ms", "when it was last modified"),
)
TOTAL = RowTable(
    "total",
    "ls",
    "Everything that was named, each file once. Comes last.",
    int64("partitions", "number of partition directories", len),
    int64(
        "segments", "number of segments", lambda places: sum(len(one.partition.segments) for one in places)
    ),
    *_WEIGHT,
    _LEFTOVER,
)
SPACES = RowTable(
    "space",
    "ls",
    "A file system and where its space went (--space). used = log + index + state + leftover + unknown "
    "+ open_deleted + unexplained; all in bytes on the disk.",
    text("mount", "where it is mounted"),
    texts("log_dirs", "the log directories on it", lambda space: list(space.directories)),
    size("capacity", "its size"),
    size("used", "what is used"),
    size("available", "what is left for those who are not root"),
    size("log", "log segments and KRaft snapshots"),
    size("index", "indexes"),
    size("state", "checkpoints, snapshots and the like"),
    size("leftover", "deleted, cleaned, swap and unfinished files, and deleted or stray partitions"),
    size("unknown", "files in the log directories that are not Kafka's"),
    size("open_deleted", "deleted files that a process still holds open", "open_deleted_size"),
    size("unexplained", "all else on the file system"),
    int64("inodes", "number of inodes"),
    int64("inodes_used", "number of inodes in use"),
    tree("inodes_by_group", "the same groups, in inodes", "file_counts"),
    int64(
        "inodes_open_deleted",
        "inodes of deleted files that a process still holds open",
        lambda space: len({entry.inode for entry in space.open_deleted}),
    ),
    int64("inodes_unexplained", "all others", "unexplained_inodes"),
    flag("all_processes_seen", "false where some processes could not be asked what they hold open"),
    items(
        "processes",
        "who holds deleted files open: list of objects with pid, command, files, allocated",
        lambda space: _holders(space),
    ),
)

_SIZES = {"size": "SIZE", "allocated": "ALLOCATED"}
_TIMES = {"first_timestamp_ms": "FIRST TIME", "max_timestamp_ms": "GREATEST TIME"}
_OFFSETS = {"first_offset": "FIRST", "last_offset": "LAST"}
_WHERE = {"topic": "TOPIC", "partition": "PARTITION"}
_NOTE = {"problem": Column("problem", "NOTE", blank="")}

COLUMNS: dict[ListingView, tuple[Column, ...]] = {
    ListingView.topics: TOPICS.columns(
        topic="TOPIC",
        partitions="PARTITIONS",
        states="STATES",
        segments="SEGMENTS",
        **{**_TIMES, **_SIZES},
        **_NOTE,
    ),
    ListingView.partitions: PARTITIONS.columns(
        **{**_WHERE, "state": "STATE", "segments": "SEGMENTS", **_OFFSETS, **_TIMES, **_SIZES},
        leftover_allocated="LEFTOVERS",
        **_NOTE,
    ),
    ListingView.segments: SEGMENTS.columns(
        **{**_WHERE, "segment": "SEGMENT", "state": "STATE", **_OFFSETS, **_TIMES},
        log_size="LOG",
        index_size="INDEXES",
        allocated="ALLOCATED",
        **_NOTE,
    ),
    ListingView.files: FILES.columns(
        file="FILE", file_kind="KIND", state="STATE", modified_ms="MODIFIED", **_SIZES
    ),
    ListingView.space: (
        Column("mount", "FILE SYSTEM"),
        Column("what", "WHAT"),
        Column("size", "SIZE", Look.size),
        Column("files", "INODES", Look.number),
        Column("detail", "DETAIL", blank=""),
    ),
}


def _checkpointed(place: SelectedPlace, offsets: str) -> int | None:
    """Return the offset of a live partition in one of the log directory's checkpoints."""
    if place.log_dir is None:
        return None
    found: dict[TopicPartition, int] = getattr(place.log_dir, offsets)
    return found.get(place.partition.key)


def _weight(files: Iterable[FileEntry]) -> LsRow:
    return values(_WEIGHT, list(unique_files(files)))


def _leftovers(files: Iterable[FileEntry]) -> int:
    """Return the disk space of files marked as deleted, cleaned, swap or unfinished."""
    return sum(entry.allocated for entry in unique_files(files) if entry.is_leftover)


def logdir_row(log_dir: LogDir) -> LsRow:
    return LOGDIRS.row(log_dir, **_weight(log_dir.all_files))


def unknown_directories(log_dir: LogDir) -> list[str]:
    inner = (path for partition in log_dir.partitions for path in partition.unknown_directories)
    return [*log_dir.unknown_directories, *inner]


def file_row(place: SelectedPlace | None, log_dir: LogDir | None, entry: FileEntry) -> LsRow:
    nowhere = dict.fromkeys(("directory", "topic", "partition"))
    where = values(_PLACE, place) if place else {"log_dir": log_dir.path if log_dir else None, **nowhere}
    return FILES.row(entry, **where)


def topic_rows(places: Iterable[SelectedPlace], guest: Guest) -> Iterator[LsRow]:
    """Yield one row per topic, over all the log directories named."""
    topics: dict[str, list[SelectedPlace]] = {}
    for place in places:
        topics.setdefault(place.partition.topic or place.partition.directory, []).append(place)
    for topic, members in sorted(topics.items()):
        yield _topic_row(topic, members, [partition_extent(place.partition, guest) for place in members])


def _topic_row(topic: str, members: list[SelectedPlace], extents: list[Extent]) -> LsRow:
    states = [str(place.partition.state) for place in members]
    filled = [extent for extent in extents if not extent.is_empty]
    ids = {place.partition.topic_id for place in members} - {None}
    row = TOPICS.row(
        topic=topic,
        topic_id=ids.pop() if len(ids) == 1 else None,
        partitions=len(members),
        states=",".join(f"{state}:{states.count(state)}" for state in dict.fromkeys(states)),
        segments=sum(len(place.partition.segments) for place in members),
        first_timestamp_ms=_if_all_known(min, [extent.first_timestamp_ms for extent in filled]),
        max_timestamp_ms=_if_all_known(max, [extent.max_timestamp_ms for extent in filled]),
        **_weight(entry for place in members for entry in place.partition.files),
        problem=next((extent.problem for extent in extents if extent.problem), None),
    )
    return {**row, "unread": sum(not extent.could_be_read for extent in extents)}


def _if_all_known(choose: Any, values: list[int | None]) -> int | None:
    """Return the least or greatest value; None if there is none or one of them is unknown: no guesses."""
    if not values or None in values:
        return None
    found: int = choose(values)
    return found


def partition_rows(places: Iterable[SelectedPlace], guest: Guest) -> Iterator[LsRow]:
    for place in places:
        extent, files = partition_extent(place.partition, guest), list(place.partition.files)
        given = values(_EXTENT, extent) | _weight(files) | {"leftover_allocated": _leftovers(files)}
        yield {**PARTITIONS.row(place, **given), "unread": int(not extent.could_be_read)}


def segment_rows(places: Iterable[SelectedPlace], guest: Guest) -> Iterator[LsRow]:
    for place in places:
        for segment in place.partition.segments:
            extent = segment_extent(segment, guest)
            given = values(_PLACE, place) | values(_EXTENT, extent) | _weight(segment.files)
            yield {**SEGMENTS.row(segment, **given), "unread": int(not extent.could_be_read)}


def file_rows(places: Iterable[SelectedPlace], log_dirs: Iterable[LogDir]) -> Iterator[LsRow]:
    for log_dir in log_dirs:
        for entry in (*log_dir.files, *log_dir.remote_cache):
            yield file_row(None, log_dir, entry)
    for place in places:
        for entry in place.partition.files:
            yield file_row(place, place.log_dir, entry)


def total_row(places: list[SelectedPlace], log_dirs: list[LogDir]) -> LsRow:
    """Return the row of everything that was named, each file once."""
    loose = [entry for log_dir in log_dirs for entry in (*log_dir.files, *log_dir.remote_cache)]
    everything = [*loose, *(entry for place in places for entry in place.partition.files)]
    return TOTAL.row(places, **_weight(everything), leftover_allocated=_leftovers(everything))


# --- where the space went -----------------------------------------------------------------------------

_GROUP_TITLES = {
    "log": "log data",
    "index": "indexes",
    "state": "checkpoints and snapshots",
    "leftover": "leftovers",
    "unknown": "unknown files",
}


def space_row(space: Space) -> LsRow:
    return SPACES.row(space, **space.groups)


def _holders(space: Space) -> list[LsRow]:
    """Return the processes that hold deleted files, the largest holder first."""
    held: dict[int, LsRow] = {}
    for entry in space.open_deleted:
        row = held.setdefault(
            entry.pid, {"pid": entry.pid, "command": entry.command, "files": 0, "allocated": 0}
        )
        row["files"] += 1
        row["allocated"] += entry.allocated
    return sorted(held.values(), key=lambda row: (-row["allocated"], row["pid"]))


def space_lines(space: Space) -> Iterator[LsRow]:
    """Yield the same account as lines of a table, from the parts to the whole."""

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
