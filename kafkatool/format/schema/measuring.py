"""Measure how much memory a message takes once read, by walking its bytes before reading it.

Two bytes on the wire can become two hundred in memory: an empty name in a dict in a list. Check here before
reading what strangers send. The sizes are CPython's, rounded up rather than down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from kafkatool.errors import FormatError
from kafkatool.format.schema.layout import Layout, Slot
from kafkatool.format.schema.reading import (
    UNDERFLOW,
    Unreadable,
    compact_length,
    read_int16,
    read_int32,
    read_uvarint,
)

MOST_ELEMENTS = 1_000_000  # per array, the limit of brokers of 4.4
MOST_TAGS = 10_000  # per struct, likewise
_PLACE = 16  # a slot in a growing list
_LIST, _STRING, _BYTES = 96, 64, 48
_WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8}
_NUMBER = 32
_UUID_WIDTH, _UUID = 16, 80

Measure = Callable[[bytes, int], tuple[int, int]]
"""(buffer, position) -> (bytes in memory, next position)."""


class Fixed(NamedTuple):
    """A field of constant size in memory and on the wire."""

    size: int
    width: int


class TooMany(FormatError):
    """More elements or tagged fields than anybody needs."""


def measure_struct(layout: Layout, buf: bytes, at: int) -> tuple[int, int]:
    """Return (bytes in memory, next position); raise Unreadable or TooMany where it cannot be read."""
    size = _dict_size(len(layout.slots))
    for measure in _measures(layout):
        more, at = _apply(measure, buf, at)
        size += more
    if layout.flexible:
        more, at = _measure_tags(buf, at)
        size += more
    return size, at


def _apply(measure: Measure | Fixed, buf: bytes, at: int) -> tuple[int, int]:
    if not isinstance(measure, Fixed):
        return measure(buf, at)
    return measure.size, _forward(buf, at, measure.width)


def _forward(buf: bytes, at: int, width: int) -> int:
    if width > len(buf) - at:
        raise Unreadable(at, UNDERFLOW)
    return at + width


def _dict_size(count: int) -> int:
    for most, size in ((5, 208), (10, 296), (21, 488)):
        if count <= most:
            return size
    return 128 * count


def _measure_tags(buf: bytes, at: int) -> tuple[int, int]:
    count, at = read_uvarint(buf, at)
    check_tags(count, at)
    total = 0
    for _ in range(count):
        _tag, at = read_uvarint(buf, at)
        size, at = read_uvarint(buf, at)
        if size < 0:
            raise Unreadable(at, UNDERFLOW)
        at = _forward(buf, at, size)
        total += _dict_size(2) + _PLACE + _NUMBER + _BYTES + size
    return total, at


def check_tags(count: int, at: int) -> None:
    """Raise TooMany for a negative count, or one above the limit."""
    if not 0 <= count <= MOST_TAGS:
        raise TooMany("tagged fields", at, expected=f"0 to {MOST_TAGS}", found=count)


@lru_cache(maxsize=2048)
def _measures(layout: Layout) -> tuple[Measure | Fixed, ...]:
    """Return how to measure each field, with neighbours of fixed size merged."""
    found: list[Measure | Fixed] = []
    for one in (_measure_of(slot, layout.flexible) for slot in layout.positional):
        last = found[-1] if found else None
        if isinstance(one, Fixed) and isinstance(last, Fixed):
            found[-1] = Fixed(last.size + one.size, last.width + one.width)
        else:
            found.append(one)
    return tuple(found)


def _measure_of(slot: Slot, flexible: bool) -> Measure | Fixed:
    value = _measure_of_value(slot, flexible)
    if slot.field.array:
        return _array(value, flexible)
    if slot.layout is not None and slot.field.nullable:
        raise NotImplementedError("no request has a struct that may be null")
    return value


def _measure_of_value(slot: Slot, flexible: bool) -> Measure | Fixed:
    layout, kind = slot.layout, slot.field.kind
    if layout is not None:
        inner, parts = layout, _measures(layout)
        if not layout.flexible and len(parts) == 1 and isinstance(parts[0], Fixed):
            return Fixed(parts[0].size + _dict_size(len(layout.slots)), parts[0].width)
        return lambda buf, at: measure_struct(inner, buf, at)
    if kind == "string":
        return _text(compact_length if flexible else read_int16)
    if kind in ("bytes", "records"):
        return _bytes(compact_length if flexible else read_int32)
    return Fixed(_UUID, _UUID_WIDTH) if kind == "uuid" else Fixed(_NUMBER, _WIDTHS[kind])


def _array(element: Measure | Fixed, flexible: bool) -> Measure:
    read_count = compact_length if flexible else read_int32

    def measure(buf: bytes, at: int) -> tuple[int, int]:
        count, at = read_count(buf, at)
        if count > MOST_ELEMENTS:
            raise TooMany("array", at, expected=f"at most {MOST_ELEMENTS} elements", found=count)
        if count <= 0:
            return _LIST, at
        total = _LIST + count * _PLACE
        if isinstance(element, Fixed):
            return total + count * element.size, _forward(buf, at, count * element.width)
        for _ in range(count):
            size, at = element(buf, at)
            total += size
        return total, at

    return measure


def _text(read_length: Callable[[bytes, int], tuple[int, int]]) -> Measure:
    def measure(buf: bytes, at: int) -> tuple[int, int]:
        length, at = read_length(buf, at)
        if length <= 0:
            return 0, at
        end = _forward(buf, at, length)
        # A single character outside ASCII may make all of them four bytes wide.
        return _STRING + (length if buf[at:end].isascii() else 4 * length), end

    return measure


def _bytes(read_length: Callable[[bytes, int], tuple[int, int]]) -> Measure:
    def measure(buf: bytes, at: int) -> tuple[int, int]:
        length, at = read_length(buf, at)
        return (0, at) if length <= 0 else (_BYTES + length, _forward(buf, at, length))

    return measure
