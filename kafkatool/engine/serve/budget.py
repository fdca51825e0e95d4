"""One memory budget for all connections: requests, answers, and what groups keep.

    |-- each connection's own --|-- requests and answers that need more --|-- the last quarter ---------|
                                |-- groups, and offsets: a quarter each --|-- connections |-- small ones|

A connection is accepted only if its own part is free, and small requests need no more than that: they are
answered whatever other connections do. Large requests leave a quarter of the budget to others, half of that
to new connections. A connection that needs more waits for it, for a limited time, and is then closed.
"""

from __future__ import annotations

import sys
import threading
import time

from kafkatool.errors import KafkatoolError

DEFAULT_SIZE = 256 << 20
SMALLEST_SIZE = 16 << 20
OF_CONNECTION = 64 << 10
"""Its thread and buffers, about 26 KiB as measured, and its small requests."""
OF_TLS_CONNECTION = 128 << 10
_ALLOWANCE = 32 << 10
_LARGE = 1 << 20
_STEP = 32 << 10
_PLACE = 128  # of an entry in a dict, and the objects around it
_PATIENCE_SECONDS = 10.0


class NoRoom(KafkatoolError):
    """The memory for all connections is taken, or will never suffice."""


class Budget:
    """A number of bytes to share out. Threads share it."""

    def __init__(self, size: int = DEFAULT_SIZE) -> None:
        self.size = size
        self._free = size
        self._changed = threading.Condition()

    @property
    def taken(self) -> int:
        return self.size - self._free

    def try_take(self, size: int, *, leaves: int = 0) -> bool:
        """Take the bytes now if `leaves` bytes stay free; otherwise take nothing and return false."""
        with self._changed:
            if size > self._free - leaves:
                return False
            self._free -= size
            return True

    def take(self, size: int, *, leaves: int = 0, patience: float = _PATIENCE_SECONDS) -> None:
        """Wait until the bytes are free, and take them; raise NoRoom if that takes too long."""
        deadline = time.monotonic() + patience
        with self._changed:
            while size > self._free - leaves:
                left = deadline - time.monotonic()
                if left <= 0 or size > self.size - leaves:
                    raise NoRoom(
                        f"{size} bytes more are needed than the {self.size} of --max-memory have left"
                    )
                self._changed.wait(left)
            self._free -= size

    def give_back(self, size: int) -> None:
        if size:
            with self._changed:
                self._free += size
                self._changed.notify_all()


class Share:
    """What one connection takes beyond its own part, for its current request. Used by one thread only."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._used = 0
        self._taken = 0

    @property
    def is_large(self) -> bool:
        return self._taken > _LARGE

    def claim(self, size: int, *, expected: int = 0) -> None:
        """Take `size` more bytes, of the `expected` that will be needed in total; raise NoRoom."""
        self._used += size
        lacking = self._used - _ALLOWANCE - self._taken
        if lacking > 0:
            lacking = max(lacking, _STEP)
            self._budget.take(lacking, leaves=self._left_for_others(max(lacking, expected - self._taken)))
            self._taken += lacking

    def try_claim(self, size: int) -> bool:
        """Take `size` more bytes without waiting; return whether they were free."""
        if not self._budget.try_take(size, leaves=self._left_for_others(size)):
            return False
        self._used += size
        self._taken += size
        return True

    def keep(self, size: int) -> None:
        """Give back all but `size` bytes."""
        self._used = size
        most = max(0, size - _ALLOWANCE)
        if self._taken > most:
            self._budget.give_back(self._taken - most)
            self._taken = most

    def _left_for_others(self, size: int) -> int:
        return self._budget.size // 4 if self._taken + size > _LARGE else 0


class Account:
    """Memory kept from request to request: at most a quarter of the budget."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._most = self._budget.size // 4
        self._held = 0

    def resize(self, size: int) -> bool:
        """Set the number of bytes held; return false, and change nothing, if there is no room."""
        more = size - self._held
        if more > 0 and (size > self._most or not self._budget.try_take(more)):
            return False
        self._budget.give_back(max(0, -more))
        self._held = size
        return True


def memory_of(*values: str | bytes | None) -> int:
    """Return the memory these values take, each with its entry in a container."""
    return sum(_PLACE + sys.getsizeof(one) for one in values if one is not None)
