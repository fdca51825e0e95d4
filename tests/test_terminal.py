"""Commands of every shape in a real terminal, and in all the places where there is none."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafkatool.commands.screen.terminal_text import harmless_bytes
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from tests.cli import KAFKATOOL, parse_rows
from tests.logs import LOG, batches, write_log
from tests.terminals import Terminal
from tests.transcripts import mask, prepare

ESCAPE = re.compile(rb"\x1b[^A-Za-z]*[A-Za-z]")
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("NO_COLOR", "COLUMNS", "LINES", "LC_ALL", "LANG")
} | {"TERM": "xterm", "LC_ALL": "C.UTF-8", "PYTHONPATH": os.getcwd()}

# Of every shape a few, with the exit codes that they have on the sample, which is damaged.
SHAPES = {
    "ls": 0,
    "dump-log --format table": 4,
    "cat": 4,
    "stats": 4,
    "lookup --time 2026-03-01T09:02:00Z": 4,
    "cache-map": 0,
    "verify": 4,
    "verify -v": 4,
    "rebuild-index": 4,
    "recover": 4,
    "retention --at 2026-03-01T10:04:00Z": 0,
    "serve --list": 0,
}
ONE_OF_EACH = ["ls", "cat", "verify", "recover", "serve --list"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `sample` in it."""
    directory = tmp_path_factory.mktemp("terminal")
    prepare(directory)
    return directory


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose records no pipe holds: 200,000 of them."""
    directory = tmp_path_factory.mktemp("long") / "long-0"
    batch = write_batch([NewRecord(None, b"value", 1000 + at) for at in range(1000)])
    # The base offset is not under the checksum.
    log = b"".join((1000 * at).to_bytes(8, "big") + batch[8:] for at in range(200))
    write_log(directory, log)
    return directory


def in_terminal(
    words: Sequence[str], place: Path, *, columns: int = 80, **variables: str
) -> tuple[int, Terminal]:
    """A command run to its end, in a terminal of its own."""
    environment = ENVIRONMENT | variables
    with Terminal([*KAFKATOOL, *words], cwd=place, environment=environment, columns=columns) as terminal:
        code = terminal.wait()
    assert b"Traceback" not in terminal.seen
    assert b"should not happen" not in terminal.seen
    return code, terminal


def without_terminal(words: Sequence[str], place: Path) -> subprocess.CompletedProcess[bytes]:
    """The same where no terminal is anywhere, as cron does it."""
    done = subprocess.run(
        [*KAFKATOOL, *words],
        cwd=place,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done


def values(text: bytes) -> list[str]:
    """What a table says, wherever its lines are broken and however wide its columns are."""
    return sorted(ESCAPE.sub(b"", text).decode("latin-1").split())


def rows_of(terminal: Terminal) -> list[str]:
    """The lines of tables, without the sentences around them and without colour."""
    sentence = re.compile(r"kafkatool: |[0-9]+ partitions?, |.*: the last |.* in memory")
    lines = COLOUR.sub(b"", terminal.seen).decode().replace("\r\n", "\n").splitlines()
    return [line for line in lines if not sentence.match(line)]


@pytest.mark.long
@pytest.mark.parametrize("words", SHAPES)
def test_a_terminal_and_a_pipe_get_the_same_results_and_exit_codes(words: str, place: Path) -> None:
    line = [*words.split(), "--no-progress", "-q", "sample"]
    code, terminal = in_terminal(line, place)
    piped = without_terminal(line, place)
    assert (code, piped.returncode) == (SHAPES[words], SHAPES[words])
    assert ESCAPE.search(piped.stdout + piped.stderr) is None
    if not words.startswith("cache-map"):  # which draws as wide as the terminal is
        assert ESCAPE.search(COLOUR.sub(b"", terminal.seen)) is None, "nothing but colour"
        assert values(terminal.seen) == values(harmless_bytes(piped.stdout) + piped.stderr)
    if words != "cat":
        assert max(map(len, rows_of(terminal))) <= 80, "a table fits"


def test_a_row_is_one_line_where_there_is_room(place: Path) -> None:
    _code, terminal = in_terminal(["ls", "-q", "sample"], place, columns=200, NO_COLOR="1")
    assert terminal.lines == without_terminal(["ls", "-q", "sample"], place).stdout.decode().splitlines()


@pytest.mark.parametrize("words", ["verify", "recover"])
def test_a_progress_bar_leaves_nothing_behind(words: str, place: Path) -> None:
    code, terminal = in_terminal([words, "sample"], place)
    assert code == SHAPES[words]
    assert COLOUR.search(terminal.seen), "there was a bar"
    assert terminal.shows_cursor


@pytest.mark.parametrize("words", ["verify", "recover", "cache-map"])
def test_no_color_is_no_colour(words: str, place: Path) -> None:
    code, terminal = in_terminal([words, "sample"], place, NO_COLOR="1")
    assert code == SHAPES[words]
    assert [code for code in COLOUR.findall(terminal.seen) if code not in (b"\x1b[0m", b"\x1b[1m")] == []


@pytest.mark.parametrize("kind", ["dumb", None])
@pytest.mark.parametrize("words", ["verify", "recover", "cache-map"])
def test_a_terminal_that_is_dumb_or_not_named_gets_no_escapes(
    words: str, kind: str | None, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is None:
        monkeypatch.delitem(ENVIRONMENT, "TERM")
    else:
        monkeypatch.setitem(ENVIRONMENT, "TERM", kind)
    code, terminal = in_terminal([words, "sample"], place)
    assert code == SHAPES[words]
    assert b"\x1b" not in terminal.seen


@pytest.mark.parametrize(
    "words", ["cat", "dump-log --deep-iteration", "dump-log --format ndjson --deep-iteration"]
)
def test_who_reads_only_the_head_ends_it_in_silence(words: str, long_log: Path) -> None:
    line = shlex.join([*KAFKATOOL, *words.split(), "-q", long_log.name])
    script = f"{line} | head -n 1; echo code ${{PIPESTATUS[0]}}"
    with Terminal(["bash", "-c", script], cwd=long_log.parent, environment=ENVIRONMENT) as terminal:
        assert terminal.wait() == 0
    assert len(terminal.lines) == 2, terminal.lines
    assert terminal.lines[-1] == "code 141"


@pytest.mark.parametrize(
    ("words", "sign"),
    [
        ("verify --max-rate 100", b"\x1b[?25l"),
        ("stats --max-rate 100", b"\x1b[?25l"),
        ("cat --follow", b"value"),
        ("cache-map --watch", b"long-0"),
        ("serve --listen 127.0.0.1:0", b"127.0.0.1:"),
        ("recover --max-rate 100", b"\x1b[?25l"),
        ("export --max-rate 100 -o ../exported.csv", b"\x1b[?25l"),
    ],
)
def test_ctrl_c_ends_it_with_130(words: str, sign: bytes, long_log: Path) -> None:
    line = [*KAFKATOOL, *words.split(), long_log.name]
    with Terminal(line, cwd=long_log.parent, environment=ENVIRONMENT) as terminal:
        terminal.read_until(sign)
        terminal.type("\x03")
        assert terminal.wait() == (0 if words.startswith("serve") else 130)
    assert b"Traceback" not in terminal.seen
    assert terminal.shows_cursor


@pytest.mark.parametrize("words", [*ONE_OF_EACH, "cat --help"])
def test_a_locale_that_knows_only_ascii_is_no_reason_to_fail(words: str, place: Path) -> None:
    line = [*words.split()] if "--help" in words else [*words.split(), "sample"]
    variables: Any = {"LC_ALL": "POSIX", "LANG": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, _terminal = in_terminal(line, place, **variables)
    assert code == SHAPES.get(words, 0)


ODD = "two words\nand a line"


@pytest.mark.parametrize("words", ["ls", "cat", "verify -v", "recover", "cache-map"])
def test_a_path_with_blanks_and_newlines_is_a_path(words: str, tmp_path: Path) -> None:
    parts = batches(4)
    write_log(tmp_path / ODD / "orders-0", b"".join(parts)[:-3])
    code, terminal = in_terminal([*words.split(), "--no-progress", ODD], tmp_path)
    assert code == (0 if words in ("ls", "cache-map") else 4)
    assert all("and a line" not in line or "two words\\nand a line" in line for line in terminal.lines)
    listed = tmp_path / "list"
    listed.write_bytes(ODD.encode() + b"\0")
    again, other = in_terminal([*words.split(), "--no-progress", "-0", "--files-from", "list"], tmp_path)
    if not words.startswith("cache-map"):
        assert (again, mask(other.seen.decode())) == (code, mask(terminal.seen.decode()))


def test_the_command_that_a_finding_names_can_be_pasted(tmp_path: Path) -> None:
    write_log(tmp_path / ODD / "orders-0", b"".join(batches(4))[:-3])
    found = without_terminal(["verify", "--format", "ndjson", ODD], tmp_path).stdout.decode()
    rows = parse_rows(found)
    fixes = [row["fix"] for row in rows if row.get("fix")]
    assert fixes
    for fix in fixes:
        shown = f"printf '%s\\0' {fix}"
        words = subprocess.run(["bash", "-c", shown], capture_output=True, check=True).stdout
        assert os.fsencode(ODD) in words


def unprivileged() -> list[str]:
    """Words that make permissions hold for root as well."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may read everything, and there is no setpriv to change that")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


