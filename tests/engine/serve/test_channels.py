"""One connection's bytes, without a server around it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from kafkatool.engine.serve.channels import Channel, TooSlow
from kafkatool.engine.serve.traffic import Traffic

LARGE = 8 << 20


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Ours, and a reader's on this host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader = socket.create_connection(listener.getsockname())
        ours, _address = listener.accept()
    with ours, reader:
        yield ours, reader


@pytest.fixture
def stop() -> Iterator[int]:
    """What would tell it to stop."""
    told, tell = os.pipe()
    yield told
    os.close(told)
    os.close(tell)


def channel(sock: socket.socket, stop: int, stall_seconds: float) -> Channel:
    return Channel(sock, stop, Traffic(), stall_seconds, uses_sendfile=True)


def room(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_large_answers_are_fed_and_small_ones_have_room(
    ends: tuple[socket.socket, socket.socket], stop: int
) -> None:
    ours, reader = ends
    sending, content, got = channel(ours, stop, 90), os.urandom(LARGE), bytearray()

    def read() -> None:
        while len(got) < LARGE + 1:
            got.extend(reader.recv(1 << 20))

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    sending.send([content])
    fed = room(ours)
    sending.send([b"!"])
    reading.join(90)
    assert bytes(got) == content + b"!"
    assert fed < room(ours)


def test_a_reader_that_takes_nothing_is_too_slow(
    ends: tuple[socket.socket, socket.socket], stop: int
) -> None:
    sending = channel(ends[0], stop, 0.2)
    with pytest.raises(TooSlow, match=r"took nothing for 0\.2 seconds"):
        sending.send([bytes(8 * LARGE)])
