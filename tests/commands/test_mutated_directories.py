"""Directories of real brokers with files changed at random: commands read, mend and undo, and never crash.

reading      ends with a documented exit code and changes nothing
rebuild      leaves nothing to rebuild, and no index that verify complains of in a log that is whole
recover      leaves nothing to cut, and nothing that keeps a broker from starting
--undo       brings back every byte
"""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkatool.engine.files.lock import CLEAN_MARKER
from tests.cli import Run, run
from tests.mutations import mutated
from tests.places import FIXTURES

GROUPS = ("log-dir", "replicas", "transactions", "compacted", "index", "leftovers", "legacy")
CASES = sorted(case for group in GROUPS for case in (FIXTURES / group).iterdir())
QUICK, LONG = 30, 3000
SLOWEST = 30
"""Seconds for one command on some hundred kilobytes, on a machine that does other things too."""
NUMBERS = (0, 1, -1, 7, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
Tree = dict[str, bytes]


# --- what happens to files ----------------------------------------------------------------------------


def mutate(chance: random.Random, path: Path) -> None:
    """One of the things that disks and people do to files."""
    raw = path.read_bytes()
    if chance.random() < 0.1:
        path.unlink()
        return
    if not raw or chance.random() < 0.1:
        path.write_bytes(chance.randbytes(chance.randrange(60)))
        return

    def put_number(content: bytearray, at: int) -> None:
        content[at : at + 8] = chance.choice(NUMBERS).to_bytes(8, "big", signed=True)

    path.write_bytes(mutated(chance, raw, put_number))


def mutated_copy(chance: random.Random, root: Path) -> Path:
    """A fixture with one to three files changed; the directory in it that is to be named."""
    shutil.copytree(chance.choice(CASES), root)
    for extra in (*root.rglob("golden.json"), *root.rglob("ORIGIN.md")):
        extra.unlink()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    partitions = sorted({path.parent for path in files if path.suffix in (".log", ".index")})
    target = chance.choice([*partitions, *sorted({path.parent for path in partitions})])
    for path in chance.sample(files, chance.choice([1, 1, 2, 3])):
        mutate(chance, path)
    return target


def tree(root: Path) -> Tree:
    """Every file; without what kafkatool keeps, and the mark of a clean shutdown, which never comes back."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "kafkatool-" not in path.name and path.name != CLEAN_MARKER
    }


# --- what is done about it ----------------------------------------------------------------------------


@contextmanager
def soon() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SLOWEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def go(*arguments: object) -> Run:
    with soon():
        done = run(*map(str, arguments))
    assert done.exit_code in (0, 2, 3, 4, 5), done
    assert b"should not happen" not in done.stderr, done
    return done


def check_reading(chance: random.Random, target: Path) -> None:
    go("verify", "-v", "--deep", "--format", "ndjson", target)
    go("report", "--deep", "--with-payloads", "-o", "-", target)
    offset, time_ms = chance.choice([0, 1, 5, 40, 1 << 40]), chance.choice([0, 1, 1 << 40, 1 << 62])
    go("lookup", "--offset", offset, "--explain", "--format", "ndjson", target)
    go("lookup", "--time", time_ms, "--explain", target)
    go("rebuild-index", "--format", "ndjson", target)
    go("recover", "-v", target)
    for options in ([], ["--quick"]):
        go("doctor", "--format", "ndjson", *options, target)
        go("doctor", "--format", "ndjson", *options, target.parent)


def check_rebuild(root: Path, target: Path, before: Tree) -> None:
    done = go("rebuild-index", "--apply", "--offline", "--format", "ndjson", target)
    if done.exit_code in (0, 4):
        again = go("rebuild-index", "--format", "ndjson", target)
        assert [row["steps"] for row in again.of("plan") if row["steps"]] == []
    if done.exit_code == 0:
        findings = go("verify", "-v", "--format", "ndjson", target).of("finding")
        advice = {str(row["fix"]) for row in findings if "--force" not in str(row["fix"])}
        assert [text for text in advice if "rebuild-index" in text] == []
    undo("rebuild-index", done)
    assert tree(root) == before


def check_recover(root: Path, target: Path, before: Tree) -> None:
    done = go("recover", "--apply", "--offline", "--format", "ndjson", target)
    is_refused = any(row["what"] in ("refuse", "offline") for row in done.of("recovery"))
    if done.exit_code in (0, 4) and not is_refused:
        again = go("recover", "--format", "ndjson", target).of("recovery")
        assert [row for row in again if row["what"] in ("cut", "refuse", "offline")] == []
        findings = go("verify", "-v", "--format", "ndjson", target).of("finding")
        assert [row for row in findings if row["severity"] == "no_start"] == []
    undo("recover", done)
    assert tree(root) == before


def undo(command: str, done: Run) -> None:
    for plan in reversed(done.of("plan")):
        if plan["journal"]:
            assert go(command, "--undo", plan["journal"], "--apply", "--offline").exit_code == 0


def check(root: Path, numbers: range) -> None:
    for number in numbers:
        chance = random.Random(number)
        target = mutated_copy(chance, root / str(number))
        before = tree(root / str(number))
        try:
            check_reading(chance, target)
            assert tree(root / str(number)) == before
            check_rebuild(root / str(number), target, before)
            check_recover(root / str(number), target, before)
        except Exception as error:
            raise AssertionError(f"directory {number}, {target}") from error
        shutil.rmtree(root / str(number))


@pytest.mark.long
def test_any_directory_is_read_mended_and_brought_back(memory_path: Path) -> None:
    check(memory_path, range(QUICK))


@pytest.mark.soak
def test_very_many_directories_are_read_mended_and_brought_back(memory_path: Path) -> None:
    check(memory_path, range(QUICK, LONG))
