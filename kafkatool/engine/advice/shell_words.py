"""Quote words of a printed command so that they can be pasted, and no byte moves a cursor."""

from __future__ import annotations

import re
from shlex import quote

# Controls of ASCII and Latin 1, and characters that change text direction or break lines.
CONTROL_CHARACTERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff"
)

_UNSAFE = re.compile(f"[\t\n{CONTROL_CHARACTERS}]")
_IN_QUOTES = re.compile(f"[\t\n'\\\\{CONTROL_CHARACTERS}]")


def quoted(word: object) -> str:
    r"""Return a word quoted for a shell; control characters and stray bytes as $'\x1b'."""
    text = str(word)
    if not _UNSAFE.search(text):
        return quote(text)
    return f"$'{_IN_QUOTES.sub(_escape, text)}'"


def _escape(found: re.Match[str]) -> str:
    if found[0] in "'\\":
        return f"\\{found[0]}"
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))
