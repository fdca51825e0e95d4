"""Read bytes into trees, by a layout; errors use the words of Kafka's own readers.

               rigid                    flexible
string         int16 length, -1 null    uvarint length + 1, 0 null
bytes, records int32 length, -1 null    uvarint length + 1, 0 null
[]T            int32 count, -1 null     uvarint count + 1, 0 null
struct         its fields               its fields, then its tag section
struct?        int8, negative null      the same; in a tag section uvarint, 0 null
tag section    none                     uvarint count, then for each: uvarint tag, uvarint size, bytes
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

from kafkatool.errors import FormatError
from kafkatool.format.java_values import java_utf8
from kafkatool.format.schema.layout import UNKNOWN_TAGS, Layout, Slot, Tree
from kafkatool.format.uuids import uuid_text

# Java's BufferUnderflowException has no message, which its callers print like this.
UNDERFLOW = "null"
MAX_STRING = 0x7FFF

Reader = Callable[[bytes, int], tuple[object, int]]
IntReader = Callable[[bytes, int], tuple[int, int]]


class Unreadable(FormatError):
    """The bytes are not such a message; `reason` is the message of the exception in Kafka's reader."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__("message", at, expected="a field", found=reason)
        self.reason = reason

    @property
    def detail(self) -> str:
        """The reason, with more detail where Kafka's own message has too little."""
        return self.reason


def read_struct(layout: Layout, buf: bytes, at: int = 0) -> tuple[Tree, int]:
    """Decode (tree, next position); raise Unreadable where Kafka's reader throws."""
    if layout.refused:
        raise Unreadable(at, f"Can't read version {layout.version} of {layout.name}")
    tree = layout.new() if layout.tagged else {}
    for name, read in _positional_readers(layout):
        tree[name], at = read(buf, at)
    if layout.flexible:
        at = _read_tags(layout, tree, buf, at)
    return tree, at


def _read_tags(layout: Layout, tree: Tree, buf: bytes, at: int) -> int:
    count, at = read_uvarint(buf, at)
    unknown: list[Tree] = []
    for _ in range(count):
        tag, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        if slot := layout.tagged.get(tag):
            # Like Kafka, trust the field itself for its size.
            tree[slot.name], at = _tag_reader(slot)(buf, at)
        elif tag in layout.refused_tags:
            raise Unreadable(at, f"Tag {tag} is not valid for version {layout.version}")
        else:
            data, at = _read_array(buf, at, size)
            unknown.append({"tag": tag, "data": data})
    if unknown:
        tree[UNKNOWN_TAGS] = unknown
    return at


@lru_cache(maxsize=2048)
def _positional_readers(layout: Layout) -> tuple[tuple[str, Reader], ...]:
    return tuple((slot.name, _reader(slot, layout.flexible)) for slot in layout.positional)


@lru_cache(maxsize=512)
def _tag_reader(slot: Slot) -> Reader:
    return _reader(slot, True, in_tag=True)


def _reader(slot: Slot, flexible: bool, in_tag: bool = False) -> Reader:
    field = slot.field
    if field.array:
        element = _value_reader(slot, f"{slot.name} element", flexible, nullable=False)
        return _array_reader(element, slot.name, flexible, field.nullable)
    read = _value_reader(slot, slot.name, flexible, field.nullable)
    return _nullable_struct(read, in_tag) if slot.layout and field.nullable else read


def _value_reader(slot: Slot, label: str, flexible: bool, nullable: bool) -> Reader:
    layout, kind = slot.layout, slot.field.kind
    if layout is not None:
        inner = layout
        return lambda buf, at: read_struct(inner, buf, at)
    if kind == "string":
        return _string_reader(label, flexible, nullable)
    if kind in ("bytes", "records"):
        return _bytes_reader(label, flexible, nullable)
    return _FIXED[kind]


