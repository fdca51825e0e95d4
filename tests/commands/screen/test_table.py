"""Lines on a screen."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.commands.screen.folding import fold, folded
from kafkatool.commands.screen.table import Column, Csv, Look, Ndjson, Table
from kafkatool.commands.screen.talk import Talk
from kafkatool.commands.screen.values import (
    BytesFormat,
    bytes_text,
    csv_line,
    human_size,
    iso_time,
    ndjson,
    printable,
)
from tests.cli import run
from tests.logs import batches, write_log


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0K"),
        (1536, "1.5K"),
        (102_348, "99.9K"),
        (102_400, "100K"),
        (1024**2 - 1, "1.0M"),
        (5 * 1024**3, "5.0G"),
        (2**63, "8.0E"),
        (-2048, "-2.0K"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert human_size(size) == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (None, "-"),
        (-1, "-"),
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-5, "1969-12-31T23:59:59.995Z"),
        (2**63 - 1, "@9223372036854775807"),
    ],
)
def test_times_are_utc(time_ms: int | None, text: str) -> None:
    assert iso_time(time_ms) == text


@given(st.text())
def test_printable_text_never_moves_the_cursor(text: str) -> None:
    assert printable(text).isprintable()


def test_escapes_show_what_was_there() -> None:
    assert printable("a\x1b[31m\n\t\x00") == "a\\x1b[31m\\n\\t\\x00"
    assert printable("köy\u2028") == "köy\\u2028"


def test_bytes_in_a_table() -> None:
    assert bytes_text(b"k\xc3\xb6y\xff\n", BytesFormat.utf8) == "köy\\xff\\n"
    assert bytes_text(b"\x00\xff", BytesFormat.hex) == "00ff"
    assert bytes_text(b"\x00\xff", BytesFormat.base64) == "AP8="


def test_ndjson_is_compact_and_keeps_null_and_order() -> None:
    assert ndjson({"b": None, "a": "ö", "v": b"x"}) == '{"b":null,"a":"ö","v":"x"}'


@given(st.binary())
def test_bytes_in_ndjson_can_be_told_and_restored(raw: bytes) -> None:
    value = json.loads(ndjson({"value": raw}))["value"]
    assert raw == (value.encode() if isinstance(value, str) else base64.b64decode(value["base64"]))
    assert bytes.fromhex(json.loads(ndjson({"value": raw}, BytesFormat.hex))["value"]) == raw
    assert base64.b64decode(json.loads(ndjson({"value": raw}, BytesFormat.base64))["value"]) == raw


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_csv_can_be_read_back(values: list[str]) -> None:
    assert next(csv.reader(io.StringIO(csv_line(values), newline=""))) == values


def test_csv_tells_null_from_empty() -> None:
    assert csv_line([None, "", 1, True, b"x", b"\xff"]) == ',"",1,true,x,base64:/w=='


COLUMNS = (Column("name", "NAME"), Column("size", "SIZE", Look.size), Column("at_ms", "AT", Look.time))


def test_a_table_finds_its_widths() -> None:
    out = io.StringIO()
    table = Table(COLUMNS, out)
    table.write({"name": "a", "size": 2048, "at_ms": 0})
    table.write({"name": "longer", "size": None})
    table.close()
    assert out.getvalue().splitlines() == [
        "NAME    SIZE  AT",
        "a       2.0K  1970-01-01T00:00:00.000Z",
        "longer     -  -",
    ]


def test_a_streaming_table_writes_every_row_at_once_and_cuts_nothing() -> None:
    out = io.StringIO()
    table = Table((Column("name", "NAME", width=4), Column("n", "N", Look.number, 3)), out, sample=0)
    table.write({"name": "a", "n": 1})
    assert out.getvalue() == "NAME    N\na       1\n"
    table.write({"name": "longer", "n": 12345})
    assert out.getvalue().endswith("longer  12345\n")


def test_a_table_holds_back_no_more_than_its_sample() -> None:
    out = io.StringIO()
    table = Table(COLUMNS, out, sample=2, raw=True)
    table.write({"name": "a", "size": 2048})
    assert out.getvalue() == ""
    table.write({"name": "b", "size": 2048, "at_ms": 5})
    table.write({"name": "c"})
    assert out.getvalue().splitlines() == [
        "NAME  SIZE  AT",
        "a     2048  -",
        "b     2048  5",
        "c        -  -",
    ]


def test_an_empty_table_is_nothing() -> None:
    out = io.StringIO()
    Table(COLUMNS, out).close()
    assert out.getvalue() == ""


def test_the_same_row_in_csv_and_ndjson() -> None:
    row = {"name": "a,b", "size": 2048, "extra": [1]}
    out = io.StringIO()
    Csv(COLUMNS, out).write(row)
    assert out.getvalue() == 'name,size,at_ms\n"a,b",2048,\n'
    out = io.StringIO()
    Ndjson(out).write(row)
    assert json.loads(out.getvalue()) == row


def test_quiet_talk_still_warns(capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(quiet=True)
    talk.note("never")
    talk.detail("never")
    talk.heading("never")
    talk.warn("be\x1bware")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "kafkatool: be\\x1bware\n")


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with Talk().progress("reading", 10) as advance:
        advance(5)
    assert capsys.readouterr().err == ""


def on_a_terminal(*words: str, stdout: bool) -> tuple[str, str]:
    """What a command writes where stderr, and if asked stdout, is a terminal: stdout, and the screen."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkatool", *words],
        stdout=terminal if stdout else subprocess.PIPE,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "40", "NO_COLOR": "1"},
    )
    os.close(terminal)
    seen = b""
    with suppress(OSError):  # how a terminal ends
        while piece := os.read(screen, 1 << 16):
            seen += piece
    os.close(screen)
    return process.communicate(timeout=120)[0].decode() if not stdout else "", seen.decode()


