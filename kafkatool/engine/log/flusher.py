"""Where a segment is flushed once the next one has begun: in front of the appends, or beside them.

A broker hands a rolled segment to another thread and goes on; until that is done, the recovery point stays
where it was, and a crash has the segment walked again. Should the end of that segment be lost in a power cut,
and the beginning of the next one not, the log has a hole there: what comes first costs that, or time.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


class Flusher:
    """In front of them: whoever rolls a segment waits until it is on the disk."""

    def run(self, flush: Callable[[], None]) -> None:
        flush()

    def settle(self) -> None:
        """Return when everything that was run is done; raise what went wrong."""


class BackgroundFlusher(Flusher):
    """Beside them, one segment at a time: who rolls a second one waits for the first."""

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
            # For good: what a sync could not write, a second one does not even try to.
            raise self._error

    def _try(self, flush: Callable[[], None]) -> None:
        try:
            flush()
        except Exception as error:
            self._error = error
