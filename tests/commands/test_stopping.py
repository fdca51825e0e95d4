"""Signals while files are being changed: at once before the first change, then after a stage, never mute."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from kafkatool.format.batch import read_header
from kafkatool.format.names import segment_file
from tests.cli import run
from tests.commands.sure_options import CERTAIN
from tests.engine.disk import write_meta_properties, write_partition
from tests.log_dirs import read_tree

# The command, with a stage or the writing before it that takes its time, in the middle of one call into C.
SLOW = """
import hashlib, os, sys
from kafkatool.engine.plan import applying
from kafkatool.engine.plan import undo

def slowly(module, name):
    original = getattr(module, name)
    def wait(*given, **more):
        os.write(1, b"!")
        hashlib.pbkdf2_hmac("sha256", b"", b"", 4_000_000)  # no signal is handled meanwhile
        os.write(1, b".")
        return original(*given, **more)
    setattr(module, name, wait)

slowly({"write_beside": applying, "carry_out": applying, "_act": undo}[sys.argv[1]], sys.argv[1])
from kafkatool.cli import main
sys.argv[1:] = sys.argv[2:]
main()
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A directory whose recovery has several stages."""
    root = tmp_path / "logs"
    root.mkdir()
    write_meta_properties(root)
    log = write_partition(root, "orders-0", segments=3) / segment_file(60, ".log")
    raw = bytearray(log.read_bytes())
    for byte in (100, 101):  # one alone could be mended
        raw[read_header(raw).size + byte] ^= 1
    log.write_bytes(raw)
    return root


class Slow:
    """A command that is slow at one point."""

    def __init__(self, at: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", dedent(SLOW), at, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdout is not None
        while self.process.stdout.read(1) not in (b"!", b""):
            pass

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def first_word(self) -> str:
        """The first line that it says, in the middle of what is slow."""
        assert self.process.stderr is not None
        assert self.process.stdout is not None
        line = self.process.stderr.readline().decode()
        ready, _, _ = select.select([self.process.stdout], [], [], 0)
        assert not ready
        return line

    def end(self) -> tuple[int, str]:
        _out, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode()


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_before_anything_is_changed_it_ends_at_once(log_dir: Path, number: int) -> None:
    before = read_tree(log_dir, ours=True)
    slow = Slow("write_beside", "recover", "--offline", "--apply", str(log_dir))
    slow.send(number)
    code, err = slow.end()
    assert code == 130
    assert "nothing was changed" in err
    assert read_tree(log_dir, ours=True) == before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_in_the_middle_it_answers_ends_with_the_stage_and_names_both_ways(log_dir: Path, number: int) -> None:
    before = read_tree(log_dir, ours=True)
    slow = Slow("carry_out", "recover", "-q", "--offline", "--apply", str(log_dir))
    slow.send(number)
    word = slow.first_word()
    assert "stopping after the current stage" in word
    code, err = slow.end()
    assert code == 130
    (journal,) = log_dir.glob("recover.kafkatool-*")
    assert str(journal) in word
    assert "stopped after 1 of " in err
    assert "to go on: run the same command again" in err
    assert f"to go back: kafkatool recover --apply --undo {journal}" in err
    told = run("recover", str(log_dir)).stderr
    assert f"to go back: kafkatool recover --apply --undo {journal}".encode() in told
    assert run("recover", "--undo", str(journal), "--offline", "--apply").exit_code == 0
    assert {
        name: data for name, data in read_tree(log_dir, ours=True).items() if name != journal.name
    } == before


def without(journal: Path, log_dir: Path) -> dict[str, bytes]:
    return {name: data for name, data in read_tree(log_dir, ours=True).items() if name != journal.name}


def test_it_can_go_on_after_it_was_stopped(log_dir: Path, tmp_path: Path) -> None:
    slow = Slow("carry_out", "recover", "--offline", "--apply", str(log_dir))
    slow.send(signal.SIGINT)
    assert slow.end()[0] == 130
    assert run("recover", "--offline", "--apply", str(log_dir)).exit_code == 0
    assert run("recover", str(log_dir)).exit_code == 0
    assert run("verify", str(log_dir)).exit_code == 0


def test_an_undo_that_was_stopped_can_be_repeated(log_dir: Path) -> None:
    before = read_tree(log_dir, ours=True)
    assert run("recover", "--offline", "--apply", str(log_dir)).exit_code == 0
    (journal,) = log_dir.glob("recover.kafkatool-*")
    slow = Slow("_act", "recover", "--undo", str(journal), "--offline", "--apply")
    slow.send(signal.SIGINT)
    code, err = slow.end()
    assert code == 130
    assert "stopping after the current stage" in err
    assert f"to go on: kafkatool recover --apply --undo {journal}" in err
    assert run("recover", "--undo", str(journal), "--offline", "--apply").exit_code == 0
    assert {
        name: data for name, data in read_tree(log_dir, ours=True).items() if name != journal.name
    } == before


def test_signals_are_ours_again_afterwards(log_dir: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    open_before = len(os.listdir("/proc/self/fd"))
    assert run("recover", "--offline", "--apply", str(log_dir)).exit_code == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_what_comes_after_it_is_not_begun(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    for name in ("users-0", "users-1"):
        write_partition(root, name, segments=3)
    write_meta_properties(root)
    (root / "replication-offset-checkpoint").write_text("0\n2\nusers 0 180\nusers 1 180\n")
    before = read_tree(root / "users-1")
    slow = Slow("carry_out", "compact", "--offline", "--apply", *CERTAIN, str(root))
    slow.send(signal.SIGINT)
    code, err = slow.end()
    assert code == 130
    assert "left as it is" not in err
    assert read_tree(root / "users-1") == before
    assert len(list(root.glob("compact.kafkatool-*"))) == 1
