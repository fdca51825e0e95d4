"""Text as a JVM makes it; tests/kafka/reading/test_java_values_parity.py asks a real one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.format.java_values import java_double, java_hash, java_utf8


@given(st.text())
def test_valid_utf8_decodes_to_itself(text: str) -> None:
    assert java_utf8(text.encode("utf-8", "replace")) == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\xa0A", "\ufffdA"),
        (b"\xe1\x80\xed\xbf\xbf", "\ufffd\ufffd"),
        (b"\xf0\x9f\x98", "\ufffd"),
        (b"\xc0\x80", "\ufffd\ufffd"),
    ],
)
def test_malformed_utf8_gets_as_many_marks_as_in_java(raw: bytes, text: str) -> None:
    assert java_utf8(raw) == text


@given(st.binary())
def test_any_bytes_decode_without_surrogates(raw: bytes) -> None:
    java_utf8(raw).encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456.789, "123456.789"),
        (2.0**-44, "5.6843418860808015E-14"),
        (2e-3, "0.002"),
        (5e-324, "4.9E-324"),
        (2e23, "1.9999999999999998E23"),
        (3.7111019806125455e25, "3.7111019806125455E25"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_read_as_in_java_17(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_stands_for_it(value: float) -> None:
    if not math.isinf(value):
        # Before JDK 19 the last digit may be off by a little; never more than the next double.
        assert math.isclose(float(java_double(value)), value, rel_tol=1e-15, abs_tol=5e-324)


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("my-group", -1906497762), ("\U0001f600", 1772899), ("é", 233)]
)
def test_strings_hash_as_in_java(text: str, value: int) -> None:
    assert java_hash(text) == value
