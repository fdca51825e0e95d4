"""Plans: all or nothing by file, whatever happens, and back again; and what keeps them from being applied."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kafkatool.engine.files import copying
from kafkatool.engine.files.disk import Disk, File, Files
from kafkatool.engine.files.lock import CLEAN_MARKER, broker_is_alive
from kafkatool.engine.plan import applying
from kafkatool.engine.plan import journal as journals
from kafkatool.engine.plan import steps as plans
from kafkatool.engine.plan import undo as undoing
from kafkatool.engine.plan.applying import apply
from kafkatool.engine.plan.journal import read_journal
from kafkatool.engine.plan.steps import Applying, FileStretch, NewEnd, Plan
from kafkatool.engine.plan.undo import plan_undo, undo
from kafkatool.errors import KafkatoolError, Refused
from tests.engine.crash_disk import CrashDisk, PowerCut, every_way
from tests.log_dirs import locked, read_tree

NOW = 1_700_000_000_000
OLD_NS = 1_600_000_000_000_000_000
RUN = "4be1f07a92c3"
HOW = Applying(now_ms=NOW, run_ids=lambda: RUN)
SEED = 1000

BEFORE = {
    "meta.properties": b"version=1\n",
    CLEAN_MARKER: b"{}",
    "t-0/0.log": b"good batches, torn",
    "t-0/0.index": b"lies",
    "t-0/5.log": b"five",
    "t-0/5.log.swap": b"better five",
    "t-0/9.log": b"nine",
}
UNCLEAN = {name: data for name, data in BEFORE.items() if name != CLEAN_MARKER}
AFTER = {
    "meta.properties": b"version=1\n",
    "t-0/0.log": b"good batches",
    "t-0/0.index": b"true",
    "t-0/0.timeindex": b"times",
    "t-0/5.log": b"better five",
}


def write_tree(root: Path, content: dict[str, bytes]) -> Path:
    for name, data in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # What is not a log is as old as the plan that wrote it.
        is_new = name in ("t-0/0.index", "t-0/0.timeindex") and data == AFTER[name]
        at_ns = NOW * 1_000_000 if is_new else OLD_NS
        os.utime(path, ns=(at_ns, at_ns))
    return root


def make_plan(root: Path) -> Plan:
    """A cut, a replaced and a new file, a removed one, and a swap: five becomes better five."""

    def at(name: str) -> str:
        return str(root / "t-0" / name)

    return Plan(
        "recover",
        str(root),
        (
            (plans.remove(at("5.log"), "it was compacted"), plans.remove(at("9.log"), "behind the damage")),
            (plans.rename(at("5.log.swap"), at("5.log"), "the swap is completed"),),
            (
                plans.write(at("0.log"), FileStretch(at("0.log"), 0, 12), "torn"),
                plans.write(at("0.index"), b"true", "it lied"),
                plans.write(at("0.timeindex"), b"times", "it was missing"),
            ),
        ),
    )


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "logs", BEFORE)


def test_a_plan_is_applied_and_every_original_is_kept_beside(log_dir: Path) -> None:
    journal = apply(make_plan(log_dir), Disk(), HOW)
    assert read_tree(log_dir) == AFTER
    kept = {name: data for name, data in read_tree(log_dir, ours=True).items() if name not in AFTER}
    assert kept.pop(os.path.relpath(journal, log_dir))
    assert kept == {
        f"t-0/0.log.kafkatool-{RUN}": BEFORE["t-0/0.log"],
        f"t-0/0.index.kafkatool-{RUN}": b"lies",
        f"t-0/5.log.kafkatool-{RUN}": b"five",
        f"t-0/9.log.kafkatool-{RUN}": b"nine",
    }
    assert os.path.basename(journal) == f"recover.kafkatool-{RUN}"


def test_undo_brings_everything_back_but_the_mark_of_a_clean_shutdown(log_dir: Path) -> None:
    journal = read_journal(apply(make_plan(log_dir), Disk(), HOW))
    assert journal.is_finished
    assert undo(journal, Disk(), offline=False, now_ms=NOW) == 6
    left = read_tree(log_dir, ours=True)
    assert left.pop(f"recover.kafkatool-{RUN}")
    assert left == {name: data for name, data in BEFORE.items() if name != CLEAN_MARKER}
    journal = read_journal(journal.path)
    assert journal.is_undone
    assert plan_undo(journal, Disk()).all == []
    assert undo(journal, Disk(), offline=False, now_ms=NOW) == 0


def test_a_plan_may_be_applied_again_after_it_was_undone(log_dir: Path) -> None:
    undo(read_journal(apply(make_plan(log_dir), Disk(), HOW)), Disk(), offline=False, now_ms=NOW)
    apply(make_plan(log_dir), Disk(), Applying(NOW))
    assert read_tree(log_dir) == AFTER


@pytest.mark.parametrize("can_link", [True, False])
def test_originals_go_to_the_backup_directory_and_come_back(
    log_dir: Path, tmp_path: Path, can_link: bool
) -> None:
    files: Files = Disk() if can_link else NoLinks()
    backup = tmp_path / "kept"
    journal = apply(make_plan(log_dir), files, replace(HOW, backup_dir=str(backup)))
    assert read_tree(log_dir, ours=True) == AFTER
    assert {path.name for path in backup.iterdir()} == {
        f"recover.kafkatool-{RUN}",
        f"t-0.0.log.kafkatool-{RUN}",
        f"t-0.0.index.kafkatool-{RUN}",
        f"t-0.5.log.kafkatool-{RUN}",
        f"t-0.9.log.kafkatool-{RUN}",
    }
    undo(read_journal(journal), files, offline=False, now_ms=NOW)
    assert read_tree(log_dir, ours=True) == UNCLEAN
    assert [path.name for path in backup.iterdir()] == [f"recover.kafkatool-{RUN}"]


class NoLinks(Disk):
    """A disk on which nothing can have two names."""

    def link(self, source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link")


def test_a_log_keeps_its_time_and_every_new_file_the_mode_of_its_neighbours(log_dir: Path) -> None:
    (log_dir / "t-0" / "0.log").chmod(0o640)
    apply(make_plan(log_dir), Disk(), HOW)
    assert (log_dir / "t-0" / "0.log").stat().st_mtime_ns == OLD_NS
    assert (log_dir / "t-0" / "0.log").stat().st_mode & 0o777 == 0o640
    assert (log_dir / "t-0" / "0.timeindex").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_new_files_belong_to_the_owner_of_the_old_ones(log_dir: Path) -> None:
    os.chown(log_dir / "t-0" / "0.log", 12345, 23456)
    apply(make_plan(log_dir), Disk(), HOW)
    for name in ("0.log", "0.timeindex"):
        found = (log_dir / "t-0" / name).stat()
        assert (found.st_uid, found.st_gid) == (12345, 23456)


def test_a_file_changed_since_is_not_undone(log_dir: Path) -> None:
    journal = read_journal(apply(make_plan(log_dir), Disk(), HOW))
    (log_dir / "t-0" / "0.index").write_bytes(b"a broker went on")
    with pytest.raises(Refused, match=r"0\.index: was changed since"):
        undo(journal, Disk(), offline=False, now_ms=NOW)
    assert read_tree(log_dir)["t-0/0.log"] == AFTER["t-0/0.log"]


def test_an_original_that_is_gone_is_said_before_anything_is_undone(log_dir: Path) -> None:
    journal = read_journal(apply(make_plan(log_dir), Disk(), HOW))
    (log_dir / "t-0" / f"0.index.kafkatool-{RUN}").unlink()
    with pytest.raises(Refused, match="is gone"):
        undo(journal, Disk(), offline=False, now_ms=NOW)
    assert read_tree(log_dir) == AFTER


def test_a_full_disk_changes_nothing(log_dir: Path) -> None:
    with pytest.raises(KafkatoolError, match="nothing was changed"):
        apply(make_plan(log_dir), FullDisk(), HOW)
    assert read_tree(log_dir, ours=True) == BEFORE


class FullDisk(Disk):
    def create(self, path: str, *, mode: int = 0o644) -> File:
        if "timeindex" in path:
            raise OSError(28, "No space left on device", path)
        return super().create(path, mode=mode)


class SmallDisk(Disk):
    def free_space(self, path: str) -> int:
        return 20


def test_too_little_room_is_refused(log_dir: Path) -> None:
    with pytest.raises(Refused, match="21 bytes are needed, 20 are free"):
        apply(make_plan(log_dir), SmallDisk(), HOW)
    assert read_tree(log_dir, ours=True) == BEFORE


def test_a_backup_directory_inside_the_log_directory_is_refused(log_dir: Path) -> None:
    with pytest.raises(Refused, match="must not lie inside"):
        apply(make_plan(log_dir), Disk(), Applying(NOW, backup_dir=str(log_dir / "kept")))
    assert read_tree(log_dir, ours=True) == BEFORE


def test_a_log_may_not_end_below_its_start(log_dir: Path) -> None:
    plan = Plan("recover", str(log_dir), make_plan(log_dir).stages, (NewEnd("t-0", 4, 5),))
    with pytest.raises(Refused, match="a broker would then delete all of it"):
        apply(plan, Disk(), HOW)
    assert read_tree(log_dir, ours=True) == BEFORE


def test_a_young_checkpoint_without_a_mark_of_shutdown_is_refused_unless_offline(log_dir: Path) -> None:
    (log_dir / CLEAN_MARKER).unlink()
    checkpoint = log_dir / "replication-offset-checkpoint"
    checkpoint.write_text("0\n0\n")
    now = time.time_ns() // 1_000_000
    with pytest.raises(Refused, match="--offline"):
        apply(make_plan(log_dir), Disk(), Applying(now))
    apply(make_plan(log_dir), Disk(), replace(HOW, now_ms=now, offline=True))
    with pytest.raises(Refused, match="--offline"):
        undo(read_journal(str(log_dir / f"recover.kafkatool-{RUN}")), Disk(), offline=False, now_ms=now)


def test_a_held_lock_is_refused_even_offline(log_dir: Path) -> None:
    journal = apply(make_plan(log_dir), Disk(), HOW)
    with locked(log_dir):
        before = read_tree(log_dir, ours=True)
        with pytest.raises(Refused, match="a broker is running"):
            apply(make_plan(log_dir), Disk(), Applying(NOW, offline=True))
        with pytest.raises(Refused, match="a broker is running"):
            undo(read_journal(journal), Disk(), offline=True, now_ms=NOW)
        assert read_tree(log_dir, ours=True) == before


class Watching(Disk):
    """Asks from another process, at every rename, whether the lock is held."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.seen: list[bool] = []

    def rename(self, source: str, target: str) -> None:
        code = (
            "import sys; from kafkatool.engine.files.lock import broker_is_alive; "
            "sys.exit(broker_is_alive(sys.argv[1]))"
        )
        held = subprocess.run([sys.executable, "-c", code, str(self.log_dir)], check=False).returncode
        self.seen.append(bool(held))
        super().rename(source, target)


