"""What `.index` and `.timeindex` claim, as far as they do not contradict themselves, and where they do.

Only what a broker relies on is asked for: entries that increase, lead to a batch, and let no search start too
late. Entries for groups of batches, indexes of cleaned segments, and preallocated zeros behind the entries of
the segment that is written to are all as they should be.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.index_file import index_limit
from kafkatool.engine.batches.seek import sibling_file
from kafkatool.engine.files.source import Guest, read_small_file
from kafkatool.errors import KafkatoolError
from kafkatool.format import offset_index, time_index
from kafkatool.format.kernel import loops

Column: TypeAlias = "array[int]"
"""Of 64-bit integers."""

MOST_READ = 408 * 80_000
"""Bytes of an index that are held against the log, 32 MB: entries of every kind end there."""


@dataclass(frozen=True, slots=True)
class IndexClaims:
    """The entries that can be held against the log: those before the first one that cannot be right."""

    offsets: Column = field(default_factory=lambda: array("q"))
    positions: Column = field(default_factory=lambda: array("q"))
    times: Column = field(default_factory=lambda: array("q"))
    time_offsets: Column = field(default_factory=lambda: array("q"))


def read_claims(log_path: str, log_size: int, guest: Guest) -> IndexClaims:
    """What the two indexes beside a log claim; nothing where there is none, or it cannot be read."""
    limit = min(MOST_READ, index_limit(log_size))
    offsets, positions = _offset_columns(_read(log_path, ".index", limit, guest) or b"")
    sound = _sound_offsets(offsets, positions, log_size)
    times, time_offsets = _time_columns(_read(log_path, ".timeindex", limit, guest) or b"")
    timed = _sound_times(times, time_offsets)
    # Every split of a large log does this: what is whole is not copied.
    for column, end in ((offsets, sound), (positions, sound), (times, timed), (time_offsets, timed)):
        del column[end:]
    return IndexClaims(offsets, positions, times, time_offsets)


def _read(log_path: str, extension: str, limit: int, guest: Guest) -> bytes | None:
    path = sibling_file(log_path, extension)
    if path is None:
        return None
    try:
        return read_small_file(path, guest, limit)
    except (FileNotFoundError, KafkatoolError):
        return None


def _offset_columns(data: bytes) -> tuple[Column, Column]:
    """Relative offsets and positions of the slots up to the zeros at the end."""
    return _columns(data, offset_index.ENTRY_SIZE, is_time=False)


def _time_columns(data: bytes) -> tuple[Column, Column]:
    """Times and relative offsets of the slots up to the zeros at the end."""
    return _columns(data, time_index.ENTRY_SIZE, is_time=True)


def _columns(data: bytes, entry_size: int, *, is_time: bool) -> tuple[Column, Column]:
    count = min(len(data) // entry_size, -(-len(data.rstrip(b"\0")) // entry_size))
    first, second = array("q", bytes(8 * count)), array("q", bytes(8 * count))
    loops.index_columns(data, is_time, first, second)
    return first, second


def _sound_offsets(offsets: Column, positions: Column, log_size: int) -> int:
    """How many entries there are before the first that contradicts another, or the size of the log."""
    count = min(loops.rising(offsets, 0), loops.rising(positions, 1))
    while count and positions[count - 1] >= log_size:
        count -= 1
    return count


def _sound_times(times: Column, offsets: Column) -> int:
    return min(loops.rising(times, 0), loops.rising(offsets, 0))


def offset_index_problems(data: bytes, size: int, log_size: int, *, is_active: bool) -> Iterator[Damage]:
    """What is wrong with an `.index` of this size by itself and beside a log of that size.

    `data` is the whole of it, or as much as its log can have entries for.
    """
    offsets, positions = _offset_columns(data)
    rising = min(loops.rising(offsets, 0), loops.rising(positions, 1))
    sound = _sound_offsets(offsets, positions, log_size)
    if len(data) % offset_index.ENTRY_SIZE:
        yield _odd_size(len(data), offset_index.ENTRY_SIZE)
    if sound < rising:
        yield _damage(
            FindingClass.STALE_INDEX,
            8 * sound,
            8 * rising,
            f"positions below the log's size, {log_size}",
            f"position {positions[sound]}",
            f"{rising - sound} entries lead behind the end of the log",
        )
    elif sound < len(offsets):
        found = f"offset {offsets[sound]}, position {positions[sound]}"
        yield _unordered(sound, 8 * sound, 8 * len(offsets), found)
    if size // 8 > len(offsets) and not is_active:
        yield _padded(8 * len(offsets), size, is_read=size == len(data))


def time_index_problems(data: bytes, size: int, *, is_active: bool) -> Iterator[Damage]:
    """What is wrong with a `.timeindex` of this size by itself; `data` as for the offset index."""
    times, offsets = _time_columns(data)
    sound = _sound_times(times, offsets)
    if len(data) % time_index.ENTRY_SIZE:
        yield _odd_size(len(data), time_index.ENTRY_SIZE)
    if sound < len(times):
        yield _unordered(sound, 12 * sound, 12 * len(times), f"time {times[sound]}, offset {offsets[sound]}")
    if size // 12 > len(times) and not is_active:
        yield _padded(12 * len(times), size, is_read=size == len(data))


def closing_time_problem(
    data: bytes, base: int, max_timestamp: int, max_filled: int, last_offset: int
) -> Damage | None:
    """A closed segment's last entry has to hold its greatest time: retention goes by it."""
    times, offsets = _time_columns(data)
    sound = _sound_times(times, offsets)
    if sound < len(times) or max_filled < 0:
        return None  # told already, or there are no times
    last = times[-1] if times else None
    if last is not None and base + offsets[-1] > last_offset:
        message = "its last entry leads behind the end of the log"
        found = f"offset {base + offsets[-1]}"
        return _damage(
            FindingClass.STALE_INDEX,
            len(data) - 12,
            len(data),
            f"offset {last_offset} at most",
            found,
            message,
        )
    if last is not None and max_filled <= last <= max_timestamp:
        return None
    message = "its last entry is not the greatest time of the segment: retention and searches go by it"
    if last is None:
        message = "it is empty: retention goes by the file's modification time, searches by time find nothing"
    return _damage(
        FindingClass.STALE_INDEX,
        0,
        len(data),
        f"time {max_filled}",
        f"time {last}" if times else "no entry",
        message,
    )


