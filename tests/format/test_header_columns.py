"""Headers as columns are those that the reference decoder reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatool.format.batch import NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.columns import RecordColumns, RecordDecoder
from kafkatool.format.header_columns import read_header_columns
from kafkatool.format.record import read_records
from tests.logs import headers

Headers = list[tuple[bytes, bytes | None]]


def _read(batch: bytes) -> list[Headers]:
    found: list[Headers] = []
    for columns in RecordDecoder().decode(batch, 0, len(batch), 0):
        assert isinstance(columns, RecordColumns)
        spans = read_header_columns(columns.data, columns.headers_start, columns.headers_count)
        pairs: Headers = []
        for key_at, key_size, at, size in np.array(spans).T.tolist():
            value = None if size < 0 else bytes(columns.data[at : at + size])
            pairs.append((bytes(columns.data[key_at : key_at + key_size]), value))
        for count in columns.headers_count.tolist():
            found.append(pairs[:count])
            pairs = pairs[count:]
    return found


def _expected(batch: bytes) -> list[Headers]:
    return [list(record.headers) for record in read_records(read_header(batch), batch)]


@given(st.lists(headers, min_size=1, max_size=8))
def test_headers_are_those_of_the_reference(each: list[Headers]) -> None:
    batch = write_batch([NewRecord(b"k", b"v", 1, one) for one in each])
    assert _read(batch) == _expected(batch)


@pytest.mark.parametrize("count", [63, 64, 65, 300])
def test_any_number_of_headers_is_read(count: int) -> None:
    many: Headers = [(b"%d" % at, None if at % 3 else b"x" * at) for at in range(count)]
    batch = write_batch([NewRecord(b"k", b"v", 1, one) for one in ([], many, many[:2], many)])
    assert _read(batch) == _expected(batch)


def test_long_names_and_values_are_read() -> None:
    batch = write_batch([NewRecord(None, None, 1, [(b"n" * 20_000, b"v" * 3_000_000), (b"", None)])])
    assert _read(batch) == _expected(batch)
