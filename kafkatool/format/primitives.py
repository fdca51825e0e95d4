"""Read and write the basic types: fixed integers, varints, length-prefixed bytes.

    varint   zig-zag LEB128, at most 5 bytes, 32 bits
    varlong  zig-zag LEB128, at most 10 bytes, 64 bits
    uvarint  LEB128, at most 5 bytes, 32 bits

Every reader takes (buffer, position) and returns (value, next position). As in Kafka's own reader, the bits
of the last allowed byte that do not fit are dropped, and one more byte is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from kafkatool.errors import FormatError, Truncated

Buffer = bytes | bytearray | memoryview

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_UINT16 = struct.Struct(">H")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_FLOAT64 = struct.Struct(">d")


def _fixed_reader(name: str, layout: struct.Struct) -> Callable[[Buffer, int], tuple[int, int]]:
    def read(buf: Buffer, at: int) -> tuple[int, int]:
        end = at + layout.size
        if at < 0 or end > len(buf):
            raise Truncated(name, at, expected=layout.size, found=max(0, len(buf) - at))
        return layout.unpack_from(buf, at)[0], end

    return read


read_int8 = _fixed_reader("int8", _INT8)
read_int16 = _fixed_reader("int16", _INT16)
read_uint16 = _fixed_reader("uint16", _UINT16)
read_int32 = _fixed_reader("int32", _INT32)
read_uint32 = _fixed_reader("uint32", _UINT32)
read_int64 = _fixed_reader("int64", _INT64)


def read_float64(buf: Buffer, at: int) -> tuple[float, int]:
    """Decode an IEEE 754 double."""
    raw, end = read_bytes(buf, at, 8)
    return _FLOAT64.unpack(raw)[0], end


def read_bytes(buf: Buffer, at: int, size: int) -> tuple[bytes, int]:
    """Copy `size` bytes; raise Truncated unless they are all there."""
    end = at + size
    if size < 0 or at < 0 or end > len(buf):
        raise Truncated("bytes", at, expected=size, found=max(0, len(buf) - at))
    return bytes(buf[at:end]), end


def _read_leb128(buf: Buffer, at: int, most: int, name: str) -> tuple[int, int]:
    value = 0
    start = at
    for shift in range(0, 7 * most, 7):
        if not 0 <= at < len(buf):
            raise Truncated(name, start, expected="a final byte", found="the end")
        byte = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise FormatError(name, start, expected=f"at most {most} bytes", found="more")


def read_uvarint(buf: Buffer, at: int) -> tuple[int, int]:
    """Decode an unsigned varint as the signed 32-bit number that Java keeps it in."""
    value, at = _read_leb128(buf, at, 5, "unsigned varint")
    value &= 0xFFFFFFFF
    return (value - (1 << 32) if value >> 31 else value), at


def read_varint(buf: Buffer, at: int) -> tuple[int, int]:
    """Decode a zig-zag varint of 32 bits."""
    value, at = _read_leb128(buf, at, 5, "varint")
    value &= 0xFFFFFFFF
    return (value >> 1) ^ -(value & 1), at


def read_varlong(buf: Buffer, at: int) -> tuple[int, int]:
    """Decode a zig-zag varint of 64 bits."""
    value, at = _read_leb128(buf, at, 10, "varlong")
    value &= 0xFFFFFFFFFFFFFFFF
    return (value >> 1) ^ -(value & 1), at


def write_int8(value: int) -> bytes:
    return _INT8.pack(value)


def write_int16(value: int) -> bytes:
    return _INT16.pack(value)


def write_int32(value: int) -> bytes:
    return _INT32.pack(value)


def write_uvarint(value: int) -> bytes:
    """Encode a number of 0 to 2^64 - 1 in as few bytes as possible."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_varint(value: int) -> bytes:
    """Encode a signed 32-bit number."""
    return write_uvarint(((value << 1) ^ (value >> 31)) & 0xFFFFFFFF)


def write_varlong(value: int) -> bytes:
    """Encode a signed 64-bit number."""
    return write_uvarint(((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF)
