"""What `cache-map` writes: rows of numbers, strips of characters, and sentences about them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from kafkatool.commands.rows.row_table import RowTable
from kafkatool.commands.screen.table import Column, Look
from kafkatool.commands.screen.values import human_size, iso_time, printable
from kafkatool.engine.batches import row_fields
from kafkatool.engine.batches.row_fields import (
    PARTITION,
    TOPIC,
    flag,
    inside,
    int64,
    items,
    size,
    text,
    time_ms,
    values,
    word,
)
from kafkatool.engine.cache.planning import CacheDone, CachePiece
from kafkatool.engine.cache.residents import CachedTail, MappedFile, MappedPartition, MappedSegment, Reader
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.residency import Cell, FileMap
from kafkatool.format import kinds

CacheRow = dict[str, Any]


class CacheView(StrEnum):
    topics = "topics"
    partitions = "partitions"
    segments = "segments"
    files = "files"


COLD, SOME, MOST, ALL, DIRTY, UNKNOWN = "·░▒█▓?"
LEGEND = f"{ALL} in memory  {MOST} most of it  {SOME} some  {COLD} on disk only  {DIRTY} not yet written"


def _sum_if_told(numbers: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the numbers is unknown."""
    known = list(numbers)
    return None if None in known else sum(one for one in known if one is not None)


def _counted(name: str) -> Callable[[list[FileMap]], int | None]:
    """Return a function that sums one of the kernel's counts."""
    return lambda maps: _sum_if_told(one.counts and getattr(one.counts, name) for one in maps)


_PAGES = (
    size("size", "bytes", lambda maps: sum(one.size for one in maps)),
    int64("pages", "pages of the files", lambda maps: sum(one.pages for one in maps)),
    int64(
        "resident_pages",
        "pages in the page cache; null where the kernel does not tell us",
        lambda maps: _sum_if_told(one.resident for one in maps),
    ),
    size(
        "resident_size",
        "bytes in the page cache, likewise",
        lambda maps: _sum_if_told(None if one.resident is None else one.resident_size for one in maps),
    ),
    int64(
        "dirty_pages",
        "pages that are not yet written to the disk; null before Linux 6.5, or if not told",
        _counted("dirty"),
    ),
    int64("writeback_pages", "pages that are being written, likewise", _counted("writeback")),
    int64("evicted_pages", "pages that were in the cache and are no more, likewise", _counted("evicted")),
    int64(
        "recently_evicted_pages",
        "those whose eviction memory pressure would explain, likewise",
        _counted("recently_evicted"),
    ),
)
_LOGS = (
    size("log_size", "bytes of the log files among them"),
    size("log_resident_size", "bytes of those in the page cache, likewise"),
)
_ROUND = int64("round", "number of the look, from 0, with --watch", optional=True)
FILES = RowTable(
    "file",
    "cache-map",
    "A file and what of it is in the page cache.",
    row_fields.FILE._replace(get="path"),
    *TOPIC,
    int64("segment", "base offset of the segment; null where it belongs to none", "offset"),
    text("type", "what kind of file it is", "kind.title"),
    *_PAGES,
    items(
        "resident_ranges",
        "with --pages: first byte and byte behind the last of all that is resident",
        optional=True,
    ),
    _ROUND,
)
SEGMENTS = RowTable(
    "cache_segment",
    "cache-map",
    "A segment with all its files (--segments).",
    *PARTITION,
    int64("segment", "base offset of the segment", "base_offset"),
    word("state", "active, closed, deleted, cleaned, swap or orphan"),
    *_PAGES,
    *_LOGS,
    _ROUND,
)
_TAIL = (
    size("tail_size", "bytes of the log at its end that are in memory without a gap", "size"),
    int64(
        "tail_segment", "base offset of the segment in which they begin; null where there are none", "segment"
    ),
    int64("tail_position", "byte in its log where they begin, likewise", "position"),
    int64("tail_first_offset", "first offset of the first whole batch in memory, likewise", "first_offset"),
    int64("tail_last_offset", "last offset of the log, likewise", "last_offset"),
    time_ms("tail_first_timestamp_ms", "time of that first batch, likewise", "first_timestamp_ms"),
    time_ms("tail_last_timestamp_ms", "greatest time of the last segment, likewise", "last_timestamp_ms"),
)
PARTITIONS = RowTable(
    "cache_partition",
    "cache-map",
    "A partition, and how far back from its end it is in memory without a gap.",
    *inside("partition", *PARTITION),
    int64("segments", "number of segments", lambda mapped: len(mapped.segments)),
    *_PAGES,
    *_LOGS,
    *_TAIL,
    _ROUND,
)
TOPICS = RowTable(
    "cache_topic",
    "cache-map",
    "A topic with all its partitions (--topics).",
    TOPIC[0],
    int64("partitions", "number of partitions"),
    *_PAGES,
    *_LOGS,
    _ROUND,
)
READERS = RowTable(
    "cache_reader",
    "cache-map",
    "A consumer group, and what its next fetch meets (--lag, --groups).",
    text("group", "the group"),
    *TOPIC,
    int64("offset", "the offset it reads next"),
    int64("segment", "base offset of the segment that holds it; null at the end of the log"),
    int64("position", "byte where the batch begins, likewise"),
    flag("is_cached", "whether the page of that byte is in memory; null where we are not told"),
    size("behind_size", "bytes from there to the end of the log"),
    size("cold_size", "bytes of these that are not in memory"),
)
PIECES = RowTable(
    "cache_step",
    "cache-map",
    "A stretch of a log that is to be read into memory or forgotten (--warm, --evict).",
    word("action", "warm or evict"),
    row_fields.FILE,
    int64("segment", "base offset of the segment"),
    int64("position", "first byte that is meant"),
    int64("end_position", "byte behind the last"),
    size("size", "bytes that would be read or forgotten"),
    text("why", "why that is not all of them, or none; else null", lambda piece: piece.why or None),
    size("resident_before", "with --apply: bytes of the file in memory before; else null"),
    size("resident_after", "and after"),
)
_SHOWN = {"action": "ACTION", "file": "FILE", "position": "FROM", "end_position": "TO", "size": "SIZE"}
PIECE_COLUMNS = PIECES.columns(**_SHOWN, why=Column("why", "NOTE", blank=""))
DONE_COLUMNS = PIECES.columns(**_SHOWN, resident_before="BEFORE", resident_after="AFTER")

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
    if is_watched:  # both do not fit into a narrow terminal
        numbers = [*(column for column in numbers if column.title != "INDEXES"), _CHANGE]
    return [*_FIRST[view], *numbers, _MAP]