@pytest.mark.parametrize("left_by_a_broker", [True, False])
def test_the_lock_is_held_while_anything_changes(log_dir: Path, left_by_a_broker: bool) -> None:
    lock = log_dir / ".lock"
    if left_by_a_broker:
        lock.touch()
    files = Watching(log_dir)
    apply(make_plan(log_dir), files, HOW)
    assert files.seen
    assert all(files.seen)
    assert lock.exists() == left_by_a_broker
    assert not broker_is_alive(str(log_dir))


# --- power cuts ---------------------------------------------------------------------------------------


def power_cuts(
    tmp_path: Path, before: dict[str, bytes], work: Callable[[Path, Files], None], without: str | None = None
) -> Iterator[tuple[Path, bool, set[str]]]:
    """What is left after a cut at every operation, in every way; whether the work was done; sync sites."""
    number = 0
    while True:
        root = write_tree(tmp_path / f"disk-{number}" / "logs", before)
        disk = CrashDisk(root, stop_at=number, without=without)
        with suppress(PowerCut):
            work(root, disk)
        ways = [way for seed in range(number, number + 3 * SEED, SEED) for way in every_way(seed)]
        for way, (_name, keep, tear) in enumerate(ways):
            left = disk.survivors(tmp_path / f"left-{number}-{way}", keep=keep, tear=tear)
            yield left, not disk.is_cut, disk.sync_sites
        if not disk.is_cut:
            return
        number += 1


