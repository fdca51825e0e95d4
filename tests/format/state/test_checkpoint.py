from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.state.checkpoint import (
    EpochStart,
    PartitionOffset,
    read_leader_epochs,
    read_offset_checkpoint,
    write_leader_epochs,
    write_offset_checkpoint,
)

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
topics = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True)


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_raise_format_error(buf: bytes) -> None:
    for read in (read_offset_checkpoint, read_leader_epochs):
        with suppress(FormatError):
            read(buf)


@given(st.lists(st.builds(PartitionOffset, topics, ints, longs), max_size=10))
def test_offsets_come_back_as_they_were_written(entries: list[PartitionOffset]) -> None:
    assert read_offset_checkpoint(write_offset_checkpoint(entries)) == entries


@given(st.lists(st.builds(EpochStart, ints, longs), max_size=10))
def test_epochs_come_back_as_they_were_written(entries: list[EpochStart]) -> None:
    assert read_leader_epochs(write_leader_epochs(entries)) == entries


def test_the_text_is_the_one_a_broker_writes() -> None:
    assert write_offset_checkpoint([PartitionOffset("a", 0, 7)]) == b"0\n1\na 0 7\n"
    assert write_leader_epochs([]) == b"0\n0\n"


@pytest.mark.parametrize("text", ["", "0\n", "0", "0\n0\n", "0\r\n0\r\n", "+0\n-0"])
def test_an_empty_checkpoint_has_many_forms(text: str) -> None:
    assert read_offset_checkpoint(text.encode()) == []


@pytest.mark.parametrize("line", ["a 0 7", "a  0\t7", "a 0 7 ", "a +0 007"])
def test_fields_may_be_parted_by_any_white_space(line: str) -> None:
    assert read_offset_checkpoint(f"0\n1\n{line}".encode()) == [PartitionOffset("a", 0, 7)]


@pytest.mark.parametrize(
    "text",
    [
        "1\n0\n",
        " 0\n0\n",
        "0\n1\n",
        "0\n0\na 0 7\n",
        "0\n1\n a 0 7\n",
        "0\n1\na 0 7\n\n",
        "0\n1\na 0\n",
        "0\nx\n",
    ],
)
def test_what_a_broker_refuses_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        read_offset_checkpoint(text.encode())


def test_the_error_says_where() -> None:
    with pytest.raises(FormatError) as error:
        read_offset_checkpoint("0\n2\nünï 0 7\nbad\n".encode())
    assert error.value.at == len("0\n2\nünï 0 7\n".encode())
