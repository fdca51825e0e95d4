"""Find contradictions within `.index` and `.timeindex` files, or with the size of the log.

Only what a broker relies on is required: entries increase, point to a batch, and let no search start too
late. Entries for groups of batches, indexes of compacted segments, and preallocated zeros after the entries
of the active segment are all valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.indexes import OffsetIndex, TimeIndex, without_zeros
from kafkatool.format import offset_index, time_index


def offset_index_problems(data: bytes, size: int, log_size: int, *, is_active: bool) -> Iterator[Damage]:
    """Yield what is wrong with an `.index` of `size` bytes, by itself and for a log of `log_size` bytes.

    `data` is the whole index, or as much as its log can have entries for.
    """
    index = OffsetIndex.whole(without_zeros(data, offset_index.ENTRY_SIZE), 0)
    offsets, positions = index.offsets, index.positions
    rising, sound = index.rising_count(), index.sound_count(log_size)
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
    """Yield what is wrong with a `.timeindex` of `size` bytes by itself; `data` as for the offset index."""
    index = TimeIndex.whole(without_zeros(data, time_index.ENTRY_SIZE), 0)
    times, offsets, sound = index.times, index.offsets, index.sound_count()
    if len(data) % time_index.ENTRY_SIZE:
        yield _odd_size(len(data), time_index.ENTRY_SIZE)
    if sound < len(times):
        yield _unordered(sound, 12 * sound, 12 * len(times), f"time {times[sound]}, offset {offsets[sound]}")
    if size // 12 > len(times) and not is_active:
        yield _padded(12 * len(times), size, is_read=size == len(data))


def closing_time_problem(
    data: bytes, base: int, max_timestamp: int, max_filled: int, last_offset: int
) -> Damage | None:
    """Check that a closed segment's last entry holds its greatest time, which retention uses."""
    index = TimeIndex.whole(without_zeros(data, time_index.ENTRY_SIZE), 0)
    times, offsets, sound = index.times, index.offsets, index.sound_count()
    if sound < len(times) or max_filled < 0:
        return None  # already reported, or there are no times
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
    """Return the byte from which every entry of an index is wrong, up to the zeros at its end."""
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
