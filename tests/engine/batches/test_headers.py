from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.engine.batches.headers import FoundBatch, follow, header_at, next_batch, plausible_batches
from kafkatool.engine.files.source import open_source
from kafkatool.errors import FormatError
from tests.logs import GUEST, batches, write_log

PARTS = batches(4)
WHOLE = b"".join(PARTS)
STARTS = [len(b"".join(PARTS[:at])) for at in range(len(PARTS))]


def by_kafka(data: bytes) -> list[FoundBatch]:
    def at(position: int) -> FoundBatch | None:
        return next_batch(lambda begin, size: data[begin : begin + size], position, len(data))

    return list(follow(at, 0))


def as_guest(path: Path) -> list[FoundBatch]:
    with open_source(path, GUEST) as source:
        return list(plausible_batches(source, 0))


@given(st.binary(max_size=120))
def test_any_bytes_give_a_batch_none_or_a_format_error(data: bytes) -> None:
    with suppress(FormatError):
        by_kafka(data)


def test_the_lengths_lead_through_a_log(tmp_path: Path) -> None:
    assert [found.position for found in by_kafka(WHOLE)] == STARTS
    assert by_kafka(WHOLE) == as_guest(write_log(tmp_path, WHOLE))
    assert [found.header.last_offset for found in by_kafka(WHOLE)] == [2, 5, 8, 11]


@pytest.mark.parametrize("left", range(0, len(PARTS[-1]), 7))
def test_kafkas_reader_stops_before_a_batch_that_is_cut_short(left: int) -> None:
    assert [found.position for found in by_kafka(WHOLE[: STARTS[-1] + left])] == STARTS[:-1]


def test_a_length_that_cannot_be_throws_for_kafka_and_is_the_end_for_a_guest(tmp_path: Path) -> None:
    broken = bytearray(WHOLE)
    broken[STARTS[2] + 8 : STARTS[2] + 12] = b"\0\0\0\x05"
    with pytest.raises(FormatError, match=f"at byte {STARTS[2]}:"):
        by_kafka(bytes(broken))
    path = write_log(tmp_path, bytes(broken))
    assert [found.position for found in as_guest(path)] == STARTS[:2]
    with open_source(path, GUEST) as source:
        assert header_at(source, STARTS[2]) is None


def test_a_negative_magic_is_an_old_one_as_for_kafka() -> None:
    odd = bytearray(WHOLE)
    odd[16] = 0x80
    assert by_kafka(bytes(odd))[0].header.magic == -128
