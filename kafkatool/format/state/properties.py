"""java.util.Properties text: `meta.properties`, `server.properties`.

    # comment                    also !, after any white space
    key=value                    separated by the first = or : or white space; more white space is skipped
    key = a \\                    a backslash at the end joins the next line, less its leading white space
          b
    caf\\u00e9=\\t                 escapes: \\t \\n \\r \\f \\uXXXX; any other character stands for itself

Bytes are ISO-8859-1, whatever wrote them. If a key occurs twice, the last one counts.

`meta.properties` says whose log directory this is:

    key           version 0, or no version (ZooKeeper)   version 1 (KRaft)
    broker.id     optional int                           not used
    node.id       not used                               int
    cluster.id    optional                               text
    directory.id  optional UUID                          optional UUID
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkatool.errors import FormatError
from kafkatool.format.java_text import parse_int
from kafkatool.format.primitives import Buffer
from kafkatool.format.uuids import parse_uuid, uuid_text

HIGHEST_META_VERSION = 1

_MAX_LINE = 1 << 20  # a whole certificate may be one line
_BLANK = " \t\f"
_LINE = re.compile(r"(?=.)([^\r\n]*)(\r\n|\r|\n|\Z)", re.DOTALL)
# A key ends at the first separator without a backslash before it.
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_TO_ESCAPE = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


class MetaProperties(NamedTuple):
    version: int
    cluster_id: str | None
    node_id: int | None
    """`node.id`, or `broker.id` where the version is 0."""
    directory_id: str | None


def read_properties(buf: Buffer) -> dict[str, str]:
    """Decode as java.util.Properties does, in the file's order; raise FormatError at a malformed \\u."""
    values: dict[str, str] = {}
    for at, line in _logical_lines(bytes(buf).decode("latin-1")):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        values[_unescape(key[0], at)] = _unescape(line[separator.end() :], at)
    return values


def write_properties(values: Mapping[str, str], comments: Iterable[str] = ()) -> bytes:
    """Encode in pure ASCII, so that every reader gets the same text back."""
    lines = [f"#{_escape(comment, is_key=False)}" for comment in comments]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def read_meta_properties(buf: Buffer) -> MetaProperties:
    """Decode `meta.properties`; raise FormatError where a broker would refuse it."""
    values = read_properties(buf)
    # Only the version is trimmed before it is parsed.
    version = parse_int(values.get("version", "0").strip("".join(map(chr, range(33)))))
    if version is None or not 0 <= version <= HIGHEST_META_VERSION:
        raise _bad("version", f"0 to {HIGHEST_META_VERSION}", values["version"])
    cluster_id = values.get("cluster.id")
    if version >= 1 and cluster_id is None:
        raise _bad("cluster.id", "text", None)
    return MetaProperties(version, cluster_id, _node_id(values, version), _directory_id(values))


def write_meta_properties(meta: MetaProperties, comments: Iterable[str] = ()) -> bytes:
    fields = {
        "version": str(meta.version),
        "cluster.id": meta.cluster_id,
        "broker.id" if meta.version == 0 else "node.id": None if meta.node_id is None else str(meta.node_id),
        "directory.id": meta.directory_id,
    }
    return write_properties({key: value for key, value in fields.items() if value is not None}, comments)


def _node_id(values: dict[str, str], version: int) -> int | None:
    key = "broker.id" if version == 0 else "node.id"
    if version == 0 and key not in values:
        return None
    node_id = parse_int(values.get(key, ""))
    if node_id is None:
        raise _bad(key, "a 32-bit number", values.get(key))
    return node_id


def _directory_id(values: dict[str, str]) -> str | None:
    text = values.get("directory.id")
    if text is None:
        return None
    raw = parse_uuid(text)
    if raw is None:
        raise _bad("directory.id", "a UUID in base64", text)
    return uuid_text(raw)


def _bad(key: str, expected: str, found: str | None) -> FormatError:
    return FormatError(
        f"meta.properties {key}", 0, expected=expected, found=repr(found) if found else "nothing"
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (position, line), with continuation lines joined, and without comments and blank lines."""
    joined, start = "", 0
    for natural in _LINE.finditer(text):
        if natural.end() - natural.start() > _MAX_LINE:
            found = f"{natural.end() - natural.start()} characters"
            raise FormatError("line", natural.start(), expected=f"at most {_MAX_LINE}", found=found)
        line = natural[1].lstrip(_BLANK)
        # Until something was joined, a continuation line is read like a first one.
        if not joined and (not line or line[0] in "#!"):
            continue
        start = start if joined else natural.start()
        goes_on = _ends_in_backslash(line)
        joined += line[:-1] if goes_on else line
        # A lone backslash before the end of the text gives an empty line, as in Java.
        if not goes_on or (natural.end() == len(text) and natural[2] != "\r\n"):
            yield start, joined
            joined = ""
    if joined:
        yield start, joined


def _ends_in_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str, at: int) -> str:
    if "\\" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        code = found[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "u":
            raise FormatError("property", at, expected="\\u and four hexadecimal digits", found=repr(text))
        return _ESCAPED.get(code, code)

    # Two escapes may be the halves of one character; a lone half cannot be printed.
    return _ESCAPE.sub(replace, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, *, is_key: bool) -> str:
    return "".join(_escape_char(char, is_key or index == 0) for index, char in enumerate(text))


def _escape_char(char: str, escape_space: bool) -> str:
    if char in _TO_ESCAPE:
        return _TO_ESCAPE[char]
    if char in "=:#!" or (char == " " and escape_space):
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
