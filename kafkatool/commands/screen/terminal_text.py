"""Safe text for a terminal: control characters that come from a disk are written as escapes.

A record, topic name or file name can hold sequences that move the cursor, change the window's title or type
into the shell. A pipe gets every byte unchanged; on a terminal only line ends and tabs are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, TextIO

from kafkatool.engine.advice.shell_words import CONTROL_CHARACTERS

_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")


class TextSink(Protocol):
    """Where lines are written."""

    def write(self, text: str, /) -> object: ...

    def writelines(self, lines: Iterable[str], /) -> None: ...

    def flush(self) -> None: ...


def harmless(text: str) -> str:
    r"""Return the text with control characters as \x1b or, as in JSON, \u009b."""
    return _CONTROL.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"


def harmless_bytes(raw: bytes) -> bytes:
    """Do the same for bytes; those that are not UTF-8 become escapes as well."""
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
    """Return the stream itself or, for a terminal, a wrapper that shows control characters as escapes."""
    return _OnTerminal(out) if is_terminal(out) else out
