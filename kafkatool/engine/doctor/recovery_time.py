"""Estimate how long a start takes to scan what it does not trust, from the volume's read rate."""

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

# What one thread of a broker checks per second with the pages in memory: 0.4 GiB (indexes missing, every byte
# read twice) to 0.95 GiB were seen; and a third of the former if others need the processor too.
_FASTEST = 1 << 30
_SLOWEST = 128 << 20
_SHARE_OF_VOLUME = 0.5
"""The share of the measured rate that a start gets at worst: it reads other things too, and so do others."""
_MOST_MS_A_PARTITION = 20
_PROBE = 1 << 20
_PROBES = 32
_PROBE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RecoveryTime:
    """An estimate in milliseconds; `most_ms` is None if the volume's rate is unknown."""

    size: int
    partitions: int
    least_ms: int
    most_ms: int | None


def measured_rate(
    paths: Iterable[str], guest: Guest, clock: Callable[[], float] = time.perf_counter
) -> float | None:
    """Measure bytes per second from disk; None if too little is uncached, or residency is unknown.

    What is read for this does not stay in the page cache.
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
    """Yield pieces of these files that are not cached: a few per gap, in order, as a scan reads."""
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
    """Return how many bytes of these files must come from disk; all of a file of unknown residency."""
    total = 0
    for path in paths:
        with suppress(OSError):
            found = map_path(path)
            total += found.size - (found.resident_size if found.resident is not None else 0)
    return total


def estimate(scans: Sequence[Scans], threads: tuple[int, int], rate: float | None) -> RecoveryTime:
    """Estimate the scans: directories in parallel, so many threads in each, one partition per thread."""
    fewest, most = threads
    size, partitions = sum(map(_size, scans)), sum(len(one.sizes) for one in scans)
    least = max((_least(one, most, rate) for one in scans), default=0.0)
    longest = None
    if rate is not None:
        # Directories on one volume share its rate; assume the worst, that all do.
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