def _nullable_struct(read: Reader, in_tag: bool) -> Reader:
    def read_nullable(buf: bytes, at: int) -> tuple[object, int]:
        if in_tag:
            marker, at = read_uvarint(buf, at)
            marker -= 1
        else:
            marker, at = read_int8(buf, at)
        return (None, at) if marker < 0 else read(buf, at)

    return read_nullable


def _array_reader(element: Reader, label: str, flexible: bool, nullable: bool) -> Reader:
    read_count = compact_length if flexible else read_int32

    def read_array(buf: bytes, at: int) -> tuple[object, int]:
        count, at = read_count(buf, at)
        if count < 0:
            return _null(label, at, nullable)
        if count > len(buf) - at:
            raise Unreadable(at, f"Tried to allocate a collection of size {count}, but there are only "
                                 f"{len(buf) - at} bytes remaining.")  # fmt: skip
        values = []
        for _ in range(count):
            value, at = element(buf, at)
            values.append(value)
        return values, at

    return read_array


def _string_reader(label: str, flexible: bool, nullable: bool) -> Reader:
    read_length = compact_length if flexible else read_int16

    def read_string(buf: bytes, at: int) -> tuple[object, int]:
        length, at = read_length(buf, at)
        if length < 0:
            return _null(label, at, nullable)
        if length > MAX_STRING:
            raise Unreadable(at, f"string field {label} had invalid length {length}")
        raw, at = _read_array(buf, at, length)
        return java_utf8(raw), at

    return read_string


def _bytes_reader(label: str, flexible: bool, nullable: bool) -> Reader:
    read_length = compact_length if flexible else read_int32

    def read_bytes(buf: bytes, at: int) -> tuple[object, int]:
        length, at = read_length(buf, at)
        return _null(label, at, nullable) if length < 0 else _read_array(buf, at, length)

    return read_bytes


def _null(label: str, at: int, nullable: bool) -> tuple[None, int]:
    if nullable:
        return None, at
    raise Unreadable(at, f"non-nullable field {label} was serialized as null")


def _read_array(buf: bytes, at: int, size: int) -> tuple[bytes, int]:
    left = len(buf) - at
    if size > left:
        raise Unreadable(at, f"Error reading byte array of {size} byte(s): only {left} byte(s) available")
    if size < 0:
        raise Unreadable(at, str(size))
    return buf[at : at + size], at + size


def read_uvarint(buf: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned varint as the signed 32-bit number that Java keeps it in."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        if at >= len(buf):
            raise Unreadable(at, UNDERFLOW)
        byte = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value - (1 << 32) if value >> 31 else value), at
    raise Unreadable(at, "Varint is too long, the most significant bit in the 5th byte is set, "
                         f"converted value: {value & 0xFFFFFFFF:x}")  # fmt: skip


def compact_length(buf: bytes, at: int) -> tuple[int, int]:
    """Decode the length of a flexible string, bytes or array; -1 for null."""
    value, at = read_uvarint(buf, at)
    # Java's int wraps around.
    return (value - 1 if value > -(1 << 31) else (1 << 31) - 1), at


def _fixed(code: str) -> IntReader:
    layout = struct.Struct(">" + code)

    def read(buf: bytes, at: int) -> tuple[int, int]:
        if len(buf) - at < layout.size:
            raise Unreadable(at, UNDERFLOW)
        return layout.unpack_from(buf, at)[0], at + layout.size

    return read


def _read_uuid(buf: bytes, at: int) -> tuple[object, int]:
    if len(buf) - at < 16:
        raise Unreadable(at, UNDERFLOW)
    return uuid_text(buf[at : at + 16]), at + 16


read_int8 = _fixed("b")
read_int16 = _fixed("h")
read_int32 = _fixed("i")

_FIXED: dict[str, Reader] = {
    "bool": _fixed("?"),
    "int8": read_int8,
    "int16": read_int16,
    "int32": read_int32,
    "int64": _fixed("q"),
    "uint16": _fixed("H"),
    "uint32": _fixed("I"),
    "float64": _fixed("d"),
    "uuid": _read_uuid,
}