def expect(condition: bool) -> None:
    """An assertion that a test of tests can catch."""
    if not condition:
        raise LostError


class LostError(Exception):
    pass


@contextmanager
def catch_refusals() -> Iterator[None]:
    """What should be possible and is not counts as lost."""
    try:
        yield
    except KafkatoolError as error:
        raise LostError from error


def check_applied(left: Path, is_done: bool) -> None:
    """Old or new by file, originals kept, undo possible; all new where the work had returned."""
    found = read_tree(left)
    if is_done:
        expect(found == AFTER)
    for name in {*BEFORE, *AFTER} - {CLEAN_MARKER}:
        expect(found.get(name) in (BEFORE.get(name), AFTER.get(name)) or name == "t-0/5.log")
    if any(left.rglob("*.tmp")):
        with catch_refusals():
            read_journal(str(left / f"recover.kafkatool-{RUN}"))
    changed = {name: data for name, data in found.items() if name != CLEAN_MARKER}
    is_changed = changed != {name: data for name, data in BEFORE.items() if name != CLEAN_MARKER}
    expect(not (is_changed and CLEAN_MARKER in found))
    expect(not (is_changed and not (left / f"recover.kafkatool-{RUN}").exists()))
    # The two fives never both vanish, and the better one never stands under both names.
    fives = [found[name] for name in ("t-0/5.log", "t-0/5.log.swap") if name in found]
    expect(fives != [b"better five", b"better five"])
    expect(b"better five" in fives)
    journal = left / f"recover.kafkatool-{RUN}"
    if is_changed:
        with catch_refusals():
            undo(read_journal(str(journal)), Disk(), offline=False, now_ms=NOW)
        expect(read_tree(left) == {name: data for name, data in BEFORE.items() if name != CLEAN_MARKER})