@pytest.mark.long
@pytest.mark.parametrize("command", ["stats", "verify"])
def test_progress_on_a_terminal_leaves_results_where_they_belong(command: str, tmp_path: Path) -> None:
    partition = tmp_path / "with-a-name-that-is-longer-than-the-terminal-is-wide-0"
    write_log(partition, b"".join(batches(3)))
    words = command, "--jobs", "1", str(partition)
    plain = run(*words).stdout.decode()
    first = plain.splitlines()[0]
    assert len(first) > 40
    written, seen = on_a_terminal(*words, stdout=False)
    assert (written, first in seen) == (plain, False)
    assert command in seen  # the bar
    assert first in on_a_terminal(*words, stdout=True)[1]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "painted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_severities_have_a_colour_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], painted: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    columns = [Column("severity", "SEVERITY"), Column("topic", "TOPIC")]
    pipe, screen = io.StringIO(), Screen()
    for out in (pipe, screen):
        table = Table(columns, out)
        table.write({"severity": "loss", "topic": "loss"})
        table.close()
    assert pipe.getvalue() == "SEVERITY  TOPIC\nloss      loss\n"
    shown = "\x1b[1mSEVERITY\x1b[0m  \x1b[1mTOPIC\x1b[0m\n\x1b[1;31mloss\x1b[0m      loss\n"
    assert screen.getvalue() == (shown if painted else pipe.getvalue())


def test_rows_that_are_too_wide_take_several_lines() -> None:
    widths = [10, 20, 5, 30]
    assert fold(widths, None) == [range(4)]
    assert fold(widths, 71) == [range(4)]
    assert fold(widths, 70) == [range(3), range(3, 4)]
    groups = fold(widths, 40)
    assert groups == [range(3), range(3, 4)]
    cells = ["a" * 10, "b" * 20, "c" * 5, "d" * 30]
    assert list(folded(cells, groups, 40)) == [
        f"{cells[0]}  {cells[1]}  {cells[2]}\n",
        f"    {cells[3]}\n",
    ]


def test_a_text_is_broken_between_its_words_and_nothing_is_lost() -> None:
    text = " ".join(f"word{at}" for at in range(20))
    lines = list(folded([text], fold([len(text)], 30), 30))
    assert max(map(len, lines)) <= 31
    assert " ".join("".join(lines).split()) == text
    path = "x" * 50
    assert list(folded([path], fold([50], 30), 30)) == [f"{path}\n"]


def test_a_line_of_nothing_is_left_out() -> None:
    assert list(folded(["a", "  "], [range(1), range(1, 2)], 20)) == ["a\n"]
