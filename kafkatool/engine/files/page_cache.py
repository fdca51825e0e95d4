"""What the page cache holds of a file, asked without bringing anything in or throwing anything out.

`mincore` is asked over a mapping without access rights: nobody can touch it by mistake, so a broker that
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
# Far enough behind the end that no broker appends so much between two of our system calls.
_BEYOND_THE_END = 1 << 30

# ioprio_set has no wrapper in the C library; its number depends on the machine.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_IDLE = 3 << 13

# So many pages, 32 MiB, are asked about at once: a question for every window takes a tenth of a walk's time.
_AHEAD = 8192

# cachestat (Linux 6.5) has the same number everywhere.
_CACHESTAT = 451

PageRange = tuple[int, int]
"""First page and the page behind the last."""


class PageCounts(NamedTuple):
    """What cachestat says of a range, in pages."""

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

    Who neither owns a file nor may write it is told that every page is resident. A page far behind the
    end of the file never is, so asking for that one finds out, whatever the reason.
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
    """A function that counts the pages of a range by their state, or says None where the kernel will not.

    Unlike mincore, cachestat never makes anything up: who may not know is refused.
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
    """Which pages of one open file are in the page cache, for the size it has now."""

    def __init__(self, fd: int, address: int, size: int) -> None:
        self._address = address
        self._length = _round_up(size)
        self._counts = page_counter(fd)
        self._resident: PageRange = (0, 0)
        self._mixed: PageRange = (0, 0)

    @classmethod
    def of(cls, fd: int, size: int) -> Residency | None:
        """None where nobody would tell: an empty file, no such call, or neither owner nor writer."""
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
        """One byte a page, 1 where it is resident; None if the kernel would not say."""
        end = min(end, self.page_count)
        if not self._address or first >= end:
            return b""
        return _ask(self._address + first * PAGE, end - first)

    def absent(self, first: int, end: int) -> list[PageRange]:
        """The ranges among these pages that are not resident."""
        end = min(end, self.page_count)
        if self._all_resident(first, end):
            return []
        answer = self.pages(first, end)
        if not answer or 0 not in answer:
            return []
        return [(first + start, first + stop) for start, stop in _runs_of_zero(answer)]

    def _all_resident(self, first: int, end: int) -> bool:
        """Most often all is there, with what follows: counting takes less than half the time of listing."""
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
    """Ask the kernel to forget these clean pages; dirty, locked and mapped ones stay as they are."""
    for first, end in ranges:
        os.posix_fadvise(fd, first * PAGE, (end - first) * PAGE, os.POSIX_FADV_DONTNEED)


def without(ranges: list[PageRange], first: int, end: int) -> list[PageRange]:
    """These ranges, less the pages from `first` up to `end`."""
    pieces = ((a, min(b, first)) for a, b in ranges), ((max(a, end), b) for a, b in ranges)
    return sorted((a, b) for piece in pieces for a, b in piece if a < b)


def only_within(ranges: list[PageRange], first: int, end: int) -> list[PageRange]:
    """These ranges, cut to the pages from `first` up to `end`."""
    return [(max(a, first), min(b, end)) for a, b in ranges if a < end and b > first]


@functools.cache
def keep_freed_memory() -> None:
    """Ask malloc not to hand windows back to the kernel only to fetch them again, page by page."""
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None:  # glibc's
        mallopt(-3, 32 << 20)  # M_MMAP_THRESHOLD
        mallopt(-1, 64 << 20)  # M_TRIM_THRESHOLD


def idle_io_priority() -> bool:
    """Let every other process go first at the disk, once for this process; say whether it worked."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is None:
        return False
    try:
        return bool(_libc().syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_CLASS_IDLE) == 0)
    except (AttributeError, OSError):
        return False
