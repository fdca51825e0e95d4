"""Compress and decompress batches, in the framings that brokers accept.

    1 gzip    RFC 1952, one or several members; trailing bytes that are no member are ignored
    2 snappy  snappy-java's stream (below), or one raw block where its magic is missing
    3 lz4     LZ4 frame, the first one only; magic 0 has a wrong header checksum
    4 zstd    one or several frames; skippable ones are skipped

snappy-java's stream:

    82 53 4e 41 50 50 59 00  int32 version  int32 compatible version
    then, repeated: int32 length, one raw snappy block (or the 16-byte header again)

No framing states the size of its contents, so every decoder stops at a limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import Codec
from kafkatool.format.primitives import Buffer

_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # as Java writes it: no time, no system
_LZ4_FAST_LEVEL = 9  # Kafka's default; stands for the fast compressor, every other level for the high one
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
_XERIAL_BLOCK = 32 << 10
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_KAFKA = _LZ4_MAGIC + b"\x60\x40\x82"  # independent blocks of 64 KiB, nothing else; then the checksum
_LZ4_END = bytes(4)
_LZ4_AROUND = len(_LZ4_KAFKA) + 4 + len(_LZ4_END)  # what a frame adds to its only block, block size included
_LZ4_HISTORY = 64 << 10
_LZ4_MOST_FOLD = 255  # the best ratio LZ4 can reach
# One call may inflate a slice of input some 30,000-fold (zstd's runs), so slices stay small.
_SLICE = 1 << 10
_GZIP_SLICE = 64 << 10


@cache
def _library(name: str) -> Any:
    """Import on first use; later calls only look it up."""
    return import_module(name)


class CorruptStream(FormatError):
    """The stream breaks off; `partial` is what was decoded before that."""

    def __init__(self, what: str, at: int, *, expected: object, found: object, partial: bytes) -> None:
        super().__init__(what, at, expected=expected, found=found)
        self.partial = partial


def decompress(codec: int, data: Buffer, *, limit: int, magic: int = 2) -> bytes:
    """Inflate one batch's payload; raise CorruptStream, or TooLarge above `limit` bytes."""
    raw = bytes(data)
    if magic == 0 and codec == Codec.LZ4:
        return _unlz4(raw, limit, check_header=False)
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise FormatError("compression codec", 0, expected="0 to 4", found=codec)
    return inflate(raw, limit)


