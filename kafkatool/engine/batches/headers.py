"""Follow a log from header to header, by the lengths of its batches; checksums are not verified.

next_batch   as Kafka's file reader does: raises at an impossible length
header_at    lenient: returns None for what cannot be a header
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from kafkatool.engine.batches.scan import SHORTEST_ENTRY
from kafkatool.engine.files.source import Source
from kafkatool.errors import FormatError, Truncated
from kafkatool.format.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, BatchHeader, read_header
from kafkatool.format.legacy import MIN_SIZE, Header, read_legacy_header

_FRONT = Struct(">qi4xb")  # offset, length, magic


class FoundBatch(NamedTuple):
    """A batch in a `.log`, known by its header."""

    position: int
    size: int
    header: Header


def next_batch(read: Callable[[int, int], bytes], position: int, end: int) -> FoundBatch | None:
    """Return the batch that begins at a position; None if too few bytes are left for it.

    Raises FormatError where Kafka's reader throws.
    """
    left = end - position
    if left <= SHORTEST_ENTRY:
        return None
    front = read(position, HEADER_SIZE)
    if len(front) < SHORTEST_ENTRY:
        return None
    _offset, length, magic = _FRONT.unpack_from(front)
    if length < MIN_SIZE:
        raise FormatError("batch length", position, expected=f"{MIN_SIZE} or more", found=length)
    size = length + LOG_OVERHEAD
    if size > left:
        return None
    if magic < 2:
        return FoundBatch(position, size, read_legacy_header(front))
    if len(front) < HEADER_SIZE:
        raise Truncated("batch header", position, expected=HEADER_SIZE, found=len(front))
    return FoundBatch(position, size, BatchHeader._make(HEADER.unpack_from(front)))


def follow(batch_at: Callable[[int], FoundBatch | None], position: int) -> Iterator[FoundBatch]:
    """Yield the batches from a position on, until there is none."""
    while (found := batch_at(position)) is not None:
        yield found
        position += found.size


def header_at(source: Source, position: int) -> Header | None:
    """Return the header at `position`; None if it cannot be one. The checksum is not verified."""
    raw = source.read(position, HEADER_SIZE)
    header: Header | None = None
    with suppress(FormatError):
        is_batch = len(raw) > MAGIC_POSITION and raw[MAGIC_POSITION] == 2
        header = read_header(raw) if is_batch else read_legacy_header(raw)
    if header is None or header.magic not in (0, 1, 2) or header.size < 26 or header.last_offset < 0:
        return None
    return header


def plausible_batches(source: Source, position: int) -> Iterator[FoundBatch]:
    """Yield the batches from a position on, as long as their headers are plausible."""

    def batch_at(at: int) -> FoundBatch | None:
        header = header_at(source, at)
        return None if header is None else FoundBatch(at, header.size, header)

    return follow(batch_at, position)
