"""A run of the retention check yields what it judges by, what it finds, and what would act on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkatool.engine.cluster.effective_settings import TopicSettingsFound
from kafkatool.engine.cluster.settings_request import SettingsRequest
from kafkatool.engine.directory.selection import Selection
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.jobs.events import Failure, Note
from kafkatool.engine.jobs.worker_pool import Workers, workers
from kafkatool.engine.plan.steps import Applying
from kafkatool.engine.retention.logs import RetentionRequest
from kafkatool.engine.retention.run import (
    DeletionEvent,
    DeletionPlanned,
    RetentionRun,
    UnjudgedLog,
    VerdictsFound,
)
from kafkatool.errors import Refused
from tests.engine.disk import START_MS, write_partition
from tests.logs import GUEST

LATER = START_MS + 3_600_000
EXPIRED = ("retention.ms=1000", "cleanup.policy=delete", "remote.storage.enable=false")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for number in range(3):
        write_partition(tmp_path / "logs", f"orders-{number}")
    write_partition(tmp_path / "logs", "payments-0")
    for file in (tmp_path / "logs" / "orders-1").glob("*.log"):
        file.unlink()
        file.mkdir()
    return tmp_path / "logs"


def a_run(log_dir: Path, given: tuple[str, ...], *, is_applied: bool = False) -> RetentionRun:
    found = Selection(expand([str(log_dir)]).targets, GUEST)
    how = Applying(LATER, offline=True)
    settings = SettingsRequest((), given)
    return RetentionRun(found, settings, RetentionRequest(LATER), how, is_applied, GUEST)


def deletion(log_dir: Path, *given: str, jobs: int = 1) -> list[DeletionEvent]:
    with workers(jobs) as pool:
        return list(a_run(log_dir, given).delete(pool, lambda size: None, None))


def test_the_verdicts_come_behind_what_they_go_by_and_before_the_plan(log_dir: Path) -> None:
    *told, verdicts, planned = deletion(log_dir, *EXPIRED)
    kinds = [type(one) for one in told if not isinstance(one, Failure)]
    assert kinds == [TopicSettingsFound, TopicSettingsFound, Note]
    assert isinstance(verdicts, VerdictsFound)
    assert isinstance(planned, DeletionPlanned)
    doomed = {one.partition.directory for one in verdicts.judged if one.outcome.deleted}
    assert doomed == {"orders-0", "orders-2", "payments-0"}
    assert {Path(step.path).parent.name for step in planned.plan.steps} == doomed


def test_any_number_of_processes_yields_the_same(log_dir: Path) -> None:
    alone = deletion(log_dir, *EXPIRED)
    assert deletion(log_dir, *EXPIRED, jobs=3) == alone


def test_what_hangs_on_remote_storage_is_told_of_every_log(log_dir: Path) -> None:
    found = deletion(log_dir, *EXPIRED[:2], "remote.storage.enable=true", "local.retention.ms=1000")
    unjudged = [one.judged.partition.directory for one in found if isinstance(one, UnjudgedLog)]
    assert {"orders-0", "orders-2", "payments-0"} <= set(unjudged)


def test_verdicts_are_told_before_a_guess_is_refused(log_dir: Path) -> None:
    events = a_run(log_dir, EXPIRED, is_applied=True).delete(Workers(), lambda size: None, None)
    told: list[DeletionEvent] = []
    with pytest.raises(Refused, match="mere defaults"):
        told.extend(events)
    assert isinstance(told[-1], VerdictsFound)
