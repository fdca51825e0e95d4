"""One batch of every kind, a hundred bytes or two each."""

from __future__ import annotations

from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import write_message, write_wrapper
from tests.logs import TIME

RECORDS = [NewRecord(b"key", b"value %d " % at * 3, TIME + at, [(b"h", None)]) for at in range(4)]


def message(magic: int, offset: int = 100) -> bytes:
    return write_message(offset, b"key", b"a value", magic=magic, timestamp_ms=TIME)


def wrapper(magic: int, codec: Codec) -> bytes:
    return write_wrapper([message(magic, 100 + at) for at in range(3)], codec, magic=magic, timestamp_ms=TIME)


SMALL = {
    **{f"magic 2, {codec.label}": write_batch(RECORDS, base_offset=100, codec=codec) for codec in Codec},
    "a batch that a cleaner emptied": write_batch([], base_offset=100),
    **{f"magic {magic}": message(magic) for magic in (0, 1)},
    **{
        f"magic {magic}, {codec.label}": wrapper(magic, codec)
        for magic in (0, 1)
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4)
    },
}
