"""What a terminal may be given: text from a disk with its control characters written as escapes.

A record, a topic's name or a file's can hold what moves the cursor, changes the title of a window or types
into the shell behind it. A pipe gets every byte as it is; on a terminal only line ends and tabs are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, TextIO

from kafkatool.engine.advice.shell_words import CONTROL_CHARACTERS

_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")


class TextSink(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object: ...

    def writelines(self, lines: Iterable[str], /) -> None: ...

    def flush(self) -> None: ...


def harmless(text: str) -> str:
    r"""The text with control characters as \x1b or, as JSON has them too, \u009b."""
    return _CONTROL.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"


def harmless_bytes(raw: bytes) -> bytes:
    """The same of bytes; those that are no UTF-8 become escapes as well."""
    return harmless(raw.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")


class _OnTerminal:
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        self._out.write(harmless(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._out.write(harmless(line))

    def flush(self) -> None:
        self._out.flush()


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def guarded(out: TextIO) -> TextSink:
    """The stream itself, or, where it is a terminal, one that shows controls instead of obeying them."""
    return _OnTerminal(out) if is_terminal(out) else out
