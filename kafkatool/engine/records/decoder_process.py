"""Decode keys and values (Avro, Protobuf …) with an external program: one child process for the whole run.

    request and response, for every record: key, then value
    each: int32 length, big-endian, -1 for null; then that many bytes

Records are sent in groups, and responses are read while more is written, so neither side waits forever for
the other. Its stderr is passed through.
"""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import Self

from kafkatool.errors import KafkatoolError, UsageError

LENGTH = Struct(">i")
NULL = -1
_AT_ONCE = 64 << 10  # bytes per read or write
_MOST_WAITING = 1 << 20  # bytes sent before waiting for the responses
_FAREWELL_S = 5.0
_TOO_MUCH = "answers more than it was asked"

Pair = tuple[bytes | None, bytes | None]
"""Key and value."""


class DecoderFailed(KafkatoolError):
    """The program ended, stopped responding, or broke the protocol."""


class DecoderProcess:
    """Starts the program; `decode` can then be called any number of times."""

    def __init__(
        self,
        command: str,
        *,
        timeout_s: float = 30.0,
        largest: int = 64 << 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the program. Raises UsageError if that fails."""
        self.command = command
        self._timeout_s = timeout_s
        self._largest = largest
        self._clock = clock
        self._answer = bytearray()
        self._decoded = 0
        try:
            words = shlex.split(command)
            self._child = subprocess.Popen(
                words or [""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except (OSError, ValueError) as error:
            raise UsageError(f"decoder {command!r} cannot be started: {error}") from None
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._to, self._from = self._child.stdin.fileno(), self._child.stdout.fileno()
        os.set_blocking(self._to, False)

    def decode(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return these pairs decoded, in the same order. Raises DecoderFailed."""
        done: list[Pair] = []
        waiting, size = [], 0
        for pair in pairs:
            waiting.append(pair)
            size += sum(map(len, filter(None, pair)))
            if size >= _MOST_WAITING:
                done += self._exchange(waiting)
                waiting, size = [], 0
        return done + self._exchange(waiting)

    def _exchange(self, pairs: Sequence[Pair]) -> list[Pair]:
        if pairs and self._has_unasked(0):
            raise self._failure(_TOO_MUCH)
        unsent = memoryview(b"".join(_framed(field) for pair in pairs for field in pair))
        fields: list[bytes | None] = []
        missing = 2 * len(pairs)
        while missing:
            unsent = self._move(unsent)
            while missing and self._take(fields):
                missing -= 1
                self._decoded += 1
        if self._answer:
            raise self._failure(_TOO_MUCH)
        return list(zip(fields[::2], fields[1::2], strict=True))

    def _has_unasked(self, timeout_s: float) -> bool:
        """Whether it sent a response without a request."""
        readable, _, _ = select.select([self._from], [], [], timeout_s)
        return bool(readable) and bool(os.read(self._from, _AT_ONCE))

    def _move(self, unsent: memoryview) -> memoryview:
        """Write and read what is possible without blocking; return what is still unsent."""
        readable, writable, _ = select.select([self._from], [self._to] if unsent else [], [], self._timeout_s)
        if not readable and not writable:
            raise self._failure(f"has not answered for {self._timeout_s:g} s")
        if readable:
            piece = os.read(self._from, _AT_ONCE)
            if not piece:
                raise self._failure("ended")
            self._answer += piece
        if writable:
            try:
                return unsent[os.write(self._to, unsent[:_AT_ONCE]) :]
            except BlockingIOError:
                return unsent
            except BrokenPipeError:
                raise self._failure("ended") from None
        return unsent

    def _take(self, fields: list[bytes | None]) -> bool:
        """Move one whole field from the response buffer to `fields`, if there is one."""
        if len(self._answer) < LENGTH.size:
            return False
        size = LENGTH.unpack_from(self._answer)[0]
        if not NULL <= size <= self._largest:
            raise self._failure(f"answers a length of {size}, expected -1 to {self._largest}")
        end = LENGTH.size + max(0, size)
        if len(self._answer) < end:
            return False
        fields.append(None if size == NULL else bytes(self._answer[LENGTH.size : end]))
        del self._answer[:end]
        return True

    def _failure(self, what: str) -> DecoderFailed:
        with suppress(subprocess.TimeoutExpired):
            # It may be about to exit: the exit code helps to explain.
            self._child.wait(0.5 if what == "ended" else 0)
        code = self._child.poll()
        how = "" if code is None else f", exit code {code}" if code >= 0 else f", killed by signal {-code}"
        self._kill()
        return DecoderFailed(f"decoder {self.command!r} {what}{how}, after {self._decoded // 2} records")

    def _kill(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._close_pipes()
        self._child.wait()

    def _close_pipes(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def close(self) -> None:
        """Close its input and let it end. Raises DecoderFailed for extra output or a nonzero exit code."""
        assert self._child.stdin is not None
        with suppress(OSError):
            self._child.stdin.close()
        if self._has_unasked(_FAREWELL_S):
            raise self._failure(_TOO_MUCH)
        try:
            code = self._child.wait(_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._kill()
            return
        self._close_pipes()
        if code:
            raise DecoderFailed(f"decoder {self.command!r} ended with exit code {code}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self._kill()


def _framed(field: bytes | None) -> bytes:
    return LENGTH.pack(NULL) if field is None else LENGTH.pack(len(field)) + field
