"""One index file: its slots by number, read a page at a time.

Works for any size: a few pages are kept, so a walk reads the file once and a search reads what it visits.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkatool.engine.files.source import Source

PAGE_SLOTS = 4096
PAGES_KEPT = 64
_SMALLEST_BATCH = 26  # a message of magic 0 without key and value
_DOZEN = 12 * 34  # bytes of a dozen of the largest entries, and a multiple of every entry's size


def index_limit(log_size: int) -> int:
    """Return an upper bound of the index size for a log of this size: no more entries than batches.

    Anything after that is preallocated space or garbage.
    """
    return _DOZEN * (log_size // (12 * _SMALLEST_BATCH) + 2)


class IndexFile:
    """Slots of `entry_size` bytes; a partial one at the end is ignored, as in Kafka."""

    def __init__(self, source: Source, entry_size: int) -> None:
        self.source = source
        self.entry_size = entry_size
        self.size = source.size_hint if source.size_hint is not None else _measure(source)
        self.count = self.size // entry_size
        self._pages: dict[int, bytes] = {}

    def slot(self, number: int) -> bytes:
        """Return the bytes of one slot; zeros if the file was truncated meanwhile."""
        page_number, within = divmod(number, PAGE_SLOTS)
        page = self._pages.get(page_number)
        if page is None:
            page = self._load(page_number)
        at = within * self.entry_size
        return page[at : at + self.entry_size]

    def slots(self) -> Iterator[tuple[int, bytes]]:
        """Yield every whole slot with its number, in order."""
        for number in range(self.count):
            yield number, self.slot(number)

    def first_byte_set(self, position: int) -> int | None:
        """Return the position of the first nonzero byte from `position` on; None if there is none."""
        while piece := self.source.read(position, 1 << 20):
            zeros = len(piece) - len(piece.lstrip(b"\0"))
            if zeros < len(piece):
                return position + zeros
            position += len(piece)
        return None

    def _load(self, page_number: int) -> bytes:
        if len(self._pages) >= PAGES_KEPT:
            del self._pages[next(iter(self._pages))]
        size = PAGE_SLOTS * self.entry_size
        page = self.source.read(page_number * size, size).ljust(size, b"\0")
        self._pages[page_number] = page
        return page


def _measure(source: Source) -> int:
    """Return the length of a pipe, by reading it."""
    size = 0
    while piece := source.read(size, 1 << 20):
        size += len(piece)
    return size
