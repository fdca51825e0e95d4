"""The bulk decoder gives what the reference decoder gives, batch for batch."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkatool.engine.batches.scan import BatchRun, scan_runs
from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import FormatError, TooLarge
from kafkatool.format import columns
from kafkatool.format.batch import HEADER_SIZE, Codec, NewRecord, read_header, seal
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.columns import BadRecords, RecordDecoder, read_batch_columns
from kafkatool.format.record import Record, read_records
from tests.logs import TIME, batches, records
from tests.places import FIXTURES

LOGS = sorted(path for path in FIXTURES.rglob("*.log*") if path.is_file())

Found = tuple[int, Record | str]
"""The position of a batch, and one of its records, or what is wrong with them."""


def decoded(decoder: RecordDecoder, window: bytes, start: int, end: int, position: int) -> Iterator[Found]:
    for piece in decoder.decode(window, start, end, position):
        if isinstance(piece, BadRecords):
            assert piece.header == read_header(window, start + piece.position - position)
            yield piece.position, str(piece.error)
            continue
        for row in range(len(piece)):
            batch = int(piece.batch[row])
            record = Record(
                int(piece.offset[row]),
                int(piece.timestamp_ms[row]),
                int(piece.sequence[row]),
                int(piece.attributes[row]),
                piece.key(row),
                piece.value(row),
                piece.headers(row),
            )
            yield int(piece.batches.position[batch]), record


def expected(window: bytes, start: int, end: int, position: int, limit: int = 64 << 20) -> Iterator[Found]:
    """What the reference says; what is wrong with a batch comes behind the records before it."""
    while start < end:
        header = read_header(window, start)
        try:
            for record in read_records(header, window[start : start + header.size], max_inflated=limit):
                yield position, record
        except FormatError as error:
            yield position, str(error)
        start, position = start + header.size, position + header.size


def without_the_damaged(found: list[Found]) -> list[Found]:
    """Leave out the records of batches with which something is wrong."""
    damaged = {position for position, what in found if isinstance(what, str)}
    return [(position, what) for position, what in found if position not in damaged or isinstance(what, str)]


def assert_same(window: bytes, *, limit: int = 64 << 20) -> None:
    found = list(decoded(RecordDecoder(limit), window, 0, len(window), 0))
    wanted = list(expected(window, 0, len(window), 0, limit))
    assert without_the_damaged(found) == without_the_damaged(wanted)
    assert set(found) <= set(wanted)  # of a damaged batch at most what was good


# --- real logs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", LOGS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_columns_of_what_brokers_wrote_are_the_records(log: Path) -> None:
    decoder = RecordDecoder()
    with open_source(log, Guest(cache_keep=True)) as source:
        for run in scan_runs(source):
            if isinstance(run, BatchRun):
                place = run.window, run.start, run.end, run.position
                assert list(decoded(decoder, *place)) == list(expected(*place))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_columns_of_batches_are_their_headers(log: Path) -> None:
    with open_source(log, Guest(cache_keep=True)) as source:
        for run in scan_runs(source):
            if isinstance(run, BatchRun):
                found = read_batch_columns(run.window, run.start, run.end, run.batch_count, run.position)
                rows = [tuple(map(int, row)) for row in zip(*found, strict=True)]
                batches = list(run.batches())
                assert rows == [
                    (batch.position, batch.header[0], batch.header.size, *batch.header[2:])
                    for batch in batches
                ]
                assert list(found.last_offset) == [batch.header.last_offset for batch in batches]


# --- made ones ----------------------------------------------------------------------------------------


some_batches = st.tuples(st.lists(records, max_size=5), st.sampled_from(Codec))


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Batches of all codecs; some hold less than they promise, or something else altogether."""
    pieces, offset = [], draw(st.integers(0, 1 << 62))
    for rows, codec in draw(st.lists(some_batches, max_size=6)):
        batch = write_batch(rows, base_offset=offset, codec=codec, base_sequence=draw(st.integers(-1, 9)))
        offset += max(1, len(rows))
        damage = draw(st.sampled_from(["none"] * 6 + ["count", "body", "codec", "emptied"]))
        pieces.append(damaged(batch, damage, draw(st.binary(max_size=20))))
    return b"".join(pieces)


