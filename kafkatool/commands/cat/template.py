r"""The templates of `cat -f`, which are kcat's.

%t topic   %p partition   %o offset   %T timestamp in ms   %h headers, as a=1,b=2
%k key     %s value       %K and %S their sizes, -1 for null   %% a percent sign
%R         the size of the value as a big-endian int32
\n \t \r \\ \0 \xHH       a newline, a tab and so on
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kafkatool.errors import UsageError
from kafkatool.format.record import Record

NULL = b"NULL"
_PART = re.compile(rb"%(.?)|\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


class RecordOrigin(NamedTuple):
    """The origin of a record, as bytes to be printed."""

    topic: bytes
    partition: bytes


Part = Callable[[RecordOrigin, Record], bytes]
Template = Callable[[RecordOrigin, Record], bytes]
Written = Callable[[bytes], bytes]


def compile_template(
    text: str, *, null: bytes = b"", written: Written = bytes, guard: Written = bytes
) -> Template:
    """Return a function that prints a record; `null` stands for a missing key or value.

    `written` converts the bytes of keys, values and header values; `guard` other bytes that come from a
    record.

    Raises UsageError for unknown tokens.
    """
    raw = text.encode("utf-8", "surrogateescape")
    parts: list[Part] = []
    at = 0
    for match in _PART.finditer(raw):
        parts.append(_literal(raw[at : match.start()]))
        parts.append(
            _token(text, match[1], null, written, guard) if match[1] is not None else _escape(text, match[2])
        )
        at = match.end()
    parts.append(_literal(raw[at:]))
    return lambda origin, record: b"".join([part(origin, record) for part in parts])


def _literal(text: bytes) -> Part:
    return lambda _origin, _record: text


def _escape(text: str, name: bytes) -> Part:
    if name.startswith(b"x") and len(name) == 3:
        return _literal(bytes.fromhex(name[1:].decode()))
    if name not in _ESCAPES:
        raise UsageError(f"{text!r}: \\{name.decode(errors='replace')} is no escape; \\\\ is a backslash")
    return _literal(_ESCAPES[name])


def _token(text: str, name: bytes, null: bytes, written: Written, guard: Written) -> Part:
    tokens: dict[bytes, Part] = {
        b"t": lambda origin, _record: guard(origin.topic),
        b"p": lambda origin, _record: origin.partition,
        b"o": lambda _origin, record: b"%d" % record.offset,
        b"T": lambda _origin, record: b"%d" % record.timestamp_ms,
        b"k": lambda _origin, record: null if record.key is None else written(record.key),
        b"s": lambda _origin, record: null if record.value is None else written(record.value),
        b"K": lambda _origin, record: b"%d" % record.key_size,
        b"S": lambda _origin, record: b"%d" % record.value_size,
        b"R": lambda _origin, record: guard(record.value_size.to_bytes(4, "big", signed=True)),
        b"h": lambda _origin, record: _headers(record, written, guard),
        b"%": _literal(b"%"),
    }
    if name not in tokens:
        known = " ".join(f"%{token.decode()}" for token in tokens)
        raise UsageError(f"{text!r}: %{name.decode(errors='replace')} is not known: {known}")
    return tokens[name]


def _headers(record: Record, written: Written, guard: Written) -> bytes:
    return b",".join(
        guard(name) + b"=" + (NULL if value is None else written(value)) for name, value in record.headers
    )
