"""Find the next good batch after damage.

A position counts only if a whole entry is there whose checksum matches and whose offset is above all earlier
ones, so a false match needs a 32-bit collision. The work is linear in the bytes searched, whatever they are:
long candidates are charged to a budget that grows as the search advances.
"""

from __future__ import annotations

import re

from kafkatool.engine.files.source import Source
from kafkatool.format import legacy
from kafkatool.format.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION
from kafkatool.format.checksum import crc32c

WINDOW = 1 << 20
_BUDGET_PER_BYTE = 256
# A length between 14 and 2^24, then magic 0 or 1, then attributes that name no unknown bits.
_LEGACY = re.compile(rb"(?s)(?=.{8}\0(?!\0\0[\0-\x0d]).{3}.{4}[\0\1][\0-\x0f])")


def zero_run(source: Source, position: int, limit: int) -> int:
    """Count the zero bytes from `position` on."""
    start = position
    while position < limit:
        position = min(limit, source.next_data(position))
        piece = source.read(position, min(WINDOW, limit - position))
        if not piece:
            break
        kept = piece.lstrip(b"\0")
        position += len(piece) - len(kept)
        if kept:
            break
    return position - start


class Resync:
    """Searches one source; with `legacy`, for messages of magic 0 and 1 too."""

    def __init__(self, source: Source, max_batch_size: int) -> None:
        self.source = source
        self.max_batch_size = max_batch_size
        self.legacy = False
        self._budget = 0

    def search(self, start: int, stop: int, limit: int, floor: int) -> int | None:
        """Return the first position in [start, stop) of a good entry that ends by `limit`, or None.

        Its offset must be above `floor`.
        """
        self._budget = WINDOW * _BUDGET_PER_BYTE
        position = start
        while position < stop and limit - position >= LOG_OVERHEAD + legacy.MIN_SIZE:
            # An entry may begin in a hole, with an offset of 0, but its length field cannot be in the hole.
            position = max(position, self.source.next_data(position) - LOG_OVERHEAD)
            window = self.source.read(position, min(WINDOW + HEADER_SIZE, limit - position))
            if not window:
                return None
            for at in self._candidates(window):
                if position + at >= stop:
                    return None
                if self._good(position + at, window, at, limit, floor) is not None:
                    return position + at
            step = min(WINDOW, len(window))
            position += step
            self._budget += step * _BUDGET_PER_BYTE
        return None

    def offset_at(self, position: int, limit: int, floor: int) -> int | None:
        """Return the first offset of the good entry at `position`, or None if there is none."""
        if limit - position < LOG_OVERHEAD + legacy.MIN_SIZE:
            return None
        self._budget = WINDOW * _BUDGET_PER_BYTE
        window = self.source.read(position, min(WINDOW, limit - position))
        return self._good(position, window, 0, limit, floor)

    def _candidates(self, window: bytes) -> list[int]:
        found = []
        find = window.find
        at = find(2, MAGIC_POSITION)
        while at != -1:
            # Offset, length and last offset delta are never negative.
            start = at - MAGIC_POSITION
            if window[start] < 0x80 and window[start + 8] < 0x80:
                found.append(start)
            at = find(2, at + 1)
        if self.legacy:
            found = sorted({*found, *(match.start() for match in _LEGACY.finditer(window))})
        return [start for start in found if start < WINDOW]

    def _good(self, position: int, window: bytes, at: int, limit: int, floor: int) -> int | None:
        """Return the first offset of the entry at `position`, which is `window[at]`, if it is good."""
        if len(window) - at <= MAGIC_POSITION:
            return None
        size = int.from_bytes(window[at + 8 : at + 12], "big", signed=True) + LOG_OVERHEAD
        if size > limit - position or size > self.max_batch_size or size > self._budget:
            return None
        if window[at + MAGIC_POSITION] == 2:
            return self._good_batch(position, window, at, size, floor)
        if self.legacy and window[at + MAGIC_POSITION] < 2 and size >= LOG_OVERHEAD + legacy.MIN_SIZE:
            return self._good_message(position, window, at, size, floor)
        return None

    def _good_batch(self, position: int, window: bytes, at: int, size: int, floor: int) -> int | None:
        if size < HEADER_SIZE or len(window) - at < HEADER_SIZE:
            return None
        fields = HEADER.unpack_from(window, at)
        if fields[0] <= floor or fields[6] < 0 or fields[12] < 0:
            return None
        data = self._bytes(position, window, at, size)
        if crc32c(memoryview(data)[CRC_START:]) != fields[4]:
            return None
        return int(fields[0])

    def _good_message(self, position: int, window: bytes, at: int, size: int, floor: int) -> int | None:
        offset = int.from_bytes(window[at : at + 8], "big", signed=True)
        if offset <= floor or not legacy.is_valid(self._bytes(position, window, at, size)):
            return None
        return offset

    def _bytes(self, position: int, window: bytes, at: int, size: int) -> bytes:
        self._budget -= size
        if at + size <= len(window):
            return window[at : at + size]
        return self.source.read(position, size)