def do_apply(root: Path, files: Files) -> None:
    apply(make_plan(root), files, HOW)


def test_a_power_cut_while_applying_leaves_every_file_old_or_new_and_can_be_undone(memory_path: Path) -> None:
    for left, is_done, _sites in power_cuts(memory_path, BEFORE, do_apply):
        check_applied(left, is_done)


def do_undo(root: Path, files: Files) -> None:
    undo(read_journal(str(root / f"recover.kafkatool-{RUN}")), files, offline=False, now_ms=NOW)


def check_undone(left: Path, is_done: bool) -> None:
    """An undo that was cut short can be repeated; one that returned is complete."""
    wanted = UNCLEAN
    found = read_tree(left)
    if is_done:
        expect(found == wanted)
    expect(found in (AFTER, AFTER | {CLEAN_MARKER: b"{}"}) or CLEAN_MARKER not in found)
    with catch_refusals():
        do_undo(left, Disk())
    expect(read_tree(left) == wanted)


@pytest.fixture
def applied(tmp_path: Path) -> dict[str, bytes]:
    root = write_tree(tmp_path / "applied" / "logs", BEFORE)
    do_apply(root, Disk())
    return read_tree(root, ours=True) | {CLEAN_MARKER: b"{}"}


def test_a_power_cut_while_undoing_can_be_repeated(memory_path: Path, applied: dict[str, bytes]) -> None:
    for left, is_done, _sites in power_cuts(memory_path, applied, do_undo):
        check_undone(left, is_done)


