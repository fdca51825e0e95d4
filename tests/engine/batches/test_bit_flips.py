"""One flipped bit is found wherever it can be proven, and is never taken for another one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.batches import bit_flips
from kafkatool.engine.batches.bit_flips import GZIP, HEALED, LARGEST, MESSAGES, BitFlip, FoundFlip, find_flip
from kafkatool.format.batch import (
    CRC_START,
    DELETE_HORIZON_MASK,
    HEADER_SIZE,
    Codec,
    NewRecord,
    read_header,
    seal,
)
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.checksum import crc32c
from kafkatool.format.compression import compress
from kafkatool.format.legacy import write_message, write_wrapper
from tests.engine.small_batches import RECORDS, SMALL
from tests.logs import TIME
from tests.mutations import flipped

BATCH = write_batch(RECORDS, base_offset=100)
EPOCH = range(12, 16)


FOLLOWING = {
    "another batch": write_batch(RECORDS, base_offset=200) * 8,
    "nothing": b"",
    "zeros": bytes(4096),
}


@pytest.mark.parametrize("following", FOLLOWING)
@pytest.mark.parametrize("name", SMALL)
def test_every_bit_of_a_small_batch_is_found_but_those_that_nothing_proves(name: str, following: str) -> None:
    """Base offset and leader epoch are outside of every checksum; all other bits are found, and no others."""
    raw, behind = SMALL[name], FOLLOWING[following]
    unprovable = {*range(8), *(EPOCH if raw[16] == 2 else ())}
    for byte in range(len(raw)):
        for bit in range(8):
            found = find_flip(flipped(raw, byte, bit) + behind, is_to_end=True)
            if byte in unprovable:
                assert found is None, (byte, bit)
            else:
                assert found is not None, (byte, bit)
                assert (found.flip, found.size, found.is_proven) == (BitFlip(byte, bit), len(raw), True)


@pytest.mark.parametrize("name", SMALL)
def test_a_good_batch_has_no_flip(name: str) -> None:
    assert find_flip(SMALL[name], is_to_end=True) is None


@pytest.mark.parametrize("name", SMALL)
def test_several_flipped_bits_are_not_taken_for_one(name: str) -> None:
    raw, source = SMALL[name], random.Random(name)
    for number in range(300):
        damaged = bytearray(raw)
        for position in source.sample(range(16 * 8, len(raw) * 8), 2 + number % 5):
            damaged[position // 8] ^= 1 << position % 8
        assert find_flip(damaged + BATCH, is_to_end=True) is None


@given(data=st.data())
def test_whatever_is_mended_is_what_was_written(data: st.DataObject) -> None:
    raw = write_batch(
        [
            NewRecord(key, value, TIME + number)
            for number, (key, value) in enumerate(
                data.draw(st.lists(st.tuples(st.none() | st.binary(), st.binary()), min_size=1, max_size=8))
            )
        ],
        base_offset=data.draw(st.integers(0, 1 << 40)),
        codec=data.draw(st.sampled_from(Codec)),
    )
    byte = data.draw(st.integers(0, len(raw) - 1))
    damaged = flipped(raw, byte, data.draw(st.integers(0, 7)))
    found = find_flip(damaged + BATCH, is_to_end=True)
    if found is not None:
        assert flipped(damaged, *found.flip)[: found.size] == raw


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_give_an_answer(data: bytes, is_to_end: bool) -> None:
    find_flip(data, is_to_end=is_to_end)


# --- how sure it is -------------------------------------------------------------------------------------


def large(codec: Codec = Codec.NONE) -> bytes:
    return write_batch([NewRecord(b"k", random.Random(3).randbytes(1 << 20), TIME)], codec=codec)


def found_in(raw: bytes, byte: int) -> FoundFlip:
    found = find_flip(flipped(raw, byte, 3), is_to_end=True)
    assert found is not None
    assert found.flip == BitFlip(byte, 3)
    return found


def test_a_bit_in_a_value_of_a_large_batch_may_be_chance() -> None:
    found = found_in(large(), 5000)
    assert (found.proof, found.is_proven) == (None, False)
    assert 0.0019 < found.odds < 0.002


def test_a_bit_in_the_checksum_of_a_large_batch_may_be_chance() -> None:
    assert not found_in(large(), 18).is_proven


def test_records_that_decode_only_with_the_bit_flipped_back_prove_it() -> None:
    raw = large()
    for byte in (HEADER_SIZE, HEADER_SIZE + 6, 60, 10):  # a record's length, its offset, their count, length
        found = found_in(raw, byte)
        assert (found.proof, found.is_proven) == (HEALED, True), byte


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_stream_that_inflates_with_and_without_the_bit_proves_nothing(codec: Codec) -> None:
    """Bytes that no codec can shorten stand in the stream as they are."""
    found = found_in(large(codec), 500_000)
    assert (found.proof, found.is_proven) == (None, False)


def test_the_checksum_inside_a_gzip_stream_proves_it() -> None:
    found = found_in(large(Codec.GZIP), 500_000)
    assert (found.proof, found.is_proven) == (GZIP, True)


def test_the_checksums_of_messages_inside_a_wrapper_prove_it() -> None:
    inner = [write_message(at, None, random.Random(at).randbytes(1 << 16), magic=1) for at in range(3)]
    raw = write_wrapper(inner, Codec.LZ4, magic=1)
    assert found_in(raw, 100_000).proof == MESSAGES


def test_a_checksum_that_matches_is_nothing_without_records_that_do() -> None:
    """A batch whose records never were any: one bit makes its checksum right, and nothing else."""
    raw = seal(read_header(BATCH)._replace(base_offset=7), bytes(range(1, 60)))
    assert find_flip(flipped(raw, 70, 2), is_to_end=True) is None


def test_a_length_counts_only_where_the_log_goes_on_behind_the_batch() -> None:
    damaged = flipped(BATCH, 11, 4)
    assert find_flip(damaged + BATCH, is_to_end=True) is not None
    assert find_flip(damaged + b"\x7f" * 100, is_to_end=True) is None


def test_two_bits_that_both_make_a_batch_good_are_never_guessed() -> None:
    """What follows a gzip stream is ignored, so one batch may be good with two lengths."""
    raw, length = _with_two_lengths()
    damaged = raw[:8] + length.to_bytes(4, "big") + raw[12:]
    for bit in (9, 10):
        both = damaged[:8] + (length ^ 1 << bit).to_bytes(4, "big") + damaged[12:]
        size = (length ^ 1 << bit) + 12
        assert crc32c(both[CRC_START:size]) == int.from_bytes(both[17:21], "big")
    assert find_flip(damaged + BATCH, is_to_end=True) is None
    assert find_flip(damaged[: (length ^ 1 << 9) + 12] + BATCH, is_to_end=True) is not None


def _with_two_lengths() -> tuple[bytes, int]:
    """A batch, and a length of which two bits, flipped one by one, make it whole."""
    header = read_header(write_batch([NewRecord(None, b"", TIME)], codec=Codec.GZIP))
    for size in range(300, 900):
        value = random.Random(size).randbytes(size)
        whole = write_batch([NewRecord(None, value, TIME)])
        body = compress(Codec.GZIP, whole[HEADER_SIZE:])
        short = seal(header._replace(attributes=Codec.GZIP), body)
        length = len(short) - 12 ^ 1 << 9
        if len(short) - 12 & 3 << 9 == 1 << 9:
            break
    more = (length ^ 1 << 10) + 12 - len(short)
    padded = short + bytes(more - 4)
    state, wanted = crc32c(padded[CRC_START:]) ^ 0xFFFFFFFF, int.from_bytes(short[17:21], "big") ^ 0xFFFFFFFF
    for _ in range(32):  # back by four bytes: these are what the checksum lacks
        wanted = (wanted ^ 0x82F63B78) << 1 & 0xFFFFFFFF | 1 if wanted >> 31 else wanted << 1
    return padded + (state ^ wanted).to_bytes(4, "little"), length


def test_a_batch_that_is_too_large_is_left_alone() -> None:
    raw = write_batch([NewRecord(None, bytes(LARGEST), 0)])
    assert find_flip(flipped(raw, 100), is_to_end=True) is None


@pytest.mark.parametrize("power", [1, 8191, 8192, 8193, 30_000])
def test_the_search_goes_in_large_steps_and_misses_nothing_between_them(power: int) -> None:
    value = 1
    for _ in range(power):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    assert bit_flips._logarithm(0x82F63B78, value, 1 << 27) == power
    assert bit_flips._logarithm(0x82F63B78, value, power - 1) is None


def test_a_delete_horizon_is_no_contradiction() -> None:
    header = read_header(BATCH)
    raw = seal(header._replace(attributes=DELETE_HORIZON_MASK), BATCH[HEADER_SIZE:])
    assert found_in(raw, len(raw) - 4).is_proven