@pytest.mark.long
@pytest.mark.parametrize("words", ONE_OF_EACH)
def test_a_directory_that_cannot_be_written_can_be_read(words: str, place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "sample", tmp_path / "sample")
    for path in [tmp_path / "sample", *(tmp_path / "sample").rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    line = [*unprivileged(), *KAFKATOOL, *words.split(), "--no-progress", "-q", "sample"]
    with Terminal(line, cwd=tmp_path, environment=ENVIRONMENT) as terminal:
        assert terminal.wait() == SHAPES[words]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("words", ["rebuild-index --apply", "recover --apply"])
def test_a_plan_for_a_directory_that_cannot_be_written_fails_in_one_line(words: str, tmp_path: Path) -> None:
    write_log(tmp_path / "data" / "orders-0", b"".join(batches(4))[:-3])
    for path in (tmp_path / "data" / "orders-0", tmp_path / "data"):
        path.chmod(0o555)
    line = [*unprivileged(), *KAFKATOOL, *words.split(), "--no-progress", "--offline", "-q", "data"]
    with Terminal(line, cwd=tmp_path, environment=ENVIRONMENT) as terminal:
        assert terminal.wait() == 3
    assert b"Permission denied" in terminal.seen
    assert b"Traceback" not in terminal.seen
    assert [path.name for path in (tmp_path / "data" / "orders-0").iterdir()] == [LOG]


@pytest.mark.parametrize("words", ONE_OF_EACH)
def test_no_permission_is_3_and_the_rest_is_shown(words: str, tmp_path: Path) -> None:
    for name in ("open-0", "shut-0"):
        write_log(tmp_path / "data" / name, b"".join(batches(4)))
    (tmp_path / "data" / "shut-0" / segment_file(0, ".log")).chmod(0)
    (tmp_path / "data" / "shut-0").chmod(0)
    line = [*unprivileged(), *KAFKATOOL, *words.split(), "--no-progress", "data"]
    with Terminal(line, cwd=tmp_path, environment=ENVIRONMENT) as terminal:
        code = terminal.wait()
    (tmp_path / "data" / "shut-0").chmod(0o755)
    assert code == 3, terminal.lines
    assert b"Permission denied" in terminal.seen
    assert b"Traceback" not in terminal.seen