class CopyingCrashDisk(CrashDisk):
    """One on which nothing can have two names: originals have to be copied."""

    def link(self, source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link")


def keep_elsewhere(tmp_path: Path, without: str | None = None) -> set[str]:
    """Cut the power at every operation; whatever is left, each original is in place or in the backup.

    The places that synced; raises LostError.
    """
    number, is_cut, sites = 0, True, set[str]()
    while is_cut:
        top = tmp_path / f"disk-{number}"
        root = write_tree(top / "logs", BEFORE)
        disk = CopyingCrashDisk(top, stop_at=number, without=without)
        with suppress(PowerCut):
            apply(make_plan(root), disk, replace(HOW, backup_dir=str(top / "kept")))
        is_cut = disk.is_cut
        for way, (_name, keep, tear) in enumerate(every_way(number)):
            left = disk.survivors(tmp_path / f"left-{number}-{way}", keep=keep, tear=tear)
            found = set(read_tree(left, ours=True).values())
            expect(set(UNCLEAN.values()) <= found)
            expect(is_cut or read_tree(left / "logs") == AFTER)
        number += 1
        sites |= disk.sync_sites
    assert number > 40
    return sites


def test_with_a_backup_directory_on_another_volume_no_original_is_ever_lost(memory_path: Path) -> None:
    keep_elsewhere(memory_path)


def test_a_power_cut_while_originals_are_copied_back_loses_none_of_them(
    memory_path: Path,
) -> None:
    number, is_cut = 0, True
    while is_cut:
        top = memory_path / f"disk-{number}"
        root = write_tree(top / "logs", BEFORE)
        made = apply(make_plan(root), NoLinks(), replace(HOW, backup_dir=str(top / "kept")))
        disk = CopyingCrashDisk(top, stop_at=number)
        with suppress(PowerCut):
            undo(read_journal(made), disk, offline=False, now_ms=NOW)
        is_cut = disk.is_cut
        for way, (_name, keep, tear) in enumerate(every_way(number)):
            left = disk.survivors(memory_path / f"left-{number}-{way}", keep=keep, tear=tear)
            expect(set(UNCLEAN.values()) <= set(read_tree(left, ours=True).values()))
            # The root in a backup directory's journal is absolute: put the survivors where it points.
            shutil.rmtree(top)
            shutil.copytree(left, top)
            undo(read_journal(made), NoLinks(), offline=False, now_ms=NOW)
            assert read_tree(top / "logs") == UNCLEAN
            assert [path.name for path in (top / "kept").iterdir()] == [os.path.basename(made)]
        number += 1
    assert number > 20


def plan_to_move_out(root: Path, aside: Path) -> Plan:
    """Everything of a partition goes elsewhere, in two stages, and then its directory."""
    names = sorted(os.listdir(root / "t-0"))
    steps = [plans.remove(str(root / "t-0" / name), "set aside", str(aside / "t-0" / name)) for name in names]
    stages = (tuple(steps[:1]), tuple(steps[1:]), (plans.remove_directory(str(root / "t-0"), "empty"),))
    return Plan("set-aside", str(root), stages, directories=(str(aside), str(aside / "t-0")))


def test_a_power_cut_while_a_partition_is_moved_out_can_be_undone(memory_path: Path) -> None:
    number, is_cut = 0, True
    while is_cut:
        top = memory_path / f"disk-{number}"
        root = write_tree(top / "logs", BEFORE)
        disk = CrashDisk(top, stop_at=number)
        with suppress(PowerCut):
            apply(plan_to_move_out(root, top / "aside"), disk, HOW)
        is_cut = disk.is_cut
        for way, (_name, keep, tear) in enumerate(every_way(number)):
            left = disk.survivors(memory_path / f"left-{number}-{way}", keep=keep, tear=tear)
            assert set(UNCLEAN.values()) <= set(read_tree(left, ours=True).values())
            shutil.rmtree(top)
            shutil.copytree(left, top)  # the journal names places outside by their full paths
            assert is_cut or not (root / "t-0").exists()
            if read_tree(root) not in (BEFORE, UNCLEAN):
                journal = read_journal(str(root / f"set-aside.kafkatool-{RUN}"), [str(top / "aside")])
                undo(journal, Disk(), offline=False, now_ms=NOW)
            assert read_tree(root) in (BEFORE, UNCLEAN)
            assert (root / "t-0").stat().st_mode & 0o777 == 0o755
        number += 1
    assert number > 20


CUTS = {
    "apply": (BEFORE, do_apply, check_applied),
    "apply after a crash": (UNCLEAN, do_apply, check_applied),
    "undo": ({}, do_undo, check_undone),
}


def test_each_sync_is_needed(memory_path: Path, applied: dict[str, bytes]) -> None:
    sites: set[str] = set()
    needed: set[str] = set()
    for name, (before, do, check) in CUTS.items():
        *_, (_left, _done, found) = power_cuts(memory_path / name, before or applied, do)
        sites |= found
        for site in found - needed:
            with suppress(LostError):
                for left, is_done, _ in power_cuts(memory_path / name / site, before or applied, do, site):
                    check(left, is_done)
                continue
            needed.add(site)
    assert sites - needed == set()
    for site in keep_elsewhere(memory_path / "elsewhere") - needed:
        with pytest.raises(LostError):
            keep_elsewhere(memory_path / "elsewhere" / site, site)
        needed.add(site)
    assert needed == sync_calls()


def sync_calls() -> set[str]:
    """Every line that syncs something."""
    found = set()
    for module in (plans, journals, applying, undoing, copying):
        path = Path(str(module.__file__))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if ".sync()" in line or ".sync_directory(" in line:
                found.add(f"{path.name}:{number}")
    return found
