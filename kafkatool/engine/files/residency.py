"""Map which pages of a file are in the page cache, without touching a page.

    cachestat (Linux 6.5)   how many pages of a range are cached, dirty, being written, evicted
    mincore                 which ones; used only where some are cached and some are not

Since Linux 5.2, mincore reports every page as resident to a process that neither owns the file nor may write
it. Such an answer is detected and discarded: what is unknown is None here, never a guess.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from kafkatool.engine.files import page_cache
from kafkatool.engine.files.page_cache import PAGE, PageCounts, PageRange, Residency

CELLS = 128
"""How many cells a file is divided into for drawing."""
_WINDOW = 1 << 16
"""Pages per mincore call: 64 KiB of results."""

Counter = Callable[[int, int], PageCounts | None]

NOT_TOLD = "the kernel does not tell: neither owner of the file nor allowed to write it"


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a file: how many pages it has, how many are in memory, and how many of those are dirty."""

    pages: int
    resident: int
    dirty: int


def condensed(cells: Iterable[Cell], most: int) -> list[Cell]:
    """Merge cells until there are at most `most`."""
    found = list(cells)
    while len(found) > most:
        pairs = zip(found[::2], [*found[1::2], Cell(0, 0, 0)], strict=False)
        found = [Cell(a.pages + b.pages, a.resident + b.resident, a.dirty + b.dirty) for a, b in pairs]
    return found


@dataclass(frozen=True, slots=True)
class FileMap:
    """The pages of a file at one moment. `runs` alternates first page and page after the last."""

    size: int
    pages: int
    resident: int | None
    counts: PageCounts | None
    """The result of cachestat; None before Linux 6.5."""
    runs: array[int] | None
    """None if only counts are known, or nothing at all."""
    cells: tuple[Cell, ...]

    @property
    def resident_size(self) -> int:
        """Bytes in memory; the last page counts only up to the end of the file."""
        if not self.resident:
            return 0
        has_last = self.runs[-1] == self.pages if self.runs else self.resident == self.pages
        return self.resident * PAGE - (self.pages * PAGE - self.size if has_last else 0)

    def resident_runs(self) -> Iterator[PageRange]:
        runs = self.runs or array("q")
        return zip(runs[::2], runs[1::2], strict=True)

    def tail_start(self, end: int) -> int:
        """Return the first page of the gapless resident run up to page `end`; `end` if there is none."""
        at = bisect_right(self.runs, end - 1) if self.runs is not None else 0
        return self.runs[at - 1] if self.runs is not None and at % 2 else end

    def resident_between(self, first: int, end: int) -> int:
        """Count the pages in [first, end) that are in memory."""
        return sum(b - a for a, b in page_cache.only_within(list(self.resident_runs()), first, end))


def open_to_ask(path: str) -> int:
    """Open a file without changing anything, not even its access time. Raises OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    try:
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # O_NOATIME is for the owner only
        return os.open(path, flags)


def map_path(path: str) -> FileMap:
    """Return the map of a file. Raises OSError if it cannot be opened."""
    fd = open_to_ask(path)
    try:
        return map_file(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)


def map_file(fd: int, size: int) -> FileMap:
    """Return the map of the first `size` bytes of an open file, which may shrink or grow meanwhile."""
    pages = -(-size // PAGE)
    count = page_cache.page_counter(fd)
    counts = count(0, pages)
    runs = _runs(fd, size, pages, counts, count)
    if runs is not None:
        resident: int | None = sum(runs[1::2]) - sum(runs[::2])
    else:
        resident = None if counts is None else min(counts.cached, pages)
    return FileMap(size, pages, resident, counts, runs, _cells(pages, runs, counts, count))


def _runs(fd: int, size: int, pages: int, counts: PageCounts | None, count: Counter) -> array[int] | None:
    if counts is not None and counts.cached in (0, pages):
        return array("q", (0, pages) if counts.cached else ())
    if not size:
        return array("q")
    residency = Residency.of(fd, size)
    if residency is None:
        return None
    runs = array("q")
    with residency:
        for first in range(0, pages, _WINDOW):
            end = min(first + _WINDOW, pages)
            # If one window covers the whole file, its counts are known.
            counts = count(first, end) if pages > _WINDOW else None
            if not _add_window(runs, residency, first, end, counts):
                return None
    return runs


def _add_window(
    runs: array[int], residency: Residency, first: int, end: int, counts: PageCounts | None
) -> bool:
    """Add the resident runs of these pages; return False if the kernel refuses to answer."""
    if counts is not None and counts.cached in (0, end - first):
        _add(runs, first, end) if counts.cached else None
        return True
    answer = residency.pages(first, end)
    if answer is None:
        return False
    at = answer.find(1)
    while at >= 0:
        stop = answer.find(0, at)
        stop = len(answer) if stop < 0 else stop
        _add(runs, first + at, first + stop)
        at = answer.find(1, stop)
    return True


def _add(runs: array[int], first: int, end: int) -> None:
    if runs and runs[-1] == first:
        runs[-1] = end
    else:
        runs.extend((first, end))


def _cells(
    pages: int, runs: array[int] | None, counts: PageCounts | None, count: Counter
) -> tuple[Cell, ...]:
    """Divide a file into cells; one cell is enough if all or none of it is in memory and clean."""
    if runs is None and counts is None:
        return ()
    has_dirty = counts is not None and counts.dirty > 0
    if (
        not has_dirty
        and runs is not None
        and len(runs) in (0, 2)
        and (not runs or runs[1] - runs[0] == pages)
    ):
        return (Cell(pages, pages if runs else 0, 0),)
    bounds = [pages * at // CELLS for at in range(CELLS + 1)]
    found = []
    ends = _running_total(runs) if runs is not None else None
    for first, end in pairwise(bounds):
        told = count(first, end) if has_dirty or ends is None else None
        resident = told.cached if ends is None and told is not None else 0
        if ends is not None and runs is not None:
            resident = _below(runs, ends, end) - _below(runs, ends, first)
        found.append(Cell(end - first, resident, told.dirty if told is not None else 0))
    return tuple(cell for cell in found if cell.pages)


def _running_total(runs: array[int]) -> list[int]:
    total, sums = 0, []
    for first, end in zip(runs[::2], runs[1::2], strict=True):
        sums.append(total)
        total += end - first
    return sums


def _below(runs: array[int], sums: list[int], page: int) -> int:
    """Count the resident pages below this one."""
    at = (bisect_right(runs, page) - 1) // 2
    return sums[at] + min(page, runs[2 * at + 1]) - runs[2 * at] if at >= 0 else 0
