"""Lookups in everything that the user named, one answer per partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.directory.locate import SearchAction
from kafkatool.engine.directory.lookups import Lookup, LookupRequest, look_up
from kafkatool.engine.directory.targets import FileTarget, LogDirTarget, Target
from tests.engine.disk import write_partition
from tests.logs import GUEST, LOG


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for name in ("clicks-0", "orders-2"):
        write_partition(tmp_path, name)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 2 1\n")
    return tmp_path


def answers(*targets: Target, offset: int, explain: bool = False) -> list[Lookup]:
    return list(look_up(list(targets), LookupRequest(offset, None, explain), GUEST, []))


def test_each_partition_answers_from_its_own_start(log_dir: Path) -> None:
    clicks, orders = answers(LogDirTarget(str(log_dir)), offset=0)
    assert clicks.found is not None
    assert (clicks.is_below, clicks.found.offset) == (False, 0)
    assert (orders.is_below, orders.found) == (True, None)


def test_an_index_and_its_log_are_one_search(log_dir: Path) -> None:
    log = log_dir / "orders-2" / LOG
    files = [FileTarget(str(log)), FileTarget(str(log.with_suffix(".index")))]
    (one,) = answers(*files, offset=0)
    assert one.found is not None  # the log alone: no checkpoint says where it starts


def test_an_explained_answer_ends_with_a_walk_through_everything(log_dir: Path) -> None:
    for one in answers(LogDirTarget(str(log_dir)), offset=1, explain=True):
        *search, last = [step.action for step in one.steps()]
        assert (last, SearchAction.FULL_WALK in search) == (SearchAction.FULL_WALK, False)
        assert search
