"""The bytes of one connection: received as they come, sent from files by sendfile(2), or copied if need be.

A TLS connection encrypts in this process: sendfile on its descriptor would send the records unencrypted, so
it has a class of its own that never sees a descriptor.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

from kafkatool.engine.serve.partitions import FileSlice
from kafkatool.engine.serve.traffic import Traffic
from kafkatool.errors import KafkatoolError
from kafkatool.format.schema.writing import Piece, is_bytes, piece_size

COPIED_AT_ONCE = 256 << 10
_COPIED_WITHOUT_ROOM = 16 << 10
_SMALL_ANSWER = 32 << 10
_SLOWEST_RATE = 256 << 10  # bytes per second of an answer that is held in memory
_NEVER = float("inf")
_WHOLE = 5 << 18  # bytes of an answer, a bit more than the 1 MiB that clients ask for by default
_WHOLE_BUFFER, _FED_BUFFER = 2 << 20, 512 << 10
_MOST_BY_SENDFILE = 0x7FFFF000  # the most one call can move
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class ConnectionEnded(Exception):
    """The client is gone, or the server is stopping: not an error."""


class TooSlow(KafkatoolError):
    """The client sent or took nothing for too long."""


class FileShrank(KafkatoolError):
    """A log became shorter than the size already promised: the answer cannot be finished."""


class Channel:
    """A plain connection. `stop` is a descriptor that becomes readable when the server stops.

    The socket never blocks: when its buffer is full, the thread sleeps until a good part of it is free again.
    """

    def __init__(
        self, sock: socket.socket, stop: int, traffic: Traffic, stall_seconds: float, *, uses_sendfile: bool
    ) -> None:
        self._sock = sock
        self._traffic = traffic
        self._stall_seconds = stall_seconds
        self._uses_sendfile = uses_sendfile
        self._answer_by = _NEVER
        self.try_claim: Callable[[int], bool] = lambda size: True
        """Return whether there is memory for a large buffer, and claim it."""
        sock.setblocking(False)
        self._is_on_this_host = _is_on_this_host(sock)
        self._is_fed = False
        self._fd = sock.fileno()
        self._reading, self._watching, self._writing = select.poll(), select.poll(), select.poll()
        self._writing.register(self._fd, select.POLLOUT)
        self._reading.register(self._fd, select.POLLIN)
        self._reading.register(stop, select.POLLIN)
        self._watching.register(self._fd, select.POLLRDHUP)
        self._watching.register(stop, select.POLLIN)
        self._stop = stop

    @property
    def peer_name(self) -> str | None:
        """The proven identity of the client; None if none was asked for."""
        return None

    def start(self, deadline: float) -> None:
        """Do what has to happen before the first request."""

    def pause(self, seconds: float) -> bool:
        """Sleep; return true if the client hung up or the server is stopping."""
        return bool(self._watching.poll(seconds * 1000))

    # --- in -------------------------------------------------------------------------------------------

    def receive(self, size: int, deadline: float) -> bytes:
        """Return some bytes. Raise ConnectionEnded, or TooSlow at the deadline."""
        while True:
            data = self._try_receive(size)
            if data is not None:
                break
            self._await_readable(deadline)
        if not data:
            raise ConnectionEnded
        self._traffic.received += len(data)
        return data

    def _try_receive(self, size: int) -> bytes | None:
        """Return the bytes received; None if there are none yet."""
        try:
            return self._sock.recv(size)
        except BlockingIOError:
            return None

    def _await_readable(self, deadline: float) -> None:
        ready = self._reading.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready:
            raise TooSlow("nothing came for too long")
        if len(ready) == 1 and ready[0][0] == self._stop:
            raise ConnectionEnded

    # --- out ------------------------------------------------------------------------------------------

    def send(self, pieces: Sequence[Piece]) -> None:
        """Send all pieces. Bytes before records share a TCP segment with them."""
        size = sum(map(piece_size, pieces))
        if self._is_on_this_host:
            self._fit_buffer(size)
        in_memory = size if len(pieces) == 1 else sum(piece_size(one) for one in pieces if is_bytes(one))
        # Files may wait forever, but what is held in memory must go out.
        is_held = in_memory > _SMALL_ANSWER
        self._answer_by = time.monotonic() + self._stall_seconds + size / _SLOWEST_RATE if is_held else _NEVER
        for number, piece in enumerate(pieces):
            is_last = number + 1 == len(pieces)
            if is_bytes(piece):
                self._send_bytes(memoryview(piece), 0 if is_last else socket.MSG_MORE)
                self._traffic.other_bytes += len(piece)
            elif self._uses_sendfile and not _is_mended(cast(FileSlice, piece)):
                self._send_file(cast(FileSlice, piece))
            else:
                self._copy(cast(FileSlice, piece))

    def _fit_buffer(self, size: int) -> None:
        """Set the send buffer size: small answers fit in whole, large ones are fed to keep their reader busy.

        On loopback nothing is ever in flight, only waiting to be read. A reader as fast as this thread goes
        to sleep, and has to be woken for every segment; one that always has data left never does.
        """
        if (size > _WHOLE) != self._is_fed:
            self._is_fed = size > _WHOLE
            room = _FED_BUFFER if self._is_fed else _WHOLE_BUFFER
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)

    def _send_bytes(self, data: memoryview, flags: int) -> None:
        while data:
            data = data[self._send_some(data, flags) :]

    def _send_some(self, data: memoryview, flags: int) -> int:
        while True:
            try:
                return self._sock.send(data, flags)
            except BlockingIOError:
                self._await_writable()

    def _await_writable(self) -> None:
        left = self._answer_by - time.monotonic()
        if not self._writing.poll(max(0.0, min(self._stall_seconds, left)) * 1000):
            if left < self._stall_seconds:
                raise TooSlow("took its answer too slowly, which is held in memory")
            raise TooSlow(f"took nothing for {self._stall_seconds:g} seconds")

    def _send_file(self, piece: FileSlice) -> None:
        position, left = piece.position, piece.size
        while left:
            try:
                sent = os.sendfile(self._fd, piece.file.fd, position, min(left, _MOST_BY_SENDFILE))
            except BlockingIOError:
                self._await_writable()
                continue
            except OSError as error:
                if error.errno not in _NO_SENDFILE:
                    raise
                self._uses_sendfile = False  # this file system cannot do it
                self._copy(FileSlice(piece.file, position, left))
                return
            if not sent:
                raise FileShrank(f"{piece.file.path}: ends before byte {position + left}")
            self._traffic.by_sendfile += sent
            position += sent
            left -= sent

    def _copy(self, piece: FileSlice) -> None:
        """Send through a buffer. It is not kept: there are many connections, and few of them copy."""
        position, left = piece.position, piece.size
        at_once = min(left, COPIED_AT_ONCE)
        if at_once > _COPIED_WITHOUT_ROOM and not self.try_claim(at_once):
            at_once = _COPIED_WITHOUT_ROOM
        buffer = memoryview(bytearray(at_once))
        patches = piece.file.patches_in(position, left)
        while left:
            got = os.preadv(piece.file.fd, [buffer[: min(left, at_once)]], position)
            if not got:
                raise FileShrank(f"{piece.file.path}: ends before byte {position + left}")
            for at, byte in patches.items():
                if position <= at < position + got:
                    buffer[at - position] = byte
            self._send_bytes(buffer[:got], 0)
            self._traffic.by_copy += got
            position += got
            left -= got


def _is_mended(piece: FileSlice) -> bool:
    """Check whether some bytes differ from those on disk: the kernel knows only the latter."""
    return bool(piece.file.patches_in(piece.position, piece.size))


def _is_on_this_host(sock: socket.socket) -> bool:
    with suppress(OSError):  # gone already
        return str(sock.getpeername()[0]).startswith(("127.", "::1", "::ffff:127."))
    return False


class TlsChannel(Channel):
    """An encrypted connection: everything is copied."""

    def __init__(self, sock: ssl.SSLSocket, stop: int, traffic: Traffic, stall_seconds: float) -> None:
        super().__init__(sock, stop, traffic, stall_seconds, uses_sendfile=False)
        self._tls = sock
        self._fd = -1  # nobody here may write to it

    @property
    def peer_name(self) -> str | None:
        certificate = self._tls.getpeercert()
        if not certificate:
            return None
        subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
        names = [value for part in subject for key, value in part if key == "commonName"]
        return f"CN={names[0]}" if names else None

    def start(self, deadline: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._await_readable(deadline)
            except ssl.SSLWantWriteError:
                self._await_writable()

    def _try_receive(self, size: int) -> bytes | None:
        try:
            return self._tls.recv(size)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLWantWriteError:
            self._await_writable()
            return None
        except ssl.SSLEOFError:
            return b""

    def _send_some(self, data: memoryview, flags: int) -> int:
        while True:
            try:
                return self._tls.send(data)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                self._await_writable()
