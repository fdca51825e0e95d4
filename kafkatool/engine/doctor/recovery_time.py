"""About how long a start takes to scan what it does not trust, from what the volume gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kafkatool.engine.doctor.loading import Scans
from kafkatool.engine.files.page_cache import PAGE
from kafkatool.engine.files.residency import FileMap, map_path
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import KafkatoolError

# What one thread of a broker checks in a second, with the pages in memory: seen from 0.4 (indexes missing,
# every byte twice) to 0.95 GiB; and a third of that where others want the processor too.
_FASTEST = 1 << 30
_SLOWEST = 128 << 20
_SHARE_OF_VOLUME = 0.5
"""What is left of the measured rate, at worst: a start has other things to read, and others read too."""
_MOST_MS_A_PARTITION = 20
_PROBE = 1 << 20
_PROBES = 32
_PROBE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RecoveryTime:
    """Milliseconds; `most_ms` is None where the volume's rate is not known."""

    size: int
    partitions: int
    least_ms: int
    most_ms: int | None


def measured_rate(
    paths: Iterable[str], guest: Guest, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Bytes a second that come from the disk; None where all is in memory, too little, or nobody tells.

    What is read for that does not stay in the page cache.
    """
    if guest.max_rate is not None:
        return None
    size, seconds = 0, 0.0
    for path, start in _absent_pieces(paths):
        try:
            with open_source(path, Guest()) as source:
                began = clock()
                size += len(source.read(start, _PROBE))
                seconds += clock() - began
        except (FileNotFoundError, KafkatoolError):
            continue
        if seconds > _PROBE_SECONDS or size >= _PROBES * _PROBE:
            break
    return size / seconds if size >= _PROBE and seconds > 0 else None


def _absent_pieces(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Pieces of these files that are not in memory: a few of each, one behind the other as a scan reads."""
    for path in paths:
        with suppress(OSError):
            found = map_path(path)
            for first, end in _absent(found):
                pieces = range(first * PAGE, end * PAGE - _PROBE + 1, _PROBE)
                yield from ((path, start) for start in pieces[:8])


def _absent(found: FileMap) -> Iterator[tuple[int, int]]:
    if found.runs is None:
        return
    behind = 0
    for first, end in found.resident_runs():
        if first > behind:
            yield behind, first
        behind = end
    if behind < found.pages:
        yield behind, found.pages


def absent_size(paths: Iterable[str]) -> int:
    """Bytes of these files that would have to come from the disk; all of a file that nobody tells of."""
    total = 0
    for path in paths:
        with suppress(OSError):
            found = map_path(path)
            total += found.size - (found.resident_size if found.resident is not None else 0)
    return total


def estimate(scans: Sequence[Scans], threads: tuple[int, int], rate: float | None) -> RecoveryTime:
    """How long the scans take: directories side by side, so many threads in each, a partition a thread."""
    fewest, most = threads
    size, partitions = sum(map(_size, scans)), sum(len(one.sizes) for one in scans)
    least = max((_least(one, most, rate) for one in scans), default=0.0)
    longest = None
    if rate is not None:
        # Of directories on one volume each gets its part of the rate only; so, at worst, of all.
        slowest = max((_size(one) / (fewest * _SLOWEST) for one in scans), default=0.0)
        longest = max(size / (rate * _SHARE_OF_VOLUME), slowest) + partitions * _MOST_MS_A_PARTITION / 1000
    return RecoveryTime(
        size, partitions, int(least * 1000), None if longest is None else max(1, int(longest * 1000))
    )


def _least(scans: Scans, threads: int, rate: float | None) -> float:
    by_threads = max(_size(scans) / threads, max(scans.sizes, default=0)) / _FASTEST
    if rate is None:
        return by_threads
    return max(by_threads, absent_size(path for path, _bytes in scans.segments) / (threads * rate))


def _size(scans: Scans) -> int:
    return sum(scans.sizes)
