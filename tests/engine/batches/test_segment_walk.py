"""The one walk over a stretch of a log, on which `verify`, `stats` and tables of batches stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.scan import WINDOW, Batch, BatchRun, each
from kafkatool.engine.batches.segment_walk import SegmentWalk, in_place
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.engine.jobs.survey import Split
from kafkatool.format.kernel.loops import good_run
from tests.log_dirs import locked
from tests.logs import batches, write_log


@contextmanager
def walking(
    path: Path, start: int = 0, end: int | None = None, *, active: bool = False
) -> Iterator[SegmentWalk]:
    size = path.stat().st_size
    with open_source(str(path), Guest()) as source:
        yield SegmentWalk(
            source, Split(str(path), start, size if end is None else end, size), is_active=active
        )


def plain(walk: SegmentWalk) -> list[int]:
    """The sizes of the windows of a walk that takes what is good."""
    sizes = []
    for window in walk.windows():
        sizes.append(len(window))
        walk.position += good_run(window, 0, len(window), -1)[0]
    return sizes


def positions(items: Iterator[BatchRun | Batch | Damage]) -> list[int]:
    return [item.position for item in each(items)]


def test_a_window_grows_for_a_batch_that_is_larger(tmp_path: Path) -> None:
    [large] = batches(1, per_batch=60_000)
    assert len(large) > WINDOW
    with walking(write_log(tmp_path / "t-0", large)) as walk:
        assert plain(walk) == [WINDOW, len(large)]
        assert walk.position == walk.end


def test_windows_end_where_nothing_can_be_taken(tmp_path: Path) -> None:
    good = batches(4)
    with walking(write_log(tmp_path / "t-0", b"".join(good) + b"\xff" * 100)) as walk:
        plain(walk)
        assert walk.position == sum(map(len, good)) < walk.end


@pytest.mark.parametrize("skip", [True, False])
def test_the_rest_begins_behind_the_last_good_batch_and_ends_with_the_split(
    tmp_path: Path, skip: bool
) -> None:
    good = batches(6)
    starts = [sum(map(len, good[:at])) for at in range(6)]
    with walking(write_log(tmp_path / "t-0", b"".join(good)), end=starts[4] + 1) as walk:
        assert positions(walk.rest(starts[1], skip=skip)) == starts[1 + skip : 5]


def test_a_run_with_nothing_but_the_batch_that_is_skipped_is_left_out(tmp_path: Path) -> None:
    good = batches(2)
    with walking(write_log(tmp_path / "t-0", b"".join(good)), end=len(good[0])) as walk:
        assert list(walk.rest(0, skip=True)) == []


def test_the_preallocated_rest_of_the_active_segment_is_no_damage(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", b"".join(batches(2)) + bytes(5000))
    found = {}
    for active in (True, False):
        with walking(path, active=active) as walk:
            [found[active]] = [item for item in walk.rest(0) if isinstance(item, Damage)]
    assert found[True].severity is Severity.NOTE
    assert found[False].severity is Severity.DEGRADED


def test_what_a_broker_still_writes_is_in_flight(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", b"".join(batches(2))[:-5])
    with locked(tmp_path), walking(path, active=True) as walk:
        [damage] = [item for item in walk.rest(0) if isinstance(item, Damage)]
    assert damage.kind is FindingClass.IN_FLIGHT


def test_a_batch_that_does_not_belong_where_it_stands_is_not_in_place(tmp_path: Path) -> None:
    first, second, third = batches(3)
    with walking(write_log(tmp_path / "t-0", first + second + first + third)) as walk:
        found = list(in_place(walk.rest(0)))
    [damage] = [item for item in found if isinstance(item, Damage)]
    assert damage.kind is FindingClass.BAD_OFFSET
    good = [item.header.base_offset for item in each(found) if isinstance(item, Batch)]
    assert good == [0, 3, 6]
