from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format import primitives as p

READERS = (
    p.read_int8,
    p.read_int16,
    p.read_uint16,
    p.read_int32,
    p.read_uint32,
    p.read_int64,
    p.read_float64,
    p.read_uvarint,
    p.read_varint,
    p.read_varlong,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints_are_zig_zag(value: int, encoded: str) -> None:
    assert p.write_varint(value).hex() == encoded
    assert p.read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_come_back(value: int) -> None:
    encoded = p.write_varint(value)
    assert p.read_varint(b"x" + encoded, 1) == (value, 1 + len(encoded))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back(value: int) -> None:
    encoded = p.write_varlong(value)
    assert p.read_varlong(encoded, 0) == (value, len(encoded))


@given(st.integers(0, 2**31 - 1))
def test_unsigned_varints_come_back(value: int) -> None:
    encoded = p.write_uvarint(value)
    assert p.read_uvarint(encoded, 0) == (value, len(encoded))


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(FormatError):
        p.read_varint(b"\x80\x80\x80\x80\x80\x00", 0)


def test_what_does_not_fit_in_the_fifth_byte_is_dropped_as_java_drops_it() -> None:
    assert p.read_uvarint(b"\xff\xff\xff\xff\x7f", 0) == (-1, 5)


@pytest.mark.parametrize("read", READERS)
@given(st.binary(max_size=12), st.integers(-2, 14))
def test_any_bytes_give_a_value_or_a_format_error(read: object, buf: bytes, at: int) -> None:
    with suppress(FormatError):
        _, end = read(buf, at)  # type: ignore[operator]
        assert at < end <= len(buf)
