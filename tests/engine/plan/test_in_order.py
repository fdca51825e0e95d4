"""Plans that are made elsewhere come back as if they had been made here, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.plan.in_order import Planned, plan_in_order
from kafkatool.errors import KafkatoolError, Truncated

BYTES = 100


@dataclass(frozen=True)
class Ask:
    """Meets so many bad blocks; its plan is the pace at which it was made."""

    number: int
    bad_blocks: int = 0
    error: str | None = None

    @property
    def path(self) -> str:
        return f"orders-{self.number}"

    @property
    def bytes_to_read(self) -> int:
        return BYTES

    def plan(self, guest: Guest, advance: Callable[[int], None]) -> tuple[int, int | None]:
        for block in range(self.bad_blocks):
            guest.errors.count += 1
            if guest.max_errors is not None and guest.errors.count > guest.max_errors:
                raise KafkatoolError(f"{self.path}: stopped at block {block}")
        if self.error == "vanished":
            raise FileNotFoundError(2, "No such file", self.path)
        if self.error is not None:
            raise Truncated("a field", 3, expected=8, found=2)
        advance(BYTES)
        return self.number, guest.max_rate


ASKS = [Ask(0), Ask(1, 2), Ask(2, 1, "vanished"), Ask(3, 3), Ask(4, error="format"), Ask(5, 1), Ask(6)]


def planned(jobs: int, guest: Guest) -> tuple[list[Planned[tuple[int, int | None]]], int, int]:
    """What came of each, the bad blocks of all, and the bytes that a progress bar was told of."""
    told: list[int] = []
    with workers(jobs) as pool:
        found = [one for _ask, one in plan_in_order(pool, ASKS, guest, told.append)]
    return found, guest.errors.count, sum(told)


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize("limit", [None, *range(9)])
@pytest.mark.parametrize("before", [0, 2])
def test_the_limit_of_bad_blocks_is_for_all_together(jobs: int, limit: int | None, before: int) -> None:
    """Those that were met before the first partition count too."""
    guests = [Guest(max_errors=limit) for _ in range(2)]
    for guest in guests:
        guest.errors.count = before
    found, count, _told = planned(jobs, guests[0])
    assert (found, count) == planned(1, guests[1])[:2]
    assert len(found) == len(ASKS)


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_workers_share_the_rate(jobs: int) -> None:
    found, _count, _told = planned(jobs, Guest(max_rate=1000))
    assert {one.plan[1] for one in found if one.plan is not None} == {1000 // jobs}


def test_failures_are_told_in_the_same_words() -> None:
    found = [[one.failure for one in planned(jobs, Guest())[0]] for jobs in (1, 2)]
    assert found[0] == found[1]
    assert found[0][2] == "[Errno 2] No such file: 'orders-2'"
    assert found[0][4] == "a field at byte 3: expected 8, found 2"


def test_progress_comes_to_the_whole() -> None:
    assert planned(2, Guest())[2] == BYTES * len(ASKS)


def _break(_guest: Guest, _advance: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bug_is_no_failure_of_a_partition(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ask, "plan", lambda self, guest, advance: _break(guest, advance))
    with pytest.raises(ZeroDivisionError):
        planned(jobs, Guest())
