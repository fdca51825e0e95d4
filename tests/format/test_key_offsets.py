"""What the cleaner needs of the kernel, keys and encoded records: compiled and plain, the same answers."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.format.kernel import loops, reference
from kafkatool.format.kernel.verdicts import IS_SUPERSEDED, IS_TAKEN

KEYS = st.lists(st.none() | st.binary(max_size=3), max_size=60)


def fields(keys: list[bytes | None]) -> tuple[bytes, np.ndarray, np.ndarray]:
    sizes = [-1 if key is None else len(key) for key in keys]
    ends = list(accumulate((max(0, size) for size in sizes), initial=0))
    data = b"".join(key or b"" for key in keys)
    return data, np.array(ends[: len(keys)], dtype=np.int64), np.array(sizes, dtype=np.int64)


@given(KEYS, KEYS, st.integers(0, 40))
def test_the_compiled_table_answers_as_the_plain_one_however_full(
    put: list[bytes | None], asked: list[bytes | None], most: int
) -> None:
    tables = loops.KeyOffsets(), reference.KeyOffsets()
    data, starts, sizes = fields(put)
    offsets = np.arange(len(put), dtype=np.int64)
    taken = [table.put(data, starts, sizes, offsets, most) for table in tables]
    assert taken[0] == taken[1]
    assert len(tables[0]) == len(tables[1]) <= most
    data, starts, sizes = fields(asked)
    found = [np.full(len(asked), 7, dtype=np.int64) for _ in tables]
    for table, into in zip(tables, found, strict=True):
        table.get(data, starts, sizes, into)
    assert found[0].tolist() == found[1].tolist()


@given(st.lists(KEYS, max_size=4), st.integers(0, 40), st.integers(0, 5))
def test_marks_tell_what_the_table_would(stretches: list[list[bytes | None]], most: int, first: int) -> None:
    tables = loops.KeyOffsets(), reference.KeyOffsets()
    total = sum(map(len, stretches))
    marks = [np.zeros(total, dtype=np.uint8) for _ in tables]
    at, known = first, list[tuple[bytes, int]]()
    for keys in stretches:
        offsets = np.arange(at, at + len(keys), dtype=np.int64)
        taken = [
            table.put_marking(*fields(keys), offsets, most, first, mark)
            for table, mark in zip(tables, marks, strict=True)
        ]
        assert taken[0] == taken[1]
        known += [(key, at + row) for row, key in enumerate(keys[: taken[0]]) if key is not None]
        at += len(keys)
    assert marks[0].tolist() == marks[1].tolist()
    last = dict(known)
    for key, offset in known:
        assert marks[0][offset - first] == IS_TAKEN | IS_SUPERSEDED * (last[key] > offset)
    assert np.count_nonzero(marks[0]) == len(known)


def test_an_offset_without_a_mark_is_refused() -> None:
    for table in (loops.KeyOffsets(), reference.KeyOffsets()):
        for first, offset in ((5, 4), (5, 7), (-1, 0)):
            with pytest.raises(ValueError, match=r"no mark|counted from"):
                table.put_marking(*fields([b"a"]), np.array([offset]), 9, first, np.zeros(2, dtype=np.uint8))


def test_a_table_that_grows_loses_nothing() -> None:
    table, count = loops.KeyOffsets(), 50_000
    data, starts, sizes = fields([b"%d" % number for number in range(count)])
    offsets = np.arange(count, dtype=np.int64)
    assert table.put(data, starts, sizes, offsets, count) == count
    found = np.empty(count, dtype=np.int64)
    table.get(data, starts, sizes, found)
    assert (found == offsets).all()


def test_the_last_offset_of_a_key_counts() -> None:
    table = loops.KeyOffsets()
    data, starts, sizes = fields([b"a", b"b", b"a"])
    table.put(data, starts, sizes, np.array([4, 5, 6], dtype=np.int64), 10)
    found = np.empty(3, dtype=np.int64)
    table.get(data, starts, sizes, found)
    assert found.tolist() == [6, 5, 6]


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, (1 << 31) - 1), NUMBERS, st.none() | st.binary(max_size=200), st.none() | st.binary()
    ),
    max_size=20,
)


@given(RECORDS, st.integers(0, 1 << 40), NUMBERS)
def test_the_compiled_records_are_those_of_the_plain_encoder(
    records: list[tuple[int, int, bytes | None, bytes | None]], base_offset: int, base_timestamp: int
) -> None:
    flat = [field for record in records for field in record[2:]]
    data, starts, sizes = fields(flat)
    columns = [
        np.array([base_offset + record[0] for record in records], dtype=np.int64),
        np.array([record[1] for record in records], dtype=np.int64),
        *(starts[0::2], sizes[0::2], starts[1::2], sizes[1::2]),
    ]
    rows = np.ascontiguousarray(np.stack(columns))
    written = loops.record_bytes(data, rows, base_offset, base_timestamp)
    assert written == reference.record_bytes(data, rows, base_offset, base_timestamp)
