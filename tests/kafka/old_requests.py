"""What clients of magic 0 and 1 sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkatool.format.batch import TIMESTAMP_TYPE_MASK, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper

NOW = 1_700_000_000_000


def messages(magic: int, count: int, *, key: bytes | None = b"k", attributes: int = 0) -> list[bytes]:
    return [
        write_message(
            at, key, b"value %d" % at, magic=magic, attributes=attributes, timestamp_ms=NOW + (at * 7) % 5
        )
        for at in range(count)
    ]


def old_requests(magic: int, codecs: Sequence[Codec]) -> Iterator[bytes]:
    """What clients of old sent, and what none should have."""
    yield messages(magic, 1)[0]
    yield b"".join(messages(magic, 5))
    yield write_message(9, b"any offset", None, magic=magic, timestamp_ms=NOW)
    for codec in codecs:
        yield write_wrapper(messages(magic, 4), codec, magic=magic, timestamp_ms=NOW)
    gzip = [write_wrapper(messages(magic, 3), Codec.GZIP, magic=magic, timestamp_ms=NOW) for _ in range(2)]
    yield b"".join(gzip)
    yield messages(magic, 1)[0] + gzip[0]
    yield messages(magic, 1)[0] + messages(1 - magic, 1)[0]
    yield messages(magic, 1)[0] + write_batch([NewRecord(b"k", b"v", NOW)])
    yield write_batch([NewRecord(b"k", b"v", NOW)]) + messages(magic, 1)[0]
    yield write_wrapper(messages(1 - magic, 2), Codec.GZIP, magic=magic, timestamp_ms=NOW)
    bad = messages(magic, 2)
    bad[1] = bad[1][:-1] + b"?"
    yield bad[1]
    yield write_wrapper(bad, Codec.GZIP, magic=magic, timestamp_ms=NOW)
    yield write_wrapper([*messages(magic, 1), gzip[0]], Codec.GZIP, magic=magic, timestamp_ms=NOW)
    yield messages(magic, 1, key=None)[0]
    yield write_message(0, b"k", b"old", magic=magic, timestamp_ms=NOW - 10_000_000)
    yield write_message(0, b"k", b"before time", magic=magic, timestamp_ms=-7)
    yield write_message(0, b"k", bytes(3000), magic=magic, timestamp_ms=NOW)
    yield messages(magic, 1, attributes=TIMESTAMP_TYPE_MASK)[0]
    yield messages(magic, 3)[0] + messages(magic, 1)[0][:-3]
