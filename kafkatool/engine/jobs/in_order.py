"""Run many items on a pool, with the results in the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from kafkatool.engine.jobs.worker_pool import Pending, Workers

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Steps = Generator[None, None, _Result]
"""Work in dependent steps: yields wherever it has to wait for the pool."""


def in_order(
    pool: Workers, run: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[tuple[_Item, Pending[_Result]]]:
    """Yield each item with its result, which may be an error; queue only as many as there is room for."""
    line: deque[tuple[_Item, Pending[_Result]]] = deque()
    for item in items:
        line.append((item, pool.submit(run, item)))
        while line and (line[0][1].is_done or len(line) >= pool.room):
            yield _first(line, pool)
    while line:
        yield _first(line, pool)


def _first(line: deque[tuple[_Item, Pending[_Result]]], pool: Workers) -> tuple[_Item, Pending[_Result]]:
    while not line[0][1].is_done:
        pool.wait()
    return line.popleft()


def results(pendings: Sequence[Pending[_Result]]) -> Steps[list[_Result]]:
    """Wait until all are done, as one step; return their results."""
    while not all(one.is_done for one in pendings):
        yield
    return [one.result() for one in pendings]


def side_by_side(pool: Workers, many: Iterable[Steps[_Result]]) -> Iterator[_Result]:
    """Yield the result of each, in order; while one waits for the pool, the others go on."""
    under_way = deque(_Course(steps) for steps in many)
    while under_way:
        while not under_way[0].is_finished:
            pool.wait()
            for one in under_way:
                one.go_on()
        yield under_way.popleft().result()


class _Course(Generic[_Result]):
    """Steps in progress."""

    def __init__(self, steps: Steps[_Result]) -> None:
        self._steps = steps
        self._ends: list[_Result | Exception] = []
        self.go_on()

    @property
    def is_finished(self) -> bool:
        return bool(self._ends)

    def go_on(self) -> None:
        if self.is_finished:
            return
        try:
            next(self._steps)
        except StopIteration as end:
            self._ends.append(end.value)
        except Exception as error:
            self._ends.append(error)

    def result(self) -> _Result:
        [end] = self._ends
        if isinstance(end, Exception):
            raise end
        return end
