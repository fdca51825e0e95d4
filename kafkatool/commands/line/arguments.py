"""Parse what people type: sizes, positions, times, byte strings.

50M  1.5GiB  200kB        sizes: K, M, G, T and KiB … are powers of 1024, kB … of 1000
1234                      an offset (or, where only a time is possible, epoch milliseconds)
@1700000000000            epoch milliseconds
2026-01-02T03:04:05.678   ISO 8601, UTC unless it says otherwise
now-2h  now-1d12h  now    relative; ms, s, m, h, d, w
text  hex:00ff  base64:AP8=   byte strings
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from kafkatool.errors import UsageError, unknown_word

_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?:([kmgt])(i?b)?|b)?(?:/s)?", re.IGNORECASE)
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_EPOCH_MS = re.compile(r"@(-?[0-9]{1,19})")
_RELATIVE = re.compile(r"now(?:([+-])((?:[0-9]{1,12}(?:ms|s|m|h|d|w))+))?")
_STEP = re.compile(r"([0-9]+)(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Control(StrEnum):
    """What --control takes: control records only, or none of them."""

    only = "only"
    none = "none"


class Position(NamedTuple):
    """A place in a log: an offset or a time; exactly one of them is set."""

    offset: int | None = None
    timestamp_ms: int | None = None


class HeaderFilter(NamedTuple):
    """A record header that must be present, and its value if that matters."""

    name: bytes
    value: bytes | None = None


def parse_size(text: str) -> int:
    """Parse `50M` into a number of bytes. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size: write for example 4096, 64K, 50M, 1.5GiB")
    number, unit, suffix = match.groups()
    base = 1000 if suffix and suffix.lower() == "b" else 1024
    return int(float(number) * base ** _POWER[unit.lower()]) if unit else int(float(number))


def parse_rate(text: str) -> int:
    """Parse bytes per second, at least 1. Raises UsageError."""
    rate = parse_size(text)
    if rate <= 0:
        raise UsageError(f"{text!r} is not a rate: at least 1 byte a second is needed")
    return rate


def parse_position(text: str, now_ms: int) -> Position:
    """Parse --from or --to: a bare integer is an offset, anything else a time. Raises UsageError."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return Position(offset=int(text))
    return Position(timestamp_ms=_parse_time(text, now_ms, "a position (an offset or a time)"))


def parse_time(text: str, now_ms: int) -> int:
    """Parse --at or --time into epoch milliseconds; a bare integer is taken as such. Raises UsageError."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    return _parse_time(text, now_ms, "a time")


def _parse_time(text: str, now_ms: int, wanted: str) -> int:
    if match := _EPOCH_MS.fullmatch(text):
        return int(match[1])
    if match := _RELATIVE.fullmatch(text):
        steps = sum(int(number) * _UNIT_MS[unit] for number, unit in _STEP.findall(match[2] or ""))
        return now_ms + (-steps if match[1] == "-" else steps)
    iso = _parse_iso(text)
    if iso is None:
        raise UsageError(
            f"{text!r} is not {wanted}: write @EPOCH_MS, ISO 8601 such as 2026-01-02T03:04:05Z, or now-2h"
        )
    return iso


def _parse_iso(text: str) -> int | None:
    from datetime import UTC, datetime, timedelta

    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    # Integers only: a float of milliseconds is sometimes off by one.
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Parse `7d` or `1d12h` into milliseconds. Raises UsageError."""
    text = text.strip()
    if not text or _STEP.sub("", text):
        raise UsageError(f"{text!r} is not a duration: write for example 90s, 12h, 7d, 1d12h")
    return sum(int(number) * _UNIT_MS[unit] for number, unit in _STEP.findall(text))


def parse_bytes(text: str) -> bytes:
    """Parse a key or value: UTF-8, `hex:…` or `base64:…`. Raises UsageError."""
    try:
        if text.startswith("hex:"):
            return bytes.fromhex(text[4:])
        if text.startswith("base64:"):
            import base64

            return base64.b64decode(text[7:], validate=True)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from None
    return text.encode("utf-8", "surrogateescape")


def parse_header(text: str) -> HeaderFilter:
    """Parse `NAME` or `NAME=VALUE`. Raises UsageError."""
    name, equals, value = text.partition("=")
    return HeaderFilter(parse_bytes(name), parse_bytes(value) if equals else None)


def parse_high_watermark(text: str) -> str | int:
    """Parse `checkpoint`, `end` or an offset. Raises UsageError."""
    if text.isascii() and text.isdigit():
        return int(text)
    if text not in ("checkpoint", "end"):
        raise unknown_word("--high-watermark", text, ("checkpoint", "end", "an offset"))
    return text


def parse_regex(text: str) -> re.Pattern[bytes]:
    """Parse a regular expression over bytes. Raises UsageError."""
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}") from None
