"""Signals while files are being changed: they never interrupt a stage, and are always acknowledged."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from kafkatool.commands.screen.talk import Talk

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopping:
    """Stops at once while nothing has been changed; after that, acknowledges a signal and remembers it.

    A thread of its own acknowledges it: during a long write or sync Python cannot run a signal handler.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._journal: str | None = None
        self._is_wanted = self._is_answered = False
        self._before: dict[int, Any] = {}

    def hold_back(self, journal: str) -> None:
        self._journal = journal

    def is_wanted(self) -> bool:
        return self._is_wanted

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(self._read_end, True)
        self._old_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._before:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self._write_end)
        self._watcher.join()
        os.close(self._read_end)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._journal is None:
            raise KeyboardInterrupt
        self._is_wanted = True

    def _watch(self) -> None:
        while os.read(self._read_end, 1):
            if self._journal is not None and not self._is_answered:
                self._is_answered = self._is_wanted = True
                self._talk.warn(f"stopping after the current stage; journal: {self._journal}")
