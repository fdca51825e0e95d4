"""Write trees as bytes, by a layout: the reverse of reading.py, field by field as Kafka's writers do it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, Protocol, TypeGuard, TypeVar, cast

from kafkatool.errors import FormatError
from kafkatool.format.primitives import write_int8, write_int16, write_int32, write_uvarint
from kafkatool.format.schema.layout import UNKNOWN_TAGS, Layout, Slot, Tree
from kafkatool.format.uuids import parse_uuid

_STEP = 16 << 10  # bytes claimed at once, at least
# How a number of each kind is packed.
_CODES = {
    kind: struct.Struct(">" + code).pack
    for kind, code in (
        *(("bool", "?"), ("int8", "b"), ("int16", "h"), ("int32", "i"), ("int64", "q")),
        *(("uint16", "H"), ("uint32", "I"), ("float64", "d")),
    )
}


class Slice(Protocol):
    """Bytes that stay where they are: only their number is written here."""

    @property
    def size(self) -> int: ...


Piece = bytes | bytearray | Slice


def is_bytes(piece: Piece) -> TypeGuard[bytes | bytearray]:
    """Return whether the piece lies in memory."""
    return isinstance(piece, (bytes, bytearray))


def piece_size(piece: Piece) -> int:
    return len(piece) if isinstance(piece, (bytes, bytearray)) else piece.size


Claim = Callable[[int], None]
"""Called with a number of bytes before they are used; it may wait, or raise."""

_Item = TypeVar("_Item")


def claim_nothing(size: int) -> None:
    """Claim nothing: for callers with memory to spare."""


class LazyRows(Generic[_Item]):
    """An array whose elements are created one by one while they are written."""

    def __init__(self, items: Collection[_Item], make: Callable[[_Item], object]) -> None:
        self._items = items
        self._make = make

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[object]:
        return map(self._make, self._items)


class _FieldOutput:
    """Collect adjacent bytes in one piece; pass slices on as they are."""

    def __init__(self, front: bytes, claim: Claim) -> None:
        self.held = bytearray(front)
        self.pieces: list[Piece] = []
        self._claim = claim
        self.limit = 0

    def grow(self) -> None:
        """Claim the buffer's size again: growing copies it."""
        step = max(_STEP, len(self.held))
        self._claim(step)
        self.limit = len(self.held) + step

    def add_slice(self, records: Slice) -> None:
        self.pieces += (self.held, records)
        self.held, self.limit = bytearray(), 0

    def finish(self) -> list[Piece]:
        return [*self.pieces, self.held] if self.held else self.pieces


def write_struct(layout: Layout, tree: Tree) -> bytes:
    """Encode the tree; missing fields get their defaults. Raises FormatError if a value does not fit."""
    return b"".join(cast(list[bytes], write_pieces(layout, tree)))


def write_pieces(layout: Layout, tree: Tree, front: bytes = b"", claim: Claim = claim_nothing) -> list[Piece]:
    """Encode in pieces after `front`: a field of kind `records` may be a Slice, passed on as it is."""
    out = _FieldOutput(front, claim)
    try:
        _write(layout, tree, out)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise FormatError(layout.name, 0, expected="values that fit their fields", found=error) from None
    return out.finish()


def _write(layout: Layout, tree: Tree, out: _FieldOutput) -> None:
    for slot in layout.positional:
        _write_slot(slot, tree.get(slot.name, slot.default), layout.flexible, out)
    if layout.flexible:
        out.held += _write_tags(layout, tree)


def _write_tags(layout: Layout, tree: Tree) -> bytes:
    """Encode, by ascending tag, tagged fields that are not default, and those unknown when read."""
    bodies: list[tuple[int, bytes]] = []
    for tag, slot in layout.tagged.items():
        value = tree.get(slot.name, slot.default)
        if value != slot.default:
            body = _FieldOutput(b"", claim_nothing)
            _write_slot(slot, value, True, body, in_tag=True)
            bodies.append((tag, bytes(body.held)))
    unknown = cast(Iterable[Tree], tree.get(UNKNOWN_TAGS, ()))
    bodies += [(cast(int, raw["tag"]), cast(bytes, raw["data"])) for raw in unknown]
    bodies.sort(key=lambda body: body[0])
    parts = [write_uvarint(tag) + write_uvarint(len(body)) + body for tag, body in bodies]
    return write_uvarint(len(parts)) + b"".join(parts)


def _write_slot(slot: Slot, value: object, flexible: bool, out: _FieldOutput, in_tag: bool = False) -> None:
    field = slot.field
    if field.array:
        values = cast("Collection[object] | None", value)
        out.held += _length(slot, None if values is None else len(values), flexible, 4)
        for element in values or ():
            _write_value(slot, element, flexible, out)
            if len(out.held) > out.limit:
                out.grow()
        return
    if slot.layout and field.nullable:
        absent, present = (b"\x00", b"\x01") if in_tag else (write_int8(-1), write_int8(1))
        out.held += absent if value is None else present
        if value is None:
            return
    _write_value(slot, value, flexible, out)


def _write_value(slot: Slot, value: object, flexible: bool, out: _FieldOutput) -> None:
    kind = slot.field.kind
    if slot.layout:
        _write(slot.layout, cast(Tree, value), out)
    elif kind in _CODES:
        out.held += _CODES[kind](value)
    elif kind == "string":
        raw = None if value is None else cast(str, value).encode()
        out.held += _length(slot, None if raw is None else len(raw), flexible, 2) + (raw or b"")
    elif kind == "uuid":
        out.held += _uuid(slot, cast(str, value))
    elif kind == "records" and value is not None and not isinstance(value, bytes):
        records = cast(Slice, value)
        out.held += _length(slot, records.size, flexible, 4)
        out.add_slice(records)
    else:
        data = cast("bytes | None", value)
        out.held += _length(slot, None if data is None else len(data), flexible, 4) + (data or b"")


def _uuid(slot: Slot, text: str) -> bytes:
    raw = parse_uuid(text)
    if raw is None:
        raise FormatError(slot.name, 0, expected="a UUID", found=text)
    return raw


def _length(slot: Slot, length: int | None, flexible: bool, width: int) -> bytes:
    if length is None and not slot.field.nullable:
        raise FormatError(slot.name, 0, expected="a value", found="null")
    if flexible:
        return write_uvarint(0 if length is None else length + 1)
    return (write_int16 if width == 2 else write_int32)(-1 if length is None else length)
