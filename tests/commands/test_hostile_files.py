"""Whatever stands in the place of a file, every command ends, soon and small, and says what it met."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer.main

from kafkatool.cli import app
from kafkatool.format.names import segment_file
from tests.cli import Run, run
from tests.engine.partitions_to_verify import SEGMENT, write_healthy_log_dir, write_partition
from tests.logs import TIME

SECONDS = 120
MEMORY = 400 << 20  # address space, most of it the interpreter's and its libraries'
HUGE, LARGE = 512 << 20, 32 << 20
"""Bytes of a side file, and of a log, which has to be read to its end."""

CLOSED, ACTIVE, BEHIND = (segment_file(number * SEGMENT, "") for number in (1, 2, 3))
OUTPUT = "OUTPUT"
"""Stands for a place to write to."""
RUNS = {
    "export": ("export", "--format", "ndjson", "--output", OUTPUT),
    "cat": ("cat", "--limit", "1000"),
    "verify": ("verify", "-v"),
    "report": ("report", "--with-payloads", "-o", "-"),
    "verify --jobs": ("verify", "--jobs", "2", "--deep"),
    "stats": ("stats", "-v", "--deep"),
    "ls": ("ls",),
    "ls --files": ("ls", "--files"),
    "dump-log": ("dump-log", "--format", "ndjson", "--limit", "1000"),
    "dump-log --from": ("dump-log", "--format", "ndjson", "--from", "14", "--limit", "1000"),
    "rebuild-index": ("rebuild-index",),
    "recover": ("recover", "-v"),
    "doctor": ("doctor", "-v"),
    "doctor --quick": ("doctor", "--quick", "--format", "ndjson"),
    "lookup --offset": ("lookup", "--offset", "14"),
    "lookup --time": ("lookup", "--time", str(TIME + 14_000), "--explain"),
    "serve": ("serve", "--list"),
}
WITHOUT_PATHS = {"bench", "pipeline", "sql"}
"""These want other words before a path; what they read, they read as `verify` and `cat` do."""
NAMES_OF_COMMANDS = [
    name
    for name in typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if name not in WITHOUT_PATHS
]
# A command that is not named above is run with its paths only.
COMMANDS = {**{name: (name,) for name in NAMES_OF_COMMANDS}, **RUNS}
every_command = pytest.mark.parametrize("command", COMMANDS)


def words(command: str, scratch: Path) -> list[str]:
    return [str(scratch / "output") if word == OUTPUT else word for word in COMMANDS[command]]


def run_bounded(arguments: list[str], *paths: Path) -> Run:
    """Run a command in a process of its own that may neither wait nor take much."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkatool", *arguments, *map(str, paths)],
        capture_output=True,
        timeout=SECONDS,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    return Run(done.returncode, done.stdout, done.stderr)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Nothing in here may take longer than this, not even a system call."""

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError("it waits for something")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_decent(ended: Run) -> bool:
    """Whether a command ended as it should, with words in reason and no crash among them."""
    said = ended.stdout + ended.stderr
    assert ended.exit_code in (0, 2, 3, 4), ended.stderr
    assert 0 < len(said) < 1 << 20
    for words in (b"Traceback", b"should not happen", b"out of memory"):
        assert words not in said, ended.stderr
    return True


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_healthy_log_dir(tmp_path / "logs", isr=[1])


# --- one file is something else ---------------------------------------------------------------------------

FILES = (
    f"orders-0/{CLOSED}.index",
    f"orders-0/{CLOSED}.timeindex",
    f"orders-0/{ACTIVE}.txnindex",
    f"orders-0/{ACTIVE}.snapshot",
    f"orders-0/{BEHIND}.log",
    "orders-0/leader-epoch-checkpoint",
    "orders-0/partition.metadata",
    "recovery-point-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".lock",
    ".kafka_cleanshutdown",
    "recover.kafkatool-4be1f07a92c3",
    "__cluster_metadata-0/00000000000000000002-0000000001.checkpoint",
    "__cluster_metadata-0/quorum-state",
)


def sparse(path: Path) -> None:
    path.touch()
    is_log = path.suffix in (".log", ".checkpoint")
    os.truncate(path, LARGE if is_log else HUGE)


def garbled(path: Path) -> None:
    path.write_bytes(bytes(range(1, 256)) * 80_000)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.mkdir()


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def spoilt(parent: Path, spoil: Callable[[Path], None]) -> list[Path]:
    """A log directory for every file, in which that one is spoilt."""
    made = []
    for number, name in enumerate(FILES):
        made.append(write_healthy_log_dir(parent / f"logs{number}", isr=[1]))
        (made[-1] / name).unlink(missing_ok=True)
        spoil(made[-1] / name)
    return made


# These read as `verify` and `rebuild-index` do, for longer.
SLOW = ("report", "doctor", "doctor --quick", "recover", "verify --jobs", "compact", "retention")


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=pytest.mark.soak) if name in SLOW else name for name in sorted(COMMANDS)],
)
@pytest.mark.parametrize("spoil", [sparse, pytest.param(garbled, marks=pytest.mark.soak)])
def test_no_command_swells_at_a_file_that_is_far_too_large(
    tmp_path: Path, command: str, spoil: Callable[[Path], None]
) -> None:
    assert is_decent(run_bounded(words(command, tmp_path), *spoilt(tmp_path, spoil)))


@pytest.mark.long
@every_command
@pytest.mark.parametrize("spoil", [pipe, directory, link_to_itself, endless_device])
def test_no_command_waits_at_what_is_no_file(
    tmp_path: Path, command: str, spoil: Callable[[Path], None]
) -> None:
    for number, path in enumerate(spoilt(tmp_path, spoil)):
        with no_waiting():
            assert is_decent(run(*words(command, tmp_path), str(path))), FILES[number]


@pytest.mark.parametrize(
    "command", ["verify", "report", "stats", "ls", "dump-log", "lookup --offset", "rebuild-index"]
)
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (pipe, "is a pipe, expected a file"),
        (directory, "is a directory, expected a file"),
        (link_to_itself, "Too many levels of symbolic links"),
    ],
)
def test_a_log_that_is_none_is_told_and_the_others_are_read(
    tmp_path: Path, command: str, spoil: Callable[[Path], None], told: str
) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs", isr=[1])
    name = f"orders-0/{BEHIND}.log"
    spoil(log_dir / name)
    with no_waiting():
        ended = run(*words(command, tmp_path), str(log_dir))
    assert ended.exit_code == 3
    assert f"{name}: {told}" in ended.stderr.decode()
    if command == "verify":
        assert b"2 partitions, 4 segments, 37 batches" in ended.stdout


# --- names ------------------------------------------------------------------------------------------------

NAMES = (b"new\nline.log", b"12.log\n", b"\xff\xfe.index", b"\x1b[2Jclear", "\u202ereversed".encode())


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - {"cat"}))  # which prints payloads as they are
def test_no_name_breaks_a_line_or_moves_the_cursor(tmp_path: Path, command: str) -> None:
    log_dir = write_healthy_log_dir(tmp_path / "logs", isr=[1])
    for name in NAMES:
        Path(os.fsdecode(os.path.join(os.fsencode(log_dir / "orders-0"), name))).write_bytes(b"x")
        Path(os.fsdecode(os.path.join(os.fsencode(log_dir), name))).mkdir()
        write_partition(Path(os.fsdecode(os.path.join(os.fsencode(log_dir), name + b"-0"))))
    shown = [("table" if word == "ndjson" else word) for word in words(command, tmp_path)]
    ended = run(*(words(command, tmp_path) if command == "export" else shown), str(log_dir))
    assert is_decent(ended)
    for character in "\x1b\u202e":
        assert character not in (ended.stdout + ended.stderr).decode()
    assert all(line.strip() not in ("line.log", "line.log-0") for line in ended.stdout.decode().split("\n"))
