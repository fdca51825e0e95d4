"""One produce request over a plain socket: the broker gets exactly these bytes."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_PRODUCE, _VERSION = 0, 7
_FIRST_TRANSACTIONAL = 3
_SECONDS = 60


class Appended(NamedTuple):
    """The broker's answer; error 0 means that the batch is on its disk."""

    error: int
    base_offset: int


def raw_produce(
    bootstrap: str,
    topic: str,
    batch: bytes,
    *,
    partition: int = 0,
    version: int = _VERSION,
    transactional_id: str | None = None,
) -> Appended:
    """Send `batch` as it is; the answer tells whether the broker took it.

    Versions below 3 are those of clients that wrote messages of magic 0 and 1.
    """
    body = struct.pack(">hhi", _PRODUCE, version, 1) + _string("kafkatool")
    if version >= _FIRST_TRANSACTIONAL:
        body += struct.pack(">h", -1) if transactional_id is None else _string(transactional_id)
    body += struct.pack(">hi", -1, 10_000)
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    answer = exchange(bootstrap, body)
    # correlation id, one topic with its name, one partition with its number, then what we want
    return Appended(*struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic) + 4 + 4))


def exchange(address: str, body: bytes) -> bytes:
    """Send one request; the body of the answer."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=_SECONDS) as stream:
        stream.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", _read(stream, 4))
        return _read(stream, size)


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _read(stream: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = stream.recv(count - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return parts
