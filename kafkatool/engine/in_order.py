"""The same function for many things, on a pool, with the results in the order of the things."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from kafkatool.engine.worker_pool import Pending, Workers

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(
    pool: Workers, run: Callable[[_Item], _Result], items: Iterable[_Item]
) -> Iterator[tuple[_Item, Pending[_Result]]]:
    """Each item with what came of it, which may be an error; only so many are in line as there is room."""
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
