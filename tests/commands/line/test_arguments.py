"""What people type, made into values."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.commands.line.arguments import (
    HeaderFilter,
    Position,
    parse_bytes,
    parse_header,
    parse_position,
    parse_rate,
    parse_regex,
    parse_size,
    parse_time,
)
from kafkatool.errors import UsageError

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("4096", 4096),
        ("64K", 64 << 10),
        ("50M", 50 << 20),
        ("50m/s", 50 << 20),
        ("1.5GiB", 3 << 29),
        ("200kB", 200_000),
        ("2TB", 2 * 10**12),
        ("7b", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "1X", "1 2", "1e3", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)


def test_a_rate_of_nothing_would_never_end() -> None:
    with pytest.raises(UsageError, match="not a rate"):
        parse_rate("0")


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("@1700000000123", 1_700_000_000_123),
        ("@-1", -1),
        ("1970-01-01", 0),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T22:13:20", NOW),
        ("2023-11-14 22:13:20.123", NOW + 123),
        ("2023-11-15T00:13:20+02:00", NOW),
        ("now", NOW),
        ("now-2h", NOW - 7_200_000),
        ("now-1d12h", NOW - 129_600_000),
        ("now+500ms", NOW + 500),
        ("now-1w", NOW - 604_800_000),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    assert parse_position(text, NOW) == Position(timestamp_ms=time_ms)
    assert parse_time(text, NOW) == time_ms


def test_a_bare_integer_is_an_offset_unless_only_a_time_is_possible() -> None:
    assert parse_position("1700000000000", NOW) == Position(offset=1_700_000_000_000)
    assert parse_time("1700000000000", NOW) == 1_700_000_000_000


@pytest.mark.parametrize(
    "text", ["", "yesterday", "now-", "now-2", "now-2y", "@", "@1.5", "1.5", "9" * 5000, "2023-13-01"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="ISO 8601"):
        parse_position(text, NOW)


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 1, 1)))
def test_iso_times_are_exact_to_the_millisecond(when: datetime) -> None:
    when = when.replace(microsecond=when.microsecond // 1000 * 1000)
    exact = int(when.replace(tzinfo=UTC, microsecond=0).timestamp()) * 1000 + when.microsecond // 1000
    assert parse_time(when.isoformat(), NOW) == exact


@given(st.text())
def test_any_text_is_a_time_or_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        parse_position(text, NOW)


@pytest.mark.parametrize(
    ("text", "raw"),
    [("", b""), ("köy", "köy".encode()), ("hex:00fF", b"\x00\xff"), ("base64:AP8=", b"\x00\xff")],
)
def test_byte_strings(text: str, raw: bytes) -> None:
    assert parse_bytes(text) == raw


@pytest.mark.parametrize("text", ["hex:0", "hex:zz", "base64:a", "base64:@@@@"])
def test_what_is_no_byte_string_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_headers_are_asked_for_by_name_or_by_name_and_value() -> None:
    assert parse_header("trace") == HeaderFilter(b"trace")
    assert parse_header("trace=") == HeaderFilter(b"trace", b"")
    assert parse_header("trace=a=b") == HeaderFilter(b"trace", b"a=b")


def test_a_bad_pattern_is_refused() -> None:
    assert parse_regex("^a.").match(b"ab")
    with pytest.raises(UsageError, match="regular expression"):
        parse_regex("(")
