"""How a segment is flushed once the next one has begun: before the next append, or concurrently.

A broker hands a rolled segment to another thread and goes on; until that is done, the recovery point stays
where it was, so a crash has the segment walked again. If a power cut loses the end of that segment but not
the beginning of the next one, the log has a hole there: flushing concurrently risks that, waiting costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class Flusher:
    """Flushes at once: rolling a segment waits until it is on disk."""

    def run(self, flush: Callable[[], None]) -> None:
        flush()

    def settle(self) -> None:
        """Return when all flushes are done; raise the error of a failed one."""


class BackgroundFlusher(Flusher):
    """Flushes concurrently, one segment at a time: rolling a second one waits for the first."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: Exception | None = None

    def run(self, flush: Callable[[], None]) -> None:
        self.settle()
        self._thread = Thread(target=self._try, args=(flush,), daemon=True)
        self._thread.start()

    def settle(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            # For good: a second sync does not even try to write what the first one could not.
            raise self._error

    def _try(self, flush: Callable[[], None]) -> None:
        try:
            flush()
        except Exception as error:
            self._error = error
