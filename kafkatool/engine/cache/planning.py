"""Load a part of a log into the page cache or evict it: plan first, then apply.

warm    at most as much as memory is free, the newest first: nothing else is pushed out for it
evict   clean pages only; never the active segment of a log that a broker writes to
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from kafkatool.engine.batches.seek import Range
from kafkatool.engine.cache.residents import MappedPartition
from kafkatool.engine.directory.locate import Located, Search
from kafkatool.engine.directory.log_dir import SegmentState
from kafkatool.engine.files import page_cache
from kafkatool.engine.files.lock import broker_is_alive
from kafkatool.engine.files.page_cache import PAGE, PageRange
from kafkatool.engine.files.residency import map_path, open_to_ask
from kafkatool.engine.files.source import Guest

_AT_ONCE = 1 << 20


class CacheAction(StrEnum):
    WARM = "warm"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class CachePiece:
    """A stretch of one log file. `size` is the bytes to read or evict; if 0, `why` is the reason."""

    action: CacheAction
    file: str
    segment: int
    position: int
    end_position: int
    size: int
    ranges: tuple[PageRange, ...]
    why: str


@dataclass(frozen=True, slots=True)
class CacheDone:
    """A piece that was applied, and its file's bytes in memory before and after."""

    piece: CachePiece
    resident_before: int
    resident_after: int


# --- which bytes --------------------------------------------------------------------------------------


def bounds(
    mapped: MappedPartition, wanted: Range, last_size: int | None, guest: Guest
) -> dict[int, PageRange]:
    """Return base offset of a segment -> wanted bytes of its log, as start and exclusive end."""
    live = [(one.segment.base_offset, one.log.map.size) for one in mapped.live if one.log is not None]
    if last_size is not None:
        return _last(live, last_size)
    search = Search([one.segment for one in mapped.live], guest, 0)
    first = _found(search, wanted.from_offset, wanted.from_ms)
    behind = _found(search, wanted.to_offset, wanted.to_ms)
    starts_at_all = wanted.from_offset is not None or wanted.from_ms is not None
    if starts_at_all and first is None:
        return {}
    begin = (first.segment, first.position) if first else (-1, 0)
    stop = (behind.segment, behind.position) if behind else (1 << 63, 0)
    meant = {}
    for base, size in live:
        start = begin[1] if base == begin[0] else 0
        end = stop[1] if base == stop[0] else size
        if begin[0] <= base <= stop[0] and start < end:
            meant[base] = (start, end)
    return meant


def _found(search: Search, offset: int | None, time_ms: int | None) -> Located | None:
    if offset is not None:
        first = search.segments[0].base_offset if search.segments else 0
        return search.offset(max(offset, first))
    return None if time_ms is None else search.time(time_ms)


def _last(live: list[tuple[int, int]], wanted: int) -> dict[int, PageRange]:
    meant: dict[int, PageRange] = {}
    for base, size in reversed(live):
        if wanted > 0 and size:
            meant[base] = (max(0, size - wanted), size)
        wanted -= size
    return meant


# --- plans --------------------------------------------------------------------------------------------


def plan(
    mapped: MappedPartition, action: CacheAction, meant: dict[int, PageRange], budget: int
) -> list[CachePiece]:
    """Return what to do with each log, the newest first; `budget` is the maximum number of bytes to load."""
    is_live = broker_is_alive(mapped.partition.path)
    pieces = []
    for one in reversed(mapped.live):
        log, where = one.log, meant.get(one.segment.base_offset)
        if log is None or where is None:
            continue
        blank = CachePiece(action, log.entry.path, one.segment.base_offset, *where, 0, (), "")
        if log.map.runs is None:
            pieces.append(replace(blank, why="nobody tells what of it is in memory"))
        elif action is CacheAction.WARM:
            piece = _warming(blank, list(log.map.resident_runs()), budget)
            budget -= piece.size
            pieces.append(piece)
        elif is_live and one.segment.state is SegmentState.ACTIVE:
            pieces.append(replace(blank, why="active, and a broker is writing to it: never evicted"))
        else:
            pieces.append(_evicting(blank, list(log.map.resident_runs())))
    return pieces


def _warming(blank: CachePiece, resident: list[PageRange], budget: int) -> CachePiece:
    """Return the piece to load: from the end backwards, as far as the budget goes."""
    absent: list[PageRange] = [(blank.position // PAGE, -(-blank.end_position // PAGE))]
    for first, end in resident:
        absent = page_cache.without(absent, first, end)
    if not absent:
        return replace(blank, why="all of it is in memory")
    taken, room = list[PageRange](), max(0, budget) // PAGE
    for first, end in reversed(absent):
        first = max(first, end - room)
        room -= end - first
        if first < end:
            taken.append((first, end))
    size = sum(end - first for first, end in taken) * PAGE
    is_cut = size < sum(end - first for first, end in absent) * PAGE
    return replace(
        blank, size=size, ranges=tuple(reversed(taken)), why="as much as memory has free" if is_cut else ""
    )


def _evicting(blank: CachePiece, resident: list[PageRange]) -> CachePiece:
    """Return the piece to evict: whole pages only, so a page that is partly outside stays."""
    inside = page_cache.only_within(resident, -(-blank.position // PAGE), -(-blank.end_position // PAGE))
    size = sum(end - first for first, end in inside) * PAGE
    return replace(blank, size=size, ranges=tuple(inside), why="" if size else "none of it is in memory")


def free_memory(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> int:
    """Return the bytes of memory that are free, on this machine and within the limit of our control group.

    A sixteenth is left free, so that the kernel need not reclaim pages at once.
    """
    with open(f"{proc}/meminfo", encoding="ascii") as file:
        free = int(re.findall(r"^MemFree:\s+(\d+) kB", file.read(), re.MULTILINE)[0]) * 1024
    with suppress(OSError, ValueError, IndexError):
        with open(f"{proc}/self/cgroup", encoding="utf-8") as file:
            group = cgroup + file.read().rpartition("0::")[2].strip().rstrip("/")
        with open(f"{group}/memory.max", encoding="ascii") as most, open(f"{group}/memory.current") as now:
            free = min(free, int(most.read()) - int(now.read()))  # "max" is no number
    return max(0, free - free // 16)


# --- applying -----------------------------------------------------------------------------------------


def apply(pieces: list[CachePiece], guest: Guest) -> Iterator[CacheDone]:
    """Apply the pieces, and check the page cache again after each. Raises OSError."""
    for piece in pieces:
        if not piece.size:
            continue
        before = map_path(piece.file).resident or 0
        fd = open_to_ask(piece.file)
        try:
            if piece.action is CacheAction.EVICT:
                page_cache.drop(fd, list(piece.ranges))
            else:
                _read(fd, piece, guest)
        finally:
            os.close(fd)
        yield CacheDone(piece, before * PAGE, (map_path(piece.file).resident or 0) * PAGE)


def _read(fd: int, piece: CachePiece, guest: Guest) -> None:
    # Without this the kernel would read ahead, beyond the plan.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    buffer = bytearray(_AT_ONCE)
    for first, end in piece.ranges:
        for position in range(first * PAGE, end * PAGE, _AT_ONCE):
            size = min(_AT_ONCE, end * PAGE - position)
            guest.pace.spend(size)
            os.preadv(fd, [memoryview(buffer)[:size]], position)
