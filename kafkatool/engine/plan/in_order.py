"""The plans of many partitions, made on a pool: the same as if one process had made them one by one.

Each worker counts the bad blocks that it meets itself, while the limit is for all of them together. Where it
is passed, the partition is planned once more here, behind all those before it: so it stops at the same block.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Failure
from kafkatool.engine.jobs.in_order import in_order
from kafkatool.engine.jobs.worker_pool import Workers
from kafkatool.errors import KafkatoolError

Advance = Callable[[int], None]
_Plan = TypeVar("_Plan")
_Plan_co = TypeVar("_Plan_co", covariant=True)


class PlanRequest(Protocol[_Plan_co]):
    """One partition to plan, wherever that is done."""

    @property
    def path(self) -> str: ...

    @property
    def bytes_to_read(self) -> int: ...

    def plan(self, guest: Guest, advance: Advance) -> _Plan_co:
        """Raises KafkatoolError or FileNotFoundError where it cannot be planned."""


class Planned(NamedTuple, Generic[_Plan]):
    """A plan, or in words why there is none; and how many bad blocks were met."""

    plan: _Plan | None
    failure: str | None
    bad_blocks: int


def plan_in_order(
    pool: Workers, asks: Iterable[PlanRequest[_Plan]], guest: Guest, advance: Advance
) -> Iterator[tuple[PlanRequest[_Plan], Planned[_Plan]]]:
    """Each partition with what came of it; the bad blocks of all are counted by `guest`."""
    if pool.count == 1:
        for ask in asks:
            yield ask, _planned(ask, guest, advance)
        return
    share = guest.one_of(pool.count)
    for ask, answer in in_order(pool, partial(_planned_elsewhere, share), asks):
        found = answer.result()
        if guest.max_errors is not None and guest.errors.count + found.bad_blocks > guest.max_errors:
            found = _planned_again(ask, guest, share)
        else:
            guest.errors.count += found.bad_blocks
        advance(ask.bytes_to_read)
        yield ask, found


def plans_of(
    pool: Workers, asks: Iterable[PlanRequest[_Plan]], guest: Guest, advance: Advance
) -> Generator[Failure, None, list[_Plan]]:
    """What is planned for each partition; yields why nothing can be for the others."""
    done = []
    for ask, planned in plan_in_order(pool, asks, guest, advance):
        if planned.plan is not None:
            done.append(planned.plan)
        else:
            yield Failure(f"{ask.path}: {planned.failure}; left as it is")
    return done


def _planned(ask: PlanRequest[_Plan], guest: Guest, advance: Advance) -> Planned[_Plan]:
    before = guest.errors.count
    try:
        plan, failure = ask.plan(guest, advance), None
    except (FileNotFoundError, KafkatoolError) as error:
        plan, failure = None, str(error)
    return Planned(plan, failure, guest.errors.count - before)


def _planned_elsewhere(share: Guest, ask: PlanRequest[_Plan]) -> Planned[_Plan]:
    return _planned(ask, replace(share), _nobody)


def _planned_again(ask: PlanRequest[_Plan], guest: Guest, share: Guest) -> Planned[_Plan]:
    """Behind all bad blocks that were met before it; at the pace of one of many, as the others read on."""
    share.errors.count = guest.errors.count
    found = _planned(ask, share, _nobody)
    guest.errors.count = share.errors.count
    return found


def _nobody(_size: int) -> None:
    """Who plans elsewhere is told of when it is done."""
