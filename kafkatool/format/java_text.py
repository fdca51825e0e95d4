"""Read numbers, lines and fields as Java does: the rules of Kafka's text files and file names.

int, long  an optional + or -, then decimal digits of any script in the first Unicode plane
line       ends at \\n, \\r or \\r\\n; the last one may lack its end
field      text between runs of white space (ASCII only); empty fields at the end do not count
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from kafkatool.errors import FormatError
from kafkatool.format.java_values import java_utf8 as java_utf8
from kafkatool.format.primitives import Buffer

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
MAX_LINE = 1 << 16  # far longer than any topic name or number

# Java's \s, which unlike Python's matches ASCII only.
WHITE_SPACE = " \t\n\x0b\f\r"
FIELD_BREAK = re.compile(f"[{WHITE_SPACE}]+")
_LINE_END = re.compile("\r\n|\n|\r")


def _parse(text: str, smallest: int, largest: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # A longer run of digits may still be small (leading zeros), but a name on disk has 255 bytes at most.
    if not digits or len(digits) > 4096:
        return None
    value = int(digits) if digits.isascii() and digits.isdigit() else _of_any_script(digits)
    if value is not None and text[0] == "-":
        value = -value
    return value if value is not None and smallest <= value <= largest else None


def _of_any_script(digits: str) -> int | None:
    value = 0
    for char in digits:
        digit = unicodedata.decimal(char, None)
        if digit is None or ord(char) > 0xFFFF:
            return None
        value = value * 10 + int(digit)
    return value


def parse_int(text: str) -> int | None:
    """Read a 32-bit number as Integer.parseInt does; None where that throws."""
    return _parse(text, INT_MIN, INT_MAX)


def parse_long(text: str) -> int | None:
    """Read a 64-bit number as Long.parseLong does; None where that throws."""
    return _parse(text, LONG_MIN, LONG_MAX)


def split_fields(text: str, pattern: re.Pattern[str] = FIELD_BREAK) -> list[str]:
    """Split as Java's Pattern.split: a leading empty field is kept, trailing ones are dropped."""
    fields = pattern.split(text)
    if len(fields) == 1:
        return fields
    while fields and not fields[-1]:
        fields.pop()
    return fields


def utf8_lines(buf: Buffer, what: str) -> Iterator[tuple[int, str]]:
    """Yield (byte position, line); raise FormatError at a byte that is not UTF-8, or at a line too long."""
    try:
        text = bytes(buf).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            what, error.start, expected="UTF-8", found=f"byte {buf[error.start]:#04x}"
        ) from None
    at = 0
    start = 0
    # A file of zeros is one endless line: this test is much faster than the pattern there.
    has_ends = "\n" in text or "\r" in text
    for end in _LINE_END.finditer(text) if has_ends else ():
        line = _line(text, start, end.start(), what, at)
        yield at, line
        at += len(line.encode()) + len(end[0])
        start = end.end()
    if start < len(text):
        yield at, _line(text, start, len(text), what, at)


def _line(text: str, start: int, end: int, what: str, at: int) -> str:
    if end - start > MAX_LINE:
        found = f"{end - start} characters"
        raise FormatError(f"{what} line", at, expected=f"at most {MAX_LINE} characters", found=found)
    return text[start:end]
