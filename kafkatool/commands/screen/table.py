"""Rows on stdout: NDJSON, CSV and plain columns.

Results do not depend on the terminal, except for where a long table row is broken, and for the colour of
headings and severities. The table code is our own, because libraries cut values to fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple, Protocol, TextIO

from kafkatool.commands.screen.csv_safety import CSV_SAFE
from kafkatool.commands.screen.folding import fold, folded, terminal_width
from kafkatool.commands.screen.terminal_text import guarded
from kafkatool.commands.screen.values import (
    BytesFormat,
    Format,
    Row,
    bytes_text,
    csv_line,
    has_colour,
    human_size,
    iso_time,
    ndjson_encoder,
    printable,
    stdout,
)


class Look(StrEnum):
    """What a column holds; it decides how values are written and aligned."""

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
    """What is written for null."""


_HEADING = "1"
_COLOURS = {"loss": "1;31", "no_start": "1;31", "degraded": "33", "note": "2"}
"""The terminal colour codes of severities."""
_JUDGING = ("severity", "worst")
"""The columns that hold a severity."""


class Rows(Protocol):
    """Where a command writes its rows, one after the other."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class Table:
    """Plain columns under a heading.

    The first `sample` rows are held back to find the widths; with 0 the columns' own widths are used and
    every row is written at once. A longer value pushes the rest of its row to the right and is never cut. On
    a terminal that is too narrow, rows take several lines.
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
        """Write what was held back; a table without rows prints nothing."""
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
    """Return a heading line, in bold if `out` shows colours."""
    return _painted(text, _HEADING) if has_colour(out) else text


def painted_severity(text: str, severity: str, out: TextIO) -> str:
    """Return the text in the colour of a severity if `out` shows colours."""
    return _painted(text, _COLOURS.get(severity)) if has_colour(out) else text


def _padded(cell: str, width: int, column: Column) -> str:
    return cell.ljust(width) if column.look in (Look.text, Look.time) else cell.rjust(width)


def _painted(text: str, colour: str | None) -> str:
    """Return the text in a colour, without its trailing blanks: they are stripped at the end of a line."""
    if colour is None:
        return text
    word = text.rstrip()
    return f"\x1b[{colour}m{word}\x1b[0m{text[len(word) :]}"


class Csv:
    """One heading line, then one line per row."""

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
    """Every row whole, whatever the columns are."""

    def __init__(self, out: TextIO, *, how: BytesFormat = BytesFormat.utf8) -> None:
        self._encode = ndjson_encoder(how)
        self._write = guarded(out).write

    def write(self, row: Row) -> None:
        self._write(self._encode(row) + "\n")

    def close(self) -> None:
        pass


class Nowhere:
    """Drops all rows: without columns, a table or CSV has no place for them."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


@contextmanager
def rows(
    fmt: Format,
    columns: Sequence[Column],
    *,
    raw: bool = False,
    how: BytesFormat = BytesFormat.utf8,
    sample: int = 500,
) -> Iterator[Rows]:
    """Yield the writer for a format, on standard output; it is closed when the block ends without an error.

    NDJSON needs no columns; without any, a table or CSV is empty.
    """
    if not columns and fmt is not Format.ndjson:
        yield Nowhere()
        return
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
