"""A lake after a power cut: earlier runs are whole, and the one under way is whole or not there."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from kafkatool.commands.line.broker_options import BrokerOptions
from kafkatool.engine.audit.lake import CURRENT, LOCK, is_lake, read_run
from kafkatool.engine.audit.run import PipelineRun, RunRequest
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.verify.rechecking import Recheck
from kafkatool.engine.verify.verification import VerifyRequest
from kafkatool.errors import KafkatoolError
from tests.engine.crash_disk import CrashDisk, contents, every_crash
from tests.engine.disk import START_MS, write_partition, write_segment
from tests.logs import GUEST

pytest.importorskip("pyarrow")
NOW_MS = START_MS + 3_600_000


def collect(lake: Path, data: Path, files: Files) -> None:
    """Run an audit that keeps no run but its own."""
    settings = BrokerOptions().settings([str(data)], [])
    request = RunRequest(
        (f"a={data}",),
        str(lake),
        NOW_MS,
        VerifyRequest(guest=GUEST),
        settings,
        Recheck(NOW_MS, None, 0),
        keep=1,
        files=files,
    )
    with workers(1) as pool:
        PipelineRun(request).run(pool, lambda size: None)


def runs(lake: Path) -> dict[str, dict[str, bytes]]:
    return {path.name: contents(path) for path in lake.glob("run-*")}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of which an earlier run, in `lakes`, knows one segment of two."""
    data = tmp_path_factory.mktemp("data")
    write_partition(data, "orders-0", segments=1)
    return data


@pytest.fixture(scope="module")
def earlier(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("earlier") / "lake"
    collect(lake, data, Disk())
    write_segment(data / "orders-0", 60, is_active=True)
    return lake


def crashes_are_survived(
    scratch: Path,
    data: Path,
    earlier: Path | None,
    without: str | None = None,
    chances: int = 1,
) -> set[str]:
    """Lose power at every operation of a run; return the sync sites; raise where a run is torn."""

    def prepare(root: Path) -> None:
        if earlier is not None:
            shutil.copytree(earlier, root / "lake", symlinks=True)

    (scratch / "whole").mkdir(parents=True)
    prepare(scratch / "whole")
    before = runs(scratch / "whole" / "lake")
    collect(scratch / "whole" / "lake", data, Disk())
    after = runs(scratch / "whole" / "lake")
    sites: set[str] = set()
    work = partial(run_on, data=data)
    for crash in every_crash(scratch / "crash", prepare, work, without, chances):
        lake, where = crash.left / "lake", (crash.way, crash.operations[-1])
        found = runs(lake)
        for name, content in found.items():
            assert content in (before.get(name), after.get(name)), where
        if is_lake(str(lake)):
            assert (lake / CURRENT).resolve().name in found, where
            assert list(read_run(str(lake)).units()), where
        else:
            assert not before, where
        assert not crash.done or (lake / CURRENT).resolve().name == max(after), where
        names = {path.name for path in lake.glob("*")}
        assert not names or LOCK in names, where
        if crash.way == "all lost":
            collect(lake, data, Disk())
            (last,) = runs(lake).values()
            assert numberless(last) == numberless(after[max(after)]), where
            assert [path.name for path in lake.glob(".*")] == [LOCK], where
        sites |= crash.sync_sites
    return sites


def run_on(disk: CrashDisk, data: Path) -> None:
    collect(Path(disk.root, "lake"), data, disk)


def numberless(run: dict[str, bytes]) -> dict[str, bytes]:
    """The manifest holds the number of the run."""
    return {**run, "manifest.json": re.sub(rb'"run": \d+', b"", run["manifest.json"])}


def test_a_power_cut_in_a_first_run_leaves_it_whole_or_not_there(
    tmp_path: Path, data: Path, earlier: Path
) -> None:
    crashes_are_survived(tmp_path, data, None)


@pytest.mark.long
def test_a_power_cut_in_a_later_run_leaves_the_earlier_one_or_that(
    tmp_path: Path, data: Path, earlier: Path
) -> None:
    crashes_are_survived(tmp_path, data, earlier)


@pytest.mark.soak
def test_a_lake_needs_each_of_its_syncs(tmp_path: Path, data: Path, earlier: Path) -> None:
    def crash(without: str | None) -> set[str]:
        place = tmp_path / str(without)
        first = crashes_are_survived(place / "first", data, None, without, chances=8)
        return first | crashes_are_survived(place / "later", data, earlier, without, chances=8)

    for site in crash(None):
        if site.startswith("lake.py"):
            try:
                crash(site)
            except (AssertionError, KafkatoolError, OSError):
                continue
            pytest.fail(f"the sync of {site} is not needed")
