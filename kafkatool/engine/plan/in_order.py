"""The plans of many partitions, made by a pool: the same as if one process made them one by one.

Each worker counts the bad blocks that it meets itself, but the limit is for all of them together. If it is
exceeded, the partition is planned again in the parent, after all those before it, so that it stops at the
same block.
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
    """One partition to plan, in this process or in a worker."""

    @property
    def path(self) -> str: ...

    @property
    def bytes_to_read(self) -> int: ...

    def plan(self, guest: Guest, advance: Advance) -> _Plan_co:
        """Make the plan; raise KafkatoolError or FileNotFoundError if that is not possible."""


class Planned(NamedTuple, Generic[_Plan]):
    """A plan, or the reason why there is none; and how many bad blocks were met."""

    plan: _Plan | None
    failure: str | None
    bad_blocks: int


def plan_in_order(
    pool: Workers, asks: Iterable[PlanRequest[_Plan]], guest: Guest, advance: Advance
) -> Iterator[tuple[PlanRequest[_Plan], Planned[_Plan]]]:
    """Yield each partition with its result; `guest` counts the bad blocks of all."""
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
    """Return the plans that could be made; yield a failure for each of the other partitions."""
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
    """Plan again, counting all bad blocks met before it; at one worker's rate, as the others read on."""
    share.errors.count = guest.errors.count
    found = _planned(ask, share, _nobody)
    guest.errors.count = share.errors.count
    return found


def _nobody(_size: int) -> None:
    """No-op: the parent reports a worker's progress when its plan arrives."""
