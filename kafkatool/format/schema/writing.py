"""Trees into bytes, by a layout: the reverse of reading.py, field for field as Kafka's own writers do it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import cast

from kafkatool.errors import FormatError
from kafkatool.format.primitives import write_int8, write_int16, write_int32, write_uvarint
from kafkatool.format.schema.layout import UNKNOWN_TAGS, Layout, Slot, Tree
from kafkatool.format.uuids import parse_uuid

_CODES = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
}


def write_struct(layout: Layout, tree: Tree) -> bytes:
    """Encode; a field that the tree lacks gets its default. Raises FormatError if a value does not fit."""
    try:
        return _write(layout, tree)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise FormatError(layout.name, 0, expected="values that fit their fields", found=error) from None


def _write(layout: Layout, tree: Tree) -> bytes:
    out = [
        _write_slot(slot, tree.get(slot.name, slot.default), layout.flexible) for slot in layout.positional
    ]
    if layout.flexible:
        out.append(_write_tags(layout, tree))
    return b"".join(out)


def _write_tags(layout: Layout, tree: Tree) -> bytes:
    """Tagged fields other than their default, and what was unknown when it was read, by ascending tag."""
    bodies: list[tuple[int, bytes]] = []
    for tag, slot in layout.tagged.items():
        value = tree.get(slot.name, slot.default)
        if value != slot.default:
            bodies.append((tag, _write_slot(slot, value, True, in_tag=True)))
    unknown = cast(Iterable[Tree], tree.get(UNKNOWN_TAGS, ()))
    bodies += [(cast(int, raw["tag"]), cast(bytes, raw["data"])) for raw in unknown]
    bodies.sort(key=lambda body: body[0])
    parts = [write_uvarint(tag) + write_uvarint(len(body)) + body for tag, body in bodies]
    return write_uvarint(len(parts)) + b"".join(parts)


def _write_slot(slot: Slot, value: object, flexible: bool, in_tag: bool = False) -> bytes:
    field = slot.field
    if field.array:
        values = cast("list[object] | None", value)
        if values is None:
            return _length(slot, None, flexible, 4)
        return _length(slot, len(values), flexible, 4) + b"".join(
            _write_value(slot, element, flexible) for element in values
        )
    if slot.layout and field.nullable:
        absent, present = (b"\x00", b"\x01") if in_tag else (write_int8(-1), write_int8(1))
        return absent if value is None else present + _write_value(slot, value, flexible)
    return _write_value(slot, value, flexible)


def _write_value(slot: Slot, value: object, flexible: bool) -> bytes:
    kind = slot.field.kind
    if slot.layout:
        return _write(slot.layout, cast(Tree, value))
    if kind == "string":
        raw = None if value is None else cast(str, value).encode()
        return _length(slot, None if raw is None else len(raw), flexible, 2) + (raw or b"")
    if kind == "bytes":
        data = cast("bytes | None", value)
        return _length(slot, None if data is None else len(data), flexible, 4) + (data or b"")
    if kind == "uuid":
        raw = parse_uuid(cast(str, value))
        if raw is None:
            raise FormatError(slot.name, 0, expected="a UUID", found=value)
        return raw
    return struct.pack(_CODES[kind], value)


def _length(slot: Slot, length: int | None, flexible: bool, width: int) -> bytes:
    if length is None and not slot.field.nullable:
        raise FormatError(slot.name, 0, expected="a value", found="null")
    if flexible:
        return write_uvarint(0 if length is None else length + 1)
    return (write_int16 if width == 2 else write_int32)(-1 if length is None else length)
