from __future__ import annotations

import gzip
from contextlib import suppress

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError, TooLarge
from kafkatool.format.batch import Codec
from kafkatool.format.compression import CorruptStream, compress, decompress

LIMIT = 1 << 20
TEXT = b"the quick brown fox " * 5000


@given(st.sampled_from(Codec), st.binary(max_size=4000), st.integers(0, 2))
def test_what_we_compress_comes_back(codec: Codec, data: bytes, magic: int) -> None:
    assert decompress(codec, compress(codec, data, magic=magic), limit=LIMIT, magic=magic) == data


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_data_longer_than_a_block_comes_back(codec: Codec) -> None:
    assert decompress(codec, compress(codec, TEXT), limit=LIMIT) == TEXT


@given(st.integers(0, 8), st.binary(max_size=300))
def test_any_bytes_inflate_or_give_a_format_error(codec: int, data: bytes) -> None:
    with suppress(FormatError):
        decompress(codec, data, limit=LIMIT)


@given(st.sampled_from([codec for codec in Codec if codec]), st.data())
def test_a_flipped_or_cut_stream_inflates_or_gives_a_format_error(codec: Codec, data: st.DataObject) -> None:
    whole = compress(codec, TEXT[:3000])
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    for broken in (flipped, whole[:at]):
        with suppress(FormatError):
            decompress(codec, broken, limit=LIMIT)


def test_several_gzip_members_are_one_stream_and_what_follows_them_is_ignored() -> None:
    data = gzip.compress(b"a" * 100) + gzip.compress(b"b" * 100) + bytes(30)
    assert decompress(Codec.GZIP, data, limit=LIMIT) == b"a" * 100 + b"b" * 100


def test_several_zstd_frames_and_skippable_ones_are_one_stream() -> None:
    skippable = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"xyz"
    frame = zstandard.ZstdCompressor().compress
    data = skippable + frame(b"one") + skippable + frame(b"two")
    assert decompress(Codec.ZSTD, data, limit=LIMIT) == b"onetwo"


def test_a_raw_snappy_block_is_read_where_the_stream_magic_is_missing() -> None:
    assert decompress(Codec.SNAPPY, snappy.compress(TEXT), limit=LIMIT) == TEXT


def test_concatenated_snappy_streams_are_one() -> None:
    data = compress(Codec.SNAPPY, b"one") + compress(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, data, limit=LIMIT) == b"onetwo"


def test_only_the_first_lz4_frame_counts() -> None:
    data = compress(Codec.LZ4, b"one") + compress(Codec.LZ4, b"two")
    assert decompress(Codec.LZ4, data, limit=LIMIT) == b"one"


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checked", [False, True])
def test_lz4_frames_of_other_writers_are_read(linked: bool, checked: bool) -> None:
    frame = lz4.frame.compress(TEXT, block_linked=linked, block_checksum=checked, content_checksum=True)
    assert decompress(Codec.LZ4, frame, limit=LIMIT) == TEXT


def test_the_header_checksum_of_magic_0_is_wrong_on_purpose_and_ignored_there_only() -> None:
    old = compress(Codec.LZ4, b"x", magic=0)
    assert old[6] == 0x1A
    assert compress(Codec.LZ4, b"x")[6] == 0x82
    assert decompress(Codec.LZ4, old, limit=LIMIT, magic=0) == b"x"
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"x"), limit=LIMIT, magic=0) == b"x"
    with pytest.raises(CorruptStream):
        decompress(Codec.LZ4, old, limit=LIMIT, magic=1)


def test_what_could_be_read_before_the_break_is_kept() -> None:
    whole = compress(Codec.LZ4, TEXT)
    with pytest.raises(CorruptStream) as broken:
        decompress(Codec.LZ4, whole[:-40], limit=LIMIT)
    assert TEXT.startswith(broken.value.partial)
    assert len(broken.value.partial) == 64 << 10


def test_zstd_runs_of_gigabytes_stop_at_the_limit() -> None:
    run = zstandard.ZstdCompressor(level=19).compress(bytes(64 << 20))
    with pytest.raises(TooLarge):
        decompress(Codec.ZSTD, run * 40, limit=LIMIT)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        *((Codec.GZIP, level) for level in (-1, 1, 9)),
        *((Codec.LZ4, level) for level in (1, 9, 17)),
        *((Codec.ZSTD, level) for level in (-5, 3, 22)),
    ],
)
def test_every_level_gives_the_same_bytes_back(codec: Codec, level: int) -> None:
    data = bytes(range(256)) * 300
    assert decompress(codec, compress(codec, data, level=level), limit=len(data)) == data


def test_streams_are_framed_as_java_frames_them() -> None:
    """A gzip header of no system, and a zstd frame of unknown size with an empty block at its end."""
    assert compress(Codec.GZIP, b"data")[:10].hex() == "1f8b08000000000000ff"
    zstd = compress(Codec.ZSTD, b"data")
    assert (zstd[4], zstd[-3:].hex()) == (0, "010000")
