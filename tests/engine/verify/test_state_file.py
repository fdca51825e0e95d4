"""The state of a nightly check after a power cut."""

from __future__ import annotations

from pathlib import Path

from kafkatool.engine.directory.targets import expand
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.verify.rechecking import Recheck
from kafkatool.engine.verify.state_file import Scrub
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from tests.engine.crash_disk import contents, every_crash
from tests.engine.partitions_to_verify import write_partition
from tests.logs import GUEST

NOW_MS = 1_700_000_000_000
STATE = "scrub.json"


def check(directory: Path, data: Path, files: Files, now_ms: int) -> int:
    """Verify with a state; returns how many segments it remembered."""
    scrub = Scrub(str(directory / STATE), Recheck(now_ms, None, 0), deep=False, files=files)
    run = Verification(expand([str(data)]).targets, VerifyRequest(guest=GUEST), scrub)
    with workers(1) as pool:
        assert list(run.findings(pool)) == []
    assert scrub.notes == []
    return run.summary.skipped_segments


def test_a_power_cut_leaves_the_state_of_an_earlier_run_or_the_new_one(tmp_path: Path) -> None:
    data, before = tmp_path / "data", tmp_path / "before"
    write_partition(data / "orders-0", segments=3)
    before.mkdir()
    check(before, data, Disk(), NOW_MS)
    old = (before / STATE).read_bytes()
    write_partition(data / "more-0", segments=3)
    check(before, data, Disk(), NOW_MS + 1)
    new = (before / STATE).read_bytes()
    assert old != new
    for crash in every_crash(
        tmp_path / "crash",
        lambda root: (root / STATE).write_bytes(old),
        lambda disk: check(Path(disk.root), data, disk, NOW_MS + 1),
    ):
        found, where = (crash.left / STATE).read_bytes(), (crash.way, crash.operations[-1])
        assert found == new if crash.done else found in (old, new), where
        assert check(crash.left, data, Disk(), NOW_MS + 1) == (4 if found == new else 2), where
        assert contents(crash.left) == {STATE: new}, where
