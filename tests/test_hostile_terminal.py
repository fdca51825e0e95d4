"""What hostile records and names do to a terminal: nothing. A pipe gets them byte for byte."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from kafkatool.commands.screen.terminal_text import harmless, harmless_bytes
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from tests.cli import KAFKATOOL, run
from tests.logs import LOG, TIME, write_log
from tests.terminals import Terminal

ENVIRONMENT = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "PYTHONPATH": os.getcwd()}
TITLE = b"\x1b]0;owned\x07"
VALUE = b"before \x1b[2J\x9b31m\x00\r\x08 \xff\xc2\x9b5n \xe2\x80\xae after\tall \xc3\xa9"
HEADER = b"h\x1b[1m"
TOPIC = "ev\x1b]0;owned\x07il"
# What a terminal may be given: text, line ends (with the carriage return that it adds itself) and tabs.
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]")

COMMANDS = (
    *(
        "cat",
        "cat -f '%t %p %o %k %s %h\\n'",
        "cat -f '%R%s\\n'",
        "cat --format ndjson",
        "cat --bytes utf8 -Z",
    ),
    *("dump-log --print-data-log", "dump-log --print-data-log --format table"),
    *("dump-log --print-data-log --format ndjson", "dump-log --print-data-log --format csv"),
    *("dump-log --print-data-log --skip-record-metadata", "ls", "ls --files", "ls --files --format csv"),
    *(
        "stats --deep",
        "stats --deep --format ndjson",
        "lookup --offset 0 --explain",
        "verify -v",
        "recover -v",
    ),
    *("cache-map", "cache-map --format ndjson", "cache-map --format svg", "doctor", "serve --list"),
    *("report --with-payloads --format ndjson -o -", "rebuild-index", "compact --set cleanup.policy=compact"),
    "retention --set retention.ms=-1 --free 1",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with one partition whose name and records are hostile."""
    directory = tmp_path_factory.mktemp("hostile") / "data"
    record = NewRecord(TITLE, VALUE, TIME, [(HEADER, VALUE)])
    batch = write_batch([record], base_offset=0)
    later = write_batch([record], base_offset=1)
    write_log(directory / f"{TOPIC}-0", batch)
    write_log(directory / f"{TOPIC}-0", later, "00000000000000000001.log")
    (directory / "replication-offset-checkpoint").write_text("0\n0\n")
    return directory


def words_of(command: str) -> list[str]:
    import shlex

    return [*shlex.split(command), "--no-progress"]


def piped(words: list[str], place: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*KAFKATOOL, *words],
        cwd=place,
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_no_control_byte_reaches_a_terminal(command: str, data: Path) -> None:
    line = [*KAFKATOOL, *words_of(command), data.name]
    with Terminal(line, cwd=data.parent, environment=ENVIRONMENT, columns=200) as terminal:
        terminal.wait()
    assert b"Traceback" not in terminal.seen
    assert b"il" in terminal.seen or b"before" in terminal.seen
    assert CONTROLS.findall(terminal.seen) == [], terminal.seen


@pytest.mark.parametrize("command", ["cat", "dump-log --print-data-log --skip-record-metadata"])
def test_a_pipe_gets_the_bytes(command: str, data: Path) -> None:
    found = piped([*words_of(command), data.name], data.parent).stdout
    assert (VALUE in found) == (command == "cat")
    assert b"\x1b[2J" in found


def test_templates_may_hold_what_somebody_typed(data: Path) -> None:
    line = [*KAFKATOOL, "cat", "-f", r"\x1b[32m%s\x1b[0m\n", data.name]
    with Terminal(line, cwd=data.parent, environment=ENVIRONMENT, columns=200) as terminal:
        terminal.wait()
    assert b"\x1b[32mbefore \\x1b[2J" in terminal.seen


def test_a_file_name_in_a_message_is_harmless_too(tmp_path: Path) -> None:
    name = "gone\x1b[2J.log"
    for words in (["verify", name], ["dump-log", "--files", name], ["cat", name]):
        with Terminal([*KAFKATOOL, *words], cwd=tmp_path, environment=ENVIRONMENT, columns=200) as terminal:
            terminal.wait()
        assert b"gone" in terminal.seen
        assert CONTROLS.findall(terminal.seen) == [], terminal.seen


def test_retention_free_prints_no_control_bytes_into_a_pipe_either(data: Path) -> None:
    done = piped(words_of("retention --set retention.ms=-1 --free 1 data"), data.parent)
    assert CONTROLS.findall(done.stdout + done.stderr) == []
    assert b"owned" in done.stdout


def test_escapes_are_those_of_json_and_leave_text_alone() -> None:
    assert harmless("a\tb\n\u00e9\u4f60 \x1b\x9b\u202e") == "a\tb\n\u00e9\u4f60 \\x1b\\u009b\\u202e"
    assert harmless_bytes(b"\xff\x00") == b"\\xff\\x00"
    line = json.dumps({"a": "\x9b\x7f"}, ensure_ascii=False)
    assert json.loads(harmless(line)) == {"a": "\x9b\x7f"}


FORMULAS = ["=1+1", "+SUM(A1)", "-2+3", "@cmd", "\t=1", "\r=1", '=HYPERLINK("http://x","y")']
NUMBERS = ["-5", "+4.25", "-1e9", "17"]


def cells(text: bytes, column: str) -> list[str]:
    return [row[column] for row in csv.DictReader(io.StringIO(text.decode(), newline=""))]


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    records = [NewRecord(None, text.encode(), TIME) for text in [*FORMULAS, *NUMBERS, "plain"]]
    return write_log(tmp_path / "orders-0", write_batch(records), LOG).parent


def test_csv_safe_leaves_no_formula_and_every_number(sheet: Path, tmp_path: Path) -> None:
    wanted = [*(f"'{text}" for text in FORMULAS), *NUMBERS, "plain"]
    for number, options in enumerate(([], ["--jobs", "2"])):
        out = tmp_path / f"out{number}.csv"
        assert run("export", "--csv-safe", *options, "-o", str(out), str(sheet)).exit_code == 0
        assert cells(out.read_bytes(), "value") == wanted
        assert cells(out.read_bytes(), "offset") == [str(at) for at in range(len(wanted))]
    dumped = run("dump-log", "--print-data-log", "--format", "csv", "--csv-safe", str(sheet)).stdout
    assert cells(dumped, "value") == wanted
    assert set(cells(dumped, "sequence")) == {"-1"}


def test_without_csv_safe_csv_is_as_it_was(sheet: Path, tmp_path: Path) -> None:
    assert run("dump-log", "--format", "csv", "--csv-safe", str(sheet)).exit_code == 0
    plain = run("dump-log", "--print-data-log", "--format", "csv", str(sheet)).stdout
    assert cells(plain, "value") == [*FORMULAS, *NUMBERS, "plain"], "one run says nothing about the next"


def test_an_export_that_becomes_safe_is_written_anew(sheet: Path, tmp_path: Path) -> None:
    out = tmp_path / "exported"
    for options in ([], ["--csv-safe"]):
        assert run("export", "--format", "csv", *options, "-o", str(out), str(sheet)).exit_code == 0
    [file] = out.rglob("*.csv")
    assert cells(file.read_bytes(), "value")[0] == "'=1+1"


@pytest.mark.parametrize(
    "command", ["ls", "verify", "stats", "lookup", "retention", "sql", "export", "doctor"]
)
def test_every_command_that_writes_csv_offers_it(command: str) -> None:
    assert b"--csv-safe" in run(command, "--help").stdout
    assert b"--csv-safe" not in run("cat", "--help").stdout
