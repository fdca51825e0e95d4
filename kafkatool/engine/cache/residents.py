"""Show what the page cache holds of logs, partition by partition, so that memory is bounded.

    map_targets(targets, …)   every partition with the maps of its files
    cached_tail(…)            how far back from the end a log is in memory, in bytes, offsets and time
    reading_from(…)           where a group at an offset would read, and how much of that is only on disk

Looking loads nothing into the cache: maps come from the kernel, and logs and indexes are read
cache-neutrally. Files that vanish meanwhile are left out, with a note.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kafkatool.engine.batches.headers import plausible_batches
from kafkatool.engine.batches.indexes import sound_offset_index
from kafkatool.engine.directory.extent import (
    first_timestamp,
    last_indexed_position,
    segment_extent,
)
from kafkatool.engine.directory.locate import Search
from kafkatool.engine.directory.log_dir import (
    FileEntry,
    ListingProblem,
    Partition,
    Segment,
    SegmentState,
)
from kafkatool.engine.directory.selection import SelectedPlace, Selection
from kafkatool.engine.directory.targets import Target
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.residency import FileMap, map_path
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import KafkatoolError
from kafkatool.format import kinds


@dataclass(frozen=True, slots=True)
class MappedFile:
    entry: FileEntry
    map: FileMap


@dataclass(frozen=True, slots=True)
class MappedSegment:
    """A segment, and those of its files that still exist."""

    segment: Segment
    files: tuple[MappedFile, ...]

    @property
    def log(self) -> MappedFile | None:
        return next((file for file in self.files if file.entry.kind is kinds.LOG), None)


@dataclass(frozen=True, slots=True)
class MappedPartition:
    """A partition with the maps of its files; `others` belong to no segment."""

    partition: Partition
    log_dir: str | None
    segments: tuple[MappedSegment, ...]
    others: tuple[MappedFile, ...]

    @property
    def files(self) -> Iterator[MappedFile]:
        for segment in self.segments:
            yield from segment.files
        yield from self.others

    @property
    def live(self) -> list[MappedSegment]:
        return [one for one in self.segments if one.segment.is_live and one.log is not None]


@dataclass(slots=True)
class Notes:
    """Files that vanished during the run, and files whose map could not be read."""

    vanished: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    untold: int = 0

    def add(self, path: str, error: OSError) -> None:
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            self.vanished.append(path)
        else:
            self.failures.append(f"{path}: {error.strerror}")

    def add_problems(self, problems: Iterable[ListingProblem]) -> None:
        for problem in problems:
            if problem.vanished:
                self.vanished.append(problem.path)
            elif not problem.is_malformed:
                self.failures.append(f"{problem.path}: {problem.message}")


# --- maps ---------------------------------------------------------------------------------------------


def noted_places(selection: Selection, notes: Notes) -> Iterator[SelectedPlace]:
    """Yield the places of a selection, one at a time; what cannot be listed is noted at once."""
    problems: list[ListingProblem] = []
    for place in selection.places(problems):
        notes.add_problems(problems)
        problems.clear()
        yield place
    notes.add_problems(problems)


def map_targets(targets: Iterable[Target], guest: Guest, notes: Notes) -> Iterator[MappedPartition]:
    """Yield the maps of all targets, one partition at a time."""
    for place in noted_places(Selection(targets, guest), notes):
        log_dir = None if place.log_dir is None else place.log_dir.path
        yield map_partition(place.partition, log_dir, notes)


def map_partition(
    partition: Partition,
    log_dir: str | None,
    notes: Notes,
    ask: Callable[[str], FileMap] = map_path,
) -> MappedPartition:
    def mapped(entries: Iterable[FileEntry]) -> Iterator[MappedFile]:
        for entry in entries:
            try:
                found = ask(entry.path)
            except OSError as error:
                notes.add(entry.path, error)
                continue
            notes.untold += found.resident is None
            yield MappedFile(entry, found)

    segments = tuple(MappedSegment(one, tuple(mapped(one.files))) for one in partition.segments)
    return MappedPartition(partition, log_dir, segments, tuple(mapped(partition.other_files)))


# --- cached tails -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedTail:
    """The end of a log that is in memory without a gap; None means unknown."""

    size: int
    segment: int
    position: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None


def cached_tail(mapped: MappedPartition, guest: Guest) -> CachedTail | None:
    """Return how far back from its end a log is in memory; None if its end is not, or that is unknown."""
    size, begins = 0, None
    for one in reversed(mapped.live):
        log = one.log
        end = _data_end(one, guest)
        if log is None or end == 0:  # an active segment may still be empty
            continue
        first = log.map.tail_start(-(-end // PAGE))
        start = min(first * PAGE, end)
        if start < end:
            begins, size = (one, start), size + end - start
        if start:
            break
    if begins is None:
        return None
    offset, time_ms = _first_batch(begins[0], begins[1], guest)
    filled = [one for one in mapped.live if one.log is not None and one.log.map.size]
    last = segment_extent(filled[-1].segment, guest)
    base = begins[0].segment.base_offset
    return CachedTail(size, base, begins[1], offset, last.last_offset, time_ms, last.max_timestamp_ms)


def _data_end(one: MappedSegment, guest: Guest) -> int:
    """Return where the batches of a log end: zeros after them are preallocated, and never read."""
    log = one.log
    if log is None:
        return 0
    is_preallocated = log.entry.allocated + PAGE < log.map.size
    if one.segment.state is not SegmentState.ACTIVE or not is_preallocated:
        return log.map.size
    with suppress(OSError, KafkatoolError), open_source(log.entry.path, guest) as source:
        position = last_indexed_position(source, one.segment, guest)
        for found in plausible_batches(source, position):
            position += found.size
        return min(position, log.map.size)
    return log.map.size


def _first_batch(one: MappedSegment, start: int, guest: Guest) -> tuple[int | None, int | None]:
    """Return offset and time of the first batch that begins at or after a position."""
    log = one.log
    if log is None:
        return None, None
    with suppress(OSError, KafkatoolError), open_source(log.entry.path, guest) as source:
        position = 0
        if start:
            known = sound_offset_index(log.entry.path, log.entry.size, guest).positions
            at = bisect_left(known, start)
            position = known[min(at, len(known) - 1)] if known else 0
        for found in plausible_batches(source, position):
            if found.position >= start:
                return found.header.base_offset, first_timestamp(found.header)
    return None, None


# --- groups that read from disk -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader:
    """Where a group would read next. `cold_size`: bytes from there to the log's end that are not cached."""

    group: str
    offset: int
    segment: int | None
    position: int | None
    is_cached: bool | None
    behind_size: int | None
    cold_size: int | None


def reading_from(mapped: MappedPartition, group: str, offset: int, guest: Guest) -> Reader:
    """Return what a fetch of this group would read. At the end of the log there is nothing to read yet."""
    live = mapped.live
    search = Search([one.segment for one in live], guest, 0)
    try:
        found = search.offset(max(offset, live[0].segment.base_offset)) if live else None
    except (FileNotFoundError, KafkatoolError):
        found = None
    if found is None:
        return Reader(group, offset, None, None, None, 0 if live else None, 0 if live else None)
    behind = cold = 0
    is_cached = None
    for one in live:
        log = one.log
        if log is None or one.segment.base_offset < found.segment:
            continue
        start = found.position if one.segment.base_offset == found.segment else 0
        if log.map.runs is None:
            return Reader(group, offset, found.segment, found.position, None, None, None)
        first, end = start // PAGE, log.map.pages
        absent = end - first - log.map.resident_between(first, end)
        if one.segment.base_offset == found.segment:
            is_cached = log.map.resident_between(first, first + 1) == 1
        behind += log.map.size - start
        cold += min(absent * PAGE, log.map.size - start)
    return Reader(group, offset, found.segment, found.position, is_cached, behind, cold)
