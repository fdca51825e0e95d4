from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from kafkatool.errors import FormatError
from kafkatool.format.txn_index import (
    ENTRY,
    ENTRY_SIZE,
    AbortedTxn,
    read_entries,
    read_entry,
    sanity_problem,
    version_problem,
    write_entries,
)

longs = st.integers(-(2**63), 2**63 - 1)
txns = st.builds(AbortedTxn, st.just(0), longs, longs, longs, longs)


@given(st.binary(max_size=100), st.integers(-8, 100))
def test_any_bytes_decode_or_raise_format_error(buf: bytes, at: int) -> None:
    with suppress(FormatError):
        read_entry(buf, at)
    assert len(list(read_entries(buf))) == len(buf) // ENTRY_SIZE
    sanity_problem(read_entries(buf), 0)


@given(st.lists(txns, max_size=10), st.binary(max_size=ENTRY_SIZE - 1))
def test_entries_come_back_and_a_partial_one_is_left_out(entries: list[AbortedTxn], rest: bytes) -> None:
    assert list(read_entries(write_entries(entries) + rest)) == entries


def test_kafka_judges_a_version_by_its_high_byte() -> None:
    versions = {0: True, 1: True, 255: True, 256: False, -1: True, -256: True}
    for version, accepted in versions.items():
        entry = read_entry(ENTRY.pack(version, 1, 2, 3, 4), 0)
        assert (version_problem(entry) is None) == accepted


def test_a_marker_below_the_segment_is_a_problem() -> None:
    assert sanity_problem([AbortedTxn(0, 1, 5, 99, 100)], 100) is not None
    assert sanity_problem([AbortedTxn(0, 1, 5, 100, 101)], 100) is None
