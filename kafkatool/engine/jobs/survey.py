"""Scan many logs, cut into splits that can be walked anywhere and merged again.

A job is two functions, pure and picklable:

    map(split, before)   walk a split; `before` is what is known of the log up to its start
    merge(a, b)          join two neighbouring results; None if b must be mapped again, after a

All splits are mapped at once with nothing before them. Where a merge returns None (an index was wrong about
where a batch begins, or damage changes what follows), the rest of that log is mapped again after what is
known. So the answer is that of a single walk, for any number of workers and any size of splits; only the time
differs. A cluster can run the same jobs: `map` on its executors, `merge` where they meet.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from kafkatool.engine.jobs.worker_pool import Pending, Workers

SPLIT_SIZE = 128 << 20
_SMALLEST, _LARGEST = SPLIT_SIZE // 2, SPLIT_SIZE * 4

_Key = TypeVar("_Key")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of one log: every batch that begins in [start, end). `size` is the log's, when planned."""

    path: str
    start: int
    end: int
    size: int

    @property
    def is_last(self) -> bool:
        return self.end >= self.size

    @property
    def bytes_to_read(self) -> int:
        return self.end - self.start


class Job(Protocol[_Result]):
    """What to do with splits; it is sent to workers, so it must be picklable."""

    def map(self, split: Split, before: _Result | None) -> _Result: ...

    def merge(self, a: _Result, b: _Result) -> _Result | None: ...

    def is_done(self, result: _Result) -> bool:
        """Return whether the walk reached the end of its split; if not, it must go on alone."""

    def where(self, result: _Result) -> int:
        """Return the position at which the walk ended."""


@dataclass(frozen=True, slots=True)
class Task(Generic[_Key, _Result]):
    """One log: its key, its splits in order, and the job to run on them."""

    key: _Key
    job: Job[_Result]
    splits: tuple[Split, ...]


def cut(
    path: str, size: int, positions: Sequence[int], split_size: int = SPLIT_SIZE, start: int = 0
) -> tuple[Split, ...]:
    """Return splits of about `split_size`, cut at batches by an index, which need not be right."""
    starts, least = [start], max(1, split_size)
    while (at := bisect_left(positions, starts[-1] + least)) < len(positions):
        if size - positions[at] < split_size // 2:
            break
        starts.append(positions[at])
    ends = [*starts[1:], size]
    return tuple(Split(path, start, end, size) for start, end in zip(starts, ends, strict=True))


def shrinking_size(left: int, jobs: int) -> int:
    """Return how large splits should be while so many bytes are left.

    Large at first, because every split reads an index again; small towards the end, so that no worker has to
    wait long for the last one.
    """
    return max(_SMALLEST, min(_LARGEST, left // (4 * jobs)))


def survey(
    tasks: Iterator[Task[_Key, _Result]],
    pool: Workers,
    advance: Callable[[int], None] = lambda size: None,
) -> Iterator[tuple[_Key, _Result]]:
    """Run every task; yield key and result, in the order of the tasks.

    Only a few splits per worker are in progress at any time, and tasks are taken as needed.
    """
    under_way: deque[_Run[_Key, _Result]] = deque()
    for task in tasks:
        under_way.append(_Run(task, pool, advance))
        while under_way and (_in_line(under_way) >= pool.room or pool.count == 1):
            yield from _take(under_way, pool)
    while under_way:
        yield from _take(under_way, pool)


def _in_line(under_way: deque[_Run[_Key, _Result]]) -> int:
    return sum(len(run.waiting) for run in under_way)


def _take(under_way: deque[_Run[_Key, _Result]], pool: Workers) -> Iterator[tuple[_Key, _Result]]:
    """Wait until something is finished, then yield what is ready at the front."""
    if not under_way[0].is_finished and not any(run.can_go_on for run in under_way):
        pool.wait()
    for run in under_way:
        run.go_on()
    while under_way and under_way[0].is_finished:
        run = under_way.popleft()
        assert run.result is not None
        yield run.task.key, run.result


class _Run(Generic[_Key, _Result]):
    """One task in progress: what is merged so far, and the splits after it."""

    def __init__(self, task: Task[_Key, _Result], pool: Workers, advance: Callable[[int], None]) -> None:
        self.task = task
        self.result: _Result | None = None
        self._pool = pool
        self._advance = advance
        self._next = 0
        self.waiting: deque[Pending[_Result]] = deque(
            pool.submit(task.job.map, split, None) for split in task.splits
        )

    @property
    def is_finished(self) -> bool:
        return not self.waiting

    @property
    def can_go_on(self) -> bool:
        return bool(self.waiting) and self.waiting[0].is_done

    def go_on(self) -> None:
        """Merge what is there; map again what did not fit."""
        while self.waiting and self.waiting[0].is_done:
            found = self.waiting.popleft().result()
            if self.result is not None and self._next < len(self.task.splits):
                merged = self.task.job.merge(self.result, found)
            else:
                merged = found
            if merged is None:
                self._walk_the_rest()
                return
            self.result = merged
            if self._next < len(self.task.splits):
                split = self.task.splits[self._next]
                self._advance(split.end - split.start)
            self._next += 1
            if not self.task.job.is_done(merged):
                self._walk_the_rest()
                return

    def _walk_the_rest(self) -> None:
        """Walk the rest of the log in one go, with all that is known before it."""
        for pending in self.waiting:
            pending.cancel()
        left = self.task.splits[self._next :]
        self._advance(sum(split.end - split.start for split in left))
        self._next = len(self.task.splits)
        assert self.result is not None
        last = self.task.splits[-1]
        rest = replace(last, start=self.task.job.where(self.result), end=last.end)
        self.waiting = deque([self._pool.submit(self.task.job.map, rest, self.result)])
