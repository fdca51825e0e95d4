"""Bytes that no broker wrote: bounded work, no traceback, and never passed over in silence."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kafkatool.engine.files.source import Guest, open_source
from kafkatool.errors import TooLarge
from kafkatool.format.batch import Codec, NewRecord, read_header, seal
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.columns import BadRecords, RecordColumns, RecordDecoder
from kafkatool.format.compression import compress
from kafkatool.format.names import segment_file
from kafkatool.format.primitives import write_varint
from kafkatool.format.record import MOST_HEADERS, read_records
from tests.cli import rows_of, run

BATCHES = [
    write_batch([NewRecord(b"k", b"v" * 50, 1000 + at)], base_offset=at, partition_leader_epoch=0)
    for at in range(5)
]
HOLE = 1 << 40
WALKS = (
    ("verify",),
    ("verify", "--deep"),
    ("stats",),
    ("stats", "--deep"),
    ("recover",),
    ("doctor", "--elsewhere"),
    ("cat",),
    ("report", "-o", "{}.html"),
    ("rebuild-index",),
    ("dump-log", "--deep-iteration"),
    ("dump-log", "--format", "ndjson"),
    ("ls",),
    ("retention",),
    ("export", "--output", "{}.ndjson"),
)


def partition(tmp_path: Path, data: bytes, name: str = segment_file(0, ".log")) -> Path:
    path = tmp_path / "logs" / "orders-0"
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(data)
    return path


def walk(tmp_path: Path, words: tuple[str, ...], path: Path) -> str:
    """Run a command over a partition; its output. A traceback fails the test."""
    filled = [word.format(tmp_path / "out") for word in words]
    target = path.parent if words[0] in ("recover", "doctor", "ls", "retention") else path
    done = run(*filled, str(target))
    assert done.exit_code in (0, 4), (words, done.stderr)
    assert b"should not happen" not in done.stderr
    return (done.stdout + done.stderr).decode()


# --- a record count below zero ------------------------------------------------------------------------------


def negative_count() -> bytes:
    raw = BATCHES[2]
    odd = seal(read_header(raw)._replace(records_count=-1), raw[61:])
    return b"".join([*BATCHES[:2], odd, *BATCHES[3:]])


@pytest.mark.parametrize("words", WALKS, ids=" ".join)
def test_every_walk_survives_a_negative_record_count(tmp_path: Path, words: tuple[str, ...]) -> None:
    walk(tmp_path, words, partition(tmp_path, negative_count()))


def test_a_negative_record_count_is_a_loss_though_the_checksum_matches(tmp_path: Path) -> None:
    rows = rows_of("verify", partition(tmp_path, negative_count()))
    assert [row["severity"] for row in rows if row.get("class") == "bad_record"] == ["loss"]
    assert next(row for row in rows if row["kind"] == "summary")["batches"] == 5


# --- millions of headers ------------------------------------------------------------------------------------


def with_headers(count: int, records: int = 1) -> bytes:
    """A batch whose records have so many headers, each without name and value."""
    body = b""
    for number in range(records):
        record = b"\0\0" + write_varint(number) + b"\1\1" + write_varint(count) + b"\0\1" * count
        body += write_varint(len(record)) + record
    header = read_header(BATCHES[0])._replace(
        attributes=Codec.ZSTD, records_count=records, last_offset_delta=records - 1
    )
    return seal(header, compress(Codec.ZSTD, body))


@pytest.mark.parametrize("words", WALKS, ids=" ".join)
def test_millions_of_headers_in_a_small_batch_cost_no_more_than_inflating_it(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    data = with_headers(8_000_000)
    assert len(data) < 16_000
    path = partition(tmp_path, data)
    begun = time.process_time()
    walk(tmp_path, words, path)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("words", [("cat", "--format", "ndjson"), ("stats", "--deep")], ids=" ".join)
def test_what_has_too_many_headers_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    text = walk(tmp_path, words, partition(tmp_path, with_headers(8_000_000)))
    assert "too_large" in text


def test_the_batches_around_one_with_too_many_headers_are_decoded() -> None:
    data = with_headers(3) + with_headers(MOST_HEADERS + 1) + with_headers(MOST_HEADERS)
    found = list(RecordDecoder().decode(data, 0, len(data), 0))
    assert [type(piece) for piece in found] == [RecordColumns, BadRecords, RecordColumns]
    bad = found[1]
    assert isinstance(bad, BadRecords)
    assert (type(bad.error), bad.position) == (TooLarge, len(with_headers(3)))


def test_many_records_with_many_headers_are_bounded_together() -> None:
    data = with_headers(MOST_HEADERS, records=60)
    (bad,) = RecordDecoder().decode(data, 0, len(data), 0)
    assert isinstance(bad, BadRecords)
    assert isinstance(bad.error, TooLarge)


def test_the_reference_reads_as_many_headers_as_are_allowed() -> None:
    data = with_headers(MOST_HEADERS)
    (record,) = read_records(read_header(data), data)
    assert len(record.headers) == MOST_HEADERS
    data = with_headers(MOST_HEADERS + 1)
    with pytest.raises(TooLarge):
        list(read_records(read_header(data), data))


# --- holes ----------------------------------------------------------------------------------------


def has_holes(directory: Path) -> bool:
    """Whether the file system says where a hole is."""
    probe = directory / "probe"
    with probe.open("wb") as file:
        file.truncate(HOLE)
    with open_source(probe, Guest(cache_keep=True)) as source:
        return source.next_data(0) == HOLE


def sparse(path: Path, size: int = HOLE) -> None:
    with path.open("ab") as file:
        file.truncate(size)


@pytest.mark.parametrize("words", WALKS, ids=" ".join)
@pytest.mark.parametrize("behind", [b"", BATCHES[3] + BATCHES[4]], ids=["to the end", "before more batches"])
def test_a_hole_of_a_tebibyte_in_a_log_takes_no_time(
    tmp_path: Path, words: tuple[str, ...], behind: bytes
) -> None:
    if not has_holes(tmp_path):
        pytest.skip("this file system does not tell of holes")
    path = partition(tmp_path, b"".join(BATCHES[:3]))
    sparse(path / segment_file(0, ".log"))
    with (path / segment_file(0, ".log")).open("ab") as log:
        log.write(behind)
    begun = time.process_time()
    walk(tmp_path, words, path)
    assert time.process_time() - begun < 4


@pytest.mark.parametrize("words", WALKS, ids=" ".join)
def test_a_hole_of_a_tebibyte_in_an_index_takes_no_time(tmp_path: Path, words: tuple[str, ...]) -> None:
    if not has_holes(tmp_path):
        pytest.skip("this file system does not tell of holes")
    path = partition(tmp_path, b"".join(BATCHES))
    for extension in (".index", ".timeindex", ".txnindex"):
        sparse(path / segment_file(0, extension))
    begun = time.process_time()
    walk(tmp_path, words, path)
    assert time.process_time() - begun < 4


def test_batches_behind_a_hole_are_found_wherever_it_ends(tmp_path: Path) -> None:
    """One that begins in the hole too: its offset is zeros, and its length is the first byte that is none."""
    for shift in (0, 1, 8, 11, 12):
        log = tmp_path / segment_file(0, ".log")
        log.write_bytes(b"\xff")
        os.truncate(log, (1 << 30) - shift)
        with log.open("ab") as file:
            file.write(BATCHES[0])
        rows = rows_of("dump-log", log)
        assert [row["position"] for row in rows if row["kind"] == "batch"] == [(1 << 30) - shift]


# --- names that stand for an offset ---------------------------------------------------------------

ODD_NAMES = ("-0000000000000000001.log", "5.log", "+0000000000000000000.log", "0.log", "٣.log")


@pytest.mark.parametrize("name", [*ODD_NAMES, "5.snapshot", "-0000000000000000001.snapshot", "5.index"])
@pytest.mark.parametrize("words", [("doctor", "--elsewhere"), *WALKS[:5], *WALKS[6:]], ids=" ".join)
def test_every_walk_survives_a_file_whose_name_no_broker_writes(
    tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    partition(tmp_path, b"".join(BATCHES))
    walk(tmp_path, words, partition(tmp_path, BATCHES[0], name))
