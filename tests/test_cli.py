"""The command line as a whole: start-up, errors, exit codes, pipes and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafkatool import __version__, cli
from kafkatool.errors import ExitCode, KafkatoolError
from kafkatool.format.names import segment_file
from tests.cli import KAFKATOOL
from tests.engine.disk import write_mixed_log_dir, write_partition
from tests.processes import wait_until_open


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*KAFKATOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """A runner whose `ls` raises what the environment says."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise ERRORS[os.environ["KAFKATOOL_TEST_ERROR"]]

    monkeypatch.setattr("kafkatool.engine.directory.targets.expand", fail)
    return CliRunner()


ERRORS: dict[str, BaseException] = {
    "known": KafkatoolError("the disk is on fire"),
    "unknown": ZeroDivisionError("one by zero"),
    "memory": MemoryError(),
    "os": PermissionError(13, "Permission denied", "/secret"),
    "interrupt": KeyboardInterrupt(),
    "pipe": BrokenPipeError(32, "Broken pipe"),
}


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("known", 3, "kafkatool: the disk is on fire\n"),
        ("memory", 3, "kafkatool: out of memory; --max-batch-size bounds what one batch may take\n"),
        ("os", 3, "kafkatool: /secret: Permission denied\n"),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    failing: CliRunner, monkeypatch: pytest.MonkeyPatch, name: str, code: int, text: str
) -> None:
    monkeypatch.setenv("KAFKATOOL_TEST_ERROR", name)
    result = failing.invoke(cli.app, ["ls", "x"])
    assert (result.exit_code, result.stderr, result.stdout) == (code, text, "")


def test_a_bug_asks_to_be_reported_and_shows_its_traceback_only_when_asked(
    failing: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKATOOL_TEST_ERROR", "unknown")
    result = failing.invoke(cli.app, ["ls", "x"])
    assert result.exit_code == 3
    assert result.stderr.startswith(
        "kafkatool: this should not happen: ZeroDivisionError: one by zero; please"
    )
    assert result.stderr.count("\n") == 1
    assert "Traceback" in failing.invoke(cli.app, ["ls", "--debug", "x"]).stderr


def test_version_is_ours() -> None:
    assert run("--version").stdout.startswith(f"kafkatool {__version__} (kernel: ")


@pytest.mark.parametrize("words", [[], ["verify"], ["bench"], ["bench", "append"]])
def test_help_is_a_command_too(words: list[str]) -> None:
    assert run("help", *words).stdout == run(*words, "--help").stdout
    assert run("help", *words).returncode == 0


def test_help_about_nothing_is_a_usage_error() -> None:
    asked = run("help", "verfy")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == (
        "kafkatool: no such command 'verfy'; did you mean 'verify'? see kafkatool --help\n"
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("dumplog", "'dump-log'"),
        ("bench apend", "'append'"),
        ("--vershun", "'--version'"),
        ("ls --formt table .", "'--format'"),
        ("bench append --reord-size 5 .", "'--record-size'"),
        ("ls --format jsonl .", "'ndjson'"),
        ("ls --sort sise .", "'size'"),
        ("cat --control onyl .", "'only'"),
        ("verify --fail-on los .", "'loss'"),
        ("verify --cache kep .", "'keep'"),
        ("dump-log --compat 4.30 .", "'4.3'"),
        ("compact --high-watermark chekpoint .", "'checkpoint'"),
        ("cat --high-watermark edn .", "'end'"),
        ("ls --state sray .", "'stray'"),
        ("stats --what-if zstt .", "'zstd'"),
        ("serve --include deletd .", "'deleted'"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_one_that_was_meant(
    typed: str, meant: str, tmp_path: Path
) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    asked = run(*(log_dir if word == "." else word for word in typed.split()))
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr.startswith("kafkatool: ")
    assert asked.stderr.count("\n") == 1
    assert f"did you mean {meant}?" in asked.stderr


def test_what_resembles_nothing_is_answered_without_a_guess() -> None:
    for typed in ("xyzzy", "ls --xyzzy", "ls --format xyzzy .", "verify --fail-on xyzzy ."):
        asked = run(*typed.split())
        assert (asked.returncode, asked.stdout) == (2, "")
        assert "did you mean" not in asked.stderr


def test_usage_errors_are_2() -> None:
    for arguments in (["nonsense"], ["ls", "--nonsense"], ["ls"], ["ls", "--sort", "taste", "."]):
        result = run(*arguments)
        assert (result.returncode, result.stdout) == (2, ""), arguments
        assert result.stderr


def test_a_closed_pipe_is_141_and_silent(tmp_path: Path) -> None:
    log_dir = write_mixed_log_dir(tmp_path / "data")
    listing = ["ls", "-q", "--files", "--format", "ndjson", str(log_dir)]
    for words in (listing, ["--version"], ["--help"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        with os.fdopen(write_end, "wb") as pipe:
            result = subprocess.run([*KAFKATOOL, *words], stdout=pipe, stderr=subprocess.PIPE, check=False)
        assert (result.returncode, result.stderr) == (141, b""), words


def test_an_interrupt_is_130_and_silent(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "orders-0")
    # One byte a second: it would take a day.
    process = subprocess.Popen(
        [*KAFKATOOL, "ls", "--max-rate", "1", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_until_open(process.pid, directory)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_an_interrupt_while_starting_is_silent_too() -> None:
    program = "import os, signal, kafkatool.__main__; os.kill(os.getpid(), signal.SIGINT)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("words", [["--help"], ["ls", "--help"], ["--version"], ["ls", "."]])
def test_a_full_disk_behind_stdout_is_an_error_and_no_traceback(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "topic-0").mkdir()
    (tmp_path / "topic-0" / segment_file(0, ".log")).write_bytes(b"")
    command = [sys.executable, "-m", "kafkatool", *words]
    # Without a buffer of its own stdout would be found full at once, and not only at the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, env=environment, check=False
        )
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.decode().splitlines()[-1].endswith("No space left on device")
    assert b"Traceback" not in done.stderr
