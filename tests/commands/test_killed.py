"""Every command that changes a directory, killed at every operation on the disk: the way back stays open.

A child of the test runs the command and is killed with SIGKILL before its k-th operation. Then, as chance has
it: the journal is undone, the undo is killed as well and repeated, the command is run again, and the journals
of all runs are undone in any order. In the end every name, byte, time and mode is as it was. What a power cut
does beyond that is for the fake disk of `tests/engine/plan/test_steps.py`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkatool.engine.files import disk, lock
from tests.cli import run
from tests.commands.sure_options import CERTAIN, SURE
from tests.engine.compaction_logs import CleanLog
from tests.engine.disk import flip_second_batch, write_meta_properties, write_mixed_log_dir, write_partition
from tests.engine.transaction_logs import set_limits

DISK = ("create", "rename", "link", "unlink", "make_directory", "remove_directory", "sync_directory")
DISK_TOO = ("set_mtime", "set_mode", "set_owner", "set_attribute")
FILE = ("write_at", "truncate", "sync")
KILLED = -signal.SIGKILL
SAMPLE = 6
"""Kills of each command in a usual run."""
SEEDS = 5
"""Stories for each operation in a long one."""

Tree = dict[str, tuple[bytes, int, int]]


class Case(NamedTuple):
    """A command with its options, and how the directory is made that it works on."""

    command: str
    options: tuple[str, ...]
    make: Callable[[Path], None]
    paths: tuple[str, ...] = ("logs",)
    kept: str | None = None

    def arguments(self, root: Path) -> list[str]:
        places = [one.replace("{root}", str(root)) for one in self.options]
        return [self.command, "--offline", "--apply", *places, *(str(root / one) for one in self.paths)]

    def undo(self, journal: str, root: Path) -> list[str]:
        kept = [] if self.kept is None else ["--backup-dir", str(root / self.kept)]
        return [self.command, "--undo", journal, "--offline", "--apply", *kept]


def damaged(root: Path) -> None:
    (root / "logs").mkdir()
    write_meta_properties(root / "logs")
    for number, base in ((0, 60), (1, 0)):
        flip_second_batch(write_partition(root / "logs", f"orders-{number}", segments=3), base)


def without_indexes(root: Path) -> None:
    damaged(root)
    for path in (root / "logs").glob("*/*index"):
        if "0060" in path.name:
            path.unlink()
        else:
            path.write_bytes(b"\1" * 24)


def expired(root: Path) -> None:
    write_mixed_log_dir(root / "logs")


def compacted(root: Path) -> None:
    (root / "logs").mkdir()
    log = CleanLog(root / "logs" / "users-0")
    for number in range(9):
        log.put(f"user-{number % 2}=v{number}", f"team-{number % 2}=w{number}")
        if number % 3 == 2:
            log.roll()
    log.put("user-1=last")
    log.close()
    set_limits(root / "logs", 20, name="users-0")


def with_other_copies(root: Path) -> None:
    """A broker that is down, and a picture of the cluster that is later than all its files."""
    write_mixed_log_dir(root / "logs")
    (root / "logs" / "log-start-offset-checkpoint").write_text("0\n2\norders 0 3\norders 2 0\n")
    lines = [
        f"\tTopic: orders\tPartition: {number}\tLeader: 8\tReplicas: 7,8\tIsr: 8\tElr: \tLastKnownElr: \n"
        for number in (0, 2, 10)
    ]
    picture = root / "picture"
    picture.write_text("".join(lines))
    os.utime(picture, (2**32, 2**32))


KEPT = ("--backup-dir", "{root}/kept")
CASES = {
    "recover": Case("recover", (), damaged),
    "recover, kept elsewhere": Case("recover", KEPT, damaged),
    "rebuild-index": Case("rebuild-index", (), without_indexes),
    "rebuild-index, kept elsewhere": Case("rebuild-index", KEPT, without_indexes),
    "retention": Case("retention", SURE, expired, ("logs/orders-0",)),
    "retention, moved": Case(
        "retention", (*SURE, "--move-to", "{root}/moved"), expired, ("logs/orders-0",), "moved"
    ),
    "set-aside": Case(
        "set-aside",
        ("--describe", "{root}/picture", "--move-to", "{root}/aside"),
        with_other_copies,
        ("logs/orders-0", "logs/orders-2"),
        "aside",
    ),
    "compact": Case("compact", CERTAIN, compacted),
    "compact, kept elsewhere": Case("compact", (*CERTAIN, *KEPT), compacted),
}


def tree(root: Path) -> Tree:
    """Every file but journals, the mark of a clean shutdown, and the lock that a kill leaves behind."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.name in (".kafka_cleanshutdown", ".lock") or _is_journal(path) or path.is_dir():
            continue
        found[name] = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode)
    return found


def _is_journal(path: Path) -> bool:
    return any(path.name.startswith(f"{one.command}.kafkatool-") for one in CASES.values())


def journals(root: Path) -> list[str]:
    """Oldest first: their names are drawn at random."""
    found = [path for path in root.rglob("*.kafkatool-*") if _is_journal(path) and path.is_file()]
    return [str(path) for path in sorted(found, key=lambda path: path.stat().st_ctime_ns)]