def only_wrong_from(data: bytes, damages: Iterable[Damage]) -> int:
    """The byte of an index from which on no entry is right, up to the zeros at its end."""
    start = len(data.rstrip(b"\0"))
    for damage in sorted(damages, key=lambda one: one.end_position, reverse=True):
        if damage.end_position >= start:
            start = min(start, damage.position)
    return start


def _odd_size(size: int, entry_size: int) -> Damage:
    whole = size // entry_size * entry_size
    expected = f"a multiple of {entry_size} bytes"
    return _damage(
        FindingClass.BAD_INDEX, whole, size, expected, f"{size} bytes", "its last entry is cut short"
    )


def _unordered(slot: int, position: int, end: int, found: str) -> Damage:
    message = f"from entry {slot} on it is out of order"
    return _damage(FindingClass.BAD_INDEX, position, end, "entries that increase", found, message)


def _padded(position: int, end: int, *, is_read: bool) -> Damage:
    message = "zeros behind its entries, in a segment that is closed: a broker takes them for entries"
    if not is_read:
        message = "larger than its log has entries for, in a segment that is closed"
    return _damage(FindingClass.BAD_INDEX, position, end, "no bytes", f"{end - position} bytes", message)


def _damage(kind: FindingClass, position: int, end: int, expected: str, found: str, message: str) -> Damage:
    return Damage(kind, position, end, expected, found, message, Severity.DEGRADED)
