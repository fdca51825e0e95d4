"""Query what the page cache holds of a file, without loading or evicting anything.

`mincore` is called on a mapping without access rights: it cannot be touched by mistake, so a broker that
truncates the file cannot kill us with SIGBUS.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ctypes

PAGE = os.sysconf("SC_PAGESIZE")

_PROT_NONE = 0
_MAP_SHARED = 1
# Far enough past the end that no broker appends this much between two of our system calls.
_BEYOND_THE_END = 1 << 30

# ioprio_set has no wrapper in the C library; its number depends on the machine.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_IDLE = 3 << 13

# Pages per query, 32 MiB: one query per window would take a tenth of a walk's time.
_AHEAD = 8192

# cachestat (Linux 6.5) has the same number everywhere.
_CACHESTAT = 451

PageRange = tuple[int, int]
"""First page, and the page after the last."""


class PageCounts(NamedTuple):
    """The result of cachestat for a range, in pages."""

    cached: int
    dirty: int
    writeback: int
    evicted: int
    recently_evicted: int


NO_PAGES = PageCounts(0, 0, 0, 0, 0)


@functools.cache
def _libc() -> ctypes.CDLL:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    return libc


def _map_without_access(fd: int, position: int, size: int) -> int | None:
    address: int | None = _libc().mmap(None, size, _PROT_NONE, _MAP_SHARED, fd, position)
    return None if address is None or address & (PAGE - 1) else address  # MAP_FAILED is -1


def _kernel_tells_the_truth(fd: int, size: int) -> bool:
    """Whether mincore answers honestly here.

    For a process that neither owns the file nor may write it, mincore reports every page as resident. A page
    far past the end of the file never is, so querying that one detects this, whatever the reason.
    """
    beyond = _round_up(size) + _BEYOND_THE_END
    address = _map_without_access(fd, beyond, PAGE)
    if address is None:
        return False
    try:
        answer = _ask(address, 1)
        return answer is not None and answer[0] & 1 == 0
    finally:
        _libc().munmap(address, PAGE)


def _ask(address: int, count: int) -> bytes | None:
    import ctypes

    answer = ctypes.create_string_buffer(count)
    if _libc().mincore(address, count * PAGE, answer) != 0:
        return None
    return answer.raw


def page_counter(fd: int) -> Callable[[int, int], PageCounts | None]:
    """Return a function that counts the pages of a range by state; its result is None if the kernel refuses.

    Unlike mincore, cachestat never gives false answers: without permission it fails.
    """
    import ctypes

    wanted = (ctypes.c_uint64 * 2)()  # byte position, size
    found = (ctypes.c_uint64 * 5)()
    syscall = _libc().syscall

    def count(first: int, end: int) -> PageCounts | None:
        if first >= end:
            return NO_PAGES
        wanted[0], wanted[1] = first * PAGE, (end - first) * PAGE
        if syscall(_CACHESTAT, fd, wanted, found, 0) != 0:
            return None
        return PageCounts._make(found)

    return count


def _round_up(size: int) -> int:
    return -(-size // PAGE) * PAGE


class Residency:
    """Which pages of one open file are in the page cache, for the size given."""

    def __init__(self, fd: int, address: int, size: int) -> None:
        self._address = address
        self._length = _round_up(size)
        self._counts = page_counter(fd)
        self._resident: PageRange = (0, 0)
        self._mixed: PageRange = (0, 0)

    @classmethod
    def of(cls, fd: int, size: int) -> Residency | None:
        """Open the residency of a file; None if unknown: empty, no such system call, or no permission."""
        if size <= 0:
            return None
        try:
            if not _kernel_tells_the_truth(fd, size):
                return None
            address = _map_without_access(fd, 0, _round_up(size))
        except (AttributeError, OSError, OverflowError):  # no libc, no mincore
            return None
        return None if address is None else cls(fd, address, size)

    @property
    def page_count(self) -> int:
        return self._length // PAGE

    def pages(self, first: int, end: int) -> bytes | None:
        """Return one byte per page, 1 if it is resident; None if the kernel refuses."""
        end = min(end, self.page_count)
        if not self._address or first >= end:
            return b""
        return _ask(self._address + first * PAGE, end - first)

    def absent(self, first: int, end: int) -> list[PageRange]:
        """Return the ranges of these pages that are not resident."""
        end = min(end, self.page_count)
        if self._all_resident(first, end):
            return []
        answer = self.pages(first, end)
        if not answer or 0 not in answer:
            return []
        return [(first + start, first + stop) for start, stop in _runs_of_zero(answer)]

    def _all_resident(self, first: int, end: int) -> bool:
        """Whether all pages are resident, usually true: counting takes less than half as long as listing."""
        if _within((first, end), self._resident):
            return True
        ahead = min(first + _AHEAD, self.page_count)
        if end < ahead and not _within((first, end), self._mixed):
            if self._are_cached(first, ahead):
                self._resident = first, ahead
                return True
            self._mixed = first, ahead
        return self._are_cached(first, end)

    def _are_cached(self, first: int, end: int) -> bool:
        counts = self._counts(first, end)
        return counts is not None and counts.cached == end - first

    def close(self) -> None:
        if self._address:
            _libc().munmap(self._address, self._length)
            self._address = 0

    def __enter__(self) -> Residency:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _within(inner: PageRange, outer: PageRange) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _runs_of_zero(answer: bytes) -> Iterator[tuple[int, int]]:
    at = answer.find(0)
    while at >= 0:
        end = answer.find(1, at)
        end = len(answer) if end < 0 else end
        yield at, end
        at = answer.find(0, end)


def drop(fd: int, ranges: list[PageRange]) -> None:
    """Ask the kernel to drop these pages; dirty, locked and mapped ones stay."""
    for first, end in ranges:
        os.posix_fadvise(fd, first * PAGE, (end - first) * PAGE, os.POSIX_FADV_DONTNEED)


def without(ranges: list[PageRange], first: int, end: int) -> list[PageRange]:
    """Return these ranges without the pages in [first, end)."""
    pieces = ((a, min(b, first)) for a, b in ranges), ((max(a, end), b) for a, b in ranges)
    return sorted((a, b) for piece in pieces for a, b in piece if a < b)


def only_within(ranges: list[PageRange], first: int, end: int) -> list[PageRange]:
    """Return these ranges, limited to the pages in [first, end)."""
    return [(max(a, first), min(b, end)) for a, b in ranges if a < end and b > first]


@functools.cache
def keep_freed_memory() -> None:
    """Make malloc keep freed windows, instead of returning them to the kernel and faulting them in again."""
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None:  # glibc's
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        mallopt(-1, 64 << 20)  # M_TRIM_THRESHOLD


def idle_io_priority() -> bool:
    """Give this process idle I/O priority; return whether that worked."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is None:
        return False
    try:
        return bool(_libc().syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_CLASS_IDLE) == 0)
    except (AttributeError, OSError):
        return False
