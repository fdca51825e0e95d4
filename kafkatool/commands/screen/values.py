"""Single values as text: sizes, times, bytes, a row as NDJSON or CSV, and the stream they are written to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TextIO

from kafkatool.commands.screen.csv_safety import harmless_cell
from kafkatool.commands.screen.terminal_text import is_terminal

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
    """Return standard output, set to UTF-8 whatever the locale.

    A file name that is not UTF-8 is written with escapes; in NDJSON these are JSON's own.
    """
    if hasattr(sys.stdout, "reconfigure"):
        # With PYTHONUNBUFFERED every row would cost a system call; on a terminal a row is shown at once.
        sys.stdout.reconfigure(
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=is_terminal(sys.stdout),
            write_through=False,
        )
    return sys.stdout


# --- values -------------------------------------------------------------------------------------------


def human_size(size: int) -> str:
    """Format a size like `du -h`: powers of 1024, about three digits."""
    if abs(size) < 1024:
        return f"{size}B"
    value, units = size / 1024, "KMGTPE"
    while abs(value) >= 1023.95 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.1f}{units[0]}" if abs(value) < 99.95 else f"{value:.0f}{units[0]}"


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))


def human_duration(ms: int) -> str:
    """Format a duration as `7d`, `1d12h`, `90ms`: its two largest units."""
    parts, left = [], abs(ms)
    for size, unit in _UNITS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return ("-" if ms < 0 else "") + ("".join(parts[:2]) or "0ms")


def iso_time(timestamp_ms: int | None) -> str:
    """Format a time in UTC with milliseconds; `-` for none, `@ms` beyond what a calendar can hold."""
    if timestamp_ms is None or timestamp_ms == -1:
        return "-"
    from datetime import UTC, datetime, timedelta

    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"@{timestamp_ms}"
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


def printable(text: str) -> str:
    """Return the text with everything that moves a cursor or breaks a line written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text
    )


def bytes_text(raw: bytes, how: BytesFormat) -> str:
    """Format bytes as one piece of printable text, for columns."""
    if how is BytesFormat.hex:
        return raw.hex()
    if how is BytesFormat.base64:
        return _base64(raw)
    return printable(raw.decode("utf-8", "backslashreplace"))


def bytes_json(raw: bytes, how: BytesFormat) -> str | dict[str, str]:
    """Return bytes as a JSON value; in utf8, bytes that are not UTF-8 become {"base64": …}, unaltered."""
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
    """Return a function that writes one object as one compact line, without its line end; to be reused."""
    import json

    def unknown(value: object) -> object:
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes_json(bytes(value), how)
        raise TypeError(f"{type(value).__name__} has no place in NDJSON")

    return json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=unknown).encode


def ndjson(row: Row, how: BytesFormat = BytesFormat.utf8) -> str:
    """Return one row as one line of NDJSON, without its line end."""
    return ndjson_encoder(how)(row)


def csv_line(values: Iterable[object], how: BytesFormat = BytesFormat.utf8, *, is_safe: bool = False) -> str:
    """Return one line of CSV as in RFC 4180, without its line end; null is empty, an empty text is `""`.

    With `is_safe` it contains no formulas.
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


def takes_escapes(stream: TextIO) -> bool:
    """Return whether the stream is a terminal that understands colours and cursor moves."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """Return whether the stream shows colours and the user wants them."""
    return takes_escapes(stream) and not os.environ.get("NO_COLOR")
