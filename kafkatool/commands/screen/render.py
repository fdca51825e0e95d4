"""Lines on a screen: NDJSON, CSV and plain columns to stdout, talk and progress to stderr.

Results never depend on a terminal, but for the place where too long a line of a table is broken, and for the
colour of its heading and of what is bad. The columns are our own, because others cut values to fit; rich is
imported only to paint progress, on a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol, TextIO

from kafkatool.commands.screen.csv_safety import CSV_SAFE, harmless_cell
from kafkatool.commands.screen.folding import fold, folded, terminal_width
from kafkatool.commands.screen.terminal_text import guarded, is_terminal

Row = Mapping[str, object]


class Format(StrEnum):
    """How results are written."""

    table = "table"
    ndjson = "ndjson"
    csv = "csv"


class BytesFormat(StrEnum):
    """How byte strings are written."""

    utf8 = "utf8"
    hex = "hex"
    base64 = "base64"


def stdout() -> TextIO:
    """Standard output in UTF-8 whatever the locale.

    A file name that is no UTF-8 is written with escapes; in NDJSON those are JSON's own.
    """
    if hasattr(sys.stdout, "reconfigure"):
        # Under PYTHONUNBUFFERED every row would cost a system call; but on a terminal it is seen at once.
        sys.stdout.reconfigure(
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=is_terminal(sys.stdout),
            write_through=False,
        )
    return sys.stdout


# --- values -------------------------------------------------------------------------------------------


def human_size(size: int) -> str:
    """Like `du -h`: powers of 1024, three digits or so."""
    if abs(size) < 1024:
        return f"{size}B"
    value, units = size / 1024, "KMGTPE"
    while abs(value) >= 1023.95 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.1f}{units[0]}" if abs(value) < 99.95 else f"{value:.0f}{units[0]}"


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


def human_duration(ms: int) -> str:
    """`7d`, `1d12h`, `90ms`: the two largest units of it."""
    parts, left = [], abs(ms)
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return ("-" if ms < 0 else "") + ("".join(parts[:2]) or "0ms")


def iso_time(timestamp_ms: int | None) -> str:
    """UTC with milliseconds; `-` for none, `@ms` beyond what a calendar holds."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    from datetime import UTC, datetime, timedelta

    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"@{timestamp_ms}"
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


