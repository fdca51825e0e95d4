"""What `cache-map` writes: rows of numbers, strips of characters, and sentences about them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import human_size, iso_time, printable
from kafkatool.engine.cache.planning import CacheDone, CachePiece
from kafkatool.engine.cache.residents import CachedTail, MappedFile, MappedPartition, MappedSegment, Reader
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.residency import Cell
from kafkatool.format import kinds

CacheRow = dict[str, Any]


class CacheView(StrEnum):
    topics = "topics"
    partitions = "partitions"
    segments = "segments"
    files = "files"


COLD, SOME, MOST, ALL, DIRTY, UNKNOWN = "·░▒█▓?"
LEGEND = f"{ALL} in memory  {MOST} most of it  {SOME} some  {COLD} on disk only  {DIRTY} not yet written"

_NUMBERS = [
    Column("log_size", "LOG", Look.size),
    Column("log_resident_size", "RESIDENT", Look.size),
    Column("share", "SHARE", Look.number),
    Column("other_resident_size", "INDEXES", Look.size),
    Column("dirty_size", "DIRTY", Look.size),
]
_FILE_NUMBERS = [
    Column("size", "SIZE", Look.size),
    Column("resident_size", "RESIDENT", Look.size),
    Column("share", "SHARE", Look.number),
    Column("dirty_size", "DIRTY", Look.size),
]
_CHANGE = Column("change", "CHANGE", Look.number, blank="")
_MAP = Column("strip", "MAP")
_FIRST = {
    CacheView.topics: [Column("topic", "TOPIC")],
    CacheView.partitions: [Column("name", "PARTITION")],
    CacheView.segments: [Column("name", "PARTITION"), Column("segment", "SEGMENT", Look.number)],
    CacheView.files: [Column("name", "FILE")],
}


def columns(view: CacheView, *, is_watched: bool) -> list[Column]:
    numbers = _FILE_NUMBERS if view is CacheView.files else _NUMBERS
    if is_watched:  # there is no room for both in a narrow terminal
        numbers = [*(column for column in numbers if column.title != "INDEXES"), _CHANGE]
    return [*_FIRST[view], *numbers, _MAP]


# --- numbers ------------------------------------------------------------------------------------------


def _weight(files: Iterable[MappedFile]) -> CacheRow:
    """The sums over some files; null as soon as one of them is not told."""
    maps = [file.map for file in files]
    told = all(one.resident is not None for one in maps)
    counted = all(one.counts is not None for one in maps)
    states = [one.counts for one in maps if one.counts is not None]
    return {
        "size": sum(one.size for one in maps),
        "pages": sum(one.pages for one in maps),
        "resident_pages": sum(one.resident or 0 for one in maps) if told else None,
        "resident_size": sum(one.resident_size for one in maps) if told else None,
        "dirty_pages": sum(one.dirty for one in states) if counted else None,
        "writeback_pages": sum(one.writeback for one in states) if counted else None,
        "evicted_pages": sum(one.evicted for one in states) if counted else None,
        "recently_evicted_pages": sum(one.recently_evicted for one in states) if counted else None,
    }


def _weight_by_kind(files: Iterable[MappedFile]) -> CacheRow:
    """The sums, those of logs besides: what is preallocated of indexes would drown them."""
    files = list(files)
    total = _weight(files)
    logs = _weight(file for file in files if file.entry.kind is kinds.LOG)
    return {**total, "log_size": logs["size"], "log_resident_size": logs["resident_size"]}


def file_row(file: MappedFile, mapped: MappedPartition, with_ranges: bool) -> CacheRow:
    partition = mapped.partition
    row = {
        "kind": "file",
        "file": file.entry.path,
        "topic": partition.topic,
        "partition": partition.partition,
        "segment": file.entry.offset,
        "type": file.entry.kind.title,
        **_weight([file]),
    }
    if with_ranges:
        runs = file.map.resident_runs()
        known = file.map.runs is not None
        row["resident_ranges"] = (
            [[first * PAGE, min(end * PAGE, file.map.size)] for first, end in runs] if known else None
        )
    return row


def segment_row(one: MappedSegment, mapped: MappedPartition) -> CacheRow:
    return {
        "kind": "cache_segment",
        "topic": mapped.partition.topic,
        "partition": mapped.partition.partition,
        "directory": mapped.partition.path,
        "segment": one.segment.base_offset,
        "state": str(one.segment.state),
        **_weight_by_kind(one.files),
    }


def partition_row(mapped: MappedPartition, tail: CachedTail | None) -> CacheRow:
    return {
        "kind": "cache_partition",
        "topic": mapped.partition.topic,
        "partition": mapped.partition.partition,
        "directory": mapped.partition.path,
        "segments": len(mapped.segments),
        **_weight_by_kind(mapped.files),
        "tail_size": tail.size if tail else 0,
        "tail_segment": tail.segment if tail else None,
        "tail_position": tail.position if tail else None,
        "tail_first_offset": tail.first_offset if tail else None,
        "tail_last_offset": tail.last_offset if tail else None,
        "tail_first_timestamp_ms": tail.first_timestamp_ms if tail else None,
        "tail_last_timestamp_ms": tail.last_timestamp_ms if tail else None,
    }


_SUMMED = (
    *("size", "pages", "resident_pages", "resident_size"),
    *("dirty_pages", "writeback_pages", "evicted_pages", "recently_evicted_pages"),
    *("log_size", "log_resident_size"),
)


def add_up(total: CacheRow, row: CacheRow) -> None:
    """Add a row to a sum; what is unknown of one is unknown of all."""
    for key in _SUMMED:
        if row[key] is None or (key in total and total[key] is None):
            total[key] = None
        else:
            total[key] = total.get(key, 0) + row[key]


def reader_row(reader: Reader, mapped: MappedPartition) -> CacheRow:
    return {
        "kind": "cache_reader",
        "group": reader.group,
        "topic": mapped.partition.topic,
        "partition": mapped.partition.partition,
        "offset": reader.offset,
        "segment": reader.segment,
        "position": reader.position,
        "is_cached": reader.is_cached,
        "behind_size": reader.behind_size,
        "cold_size": reader.cold_size,
    }


def piece_row(piece: CachePiece, done: CacheDone | None = None) -> CacheRow:
    return {
        "kind": "cache_step",
        "action": str(piece.action),
        "file": piece.file,
        "segment": piece.segment,
        "position": piece.position,
        "end_position": piece.end_position,
        "size": piece.size,
        "why": piece.why or None,
        "resident_before": done.resident_before if done else None,
        "resident_after": done.resident_after if done else None,
    }


PIECE_COLUMNS = [
    Column("action", "ACTION"),
    Column("file", "FILE"),
    Column("position", "FROM", Look.number),
    Column("end_position", "TO", Look.number),
    Column("size", "SIZE", Look.size),
    Column("why", "NOTE", blank=""),
]
DONE_COLUMNS = [
    *PIECE_COLUMNS[:-1],
    Column("resident_before", "BEFORE", Look.size),
    Column("resident_after", "AFTER", Look.size),
]


# --- lines --------------------------------------------------------------------------------------------


def line(row: CacheRow, cells: Sequence[Cell] | None, width: int) -> CacheRow:
    """A row as a table shows it."""
    is_file = "log_size" not in row
    resident = row["resident_size"] if is_file else row["log_resident_size"]
    size, dirty = row["size"] if is_file else row["log_size"], row["dirty_pages"]
    share = None if resident is None else f"{100 * resident / size:.0f}%" if size else "-"
    return {
        "name": _short_name(row),
        **row,
        "share": share,
        "other_resident_size": None if is_file or resident is None else row["resident_size"] - resident,
        "dirty_size": None if dirty is None else dirty * PAGE,
        "strip": "" if cells is None else strip(cells, width),
    }


def _short_name(row: CacheRow) -> str:
    """The partition; what is deleted, stray or to come has a name that no terminal is wide enough for."""
    directory = os.path.basename(os.path.abspath(row.get("directory") or ""))
    known = f"{row.get('topic')}-{row.get('partition')}"
    return (
        directory
        if directory == known or row.get("topic") is None
        else f"{known} ({directory.rpartition('-')[2]})"
    )


def log_cells(segments: Iterable[MappedSegment]) -> list[Cell] | None:
    """The logs of some segments as one, without indexes; None where one of them is not told."""
    found: list[Cell] = []
    for one in segments:
        if one.log is not None:
            if one.log.map.resident is None:
                return None
            found += one.log.map.cells
    return found


def strip(cells: Sequence[Cell], width: int) -> str:
    """The pages from first to last, each character an equal part of them."""
    return "".join(character for character, _share in strip_cells(cells, width))


def strip_cells(cells: Sequence[Cell], width: int) -> Iterator[tuple[str, float]]:
    """A character and the share in memory, for each of `width` equal parts."""
    total = sum(cell.pages for cell in cells)
    if not total:
        return
    resident, dirty = [0.0] * width, [0.0] * width
    at = 0
    for cell in (one for one in cells if one.pages):  # an empty segment has none
        _spread(cell, at * width / total, (at + cell.pages) * width / total, resident, dirty)
        at += cell.pages
    each = total / width
    for part, unwritten in zip(resident, dirty, strict=True):
        share = min(1.0, part / each)
        yield _character(share, unwritten), share


def _spread(cell: Cell, start: float, end: float, resident: list[float], dirty: list[float]) -> None:
    """Add a cell to the characters that it lies under, by how much of it lies there."""
    for place in range(int(start), min(len(resident), int(end) + 1)):
        part = (min(end, place + 1) - max(start, place)) / (end - start)
        if part > 0:
            resident[place] += part * cell.resident
            dirty[place] += part * cell.dirty


def _character(share: float, dirty: float) -> str:
    if dirty > 1e-6:
        return DIRTY
    if share > 0.9999:
        return ALL
    return COLD if share < 1e-6 else MOST if share >= 0.5 else SOME


# --- sentences ----------------------------------------------------------------------------------------


def place_of(mapped: MappedPartition) -> str:
    """The name of its directory, which anybody may have chosen."""
    return printable(mapped.partition.directory or mapped.partition.path)


def tail_sentence(mapped: MappedPartition, tail: CachedTail | None, row: CacheRow) -> str:
    """What the numbers mean to those who read this log."""
    place = place_of(mapped)
    if row["resident_pages"] is None:
        return f"{place}: unknown what is in memory: not all its files are ours, or ours to write"
    if tail is None:
        return f"{place}: the end of the log is not in memory"
    parts = [f"the last {human_size(tail.size)}"]
    if tail.first_timestamp_ms is not None and tail.last_timestamp_ms is not None:
        parts.append(span(tail.last_timestamp_ms - tail.first_timestamp_ms))
    if tail.first_offset is not None and tail.last_offset is not None:
        parts.append(f"offsets {tail.first_offset:,} to {tail.last_offset:,}")
    return f"{place}: {', '.join(parts)} are in memory"


def span(duration_ms: int) -> str:
    """A time in the unit that people would say it in."""
    seconds = max(0, duration_ms) / 1000
    units = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
    for size, name in units:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.1f} seconds"


def reader_sentence(reader: Reader, mapped: MappedPartition) -> str:
    place = f"{place_of(mapped)}: group {printable(reader.group)} at offset {reader.offset:,}"
    if reader.segment is None:
        return f"{place}: at the end of the log, nothing to read"
    if reader.is_cached is None or reader.behind_size is None or reader.cold_size is None:
        return f"{place}: unknown whether that is in memory"
    where = f"byte {reader.position:,} of segment {reader.segment:,}"
    if reader.is_cached and not reader.cold_size:
        return f"{place}: in memory ({where}), all {human_size(reader.behind_size)} up to the end"
    state = "in memory" if reader.is_cached else "NOT in memory"
    return (
        f"{place}: {state} ({where}); of {human_size(reader.behind_size)} up to the end "
        f"{human_size(reader.cold_size)} come from the disk"
    )


def time_of(row: CacheRow) -> str:
    """The time that a partition's memory reaches back to."""
    return iso_time(row["tail_first_timestamp_ms"])
