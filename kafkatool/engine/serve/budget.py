"""Room for large requests, shared by all connections: what is in hand at once is bounded, whoever asks."""

from __future__ import annotations

import threading
import time

from kafkatool.errors import KafkatoolError


class NoRoom(KafkatoolError):
    """Too many large requests at once, for too long."""


class Budget:
    """So many bytes. Whoever takes some waits until they are there, and gives them back."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: dict[int, int] = {}
        self._changed = threading.Condition()

    def take(self, who: object, size: int, deadline: float) -> None:
        """Raises NoRoom at the deadline. Whoever has some already gets no more, and needs no more."""
        with self._changed:
            if id(who) in self._taken:
                return
            size = min(size, self._size)
            while sum(self._taken.values()) + size > self._size:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise NoRoom(f"no room for a request of {size} bytes: others hold it")
                self._changed.wait(left)
            self._taken[id(who)] = size

    def give_back(self, who: object) -> None:
        if self._taken.pop(id(who), None) is not None:
            with self._changed:
                self._changed.notify_all()
