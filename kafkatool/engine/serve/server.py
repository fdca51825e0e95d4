"""All connections: a listening socket, a thread per client, and an orderly shutdown.

A thread per connection, because the kernel moves the records: sendfile(2) releases the GIL, also while it
waits for a disk, which would stall an event loop for everybody.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
import traceback
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from kafkatool.engine.serve.answers import Answers, ServerReporter
from kafkatool.engine.serve.budget import OF_CONNECTION, OF_TLS_CONNECTION, NoRoom
from kafkatool.engine.serve.channels import Channel, ConnectionEnded, TlsChannel
from kafkatool.engine.serve.connections import Connection, ConnectionLimits
from kafkatool.engine.serve.sasl import Authentication
from kafkatool.engine.serve.traffic import Totals, Traffic, TrafficTally
from kafkatool.errors import KafkatoolError

_STACK = 512 << 10
_BACKLOG = 512
_GRACE_SECONDS = 5.0
_ACCEPT_AGAIN_SECONDS = 0.1
_TELL_AGAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    """How the server behaves towards the network."""

    listen: Address
    advertise: Address | None = None
    tls: ssl.SSLContext | None = None
    authentication: Authentication = field(default_factory=Authentication)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    uses_sendfile: bool = True


class Server:
    """`listen`, `run` until another thread or a signal calls `stop`, then `close`."""

    def __init__(self, settings: Settings, answers: Answers, reporter: ServerReporter) -> None:
        self._settings = settings
        self._answers = answers
        self._say = reporter.say
        self._detail = reporter.detail
        self._tally = TrafficTally()
        self._budget = answers.budget
        self._told_of_memory_at = -_TELL_AGAIN_SECONDS
        self._by_host: Counter[str] = Counter()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        # Never drained: from the first byte on, every waiting thread sees that the server is stopping.
        self._stop, self.wakeup_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._listener: socket.socket | None = None

    def listen(self) -> Address:
        """Bind; return the address with the actual port. Raise KafkatoolError if it is taken."""
        wanted = self._settings.listen
        family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
        try:
            listener = socket.create_server(
                (wanted.host, wanted.port), family=family, backlog=_BACKLOG, reuse_port=False
            )
        except OSError as error:
            raise KafkatoolError(f"{wanted}: {error.strerror or error}") from error
        listener.setblocking(False)
        self._listener = listener
        host, port = listener.getsockname()[:2]
        return Address(host, port)

    def run(self) -> None:
        """Accept connections until `stop` is called."""
        assert self._listener is not None
        threading.stack_size(_STACK)
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        while self._stop not in [fd for fd, _event in poll.poll()]:
            self._accept(self._listener)

    def stop(self) -> None:
        """Start shutting down. A signal does so too if its wakeup fd is `wakeup_fd`: signal.set_wakeup_fd."""
        with suppress(BlockingIOError):
            os.write(self.wakeup_fd, b"!")

    def close(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Let answers in progress finish, for a while; then close all connections."""
        if self._listener is not None:
            self._listener.close()
        self.stop()
        self._answers.groups.stop()
        deadline = time.monotonic() + grace_seconds
        for thread in self._threads():
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            left = list(self._open)
        for sock in left:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads():
            thread.join(1.0)

    def totals(self) -> Totals:
        return self._tally.totals()

    def _threads(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._open.values())

    # --- connections ----------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # out of descriptors, most likely: some will be free soon
            self._say(f"cannot take connections: {error.strerror}")
            time.sleep(_ACCEPT_AGAIN_SECONDS)
            return
        host = str(address[0])
        if not self._has_room(host):
            self._tally.refused()
            sock.close()
            return
        if self._settings.tls is not None:
            try:  # the handshake comes later, in the connection's own thread
                sock = self._settings.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            except OSError:
                self._budget.give_back(self._of_connection)
                sock.close()
                return
        thread = threading.Thread(target=self._serve, args=(sock, host), daemon=True)
        with self._lock:
            self._open[sock] = thread
            self._by_host[host] += 1
        try:
            thread.start()
        except RuntimeError as error:  # no more threads
            self._say(f"cannot take connections: {error}")
            self._forget(sock, host)

    def _has_room(self, host: str) -> bool:
        """Check whether one more connection fits, and take its memory."""
        limits = self._settings.limits
        with self._lock:
            is_full = len(self._open) >= limits.connections
            if is_full or self._by_host[host] >= limits.connections_of_address:
                self._detail(f"{host}: refused, {'all' if is_full else 'its'} connections are taken")
                return False
        if not self._budget.try_take(self._of_connection, leaves=self._budget.size // 8):
            self._tell_of_memory(f"{host}: refused, no memory is left for one more connection")
            return False
        return True

    @property
    def _of_connection(self) -> int:
        return OF_CONNECTION if self._settings.tls is None else OF_TLS_CONNECTION

    def _tell_of_memory(self, message: str) -> None:
        """Report it now and then, because the operator can change it; log the rest as details."""
        now = time.monotonic()
        if now - self._told_of_memory_at < _TELL_AGAIN_SECONDS:
            self._detail(message)
            return
        self._told_of_memory_at = now
        self._say(f"{message} (--max-memory {self._budget.size})")

    def _forget(self, sock: socket.socket, host: str) -> None:
        with self._lock:
            self._open.pop(sock, None)
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
        self._budget.give_back(self._of_connection)
        sock.close()

    def _serve(self, sock: socket.socket, host: str) -> None:
        """Serve one client, in a thread of its own; any failure ends this connection alone."""
        traffic = Traffic()
        self._tally.opened(traffic)
        is_failed = True
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection(sock, host, traffic).run()
        except ConnectionEnded:
            is_failed = False
        except NoRoom as error:
            self._tell_of_memory(f"{host}: {error}: connection closed")
        except KafkatoolError as error:
            self._detail(f"{host}: {error}: connection closed")
        except (OSError, ssl.SSLError) as error:
            is_failed = isinstance(error, ssl.SSLError)
            self._detail(f"{host}: {error.strerror or error}")
        except Exception as error:
            self._say(f"this should not happen: {type(error).__name__}: {error}; please report it")
            self._detail(traceback.format_exc())
        finally:
            self._tally.closed(traffic, failed=is_failed)
            self._forget(sock, host)

    def _connection(self, sock: socket.socket, host: str, traffic: Traffic) -> Connection:
        settings = self._settings
        stall = settings.limits.stall_seconds
        own_host, own_port = sock.getsockname()[:2]
        advertise = settings.advertise or Address(own_host, own_port)
        channel: Channel
        if isinstance(sock, ssl.SSLSocket):
            channel = TlsChannel(sock, self._stop, traffic, stall)
        else:
            channel = Channel(sock, self._stop, traffic, stall, uses_sendfile=settings.uses_sendfile)
        return Connection(
            channel,
            host,
            (advertise.host, advertise.port),
            self._answers,
            settings.authentication,
            settings.limits,
            self._budget,
            traffic,
        )
