"""The binary search of Kafka's index files.

    slots   0 ............... first_hot ..... count-1
            cold: rarely read | warm: the last 8192 bytes, nearly always cached

A target above the first warm slot is searched for among the warm slots only. In a sorted index any bisection
gives the same answer; in a damaged one this gives Kafka's, because it visits slots in Kafka's order.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

WARM_BYTES = 8192


def lower_bound(
    count: int, key_at: Callable[[int], int], target: int, entry_size: int, visited: list[int] | None = None
) -> int:
    """Return the slot of the greatest key <= target, or -1; append every slot looked at to `visited`."""
    if count <= 0:
        return -1

    def look(slot: int) -> int:
        if visited is not None:
            visited.append(slot)
        return key_at(slot)

    first_hot = max(0, count - 1 - WARM_BYTES // entry_size)
    if look(first_hot) < target:
        return _bisect(look, target, first_hot, count - 1)
    if look(0) > target:
        return -1
    return _bisect(look, target, 0, first_hot)


def _bisect(look: Callable[[int], int], target: int, low: int, high: int) -> int:
    while low < high:
        middle = (low + high + 1) // 2
        key = look(middle)
        if key == target:
            return middle
        if key > target:
            high = middle - 1
        else:
            low = middle
    return low


def first_zero(numbers: array[int]) -> int:
    """Return the first slot after slot 0 that holds a zero; the count of all slots if none does."""
    raw, size = numbers.tobytes(), numbers.itemsize
    at = raw.find(bytes(size), size)
    while at >= 0 and at % size:
        at = raw.find(bytes(size), at + 1)
    return len(numbers) if at < 0 else at // size
