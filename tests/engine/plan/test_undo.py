"""Undo never takes what another run kept, and obeys no journal beyond its own directories."""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkatool.engine.directory.log_dir import read_log_dir
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.lock import broker_is_alive, hold_lock, lock_holder
from kafkatool.engine.files.owners import ConfinedDisk, Owner, acting_as
from kafkatool.engine.plan import steps as plans
from kafkatool.engine.plan.applying import apply, disk_for, undo_command
from kafkatool.engine.plan.evidence import gather_evidence
from kafkatool.engine.plan.journal import read_journal
from kafkatool.engine.plan.leftovers import find_leftovers, remove_waste
from kafkatool.engine.plan.steps import Applying, FileStretch, Plan
from kafkatool.engine.plan.undo import disk_for_undo, plan_undo, undo
from kafkatool.engine.plan.work_directory import work_directory
from kafkatool.errors import KafkatoolError, Refused
from tests.log_dirs import locked, read_tree

NOW = 1_700_000_000_000
OLD_NS = 1_600_000_000_123_456_789
HOW = Applying(now_ms=NOW)
KAFKA = Owner(12345, 23456)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as somebody else")
LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"

Tree = dict[str, tuple[bytes, int, int]]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    root = tmp_path / "logs"
    for name, data in {
        "meta.properties": b"version=1\n",
        f"t-0/{LOG}": b"good batches, torn",
        f"t-0/{INDEX}": b"lies",
        "t-0/00000000000000000009.log": b"nine",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(OLD_NS, OLD_NS))
    return root


def make_plan(root: str | Path, move_to: str | None = None) -> Plan:
    def at(name: str) -> str:
        return os.path.join(root, "t-0", name)

    nine = "00000000000000000009.log"
    target = None if move_to is None else os.path.join(move_to, "t-0", nine)
    return Plan(
        "recover",
        str(root),
        (
            (plans.remove(at(nine), "behind the damage", target),),
            (
                plans.write(at(LOG), FileStretch(at(LOG), 0, 12), "torn"),
                plans.write(at(INDEX), b"true", "it lied"),
            ),
        ),
        directories=() if move_to is None else (move_to, os.path.join(move_to, "t-0")),
    )


def snapshot(root: Path) -> Tree:
    """Every file without journals: bytes, time of change, mode."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.startswith("recover.kafkatool-")
    }


class Killed(BaseException):
    """What ends a run without a chance to clean up."""


class KilledBeforeTheFirstStage(Disk):
    """The disk of a run that dies when its journal is written and everything lies beside."""

    def rename(self, source: str, target: str) -> None:
        raise Killed

    def unlink(self, path: str) -> None:
        raise Killed


def killed_before_its_first_stage(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A journal that no stage followed, with its temporary files."""
    from kafkatool.engine.plan.journal import JournalWriter

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(JournalWriter, "enter_stage", die)
        with pytest.raises(Killed):
            apply(make_plan(log_dir), Disk(), HOW)
    (found,) = log_dir.glob("recover.kafkatool-*")
    return str(found)