def damaged(batch: bytes, how: str, junk: bytes) -> bytes:
    """A batch whose checksum is good again."""
    header, body = read_header(batch), batch[HEADER_SIZE:]
    if how == "count":
        header = header._replace(records_count=header.records_count + 1)
    elif how == "body":
        body = body[: len(body) // 2] + junk
    elif how == "codec":
        header = header._replace(attributes=header.attributes ^ 1)
    elif how == "emptied":
        header, body = header._replace(records_count=0, attributes=3), b""
    return seal(header, body)


SIZES = [(columns.RECORDS_AT_ONCE, columns.ARENA_SIZE), (1, 0), (1, 1000), (2, 40), (5, 200), (100, 0)]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(logs(), st.sampled_from(SIZES))
def test_tables_and_arenas_of_any_size_hold_any_log(window: bytes, sizes: tuple[int, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "RECORDS_AT_ONCE", sizes[0])
        patch.setattr(columns, "_PIECE", sizes[0] * HEADER_SIZE)
        patch.setattr(columns, "ARENA_SIZE", sizes[1])
        assert_same(window)


def test_a_batch_of_bad_records_leaves_its_neighbours_alone() -> None:
    for codec in Codec:
        first, second, third = batches(3, codec=codec)
        window = first + damaged(second, "count", b"") + third
        found = list(decoded(RecordDecoder(), window, 0, len(window), 1000))
        assert [what.offset if isinstance(what, Record) else None for _at, what in found] == [
            *(0, 1, 2, None),
            *(6, 7, 8),
        ]
        assert found[3][0] == 1000 + len(first)


def test_a_batch_that_was_emptied_has_a_row_of_its_own_and_no_records() -> None:
    for codec in Codec:
        header = read_header(write_batch([], base_offset=7))._replace(attributes=codec, last_offset_delta=4)
        for body in (b"", bytes(5 << 20)):
            window = seal(header, body)
            (piece,) = RecordDecoder().decode(window, 0, len(window), 0)
            assert not isinstance(piece, BadRecords)
            assert (len(piece), list(piece.batches.base_offset)) == (0, [7])


# --- limits -------------------------------------------------------------------------------------------


def many(count: int, value: bytes, codec: Codec) -> bytes:
    return write_batch([NewRecord(None, value, TIME)] * count, codec=codec)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_giant_batch_comes_in_pieces(codec: Codec) -> None:
    count = 2 * columns.RECORDS_AT_ONCE + 1
    window = batches(1)[0] + many(count, b"v", codec) + batches(1)[0]
    pieces = list(RecordDecoder().decode(window, 0, len(window), 0))
    assert not any(isinstance(piece, BadRecords) for piece in pieces)
    assert sum(len(piece) for piece in pieces) == count + 6
    assert_same(window)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_records_larger_than_the_arena_are_decoded(codec: Codec) -> None:
    small = batches(2, codec=codec)
    window = small[0] + many(3, bytes(columns.ARENA_SIZE // 2), codec) + small[1]
    assert_same(window)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_inflates_beyond_the_limit_is_told_and_left_out(codec: Codec) -> None:
    window = batches(1)[0] + many(1, bytes(3 << 20), codec) + batches(1)[0]
    (bad,) = [
        p for p in RecordDecoder(1 << 20).decode(window, 0, len(window), 0) if isinstance(p, BadRecords)
    ]
    assert isinstance(bad.error, TooLarge)
    assert_same(window, limit=1 << 20)


def test_memory_does_not_grow_with_the_log() -> None:
    def peak(windows: int) -> int:
        tracemalloc.start()
        decoder = RecordDecoder()
        for _ in range(windows):
            assert sum(len(piece) for piece in decoder.decode(window, 0, len(window), 0)) == 4 * 2_000
        _now, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    window = b"".join(many(2_000, b"", codec) for codec in (Codec.NONE, Codec.ZSTD, Codec.LZ4, Codec.GZIP))
    peak(1)  # what is imported when it is first used
    once = peak(1)
    assert once < 16 << 20
    assert peak(5) < once + (1 << 20)