def printable(text: str) -> str:
    """The text with everything that moves a cursor or breaks a line written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text
    )


def bytes_text(raw: bytes, how: BytesFormat) -> str:
    """Bytes as one piece of printable text, for columns."""
    if how is BytesFormat.hex:
        return raw.hex()
    if how is BytesFormat.base64:
        return _base64(raw)
    return printable(raw.decode("utf-8", "backslashreplace"))


def bytes_json(raw: bytes, how: BytesFormat) -> str | dict[str, str]:
    """Bytes as a JSON value; in utf8 what is no UTF-8 says so instead of being bent."""
    if how is BytesFormat.hex:
        return raw.hex()
    if how is BytesFormat.base64:
        return _base64(raw)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": _base64(raw)}


def _base64(raw: bytes) -> str:
    import base64

    return base64.b64encode(raw).decode()


# --- NDJSON and CSV -----------------------------------------------------------------------------------


def ndjson_encoder(how: BytesFormat = BytesFormat.utf8) -> Callable[[object], str]:
    """A function that writes one object as one compact line, without its line end; made once, used often."""
    import json

    def unknown(value: object) -> object:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes_json(bytes(value), how)
        raise TypeError(f"{type(value).__name__} has no place in NDJSON")

    return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=unknown).encode


def ndjson(row: Row, how: BytesFormat = BytesFormat.utf8) -> str:
    """One row as one line of NDJSON, without its line end."""
    return ndjson_encoder(how)(row)


def csv_line(values: Iterable[object], how: BytesFormat = BytesFormat.utf8, *, is_safe: bool = False) -> str:
    """One line of CSV by RFC 4180, without its line end; null is nothing, an empty text is `""`.

    A safe one has no formulas in it.
    """
    return ",".join(_csv_field(value, how, is_safe) for value in values)


def _csv_field(value: object, how: BytesFormat, is_safe: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        value = bytes_json(bytes(value), how)
        value = value if isinstance(value, str) else f"base64:{value['base64']}"
    text = value if isinstance(value, str) else ndjson_encoder(how)(value)
    if is_safe and isinstance(value, str):
        text = harmless_cell(text)
    if text and not any(c in text for c in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


# --- columns ------------------------------------------------------------------------------------------


class Look(StrEnum):
    """What a column holds, which decides how it is written and on which side it is flush."""

    text = "text"
    number = "number"
    size = "size"
    time = "time"


class Column(NamedTuple):
    key: str
    title: str
    look: Look = Look.text
    width: int = 0
    blank: str = "-"
    """What stands for null."""


_HEADING = "1"
_COLOURS = {"loss": "1;31", "no_start": "1;31", "degraded": "33", "note": "2"}
"""How severities are painted, in the codes of a terminal."""
_JUDGING = ("severity", "worst")
"""The columns that hold one."""


def has_colour(stream: TextIO) -> bool:
    """Whether somebody looks at it who can see colours, and wants to."""
    return takes_escapes(stream) and not os.environ.get("NO_COLOR")


class Rows(Protocol):
    """Where a command puts its rows, one after the other."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class Table:
    """Plain columns under a heading.

    The first `sample` rows are held back to find the widths; with 0 the columns' own widths hold and every
    row goes out at once. A longer value pushes the rest of its row aside and is never cut. On a terminal that
    is too narrow, rows take several lines.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        out: TextIO,
        *,
        sample: int = 500,
        raw: bool = False,
        how: BytesFormat = BytesFormat.utf8,
    ) -> None:
        self._columns = columns
        self._out = out
        self._sample = sample
        self._raw = raw
        self._how = how
        self._paints = has_colour(out)
        self._held: list[list[str]] = []
        self._widths: list[int] | None = None
        self._terminal = terminal_width(out)

    def write(self, row: Row) -> None:
        cells = [self._cell(column, row.get(column.key)) for column in self._columns]
        if self._widths is not None:
            self._out.writelines(self._lines(cells))
            return
        self._held.append(cells)
        if len(self._held) >= self._sample:
            self._release()

    def close(self) -> None:
        """Write what was held back; a table without rows is nothing at all."""
        if self._widths is None and self._held:
            self._release()

    def _release(self) -> None:
        titles = [printable(column.title) for column in self._columns]
        self._widths = [
            max(column.width, len(titles[at]), *(len(line[at]) for line in self._held))
            for at, column in enumerate(self._columns)
        ]
        self._groups = fold(self._widths, self._terminal)
        self._out.writelines(self._lines(titles, is_heading=True))
        for line in self._held:
            self._out.writelines(self._lines(line))
        self._held.clear()

    def _lines(self, cells: list[str], *, is_heading: bool = False) -> Iterator[str]:
        assert self._widths is not None
        padded = list(map(_padded, cells, self._widths, self._columns))
        if not self._paints:
            return folded(padded, self._groups, self._terminal)
        colours = (
            _HEADING if is_heading else _COLOURS.get(cell) if column.key in _JUDGING else None
            for cell, column in zip(cells, self._columns, strict=True)
        )
        return folded(padded, self._groups, self._terminal, list(map(_painted, padded, colours)))

    def _cell(self, column: Column, value: object) -> str:
        if value is None or value == "":
            return column.blank
        if isinstance(value, bytes):
            return bytes_text(value, self._how)
        if column.look is Look.size and isinstance(value, int) and not self._raw:
            return human_size(value)
        if column.look is Look.time and isinstance(value, int):
            return str(value) if self._raw else iso_time(value)
        return printable(str(value))


def painted_heading(text: str, out: TextIO) -> str:
    """A line that stands above others, for whoever sees colours."""
    return _painted(text, _HEADING) if has_colour(out) else text


def painted_severity(text: str, severity: str, out: TextIO) -> str:
    """A text that tells of a severity, likewise."""
    return _painted(text, _COLOURS.get(severity)) if has_colour(out) else text


def _padded(cell: str, width: int, column: Column) -> str:
    return cell.ljust(width) if column.look in (Look.text, Look.time) else cell.rjust(width)


def _painted(text: str, colour: str | None) -> str:
    """The text in a colour, without the blanks behind it: at the end of a line they are taken away."""
    if colour is None:
        return text
    word = text.rstrip()
    return f"\x1b[{colour}m{word}\x1b[0m{text[len(word) :]}"


class Csv:
    """One heading, then one line a row."""

    def __init__(
        self, columns: Sequence[Column], out: TextIO, *, how: BytesFormat = BytesFormat.utf8
    ) -> None:
        self._keys = [column.key for column in columns]
        self._out = guarded(out)
        self._how = how
        self._is_safe = CSV_SAFE.get()
        self._out.write(csv_line(self._keys, is_safe=self._is_safe) + "\n")

    def write(self, row: Row) -> None:
        values = (row.get(key) for key in self._keys)
        self._out.write(csv_line(values, self._how, is_safe=self._is_safe) + "\n")

    def close(self) -> None:
        pass


class Ndjson:
    """Every row whole, whatever the columns."""

    def __init__(self, out: TextIO, *, how: BytesFormat = BytesFormat.utf8) -> None:
        self._encode = ndjson_encoder(how)
        self._write = guarded(out).write

    def write(self, row: Row) -> None:
        self._write(self._encode(row) + "\n")

    def close(self) -> None:
        pass


@contextmanager
def rows(
    fmt: Format,
    columns: Sequence[Column],
    *,
    raw: bool = False,
    how: BytesFormat = BytesFormat.utf8,
    sample: int = 500,
) -> Iterator[Rows]:
    """The writer for a format, on standard output; finished when the block ends without an error."""
    out = stdout()
    writer: Rows
    if fmt is Format.ndjson:
        writer = Ndjson(out, how=how)
    elif fmt is Format.csv:
        writer = Csv(columns, out, how=how)
    else:
        writer = Table(columns, out, raw=raw, how=how, sample=sample)
    yield writer
    writer.close()


# --- talk ---------------------------------------------------------------------------------------------


class Advance(Protocol):
    def __call__(self, amount: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Talk:
    """What goes to stderr, by -q, -v and --no-progress."""

    quiet: bool = False
    verbose: bool = False
    show_progress: bool = True

    def warn(self, message: str) -> None:
        """Said even with -q: the result is not what it seems without it."""
        _say(f"kafkatool: {message}")

    def warn_of_bad_blocks(self, count: int) -> None:
        """After the first block that a disk does not give, nothing is as urgent as an image of it."""
        if count:
            self.warn(f"the disk does not give {count} blocks of 4 KiB: image it before doing anything else")

    def note(self, message: str) -> None:
        """Said unless -q."""
        if not self.quiet:
            _say(f"kafkatool: {message}")

    def detail(self, message: str) -> None:
        """Said with -v only."""
        if self.verbose:
            _say(f"kafkatool: {message}")

    def heading(self, message: str) -> None:
        """A line of its own above a table, unless -q."""
        if not self.quiet:
            _say(message)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Advance]:
        """A bar of bytes on stderr; nothing unless that is a terminal which can draw one."""
        if self.quiet or not self.show_progress or not takes_escapes(sys.stderr):
            yield lambda amount: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        shape = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TimeRemainingColumn())
        # What is printed meanwhile goes above the bar, as it is. Rich would have it all on the bar's own
        # stream: results only where that is the same terminal.
        console = Console(stderr=True, soft_wrap=True)
        is_shared = is_terminal(sys.stdout)
        try:
            with Progress(*shape, console=console, transient=True, redirect_stdout=is_shared) as bar:
                task = bar.add_task(label, total=total)
                yield lambda amount: bar.advance(task, amount)
        finally:
            console.show_cursor(True)  # an interrupt may come between hiding it and being ready to show it


def _say(message: str) -> None:
    # Nobody listening on stderr is no reason to stop working.
    with suppress(OSError, ValueError):
        print(printable(message), file=sys.stderr, flush=True)


def takes_escapes(stream: TextIO) -> bool:
    """Whether colour and moves of the cursor are understood there."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"