def test_undoing_a_run_that_never_began_leaves_the_originals_of_a_later_run(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(log_dir)
    first = killed_before_its_first_stage(log_dir, monkeypatch)
    second = apply(make_plan(log_dir), Disk(), HOW)
    kept = snapshot(log_dir)
    way = plan_undo(read_journal(first), Disk())
    assert way.changes == []
    assert all(one.path.endswith(".tmp") and one.is_removal for one in way.cleaning)
    assert undo(read_journal(first), Disk(), offline=False, now_ms=NOW) == 0
    left = snapshot(log_dir)
    assert left == {name: one for name, one in kept.items() if not name.endswith(".tmp")}
    undo(read_journal(second), Disk(), offline=False, now_ms=NOW)
    assert snapshot(log_dir) == before


def test_undo_shows_every_removal_and_removes_nothing_else(log_dir: Path, tmp_path: Path) -> None:
    journal = apply(make_plan(log_dir), NoLinks(), replace(HOW, backup_dir=str(tmp_path / "kept")))
    before = {*log_dir.rglob("*"), *(tmp_path / "kept").rglob("*")}
    shown = {one.path for one in plan_undo(read_journal(journal), Disk()).all if one.is_removal}
    undo(read_journal(journal), NoLinks(), offline=False, now_ms=NOW)
    after = {*log_dir.rglob("*"), *(tmp_path / "kept").rglob("*")}
    assert {str(path) for path in before - after} == shown


class NoLinks(Disk):
    """A disk on which nothing can have two names."""

    def link(self, source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link")


@pytest.mark.parametrize("is_index_first", [True, False])
def test_a_kept_original_that_is_not_what_was_found_is_not_brought_back(
    log_dir: Path, is_index_first: bool
) -> None:
    journal = apply(make_plan(log_dir), Disk(), HOW)
    (kept,) = log_dir.glob(f"t-0/{INDEX if is_index_first else LOG}.kafkatool-*")
    size = kept.stat().st_size
    kept.write_bytes(b"x" * size)
    os.utime(kept, ns=(OLD_NS, OLD_NS))  # same size and time: only the content tells
    before = read_tree(log_dir, ours=True)
    with pytest.raises(Refused, match="was changed since"):
        undo(read_journal(journal), Disk(), offline=False, now_ms=NOW)
    assert read_tree(log_dir, ours=True) == before


def test_what_stands_in_the_way_of_an_earlier_stage_is_known_before_anything_is_undone(log_dir: Path) -> None:
    journal = apply(make_plan(log_dir), Disk(), HOW)
    (log_dir / "t-0" / "00000000000000000009.log").write_bytes(b"a broker went on")
    before = read_tree(log_dir, ours=True)
    with pytest.raises(Refused, match=r"9\.log: was changed since"):
        undo(read_journal(journal), Disk(), offline=False, now_ms=NOW)
    assert read_tree(log_dir, ours=True) == before


def test_two_journals_can_only_be_undone_the_last_one_first(log_dir: Path) -> None:
    before = snapshot(log_dir)
    first = apply(make_plan(log_dir), Disk(), HOW)
    path = str(log_dir / "t-0" / INDEX)
    second = apply(Plan("recover", str(log_dir), ((plans.write(path, b"truer", "again"),),)), Disk(), HOW)
    with pytest.raises(Refused, match="was changed since"):  # made in the same millisecond
        undo(read_journal(first), Disk(), offline=False, now_ms=NOW)
    for journal in (second, first):
        undo(read_journal(journal), Disk(), offline=False, now_ms=NOW)
    assert snapshot(log_dir) == before
    for journal in (first, second):
        assert undo(read_journal(journal), Disk(), offline=False, now_ms=NOW) == 0
    assert snapshot(log_dir) == before


def test_a_run_that_a_later_one_followed_is_not_undone_first_even_where_both_wrote_the_same(
    log_dir: Path,
) -> None:
    before = snapshot(log_dir)
    path = str(log_dir / "t-0" / LOG)
    plan = Plan("recover", str(log_dir), ((plans.write(path, FileStretch(path, 0, 12), "torn"),),))
    first = apply(plan, Disk(), HOW)
    second = apply(plan, Disk(), replace(HOW, now_ms=NOW + 1))
    with pytest.raises(Refused, match=f"undo that first: kafkatool recover --apply --undo {second}"):
        undo(read_journal(first), Disk(), offline=False, now_ms=NOW)
    for journal in (second, first):
        undo(read_journal(journal), Disk(), offline=False, now_ms=NOW)
    assert snapshot(log_dir) == before


# --- relative paths -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [None, "kept", "../kept", "absolute"])
@pytest.mark.parametrize("logs", ["logs", "./logs", "absolute"])
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("is_moved", [False, True])
def test_relative_paths_lead_back_from_any_working_directory(
    log_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: str | None,
    logs: str,
    elsewhere: bool,
    is_moved: bool,
) -> None:
    before = snapshot(log_dir)
    monkeypatch.chdir(tmp_path)
    kept = str(tmp_path / "kept") if kept == "absolute" else kept
    root = str(log_dir) if logs == "absolute" else logs
    plan = make_plan(root, "moved" if is_moved else None)
    how = replace(HOW, backup_dir=kept)
    journal = apply(plan, disk_for(plan, how), how)
    assert os.path.isabs(journal)
    outside = [str(tmp_path / "moved")]
    if elsewhere:
        (tmp_path / "far" / "away").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "far" / "away")
    back = read_journal(journal, outside)
    undo(back, disk_for_undo(back), offline=False, now_ms=NOW)
    assert snapshot(log_dir) == before
    assert not (tmp_path / "moved").exists()


def test_a_journal_can_be_named_by_a_relative_path(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(log_dir)
    journal = apply(make_plan(log_dir), Disk(), HOW)
    monkeypatch.chdir(log_dir / "t-0")
    back = read_journal(os.path.join("..", os.path.basename(journal)))
    undo(back, disk_for_undo(back), offline=False, now_ms=NOW)
    assert snapshot(log_dir) == before


def test_a_whole_directory_may_be_mounted_elsewhere(log_dir: Path, tmp_path: Path) -> None:
    before = snapshot(log_dir)
    journal = apply(make_plan(log_dir), Disk(), HOW)
    moved = log_dir.rename(tmp_path / "rescued")
    back = read_journal(str(moved / os.path.basename(journal)))
    undo(back, disk_for_undo(back), offline=False, now_ms=NOW)
    assert snapshot(moved) == before


# --- edited journals ------------------------------------------------------------------------------------


def edit(journal: str, change: Callable[[dict[str, object]], None]) -> None:
    first, *rest = Path(journal).read_text().splitlines(keepends=True)
    head = json.loads(first)
    change(head)
    Path(journal).write_text(json.dumps(head) + "\n" + "".join(rest))


ESCAPES = {
    "a path above": lambda move: move.update(path="../secret"),
    "a path by dots": lambda move: move.update(path="t-0/../../secret"),
    "an absolute path": lambda move: move.update(path="/etc/kafkatool-secret"),
    "a deep path": lambda move: move.update(path="t-0/deeper/secret"),
    "a backup above": lambda move: move.update(backup="../secret.kafkatool-{run}"),
    "a backup of another name": lambda move: move.update(backup=f"t-0/{INDEX}"),
    "a temporary of another name": lambda move: move.update(temporary=f"t-0/{INDEX}"),
    "a temporary above": lambda move: move.update(temporary="../secret"),
    "no path": lambda move: move.update(path=None),
    "a number": lambda move: move.update(path=7),
    "a target above": lambda move: move.update(target="../secret", backup="../secret"),
}


@pytest.mark.parametrize("name", ESCAPES)
def test_an_edited_journal_leads_nowhere_else(log_dir: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(b"not yours")
    journal = apply(make_plan(log_dir), Disk(), HOW)
    run = journal.rpartition("-")[2]

    def change(head: dict[str, object]) -> None:
        stages = head["stages"]
        assert isinstance(stages, list)
        move = stages[1][0] if "target" not in name else stages[0][0]
        ESCAPES[name](move)
        if isinstance(move["backup"], str):
            move["backup"] = move["backup"].replace("{run}", run)

    edit(journal, change)
    before = read_tree(tmp_path, ours=True)
    with pytest.raises(KafkatoolError, match=r"outside of its log directory|is not a journal"):
        undo(read_journal(journal), Disk(), offline=False, now_ms=NOW)
    assert read_tree(tmp_path, ours=True) == before


@AS_ROOT
@pytest.mark.parametrize("root", ["..", "../..", "/etc", "t-0"])
def test_a_journal_cannot_name_another_log_directory(log_dir: Path, root: str) -> None:
    journal = apply(make_plan(log_dir), Disk(), HOW)
    edit(journal, lambda head: head.update(root=root))
    os.chown(journal, *KAFKA)
    with pytest.raises(KafkatoolError):
        read_journal(journal)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b'{"journal":2}\n',
        b'{"journal":3}\n',
        b"\xff\n",
        b"[" * 10_000,
    ],
)
def test_what_is_no_journal_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recover.kafkatool-4be1f07a92c3"
    path.write_bytes(content)
    with pytest.raises(KafkatoolError, match="journal"):
        read_journal(str(path))


def test_a_journal_that_is_a_link_or_a_pipe_is_not_opened(log_dir: Path) -> None:
    journal = apply(make_plan(log_dir), Disk(), HOW)
    link = log_dir / "recover.kafkatool-000000000000"
    link.symlink_to(journal)
    pipe = log_dir / "recover.kafkatool-000000000001"
    os.mkfifo(pipe)
    for path in (link, pipe):
        with pytest.raises(KafkatoolError):
            read_journal(str(path))


def test_links_are_not_followed_on_the_way_back(log_dir: Path, tmp_path: Path) -> None:
    """Neither as what is brought back, nor as what is replaced."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"good batches, torn")
    os.utime(secret, ns=(OLD_NS, OLD_NS))
    journal = apply(make_plan(log_dir), Disk(), HOW)
    (kept,) = log_dir.glob(f"t-0/{LOG}.kafkatool-*")
    kept.unlink()
    kept.symlink_to(secret)
    back = read_journal(journal)
    with pytest.raises(Refused):
        undo(back, disk_for_undo(back), offline=False, now_ms=NOW)
    assert (log_dir / "t-0" / LOG).read_bytes() == b"good batches"


def test_a_directory_that_became_a_link_is_not_entered(log_dir: Path, tmp_path: Path) -> None:
    journal = read_journal(apply(make_plan(log_dir), Disk(), HOW))
    files = disk_for_undo(journal)
    victim = tmp_path / "victim"
    (log_dir / "t-0").rename(victim)
    (log_dir / "t-0").symlink_to(victim)
    before = read_tree(victim, ours=True)
    with pytest.raises((OSError, KafkatoolError)):
        undo(journal, files, offline=False, now_ms=NOW)
    assert read_tree(victim, ours=True) == before


# --- run by root ----------------------------------------------------------------------------------------


@AS_ROOT
def test_root_acts_with_the_ids_of_the_directory_s_owner(log_dir: Path, tmp_path: Path) -> None:
    for path in (log_dir, *log_dir.rglob("*")):
        os.chown(path, *KAFKA)
    plan = make_plan(log_dir)
    journal = apply(plan, disk_for(plan, HOW), HOW)
    assert owners(log_dir) == {KAFKA}
    back = read_journal(journal)
    undo(back, disk_for_undo(back), offline=False, now_ms=NOW)
    assert owners(log_dir) == {KAFKA}


def owners(root: Path) -> set[tuple[int, int]]:
    return {(path.stat().st_uid, path.stat().st_gid) for path in root.rglob("*")}


@AS_ROOT
def test_root_cannot_be_led_to_what_the_owner_may_not_touch(tmp_path: Path) -> None:
    """Even where a check was passed and the directory was swapped afterwards."""
    tmp_path.chmod(0o711)
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    theirs.mkdir()
    os.chown(theirs, *KAFKA)
    mine.mkdir(mode=0o700)
    (mine / "secret").write_text("root's")
    files = ConfinedDisk([str(theirs), str(mine)])
    os.link(mine / "secret", theirs / "linked")
    (mine / "secret").chmod(0o600)
    with pytest.raises(PermissionError):
        files.open_to_read(str(theirs / "linked"))
    files.unlink(str(mine / "secret"))  # our own directory stays ours
    with pytest.raises(Refused, match="none of the directories"):
        files.unlink(str(tmp_path / "other"))


@AS_ROOT
def test_ids_are_given_back(tmp_path: Path) -> None:
    with pytest.raises(Killed), acting_as(KAFKA):
        raise Killed
    (tmp_path / "mine").write_text("")
    assert (tmp_path / "mine").stat().st_uid == 0


# --- links and locks ------------------------------------------------------------------------------------


def test_a_lock_behind_a_link_counts(log_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (log_dir / "t-0").rename(other / "t-0")
    (log_dir / "t-0").symlink_to(other / "t-0")
    plan = make_plan(log_dir)
    before = read_tree(other, ours=True)
    with locked(other):
        assert broker_is_alive(str(log_dir / "t-0"))
        with pytest.raises(Refused, match="a broker is running"):
            apply(plan, disk_for(plan, HOW), HOW)
        assert {name: data for name, data in read_tree(other, ours=True).items() if name != ".lock"} == before


def test_a_partition_behind_a_link_is_changed_under_both_locks_and_comes_back(
    log_dir: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".kafka_cleanshutdown").write_text("{}")
    (log_dir / "t-0").rename(other / "t-0")
    (log_dir / "t-0").symlink_to(other / "t-0")
    before = snapshot(other / "t-0")
    plan = make_plan(log_dir)
    held: list[bool] = []

    class Watching(Disk):
        def rename(self, source: str, target: str) -> None:
            code = "import sys; from kafkatool.engine.files.lock import lock_holder as holder; "
            code += "sys.exit(not holder(sys.argv[1]))"
            done = subprocess.run([sys.executable, "-c", code, str(other)], check=False)
            held.append(done.returncode == 0)
            super().rename(source, target)

    journal = apply(plan, Watching(), HOW)
    assert held
    assert all(held)
    assert not (other / ".kafka_cleanshutdown").exists()
    back = read_journal(journal)
    undo(back, disk_for_undo(back), offline=False, now_ms=NOW)
    assert snapshot(other / "t-0") == before
    assert not (other / ".lock").exists()


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to a pipe", "device"])
def test_a_lock_that_is_no_file_never_hangs_and_is_never_passed_by(log_dir: Path, kind: str) -> None:
    lock = log_dir / ".lock"
    if kind == "pipe":
        os.mkfifo(lock)
    elif kind == "directory":
        lock.mkdir()
    elif kind == "device":
        lock.symlink_to("/dev/null")
    else:
        os.mkfifo(log_dir / "pipe")
        lock.symlink_to("pipe")
    assert lock_holder(str(log_dir)) is None
    assert not broker_is_alive(str(log_dir / "t-0" / LOG))
    with pytest.raises(Refused, match=r"\.lock: is not a regular file"):
        apply(make_plan(log_dir), Disk(), HOW)


def test_a_lock_that_a_killed_run_left_is_removed_by_the_next_and_a_broker_s_is_not(log_dir: Path) -> None:
    lock = log_dir / ".lock"
    with pytest.raises(Killed), hold_lock(str(log_dir), KilledBeforeTheFirstStage()):
        pass
    assert lock.exists()
    with hold_lock(str(log_dir), Disk()):
        pass
    assert not lock.exists()
    lock.touch()
    with hold_lock(str(log_dir), Disk()):
        pass
    assert lock.exists()


# --- plans that are out of date -------------------------------------------------------------------------

CHANGES: dict[str, Callable[[Path], object]] = {
    "appended": lambda root: (root / "t-0" / LOG).open("ab").write(b"acked"),
    "rewritten with the same size and time": lambda root: rewrite(root / "t-0" / INDEX, b"LIES"),
    "a new segment": lambda root: (root / "t-0" / "00000000000000000020.log").write_bytes(b"acked"),
    "a removed one": lambda root: (root / "t-0" / "00000000000000000009.log").unlink(),
    "a checkpoint": lambda root: rewrite(root / "meta.properties", b"version=2\n"),
    "replaced": lambda root: replaced(root / "t-0" / LOG),
}


def rewrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, ns=(OLD_NS, OLD_NS))


def replaced(path: Path) -> None:
    """By a file of the same content: another inode all the same."""
    other = path.with_suffix(".new")
    rewrite(other, path.read_bytes())
    other.rename(path)


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_is_refused_where_what_it_was_made_from_has_changed(log_dir: Path, name: str) -> None:
    found = read_log_dir(str(log_dir))
    evidence = gather_evidence(found, found.partitions, with_content=True)
    plan = replace(make_plan(log_dir), evidence=evidence)
    CHANGES[name](log_dir)
    before = read_tree(log_dir, ours=True)
    with pytest.raises(Refused, match="since it was planned"):
        apply(plan, Disk(), HOW)
    assert read_tree(log_dir, ours=True) == before


def test_a_plan_is_applied_where_nothing_but_ours_has_changed(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_log_dir(str(log_dir))
    evidence = gather_evidence(found, found.partitions, with_content=True)
    killed_before_its_first_stage(log_dir, monkeypatch)
    apply(replace(make_plan(log_dir), evidence=evidence), Disk(), HOW)


# --- leftovers ------------------------------------------------------------------------------------------


def test_what_a_killed_run_left_is_named_and_what_is_ours_goes(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(log_dir)
    killed_before_its_first_stage(log_dir, monkeypatch)
    (log_dir / "retention.kafkatool-00000000000a").write_bytes(b'{"journal":2,"run":"00')
    (log_dir / "t-0" / f"{LOG}.kafkatool-00000000000b.tmp").write_bytes(b"whose journal is elsewhere")
    (log_dir / "compact.kafkatool-00000000000c").write_bytes(b"notes of somebody")
    left = find_leftovers(str(log_dir), [str(log_dir / "t-0")])
    waste = {os.path.basename(one.path) for one in left if one.is_waste}
    assert {os.path.basename(one.path) for one in left if not one.is_waste} == {
        f"{LOG}.kafkatool-00000000000b.tmp"
    }
    assert len(waste) == 4  # two temporary files, their journal, and the torn one
    remove_waste(left, Disk())
    for name in ("t-0/" + f"{LOG}.kafkatool-00000000000b.tmp", "compact.kafkatool-00000000000c"):
        (log_dir / name).unlink()
    assert read_tree(log_dir, ours=True) == {name: data for name, (data, _, _) in before.items()}


def test_an_unfinished_journal_is_named_with_the_way_back(log_dir: Path) -> None:
    class FailsInTheSecondStage(Disk):
        def link(self, source: str, target: str) -> None:
            raise OSError(5, "Input/output error", source)

    with pytest.raises(KafkatoolError, match="to go back: kafkatool recover --apply --undo") as failed:
        apply(make_plan(log_dir), FailsInTheSecondStage(), HOW)
    (one,) = [one for one in find_leftovers(str(log_dir), [str(log_dir / "t-0")]) if not one.is_waste]
    assert "ended in stage 2 of 2" in one.what
    assert undo_command("recover", one.path) in one.what
    assert undo_command("recover", one.path) in str(failed.value)


def test_an_unfinished_run_that_moved_files_away_is_named_without_repeating_where(
    log_dir: Path, tmp_path: Path
) -> None:
    class FailsInTheSecondStage(Disk):
        def rename(self, source: str, target: str) -> None:
            raise OSError(5, "Input/output error", source)

    moved = str(tmp_path / "moved")
    with pytest.raises(KafkatoolError, match=f"--backup-dir {moved}"):
        apply(make_plan(log_dir, moved), FailsInTheSecondStage(), HOW)
    named = [one.what for one in find_leftovers(str(log_dir), []) if "ended in stage 2 of 2" in one.what]
    assert [what for what in named if "--backup-dir <DIR>" in what and moved not in what] == named
    assert named


def test_work_directories_of_the_living_are_left_alone(log_dir: Path) -> None:
    with work_directory(str(log_dir), "00000000000a") as mine:
        assert find_leftovers(str(log_dir), []) == []
        assert Path(mine).is_dir()
    assert not Path(mine).exists()
    os.mkdir(mine)  # without a mark: of nobody knows whom
    (one,) = find_leftovers(str(log_dir), [])
    assert not one.is_waste
    (Path(mine) / "in-use").write_text(str(log_dir.resolve()))
    (one,) = find_leftovers(str(log_dir), [])
    assert one.is_waste
    remove_waste([one], Disk())
    assert not Path(mine).exists()
    os.mkdir(mine)
    (Path(mine) / "in-use").write_text("/another/log/directory")
    assert find_leftovers(str(log_dir), []) == []


# --- copies ---------------------------------------------------------------------------------------------


def test_originals_come_back_from_another_volume_with_everything(log_dir: Path, tmp_path: Path) -> None:
    sparse = log_dir / "t-0" / "00000000000000000009.log"
    with sparse.open("wb") as file:
        file.truncate(25 << 20)
        file.seek(10 << 20)
        file.write(b"in the middle")
    sparse.chmod(0o640)
    try:
        os.setxattr(sparse, "user.note", b"kept")
    except OSError:
        pytest.skip("no extended attributes here")
    if os.geteuid() == 0:
        os.chown(sparse, *KAFKA)
    os.utime(sparse, ns=(OLD_NS, OLD_NS))
    before, taken = sparse.stat(), read_tree(log_dir)
    journal = apply(make_plan(log_dir), NoLinks(), replace(HOW, backup_dir=str(tmp_path / "kept")))
    (kept,) = (tmp_path / "kept").glob("t-0.*9.log.*")
    assert kept.stat().st_blocks <= before.st_blocks + 8
    undo(read_journal(journal), NoLinks(), offline=False, now_ms=NOW)
    after = sparse.stat()
    assert read_tree(log_dir) == taken
    assert after.st_blocks <= before.st_blocks + 8
    assert os.getxattr(sparse, "user.note") == b"kept"
    for field in ("st_mtime_ns", "st_mode", "st_uid", "st_gid", "st_size"):
        assert getattr(after, field) == getattr(before, field), field


def test_a_backup_on_a_volume_with_coarse_times_comes_back_with_the_exact_ones(
    log_dir: Path, tmp_path: Path
) -> None:
    journal = apply(make_plan(log_dir), NoLinks(), replace(HOW, backup_dir=str(tmp_path / "kept")))
    for path in (tmp_path / "kept").glob("t-0.*"):
        rounded = path.stat().st_mtime_ns // 2_000_000_000 * 2_000_000_000
        os.utime(path, ns=(rounded, rounded))
        path.chmod(0o777)
    undo(read_journal(journal), NoLinks(), offline=False, now_ms=NOW)
    found = (log_dir / "t-0" / LOG).stat()
    assert found.st_mtime_ns == OLD_NS
    assert stat.S_IMODE(found.st_mode) == 0o644


def test_names_that_fill_all_that_a_name_may_have_are_kept_too(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    names = [f"{'t' * 245}{letter}-0" for letter in "ab"]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / LOG).write_bytes(name.encode())
    (root / "meta.properties").write_text("")
    before = snapshot(root)
    steps = tuple(plans.remove(str(root / name / LOG), "goes") for name in names)
    journal = apply(
        Plan("recover", str(root), (steps,)), Disk(), replace(HOW, backup_dir=str(tmp_path / "kept"))
    )
    undo(read_journal(journal), Disk(), offline=False, now_ms=NOW)
    assert snapshot(root) == before


def test_run_ids_differ() -> None:
    drawn = list(itertools.islice(iter(plans.new_run_id, None), 1000))
    assert len(set(drawn)) == 1000
