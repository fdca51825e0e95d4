"""Read a log back over a loopback socket as consumers do, with and without a copy through user space.

sendfile       the kernel sends pages of the cache to the socket
pread          read into memory, then sent
mmap           sent from a mapping of the file
tls            read, encrypted, sent: what a broker with TLS does instead of sendfile
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import resource
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

_AT_ONCE = 1 << 20

# The group ffdhe2048 of RFC 7919, to do without a certificate that nobody would check.
_GROUP = """-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
"""
_CIPHER = "ADH-AES128-GCM-SHA256:@SECLEVEL=0"

WAYS = ("sendfile", "pread", "mmap", "tls")


@dataclass(frozen=True, slots=True)
class ReadResult:
    """One pass over all logs. `cpu_seconds` are the sender's."""

    way: str
    is_cold: bool
    size: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.size / self.seconds if self.seconds else 0.0

    @property
    def cpu_per_gib(self) -> float:
        return self.cpu_seconds / (self.size / (1 << 30)) if self.size else 0.0


def read_back(paths: list[str], rounds: int, ways: tuple[str, ...] = WAYS) -> Iterator[ReadResult]:
    """Yield every way, cold and warm, in turns, so that a disturbance affects all of them."""
    for _ in range(rounds):
        for way in ways:
            for is_cold in (True, False):
                yield _pass(paths, way, is_cold)


def forget(paths: list[str]) -> None:
    """Write these files out and drop their pages."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def _pass(paths: list[str], way: str, is_cold: bool) -> ReadResult:
    forget(paths) if is_cold else _warm(paths)
    with _Receiver(way) as connection:
        begun, used = time.perf_counter(), _cpu()
        size = sum(_SENDERS[way](path, connection) for path in paths)
        return ReadResult(way, is_cold, size, time.perf_counter() - begun, _cpu() - used)


def _warm(paths: list[str]) -> None:
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(_AT_ONCE):
                pass


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- the receiver -------------------------------------------------------------------------------------


class _Receiver:
    """Run a process that reads and discards everything; the block gets our end of the connection."""

    def __init__(self, way: str) -> None:
        self._is_tls = way == "tls"
        self._listener = socket.create_server(("127.0.0.1", 0))
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=self._receive, daemon=True)
        self._process.start()

    def _receive(self) -> None:
        with suppress(OSError, KeyboardInterrupt):
            connection: Any = socket.create_connection(self._listener.getsockname())
            if self._is_tls:
                connection = _tls(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(connection)
            buffer = bytearray(_AT_ONCE)
            while connection.recv_into(buffer):
                pass
        os._exit(0)

    def __enter__(self) -> Any:
        connection, _peer = self._listener.accept()
        if self._is_tls:
            self._connection: Any = _tls(ssl.PROTOCOL_TLS_SERVER).wrap_socket(connection, server_side=True)
        else:
            self._connection = connection
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._listener.close()
        self._process.join(timeout=20)


def _tls(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(_CIPHER)
    if side == ssl.PROTOCOL_TLS_SERVER:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(_GROUP)
            file.flush()
            context.load_dh_params(file.name)
    return context


# --- the senders --------------------------------------------------------------------------------------


def _sendfile(path: str, connection: socket.socket) -> int:
    with open(path, "rb", buffering=0) as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            at += os.sendfile(connection.fileno(), file.fileno(), at, min(_AT_ONCE, size - at))
        return size


def _pread(path: str, connection: socket.socket) -> int:
    buffer = memoryview(bytearray(_AT_ONCE))
    with open(path, "rb", buffering=0) as file:
        at = 0
        while got := os.preadv(file.fileno(), [buffer], at):
            connection.sendall(buffer[:got])
            at += got
        return at


def _mmap(path: str, connection: socket.socket) -> int:
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return 0
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
            for at in range(0, size, _AT_ONCE):
                with view[at : at + _AT_ONCE] as part:
                    connection.sendall(part)
        return size


_SENDERS: dict[str, Callable[[str, Any], int]] = {
    "sendfile": _sendfile,
    "pread": _pread,
    "mmap": _mmap,
    "tls": _pread,
}
