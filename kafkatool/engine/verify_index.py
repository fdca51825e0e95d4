"""What `.index` and `.timeindex` claim, as far as they do not contradict themselves, and where they do.

Only what a broker relies on is asked for: entries that increase, lead to a batch, and let no search start too
late. Entries for groups of batches, indexes of cleaned segments, and preallocated zeros behind the entries of
the segment that is written to are all as they should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import ge, lt
from struct import unpack

from kafkatool.engine.findings import Damage, FindingClass, Severity
from kafkatool.engine.lookup import sibling_file
from kafkatool.engine.source import Guest, read_small_file
from kafkatool.errors import KafkatoolError
from kafkatool.format import offset_index, time_index


@dataclass(frozen=True, slots=True)
class IndexClaims:
    """The entries that can be held against the log: those before the first one that cannot be right."""

    offsets: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    times: tuple[int, ...] = ()
    time_offsets: tuple[int, ...] = ()


def read_claims(log_path: str, log_size: int, guest: Guest) -> IndexClaims:
    """What the two indexes beside a log claim; nothing where there is none, or it cannot be read."""
    offsets, positions = _offset_columns(_read(log_path, ".index", guest) or b"")
    sound = _sound_offsets(offsets, positions, log_size)
    times, time_offsets = _time_columns(_read(log_path, ".timeindex", guest) or b"")
    timed = _sound_times(times, time_offsets)
    return IndexClaims(offsets[:sound], positions[:sound], times[:timed], time_offsets[:timed])


def _read(log_path: str, extension: str, guest: Guest) -> bytes | None:
    path = sibling_file(log_path, extension)
    if path is None:
        return None
    try:
        return read_small_file(path, guest)
    except (FileNotFoundError, KafkatoolError):
        return None


def _offset_columns(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Relative offsets and positions of the slots up to the zeros at the end."""
    count = min(len(data) // 8, -(-len(data.rstrip(b"\0")) // 8))
    values = unpack(f">{2 * count}i", data[: 8 * count])
    return values[0::2], values[1::2]


def _time_columns(data: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    count = min(len(data) // 12, -(-len(data.rstrip(b"\0")) // 12))
    values = unpack(">" + "qi" * count, data[: 12 * count])
    return values[0::2], values[1::2]


def _sound_offsets(offsets: tuple[int, ...], positions: tuple[int, ...], log_size: int) -> int:
    """How many entries there are before the first that contradicts another, or the size of the log."""
    count = min(_rising(offsets, 0), _rising(positions, 1))
    while count and positions[count - 1] >= log_size:
        count -= 1
    return count


def _sound_times(times: tuple[int, ...], offsets: tuple[int, ...]) -> int:
    return min(_rising(times, 0), _rising(offsets, 0))


def _rising(values: Sequence[int], least: int) -> int:
    """How many values there are before the first that is not above its predecessor, or below `least`."""
    if not values or values[0] < least:
        return 0
    if all(map(lt, values, values[1:])):
        return len(values)
    return next(at for at, (a, b) in enumerate(pairwise(values)) if ge(a, b)) + 1


def offset_index_problems(data: bytes, log_size: int, *, is_active: bool) -> Iterator[Damage]:
    """What is wrong with an `.index` by itself and beside a log of this size."""
    offsets, positions = _offset_columns(data)
    rising = min(_rising(offsets, 0), _rising(positions, 1))
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
    padding = len(data) // 8 - len(offsets)
    if padding and not is_active:
        yield _padded(8 * len(offsets), len(data), padding)


def time_index_problems(data: bytes, *, is_active: bool) -> Iterator[Damage]:
    """What is wrong with a `.timeindex` by itself."""
    times, offsets = _time_columns(data)
    sound = _sound_times(times, offsets)
    if len(data) % time_index.ENTRY_SIZE:
        yield _odd_size(len(data), time_index.ENTRY_SIZE)
    if sound < len(times):
        yield _unordered(sound, 12 * sound, 12 * len(times), f"time {times[sound]}, offset {offsets[sound]}")
    padding = len(data) // 12 - len(times)
    if padding and not is_active:
        yield _padded(12 * len(times), len(data), padding)


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


def _odd_size(size: int, entry_size: int) -> Damage:
    whole = size // entry_size * entry_size
    expected = f"a multiple of {entry_size} bytes"
    return _damage(
        FindingClass.BAD_INDEX, whole, size, expected, f"{size} bytes", "its last entry is cut short"
    )


def _unordered(slot: int, position: int, end: int, found: str) -> Damage:
    message = f"from entry {slot} on it is out of order"
    return _damage(FindingClass.BAD_INDEX, position, end, "entries that increase", found, message)


def _padded(position: int, end: int, count: int) -> Damage:
    message = "zeros behind its entries, in a segment that is closed: a broker takes them for entries"
    return _damage(FindingClass.BAD_INDEX, position, end, "no bytes", f"{count} entries of zeros", message)


def _damage(kind: FindingClass, position: int, end: int, expected: str, found: str, message: str) -> Damage:
    return Damage(kind, position, end, expected, found, message, Severity.DEGRADED)
