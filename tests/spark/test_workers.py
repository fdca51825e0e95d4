"""How functions become tasks of Spark: large ones alone, small ones together, the last ones small."""

from __future__ import annotations

from types import SimpleNamespace

from kafkatool.engine.jobs.survey import Split
from kafkatool.engine.jobs.worker_pool import Pending
from kafkatool.spark.workers import LEAST_TASK, MOST_IN_A_TASK, _Job

MIB = 1 << 20


def packed(sizes: list[int], slots: int = 2) -> list[list[int]]:
    """The sizes of what is in each task."""
    pendings = [Pending(len, (Split("x.log", 0, size, size),)) for size in sizes]
    packs = _Job(pendings, slots).packs
    assert [one for pack in packs for one in pack] == pendings
    return [[one.arguments[0].bytes_to_read for one in pack] for pack in packs]  # type: ignore[attr-defined]


def test_what_is_large_is_a_task_of_its_own() -> None:
    assert packed([1024 * MIB] * 4) == [[1024 * MIB]] * 4
    partition = SimpleNamespace(bytes_to_read=1024 * MIB)
    assert len(_Job([Pending(len, (partition,)) for _ in range(4)], 2).packs) == 4


def test_what_is_small_is_put_together() -> None:
    tasks = packed([64 << 10] * 10_000)
    assert all(sum(task) >= LEAST_TASK or len(task) == MOST_IN_A_TASK for task in tasks[:-1])
    assert len(tasks) == 10_000 // MOST_IN_A_TASK + 1


def test_tasks_become_smaller_towards_the_end() -> None:
    tasks = [sum(task) for task in packed([64 * MIB] * 64)]
    assert tasks == sorted(tasks, reverse=True)
    assert tasks[0] == 512 * MIB
    assert tasks[-4:] == [64 * MIB] * 4
