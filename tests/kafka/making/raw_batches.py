"""Record batches made by hand, byte by byte, for what no client library would send."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import crc32c

BASE_TIMESTAMP = 1_700_000_000_000


def varint(number: int, *, size: int = 0) -> bytes:
    """A zigzag varint, padded to `size` bytes by continuation bits that add nothing."""
    bits = (number << 1) ^ (number >> 63)
    parts = bytearray()
    while bits > 0x7F or len(parts) + 1 < size:
        parts.append(bits & 0x7F | 0x80)
        bits >>= 7
    parts.append(bits)
    return bytes(parts)


def record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    *,
    timestamp_delta: int = 0,
    attributes: int = 0,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    padded: bool = False,
    null: int = -1,
) -> bytes:
    """One record; `padded` makes every varint as long as a reader allows, `null` is the length of nothing."""
    size = 5 if padded else 0

    def sized(part: bytes | None) -> bytes:
        return varint(null, size=size) if part is None else varint(len(part), size=size) + part

    body = bytes([attributes]) + varint(timestamp_delta, size=10 if padded else 0)
    body += varint(offset_delta, size=size) + sized(key) + sized(value) + varint(len(headers), size=size)
    body += b"".join(sized(name) + sized(content) for name, content in headers)
    return varint(len(body), size=size) + body


def batch(
    payload: bytes,
    count: int,
    *,
    attributes: int = 0,
    base_timestamp: int = BASE_TIMESTAMP,
    max_timestamp: int = BASE_TIMESTAMP,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    last_offset_delta: int | None = None,
) -> bytes:
    """One magic 2 batch at offset 0 with the right length and CRC."""
    last = count - 1 if last_offset_delta is None else last_offset_delta
    tail = struct.pack(">h", attributes - (attributes >> 15 << 16)) + struct.pack(
        ">iqqqhii", last, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count
    )
    tail += payload
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail
