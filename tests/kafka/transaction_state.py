"""How far a transaction is, as its coordinator tells.

A client is told that its transaction has ended before the broker has written the markers: whoever looks at
the log, writes behind it or stops the broker has to wait for them.
"""

from __future__ import annotations

import struct

from tests.kafka.raw_produce import exchange

_DESCRIBE_TRANSACTIONS = 65
_NOT_FOUND = 105
_ENDED = (b"Empty", b"CompleteCommit", b"CompleteAbort")


def has_ended(bootstrap: str, transactional_id: str) -> bool:
    """Whether nothing of it is open any more: all markers are in their logs."""
    return any(_has_ended_at(address, transactional_id) for address in bootstrap.split(","))


def _has_ended_at(address: str, transactional_id: str) -> bool:
    """False as well from a broker that is not its coordinator, or not there."""
    name = transactional_id.encode()
    if len(name) > 126:
        raise ValueError("an id of so many bytes has a length of two")
    header = struct.pack(">hhih", _DESCRIBE_TRANSACTIONS, 0, 1, -1) + b"\0"
    try:
        answer = exchange(address, header + bytes([2, len(name) + 1]) + name + b"\0")
    except OSError:
        return False
    # correlation id, no tags, throttle time, one state: error, its id again, its state
    (error,) = struct.unpack_from(">h", answer, 4 + 1 + 4 + 1)
    at = 4 + 1 + 4 + 1 + 2 + 1 + len(name)
    return error == _NOT_FOUND or (error == 0 and answer[at + 1 : at + answer[at]] in _ENDED)
