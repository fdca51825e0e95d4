"""The odd batches: what a broker accepts although no ordinary client sends it, so it is on real disks."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from typing import Any

import lz4.frame as untyped_lz4
import snappy as untyped_snappy
import zstandard

from tests.kafka.making.raw_batches import BASE_TIMESTAMP, batch, record

# Neither of the two publishes types that hold.
lz4_frame: Any = untyped_lz4
snappy: Any = untyped_snappy

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_FIRST, _SECOND = record(0, b"key", b"first value, first value"), record(1, None, b"second value")
_PAIR = _FIRST + _SECOND


def odd_batches() -> Iterator[tuple[str, str, bytes]]:
    """(topic, what is odd about it, the batch)."""
    yield from _attributes()
    yield from _records()
    yield from _gzip()
    yield from _snappy()
    yield from _lz4()
    yield from _zstd()


def _attributes() -> Iterator[tuple[str, str, bytes]]:
    topic = "odd-attributes"
    for bit in (6, 7, 8, 15):
        yield topic, f"attribute bit {bit}", batch(_PAIR, 2, attributes=1 << bit)
    yield topic, "attribute bits 6 to 15", batch(_PAIR, 2, attributes=0xFFC0)
    yield topic, "the LogAppendTime bit on a CreateTime topic", batch(_PAIR, 2, attributes=8)
    packed = gzip.compress(_PAIR, mtime=0)
    yield topic, "gzip with attribute bits 6 to 15", batch(packed, 2, attributes=0xFFC0 | GZIP)


def _records() -> Iterator[tuple[str, str, bytes]]:
    topic = "odd-records"
    yield (
        topic,
        "record attributes 127 and 128",
        batch(record(0, b"k", b"v", attributes=127) + record(1, b"k", b"v", attributes=128), 2),
    )
    padded = record(0, b"k", b"v", padded=True, headers=[(b"h", None)]) + record(1, None, None, padded=True)
    yield topic, "padded varints", batch(padded, 2)
    yield topic, "padded varints, gzip", batch(gzip.compress(padded, mtime=0), 2, attributes=GZIP)
    yield topic, "lengths of -2 for null", batch(record(0, None, None, null=-2), 1)
    yield (
        topic,
        "timestamps below -1",
        batch(
            record(0, b"k", b"v") + record(1, b"k", b"v", timestamp_delta=-3),
            2,
            base_timestamp=-5,
            max_timestamp=-5,
        ),
    )
    yield topic, "a timestamp of -1", batch(record(0, b"k", b"v"), 1, base_timestamp=-1, max_timestamp=-1)
    yield (
        topic,
        "negative timestamp deltas",
        batch(record(0, b"k", b"v") + record(1, b"k", b"v", timestamp_delta=-(1 << 40)), 2),
    )
    yield (
        topic,
        "unordered offset deltas",
        batch(record(2, b"c", b"2") + record(0, b"a", b"0") + record(1, b"b", b"1"), 3),
    )
    yield topic, "the same offset delta twice", batch(record(1, b"c", b"2") + record(1, b"a", b"0"), 2)
    yield topic, "a negative offset delta", batch(record(-1, b"c", b"2") + record(1, b"a", b"0"), 2)
    yield (
        topic,
        "a header key that is empty, one twice, one that is no UTF-8",
        batch(
            record(
                0,
                b"\xff\xfe",
                b"\0\x1b[1m\n\xc3\xa9",
                headers=[(b"", b""), (b"a", None), (b"a", b"1"), (b"\xe9,]", b"")],
            ),
            1,
        ),
    )
    yield topic, "a sequence without a producer", batch(record(0, b"k", b"v"), 1, base_sequence=7)
    yield (
        topic,
        "a max timestamp that no record has",
        batch(record(0, b"k", b"v"), 1, max_timestamp=BASE_TIMESTAMP + 77),
    )


def _gzip() -> Iterator[tuple[str, str, bytes]]:
    first, second = gzip.compress(_FIRST, mtime=0), gzip.compress(_SECOND, mtime=0)
    named = first[:3] + b"\x08" + first[4:10] + b"name\0" + first[10:]
    yield "odd-gzip", "two members", batch(first + second, 2, attributes=GZIP)
    yield "odd-gzip", "trailing zeros", batch(gzip.compress(_PAIR, mtime=0) + b"\0" * 9, 2, attributes=GZIP)
    yield "odd-gzip", "a member with a name", batch(named + second, 2, attributes=GZIP)
    yield "odd-gzip", "stored, not deflated", batch(gzip.compress(_PAIR, 0, mtime=0), 2, attributes=GZIP)
    yield (
        "odd-gzip",
        "an empty member between two",
        batch(first + gzip.compress(b"", mtime=0) + second, 2, attributes=GZIP),
    )


def _snappy() -> Iterator[tuple[str, str, bytes]]:
    first, second = bytes(snappy.compress(_FIRST)), bytes(snappy.compress(_SECOND))
    blocks = struct.pack(">i", len(first)) + first, struct.pack(">i", len(second)) + second
    yield "odd-snappy", "one raw block", batch(snappy.compress(_PAIR), 2, attributes=SNAPPY)
    yield "odd-snappy", "two blocks", batch(_XERIAL + b"".join(blocks), 2, attributes=SNAPPY)
    yield "odd-snappy", "two streams", batch(_XERIAL + blocks[0] + _XERIAL + blocks[1], 2, attributes=SNAPPY)
    yield (
        "odd-snappy",
        "versions little-endian",
        batch(_XERIAL[:8] + struct.pack("<ii", 1, 1) + b"".join(blocks), 2, attributes=SNAPPY),
    )
    framed = snappy.StreamCompressor().compress(_PAIR)
    yield "odd-snappy", "the framing format", batch(framed, 2, attributes=SNAPPY)


def _lz4() -> Iterator[tuple[str, str, bytes]]:
    def frame(data: bytes, **options: object) -> bytes:
        settings = {"block_linked": False, "store_size": False, **options}
        return bytes(lz4_frame.compress(data, **settings))

    def linked(data: bytes) -> bytes:
        # One that is not told the size beforehand cannot make a short frame's only block independent.
        compressor = lz4_frame.LZ4FrameCompressor(block_linked=True)
        return bytes(compressor.begin() + compressor.compress(data) + compressor.flush())

    # More than 64 KiB, so that there are two blocks.
    many = b"".join(record(number, b"key %d" % number, b"lz4 value " * 700) for number in range(10))
    for what, packed in (
        ("block checksums", frame(_PAIR, block_checksum=True)),
        ("a content checksum and the content size", frame(_PAIR, content_checksum=True, store_size=True)),
        ("linked blocks", linked(_PAIR)),
        ("blocks of 4 MiB", frame(_PAIR, block_size=lz4_frame.BLOCKSIZE_MAX4MB)),
        ("bytes behind the frame", frame(_PAIR) + b"behind"),
        ("two frames", frame(_FIRST) + frame(_SECOND)),
        ("no end mark", frame(_PAIR)[:-4]),
    ):
        yield "odd-lz4", what, batch(packed, 2, attributes=LZ4)
    yield "odd-lz4-blocks", "several blocks", batch(frame(many), 10, attributes=LZ4)
    yield "odd-lz4-blocks", "several linked blocks", batch(linked(many), 10, attributes=LZ4)


def _zstd() -> Iterator[tuple[str, str, bytes]]:
    first, second = zstandard.compress(_FIRST), zstandard.compress(_SECOND)
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"skip!"
    checked = zstandard.ZstdCompressor(write_checksum=True, write_content_size=True).compress(_PAIR)
    yield "odd-zstd", "two frames", batch(first + second, 2, attributes=ZSTD)
    yield "odd-zstd", "a skippable frame first", batch(skippable + first + second, 2, attributes=ZSTD)
    yield "odd-zstd", "a skippable frame between", batch(first + skippable + second, 2, attributes=ZSTD)
    yield "odd-zstd", "a skippable frame last", batch(first + second + skippable, 2, attributes=ZSTD)
    yield "odd-zstd", "a checksum and the content size", batch(checked, 2, attributes=ZSTD)