def run_and_kill(arguments: list[str], at: int | None) -> tuple[int, int]:
    """Run a command in a child that is killed before its operation `at`; its code, and how many it did."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(arguments, at, write_end)
    os.close(write_end)
    with open(read_end, "rb") as counts:
        counted = counts.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(counted or 0)


def _be_the_child(arguments: list[str], at: int | None, write_end: int) -> None:
    count = 0

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **more: Any) -> Any:
            nonlocal count
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return method(*given, **more)

        return counted

    code = 99
    try:
        for owner, names in ((disk.Disk, DISK + DISK_TOO), (disk.DiskFile, FILE)):
            for name in names:
                setattr(owner, name, counting(getattr(owner, name)))
        code = run(*arguments).exit_code
        os.write(write_end, str(count).encode())
    finally:
        os._exit(code)


def operations(case: Case, root: Path) -> int:
    """How many there are in a run that nobody kills."""
    root.mkdir()
    case.make(root)
    before = tree(root)
    code, count = run_and_kill(case.arguments(root), None)
    assert code == (4 if case.command == "rebuild-index" else 0), code  # the log itself is damaged
    assert tree(root) != before
    assert count > 10
    shutil.rmtree(root)
    return count


def live_through(case: Case, root: Path, at: int, chance: random.Random) -> int:
    """One story: killed at an operation, then whatever chance says; returns how often it was killed."""
    root.mkdir()
    case.make(root)
    before = tree(root)
    code, _count = run_and_kill(case.arguments(root), at)
    assert code == KILLED
    kills = 1
    if chance.random() < 0.5:
        kills += _undo_and_kill(case, root, chance)
    if chance.random() < 0.5:
        done = run(*case.arguments(root))
        assert done.exit_code in (0, 2, 3, 4), done.stderr
        assert not list(root.glob(".kafkatool-compact-*"))
    if chance.random() < 0.3:
        kills += _undo_and_kill(case, root, chance)
    undo_all(case, root, chance)
    for path in root.glob(".kafkatool-compact-*"):  # of a run that no other followed
        shutil.rmtree(path)
    assert tree(root) == before
    shutil.rmtree(root)
    return kills


def _undo_and_kill(case: Case, root: Path, chance: random.Random) -> int:
    found = journals(root)
    if not found:
        return 0
    code, _count = run_and_kill(case.undo(chance.choice(found), root), chance.randrange(30))
    return int(code == KILLED)


def undo_all(case: Case, root: Path, chance: random.Random) -> None:
    """Undo every journal, in any order; one that is refused comes again when others were undone."""
    left = journals(root)
    chance.shuffle(left)
    while left:
        undone = [journal for journal in left if _is_undone(case, journal, root)]
        assert undone, "no journal can be undone any more"
        left = [journal for journal in left if journal not in undone]


def _is_undone(case: Case, journal: str, root: Path) -> bool:
    done = run(*case.undo(journal, root))
    # A journal that was cut inside its first line belongs to a run that did nothing.
    is_none = done.exit_code == 3 and b"is not a journal" in done.stderr
    assert done.exit_code in (0, 5) or is_none, done.stderr
    return done.exit_code == 0 or is_none


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_killed_anywhere_it_can_be_undone_to_the_last_byte(name: str, memory_path: Path) -> None:
    case = CASES[name]
    count = operations(case, memory_path / "alive")
    chance = random.Random(name)
    for number, at in enumerate(sorted(chance.sample(range(count), SAMPLE))):
        live_through(case, memory_path / f"story-{number}", at, random.Random(f"{name} {at}"))


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_operation_it_can_be_undone_to_the_last_byte(name: str, memory_path: Path) -> None:
    case = CASES[name]
    count = operations(case, memory_path / "alive")
    kills = 0
    for seed in _seeds():
        for at in range(count):
            story = memory_path / f"story-{seed}-{at}"
            kills += live_through(case, story, at, random.Random(f"{name} {at} {seed}"))
    print(f"{name}: {count} operations, {kills} kills")
    assert kills >= SEEDS * count  # some 600 operations in all cases: at least 3,000 kills


def _seeds() -> Iterator[int]:
    first = int(os.environ.get("KAFKATOOL_SEED", "0"))
    print(f"seeds from {first} on")
    return iter(range(first, first + SEEDS))


@pytest.mark.parametrize("name", CASES)
def test_what_changed_between_plan_and_lock_is_refused(
    name: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a broker that was started, took records and was stopped in between."""
    case, root = CASES[name], memory_path / "changed"
    root.mkdir()
    case.make(root)
    (first, *_) = sorted((root / "logs").glob("*-0/*.log"))
    hold = lock.hold_locks

    def changed(*given: Any) -> Any:
        with first.open("ab") as log:
            log.write(b"acknowledged")
        return hold(*given)

    monkeypatch.setattr("kafkatool.engine.plan.applying.hold_locks", changed)
    before = {name: data for name, (data, _mtime, _mode) in tree(root).items()}
    done = run(*case.arguments(root))
    assert done.exit_code == 5, done.stderr
    assert b"changed since it was planned" in done.stderr
    assert first.read_bytes().endswith(b"acknowledged")
    changed_name = str(first.relative_to(root))
    after = {name: data for name, (data, _mtime, _mode) in tree(root).items()}
    assert {**after, changed_name: before[changed_name]} == before
