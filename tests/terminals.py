"""A real terminal to run programs in: typed text goes in, what is seen comes out."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PATIENCE_S = 90.0


def is_readable(fd: int, seconds: float) -> bool:
    """Return whether any descriptor has something to read, or its end, within so many seconds."""
    waiting = select.poll()  # select() handles the first 1,024 only
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


class Terminal:
    """A program, with a terminal as its standard input, output and error."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        columns: int = 80,
        stdout: int | None = None,
    ) -> None:
        self.seen = b""
        self.pid, self._fd = pty.fork()
        if not self.pid:
            self._become(command, cwd, environment, columns, stdout)
        self.columns = columns

    @staticmethod
    def _become(
        command: Sequence[str], cwd: Path, environment: Mapping[str, str], columns: int, stdout: int | None
    ) -> None:
        try:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.chdir(cwd)
            if stdout is not None:
                os.dup2(stdout, 1)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.execvpe(command[0], list(command), dict(environment))
        finally:
            os._exit(127)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def read_until(self, wanted: bytes) -> bytes:
        """Return what is seen up to this; fail if that takes too long, or if the program ends first."""
        end = time.monotonic() + _PATIENCE_S
        while wanted not in self.seen:
            if not self._read(end):
                raise AssertionError(f"{wanted!r} is not seen: {self.seen!r}")
        return self.seen

    def _read(self, end: float) -> bool:
        ready = is_readable(self._fd, max(0.0, end - time.monotonic()))
        if not ready:
            return False
        try:
            piece = os.read(self._fd, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux says so when the other end is closed
                raise
            return False
        self.seen += piece
        return bool(piece)

    def wait(self) -> int:
        """Return the exit code as a shell has it; all output has been read."""
        end = time.monotonic() + _PATIENCE_S
        while self._read(end):
            pass
        _pid, status = os.waitpid(self.pid, 0)
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    @property
    def shows_cursor(self) -> bool:
        """Whether the cursor was not hidden, or is shown again."""
        return self.seen.rfind(b"\x1b[?25h") >= self.seen.rfind(b"\x1b[?25l")

    @property
    def lines(self) -> list[str]:
        """The lines seen, as written: a terminal adds a carriage return to each."""
        return self.seen.decode().replace("\r\n", "\n").splitlines()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)