def compress(codec: Codec, data: bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """Compress as Kafka does, at Kafka's level where `level` is None; snappy has no levels.

    Framing and block sizes are Kafka's. Inside, gzip gives a broker's exact bytes; the other libraries may
    choose different matches than the version in a broker.
    """
    match codec:
        case Codec.GZIP:
            return _gzip(data, -1 if level is None else level)
        case Codec.SNAPPY:
            return _snappy(data)
        case Codec.LZ4:
            return _lz4(data, magic, level)
        case Codec.ZSTD:
            return _zstd(data, 3 if level is None else level)
    return data


class _CodecOutput:
    """Collect a decoder's output, up to a limit."""

    def __init__(self, codec: Codec, limit: int) -> None:
        self.codec = codec
        self.limit = limit
        self.data = bytearray()

    def add(self, piece: Buffer) -> None:
        self.room_for(len(piece))
        self.data += piece

    def room_for(self, size: int) -> None:
        if len(self.data) + size > self.limit:
            raise TooLarge(
                f"{self.codec.label} data", 0, expected=f"at most {self.limit} bytes inflated", found="more"
            )

    def corrupt(self, at: int, expected: object, found: object) -> CorruptStream:
        return CorruptStream(
            f"{self.codec.label} data", at, expected=expected, found=found, partial=bytes(self.data)
        )


def _gunzip(raw: bytes, limit: int) -> bytes:
    out = _CodecOutput(Codec.GZIP, limit)
    at = 0
    while at == 0 or _another_member(raw, at):
        at = _gunzip_member(raw, at, out)
    return bytes(out.data)


def _gzip(data: bytes, level: int) -> bytes:
    deflater = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    body = deflater.compress(data) + deflater.flush()
    size = len(data) & 0xFFFFFFFF
    return _GZIP_HEADER + body + zlib.crc32(data).to_bytes(4, "little") + size.to_bytes(4, "little")


def _another_member(raw: bytes, at: int) -> bool:
    """Return whether Java would read a further member: more than 18 bytes remain, and they open like one."""
    return len(raw) - at > 18 and raw[at : at + 3] == b"\x1f\x8b\x08"


def _gunzip_member(raw: bytes, at: int, out: _CodecOutput) -> int:
    inflater = zlib.decompressobj(wbits=31)
    pending = b""
    while not inflater.eof:
        if not pending:
            pending = raw[at : at + _GZIP_SLICE]
            at += len(pending)
            if not pending:
                raise out.corrupt(at, "more data", "the end")
        try:
            out.add(inflater.decompress(pending, max(1, min(1 << 20, out.limit - len(out.data) + 1))))
        except zlib.error as error:
            raise out.corrupt(at, "a gzip member", error) from None
        pending = inflater.unconsumed_tail
    return at - len(inflater.unused_data)


def _unsnappy(raw: bytes, limit: int) -> bytes:
    out = _CodecOutput(Codec.SNAPPY, limit)
    if len(raw) < 16 or not raw.startswith(_XERIAL_MAGIC):
        out.add(_snappy_block(raw, 0, out))
        return bytes(out.data)
    at = 16
    while len(raw) - at >= 4:
        size = int.from_bytes(raw[at : at + 4], "big")
        if raw[at : at + 8] == _XERIAL_MAGIC:
            at += 16
            continue
        if size > len(raw) - at - 4:
            raise out.corrupt(at, f"a block of {size} bytes", f"{len(raw) - at - 4} bytes")
        out.add(_snappy_block(raw[at + 4 : at + 4 + size], at + 4, out))
        at += 4 + size
    return bytes(out.data)


def _snappy_block(block: bytes, at: int, out: _CodecOutput) -> bytes:
    snappy = _library("snappy.snappy")  # without the command line's imports

    size = shift = 0
    for byte in block[:5]:  # every block opens with its inflated size
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    out.room_for(size)
    try:
        return bytes(snappy.decompress(block))
    except Exception as error:
        raise out.corrupt(at, "a snappy block", error) from None


def _snappy(data: bytes) -> bytes:
    snappy = _library("snappy.snappy")

    parts = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress(data[at : at + _XERIAL_BLOCK]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unlz4(raw: bytes, limit: int, *, check_header: bool = True) -> bytes:
    plain = _plain_lz4(raw, limit)
    if plain is not None:
        return plain
    out = _CodecOutput(Codec.LZ4, limit)
    if len(raw) < 7 or not raw.startswith(_LZ4_MAGIC):
        raise out.corrupt(0, "an LZ4 frame", raw[:4].hex() or "nothing")
    flags, at = _lz4_header(raw, out, check_header)
    while True:
        block, at = _lz4_block(raw, at, flags, out)
        if block is None:
            return bytes(out.data)
        out.add(block)


def _plain_lz4(raw: bytes, limit: int) -> bytes | None:
    """Decode a common frame with liblz4; return None where it needs the slow path."""
    if len(raw) * _LZ4_MOST_FOLD > limit:
        return None
    size = len(raw) - _LZ4_AROUND
    if size > 0 and raw[:11] == _LZ4_KAFKA + size.to_bytes(4, "little") and raw[-4:] == _LZ4_END:
        return _lone_lz4_block(raw[11:-4])
    # Version 1, independent blocks; optionally content size and content checksum, which the library checks.
    if raw[4:5] not in (b"\x60", b"\x64", b"\x68", b"\x6c"):
        return None
    try:
        return _library("lz4.frame").decompress(raw)  # type: ignore[no-any-return]
    except (RuntimeError, MemoryError):
        return None


def _lone_lz4_block(block: bytes) -> bytes | None:
    """Decode the only block of a batch of up to 64 KiB; skipping the frame saves the library one copy."""
    block_codec = _library("lz4.block")
    try:
        return block_codec.decompress(block, uncompressed_size=_LZ4_HISTORY)  # type: ignore[no-any-return]
    except block_codec.LZ4BlockError:
        return None


def _lz4_header(raw: bytes, out: _CodecOutput, check: bool) -> tuple[int, int]:
    flags, descriptor = raw[4], raw[5]
    end = 14 if flags & 0x08 else 6  # the optional content size is skipped, as Kafka does
    if flags >> 6 != 1 or flags & 0x03 or descriptor & 0x8F or not 4 <= descriptor >> 4 <= 7:
        raise out.corrupt(4, "a frame descriptor of version 1", raw[4:6].hex())
    if len(raw) <= end:
        raise out.corrupt(end, "a header checksum", "the end")
    wanted = _header_checksum(raw[4:end])
    if check and raw[end] != wanted:
        raise out.corrupt(end, f"header checksum {wanted:#04x}", f"{raw[end]:#04x}")
    return flags << 8 | descriptor, end + 1


def _lz4_block(raw: bytes, at: int, flags: int, out: _CodecOutput) -> tuple[bytes | None, int]:
    """Return one block, or None for the end mark, and where the next begins."""
    if len(raw) - at < 4:
        raise out.corrupt(at, "a block size", "the end")
    word = int.from_bytes(raw[at : at + 4], "little")
    size = word & 0x7FFFFFFF
    at += 4
    if size == 0:
        return None, at
    largest = 1 << (2 * (flags >> 4 & 0x7) + 8)
    if size > largest or size > len(raw) - at:
        raise out.corrupt(at - 4, f"a block of at most {min(largest, len(raw) - at)} bytes", size)
    block = raw[at : at + size]
    at += size
    if flags & 0x1000:
        if raw[at : at + 4] != _xxh32(block).to_bytes(4, "little"):
            raise out.corrupt(at, "the block's checksum", raw[at : at + 4].hex())
        at += 4
    if not word >> 31:
        block = _lz4_inflate(block, at, largest, flags, out)
    return block, at


def _lz4_inflate(block: bytes, at: int, largest: int, flags: int, out: _CodecOutput) -> bytes:
    block_codec = _library("lz4.block")
    options: dict[str, Any] = {}
    if not flags & 0x2000:  # linked blocks: a broker refuses them, liblz4 reads them
        options["dict"] = bytes(out.data[-_LZ4_HISTORY:])
    try:
        return bytes(block_codec.decompress(block, uncompressed_size=largest, **options))
    except block_codec.LZ4BlockError as error:
        raise out.corrupt(at, "an LZ4 block", error) from None


def _lz4(data: bytes, magic: int, level: int | None) -> bytes:
    """Return a frame as Kafka writes it: independent blocks of 64 KiB, no checksums, no content size."""
    block_codec = _library("lz4.block")
    options: dict[str, Any] = {}
    if level not in (None, _LZ4_FAST_LEVEL):
        options = {"mode": "high_compression", "compression": level}
    # Kafka's magic 0 writer took the checksum over the frame's magic too (KAFKA-3160).
    checked = b"\x60\x40" if magic > 0 else _LZ4_MAGIC + b"\x60\x40"
    parts = [_LZ4_MAGIC + b"\x60\x40", bytes((_header_checksum(checked),))]
    for at in range(0, len(data), _LZ4_HISTORY):
        piece = data[at : at + _LZ4_HISTORY]
        block = block_codec.compress(piece, store_size=False, **options)
        if len(block) < len(piece):
            parts += (len(block).to_bytes(4, "little"), block)
        else:
            parts += ((len(piece) | 1 << 31).to_bytes(4, "little"), piece)
    return b"".join(parts) + bytes(4)


@lru_cache(maxsize=64)
def _header_checksum(descriptor: bytes) -> int:
    return _xxh32(descriptor) >> 8 & 0xFF


def _xxh32(data: bytes) -> int:
    """Compute XXH32 with seed 0. Only headers and rare block checksums need it, so plain Python is enough."""
    p1, p2, p3, p4, p5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    at = 0
    if len(data) >= 16:
        lanes = [p1 + p2 & mask, p2, 0, -p1 & mask]
        while at <= len(data) - 16:
            for lane in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                mixed = lanes[lane] + word * p2 & mask
                lanes[lane] = ((mixed << 13 | mixed >> 19) & mask) * p1 & mask
                at += 4
        turns = ((1, 31), (7, 25), (12, 20), (18, 14))
        value = sum((lane << up | lane >> down) & mask for lane, (up, down) in zip(lanes, turns, strict=True))
    else:
        value = p5
    value = value + len(data) & mask
    while at <= len(data) - 4:
        value = value + int.from_bytes(data[at : at + 4], "little") * p3 & mask
        value = ((value << 17 | value >> 15) & mask) * p4 & mask
        at += 4
    for byte in data[at:]:
        value = value + byte * p5 & mask
        value = ((value << 11 | value >> 21) & mask) * p1 & mask
    value = (value ^ value >> 15) * p2 & mask
    value = (value ^ value >> 13) * p3 & mask
    return value ^ value >> 16


def _zstd(data: bytes, level: int) -> bytes:
    """Write a frame of unknown size whose last block is empty: Java flushes its stream before closing it."""
    import zstandard

    deflater = zstandard.ZstdCompressor(level=level).compressobj()
    block = deflater.compress(data) + deflater.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return block + deflater.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)


def _unzstd(raw: bytes, limit: int) -> bytes:
    import zstandard

    out = _CodecOutput(Codec.ZSTD, limit)
    at = 0
    while at < len(raw):
        if (skipped := _skippable_frame(raw, at)) is not None:
            at += skipped
            if at > len(raw):
                raise out.corrupt(len(raw), "the rest of a skippable frame", "the end")
            continue
        at = _unzstd_frame(raw, at, out, zstandard)
    return bytes(out.data)


def _skippable_frame(raw: bytes, at: int) -> int | None:
    if len(raw) - at >= 8 and raw[at + 1 : at + 4] == b"\x2a\x4d\x18" and raw[at] >> 4 == 5:
        return 8 + int.from_bytes(raw[at + 4 : at + 8], "little")
    return None


@lru_cache(maxsize=1)
def _zstd_decompressor() -> Any:
    """Return the shared decompressor: creating one takes longer than inflating a batch."""
    import zstandard

    return zstandard.ZstdDecompressor()


def _unzstd_frame(raw: bytes, at: int, out: _CodecOutput, zstandard: Any) -> int:
    inflater = _zstd_decompressor().decompressobj()
    while not inflater.eof:
        piece = raw[at : at + _SLICE]
        if not piece:
            raise out.corrupt(at, "more data", "the end")
        try:
            out.add(inflater.decompress(piece))
        except zstandard.ZstdError as error:
            raise out.corrupt(at, "a zstd frame", error) from None
        at += len(piece)
    return at - len(inflater.unused_data)


# Looked up for every batch: faster than comparing with each codec.
_INFLATE: dict[int, Callable[[bytes, int], bytes]] = {
    Codec.NONE: lambda raw, limit: raw,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