# --- numbers ------------------------------------------------------------------------------------------


def _weight(files: Iterable[MappedFile]) -> CacheRow:
    """Return the sums, and those of logs alone: preallocated indexes would hide them."""
    files = list(files)
    total = values(_PAGES, [file.map for file in files])
    logs = values(_PAGES, [file.map for file in files if file.entry.kind is kinds.LOG])
    return {**total, "log_size": logs["size"], "log_resident_size": logs["resident_size"]}


def file_row(file: MappedFile, mapped: MappedPartition, with_ranges: bool) -> CacheRow:
    given = values(TOPIC, mapped.partition) | values(_PAGES, [file.map])
    if with_ranges:
        runs = file.map.resident_runs()
        known = file.map.runs is not None
        given["resident_ranges"] = (
            [[first * PAGE, min(end * PAGE, file.map.size)] for first, end in runs] if known else None
        )
    return FILES.row(file.entry, **given)


def segment_row(one: MappedSegment, mapped: MappedPartition) -> CacheRow:
    return SEGMENTS.row(one.segment, **values(PARTITION, mapped.partition), **_weight(one.files))


def partition_row(mapped: MappedPartition, tail: CachedTail | None) -> CacheRow:
    given = {**_weight(mapped.files), **values(_TAIL, tail)}
    return PARTITIONS.row(mapped, **given | {"tail_size": tail.size if tail else 0})


_SUMMED = tuple(field.key for field in (*_PAGES, *_LOGS))


def add_up(total: CacheRow, row: CacheRow) -> None:
    """Add a row to a sum; if one value is unknown, the sum is unknown."""
    for key in _SUMMED:
        if row[key] is None or (key in total and total[key] is None):
            total[key] = None
        else:
            total[key] = total.get(key, 0) + row[key]


def reader_row(reader: Reader, mapped: MappedPartition) -> CacheRow:
    return READERS.row(reader, **values(TOPIC, mapped.partition))


def piece_row(piece: CachePiece, done: CacheDone | None = None) -> CacheRow:
    return PIECES.row(piece, **values(PIECES.fields[-2:], done))


# --- lines --------------------------------------------------------------------------------------------


def line(row: CacheRow, cells: Sequence[Cell] | None, width: int) -> CacheRow:
    """Return a row as a table shows it."""
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
    """Return the partition; the names of deleted, stray or future directories are too wide for a terminal."""
    directory = os.path.basename(os.path.abspath(row.get("directory") or ""))
    known = f"{row.get('topic')}-{row.get('partition')}"
    return (
        directory
        if directory == known or row.get("topic") is None
        else f"{known} ({directory.rpartition('-')[2]})"
    )


def log_cells(segments: Iterable[MappedSegment]) -> list[Cell] | None:
    """Return the cells of some segments' logs as one list, without indexes; None if one is unknown."""
    found: list[Cell] = []
    for one in segments:
        if one.log is not None:
            if one.log.map.resident is None:
                return None
            found += one.log.map.cells
    return found


def strip(cells: Sequence[Cell], width: int) -> str:
    """Draw the pages from first to last, an equal part of them per character."""
    return "".join(character for character, _share in strip_cells(cells, width))


def strip_cells(cells: Sequence[Cell], width: int) -> Iterator[tuple[str, float]]:
    """Yield, for each of `width` equal parts, a character and the share in memory."""
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
    """Add a cell to the characters that it overlaps, in proportion to the overlap."""
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
    """Return the name of the partition's directory, printable: it may contain anything."""
    return printable(mapped.partition.directory or mapped.partition.path)


def tail_sentence(mapped: MappedPartition, tail: CachedTail | None, row: CacheRow) -> str:
    """Describe what the numbers mean for consumers of this log."""
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
    """Format a time in the unit that people would use."""
    seconds = max(0, duration_ms) / 1000
    units = ((86400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))
    for length, name in units:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
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
    """Return how far back in time a partition's cached tail reaches."""
    return iso_time(row["tail_first_timestamp_ms"])
