"""Completion, typed into real shells: what they make of a line and a press of the tabulator."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import run
from tests.kafka.peers import require_program
from tests.places import ROOT
from tests.terminals import Terminal

FILES = {"bash": "kafkatool.bash", "zsh": "_kafkatool", "fish": "kafkatool.fish"}
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1=ready:; bind 'set bell-style none'; . {script}\n"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "PS1=ready:; unsetopt beep prompt_cr prompt_sp; fpath=({directory} $fpath); "
        "autoload -U compinit && compinit -u -D\n",
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "function fish_prompt; echo -n ready:; end; set -g fish_autosuggestion_enabled 0; source {script}\n",
    ),
}
KEEPER = """#!{python}
import json, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
"""


class ShellWithCompletion:
    """A shell in which `kafkatool` only writes down how it was called."""

    def __init__(self, name: str, home: Path) -> None:
        self.name, self.home = name, home
        self._log = home / "called"
        self._log.touch()
        stub = home / "bin" / "kafkatool"
        stub.parent.mkdir()
        stub.write_text(KEEPER.format(python=sys.executable, log=str(self._log)))
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
        command, setup = START[name]
        environment = {
            "HOME": str(home),
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
        }
        self.terminal = Terminal(command, cwd=home / "work", environment=environment, columns=200)
        self.terminal.type(
            setup.format(directory=ROOT / "completions", script=ROOT / "completions" / FILES[name])
        )
        self.terminal.type("echo up-and-$((1 + 1))\n" if name != "fish" else "echo up-and-(math 1 + 1)\n")
        self.terminal.read_until(b"up-and-2")

    def completed(self, line: str) -> list[str]:
        """The words with which a line is called after a press of the tabulator at its end."""
        before = len(self._log.read_text().splitlines())
        self.terminal.type(f"{line}\t")
        self.terminal.type("\n")
        end = time.monotonic() + 90
        while time.monotonic() < end:
            called = self._log.read_text().splitlines()
            if len(called) > before:
                assert len(called) == before + 1, "nothing but the line itself may run kafkatool"
                # What is behind a directory zsh takes away again when the line ends.
                return [word.removesuffix("/") for word in json.loads(called[-1])]
            time.sleep(0.01)
        raise AssertionError(f"{line!r} was not called: {self.terminal.seen[-2000:]!r}")

    def listed(self, line: str, *expected: str) -> bytes:
        """What presses of the tabulator show, at the end of a line that could go on in many ways."""
        self.terminal.seen = b""
        if self.name == "fish":  # shows it in a pager, and page by page
            self.terminal.type(f'complete -C "{line}"; echo the-(math 1 - 1)-end\n')
            self.terminal.read_until(b"the-0-end")
        else:
            self.terminal.type(f"{line}\t\t\t")
        for word in expected:
            self.terminal.read_until(word.encode())
        seen, self.terminal.seen = self.terminal.seen, b""
        self.terminal.type("\x15\n")  # forget the line
        self.terminal.read_until(b"ready:")
        return seen


@pytest.fixture(scope="module", params=START)
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ShellWithCompletion]:
    require_program(request.param)
    home = tmp_path_factory.mktemp(request.param)
    data = home / "work" / "data"
    for name in ("orders-0", "orders-1", "payments-0", "gone-0.0b8e2f1c7d6a4e5f9a3b2c1d0e4f5a6b-delete"):
        (data / name).mkdir(parents=True)
    (data / "meta.properties").touch()
    (home / "work" / "with blanks").mkdir()
    (home / "work" / "with blanks" / "clicks-0").mkdir()
    started = ShellWithCompletion(request.param, home)
    with started.terminal:
        yield started


@pytest.mark.parametrize("name", FILES)
def test_the_scripts_are_those_of_these_commands(name: str) -> None:
    printed = run("completion", name)
    assert printed.exit_code == 0
    assert (ROOT / "completions" / FILES[name]).read_bytes() == printed.stdout, "if this is right: make man"


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("kafkatool veri", ["verify"]),
        ("kafkatool cache", ["cache-map"]),
        ("kafkatool bench appe", ["bench", "append"]),
        ("kafkatool help rec", ["help", "recover"]),
        ("kafkatool completion zs", ["completion", "zsh"]),
        ("kafkatool ls --revers", ["ls", "--reverse"]),
        ("kafkatool bench append --num-rec", ["bench", "append", "--num-records"]),
        ("kafkatool ls --format nd", ["ls", "--format", "ndjson"]),
        ("kafkatool export --format par", ["export", "--format", "parquet"]),
        ("kafkatool ls --sort alloc", ["ls", "--sort", "allocated"]),
        ("kafkatool verify --fail-on no_", ["verify", "--fail-on", "no_start"]),
        ("kafkatool ls --state str", ["ls", "--state", "stray"]),
        ("kafkatool dump-log --compat 3", ["dump-log", "--compat", "3.9"]),
        ("kafkatool compact --high-watermark che", ["compact", "--high-watermark", "checkpoint"]),
        ("kafkatool retention --set cleanup.p", ["retention", "--set", "cleanup.policy="]),
        ("kafkatool cat --cache k", ["cat", "--cache", "keep"]),
        ("kafkatool cat data/pay", ["cat", "data/payments-0"]),
        ("kafkatool cat --limit 5 data/pay", ["cat", "--limit", "5", "data/payments-0"]),
        ("kafkatool cat data/orders-0 data/pay", ["cat", "data/orders-0", "data/payments-0"]),
        ("kafkatool ls with\\ blanks/cli", ["ls", "with blanks/clicks-0"]),
        ("kafkatool recover --config data/me", ["recover", "--config", "data/meta.properties"]),
        (
            "kafkatool serve --insecure data --rename pay",
            ["serve", "--insecure", "data", "--rename", "payments-0="],
        ),
        ("kafkatool sql 'SELECT 1' data/pay", ["sql", "SELECT 1", "data/payments-0"]),
    ],
)
def test_a_press_of_the_tabulator_completes(shell: ShellWithCompletion, line: str, called: list[str]) -> None:
    assert shell.completed(line) == called


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("kafkatool ", ["dump-log", "verify", "completion"]),
        ("kafkatool bench ", ["append", "compare", "lookup"]),
        ("kafkatool verify --", ["--files-from", "--fail-on", "--max-rate"]),
        ("kafkatool ls data/", ["meta.properties", "orders-0", "orders-1", "payments-0"]),
        ("kafkatool ls data/o", ["orders-0", "orders-1", "orders-*"]),
        ("kafkatool ls $PWD/data/o", ["orders-0", "orders-1"]),
        ("kafkatool cat --format ", ["payload", "ndjson"]),
        ("kafkatool serve data --rename ", ["orders-1", "gone-0.0b8e2f1c7d6a4e5f9a3b2c1d0e4f5a6b-delete"]),
    ],
)
def test_more_presses_list_what_there_is(shell: ShellWithCompletion, line: str, listed: list[str]) -> None:
    shell.listed(line, *listed)


def test_a_topic_of_one_partition_is_no_pattern(shell: ShellWithCompletion) -> None:
    assert b"payments-*" not in shell.listed("kafkatool ls data/", "orders-1", "payments-0")


def test_an_option_with_a_number_is_not_completed_with_files(shell: ShellWithCompletion) -> None:
    assert shell.completed("kafkatool cat --limit dat") == ["cat", "--limit", "dat"]


def test_a_topic_is_all_its_partitions(shell: ShellWithCompletion) -> None:
    """Whether the pattern is given on, or the shell has expanded it, is the same to kafkatool."""
    called = shell.completed("kafkatool ls data/orders-*")
    assert called in (["ls", "data/orders-*"], ["ls", "data/orders-0", "data/orders-1"])
