"""`kafkatool export`: every format holds the records, whole files only, and a run goes on where one ended."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkatool.commands.rows.batches import LogPlace
from kafkatool.engine.batches.records import records_of
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.source import Guest
from kafkatool.engine.records.export_output import MANIFEST
from kafkatool.format.batch import BatchHeader, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.legacy import LegacyHeader, write_message
from tests.cli import parse_rows, run
from tests.engine.transaction_logs import LogMaker, set_limits, write_logs
from tests.fixtures_of_logs import LOG_DIRECTORIES
from tests.logs import batches, walk

COLUMNS = [
    *("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"),
    *("sequence", "producer_id", "producer_epoch", "partition_leader_epoch", "batch_position"),
]
MORE = ["is_control", "txn", "above_high_watermark", "below_log_start"]


def export(*arguments: object, code: int = 0) -> str:
    done = run("export", *map(str, arguments))
    assert done.exit_code == code, done.stderr
    assert done.stdout == b""
    return done.stderr.decode()


def parquet_rows(*paths: Path) -> list[dict[str, Any]]:
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def reference_rows(directory: Path) -> Iterator[dict[str, Any]]:
    """What the reference decoder says of every good batch."""
    for path in sorted(directory.glob("*.log")):
        place = LogPlace.of(str(path), Guest())
        for batch in walk(path)[0]:
            if not batch.is_valid or batch.data is None:
                continue
            header = batch.header
            is_old = isinstance(header, LegacyHeader)
            for record in records_of(header, batch.data):
                yield {
                    "topic": place.topic,
                    "partition": place.partition,
                    "offset": record.offset,
                    "timestamp_ms": record.timestamp_ms,
                    "timestamp_type": header.timestamp_type.value,
                    "key": record.key,
                    "value": record.value,
                    "headers": [{"key": name, "value": value} for name, value in record.headers],
                    "sequence": None if is_old else record.sequence,
                    "producer_id": header.producer_id if isinstance(header, BatchHeader) else None,
                    "producer_epoch": header.producer_epoch if isinstance(header, BatchHeader) else None,
                    "partition_leader_epoch": header.partition_leader_epoch
                    if isinstance(header, BatchHeader)
                    else None,
                    "batch_position": batch.position,
                }


@pytest.mark.parametrize(
    "directory",
    [path for path in LOG_DIRECTORIES if "/odd/" not in str(path)],
    ids=lambda path: "/".join(path.parts[-3:]),
)
def test_parquet_holds_what_the_reference_decoder_reads(directory: Path, tmp_path: Path) -> None:
    done = run("export", "--all", "-o", str(tmp_path / "all.parquet"), str(directory))
    assert done.exit_code in (0, 4), done.stderr
    ours = [{key: row[key] for key in COLUMNS} for row in parquet_rows(tmp_path / "all.parquet")]
    assert ours == list(reference_rows(directory))


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments: 0 to 3 with an aborted transaction, 4 to 7 with a committed and an open one."""
    first = LogMaker().plain().txn(1).abort(1).plain()
    second = LogMaker(offset=4).txn(1).commit(1).txn(2).plain()
    logs = {0: bytes(first.data), 4: bytes(second.data)}
    return write_logs(tmp_path / "data", logs, high_watermark=8)


def test_every_format_holds_the_same(partition: Path, tmp_path: Path) -> None:
    for fmt in ("parquet", "arrow", "csv", "ndjson"):
        export("--format", fmt, "-o", tmp_path / f"out.{fmt}", partition)
    rows = parquet_rows(tmp_path / "out.parquet")
    assert [row["offset"] for row in rows] == [0, 3, 4]
    assert list(rows[0]) == COLUMNS
    with pa.ipc.open_file(tmp_path / "out.arrow") as file:
        assert file.read_all().to_pylist() == rows
    texts = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    lines = parse_rows((tmp_path / "out.ndjson").read_text())
    for row, text, line in zip(rows, texts, lines, strict=True):
        assert list(text) == COLUMNS
        for key in set(COLUMNS) - {"headers"}:
            value = row[key].decode() if isinstance(row[key], bytes) else row[key]
            assert (text[key], line[key]) == (str(value), value)


def test_all_adds_the_columns_of_visibility(partition: Path, tmp_path: Path) -> None:
    for fmt in ("parquet", "csv"):
        export("--all", "--format", fmt, "-o", tmp_path / f"out.{fmt}", partition)
    rows = parquet_rows(tmp_path / "out.parquet")
    assert list(rows[0]) == COLUMNS + MORE
    assert [row["txn"] for row in rows] == [
        *("none", "aborted", "aborted", "none", "committed", "committed", "open", "none")
    ]
    assert [row["offset"] for row in rows if row["is_control"]] == [2, 5]
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == ",".join(COLUMNS + MORE)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("fmt", ["parquet", "arrow"])
def test_nulls_headers_and_every_codec_come_back(tmp_path: Path, codec: Codec, fmt: str) -> None:
    records = [
        NewRecord(None, b"v", 1, [(b"a", b"1"), (b"a", None), (b"", b"")]),
        NewRecord(b"", None, 2),
        NewRecord(b"k" * 300, b"\x00\xff" * 500, -1, [(b"h" * 200, b"x" * 1000)] * 70),
    ] * 50
    directory = write_logs(tmp_path / "data", {0: write_batch(records, codec=codec)})
    out = tmp_path / f"out.{fmt}"
    export("--format", fmt, "-o", out, directory)
    rows = parquet_rows(out) if fmt == "parquet" else pa.ipc.open_file(out).read_all().to_pylist()
    assert [{key: row[key] for key in COLUMNS} for row in rows] == list(reference_rows(directory))


def test_old_formats_have_null_where_they_know_nothing(tmp_path: Path) -> None:
    data = write_message(0, b"a", None, magic=0) + write_message(1, None, b"two", timestamp_ms=5)
    directory = write_logs(tmp_path / "data", {0: data})
    export("-o", tmp_path / "out.parquet", directory)
    rows = parquet_rows(tmp_path / "out.parquet")
    assert rows == list(reference_rows(directory))
    assert (rows[0]["timestamp_type"], rows[0]["producer_id"]) == ("NoTimestampType", None)


# --- directories --------------------------------------------------------------------------------------


def test_a_directory_gets_a_file_a_segment_and_a_second_run_does_nothing(
    partition: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export("--high-watermark", "end", "--to", "6", "-o", out, partition)
    files = sorted((out / "orders-0").iterdir())
    assert [path.name for path in files] == [f"{0:020d}.parquet", f"{4:020d}.parquet"]
    assert [row["offset"] for row in parquet_rows(*files)] == [0, 3, 4]
    before = {path: path.stat().st_mtime_ns for path in files}
    said = export("--high-watermark", "end", "--to", "6", "-o", out, partition)
    assert "0 records in 0 files" in said
    assert "2 files done before and unchanged: skipped" in said
    assert before == {path: path.stat().st_mtime_ns for path in files}


def test_what_was_open_or_has_changed_is_exported_again(partition: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "3 records in 2 files" in export("-o", out, partition)
    assert "1 record in 1 file" in export("-o", out, partition)
    log = LogMaker(offset=8).commit(2)
    with (partition / f"{4:020d}.log").open("ab") as file:
        file.write(log.data)
    set_limits(partition.parent, 9)
    assert "3 records in 1 file" in export("-o", out, partition)
    said = export("-o", out, partition)
    assert "2 files done before" in said
    rows = parquet_rows(*sorted((out / "orders-0").iterdir()))
    assert [row["offset"] for row in rows] == [0, 3, 4, 6, 7]


def test_other_settings_do_everything_again(partition: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export("--all", "-o", out, partition)
    assert "skipped" not in export("-o", out, partition)


def test_a_file_that_was_removed_is_written_again(partition: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export("--all", "-o", out, partition)
    (out / "orders-0" / f"{0:020d}.parquet").unlink()
    assert "4 records in 1 file" in export("--all", "-o", out, partition)


def test_a_list_that_cannot_be_read_is_no_list(partition: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export("--all", "-o", out, partition)
    for content in ("{", "[]", '{"version": 1, "files": {"x": 3}}', '{"version": 2}'):
        (out / MANIFEST).write_text(content)
        assert "skipped" not in export("--all", "-o", out, partition)


def test_damage_is_told_again_when_a_segment_is_skipped(tmp_path: Path) -> None:
    log = LogMaker().plain().plain().plain()
    log.data[log.positions[1] + 65] ^= 1
    partition = write_logs(tmp_path / "data", {0: bytes(log.data)})
    assert "bad_crc" in export("-o", tmp_path / "out", partition, code=4)
    said = export("-o", tmp_path / "out", partition, code=4)
    assert "was damaged when it was exported" in said
    assert "1 file done before" in said


def test_an_interrupted_run_leaves_whole_files_and_is_taken_up(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    rename, seen = Disk.rename, 0

    def fail_at_the_second_file(self: Disk, source: str, target: str) -> None:
        nonlocal seen
        seen += target.endswith(".parquet")
        if seen == 2:
            raise OSError(28, "No space left on device", target)
        rename(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "rename", fail_at_the_second_file)
        assert "No space left" in export("--all", "-o", out, partition, code=3)
    assert [path.name for path in (out / "orders-0").iterdir()] == [f"{0:020d}.parquet"]
    said = export("--all", "-o", out, partition)
    assert "4 records in 1 file" in said
    assert "1 file done before" in said


def test_what_a_kill_left_behind_is_overwritten(partition: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / "orders-0" / f".{0:020d}.parquet.tmp"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    export("--all", "-o", tmp_path / "out", partition)
    assert not left.exists()


def test_copies_of_one_partition_are_not_mixed(partition: Path, tmp_path: Path) -> None:
    other = write_logs(tmp_path / "other", {0: bytes(LogMaker().plain().data)})
    assert "are both orders-0" in export("-o", tmp_path / "out", partition, other, code=2)
    export("-o", tmp_path / "out.parquet", partition, other)
    assert len(parquet_rows(tmp_path / "out.parquet")) == 4


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["orders-0/out", "out", "orders-0/x.parquet"])
def test_nothing_is_written_into_a_log_directory(partition: Path, where: str) -> None:
    before = sorted(partition.parent.rglob("*"))
    assert "where only a broker writes" in export("-o", partition.parent / where, partition, code=5)
    assert sorted(partition.parent.rglob("*")) == before


def test_an_output_that_cannot_be_is_one_line(partition: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "Not a directory" in export("-o", tmp_path / "file" / "x.parquet", partition, code=3)
    assert run("export", str(partition)).exit_code == 2
    assert run("export", "-o", "", str(partition)).exit_code == 2


def test_standard_output_is_for_cat(partition: Path) -> None:
    assert "cat --format ndjson writes to standard output" in export("-o", "-", partition, code=2)


def test_the_name_of_a_file_says_its_format(partition: Path, tmp_path: Path) -> None:
    export("--output", tmp_path / "rows.jsonl", partition)
    assert parse_rows((tmp_path / "rows.jsonl").read_text())[0]["kind"] == "record"
    export("--output", tmp_path / "rows.feather", partition)
    assert pa.ipc.open_file(tmp_path / "rows.feather").read_all().num_rows > 0
    export("--format", "csv", "--output", tmp_path / "rows.parquet", partition, code=2)
    assert not (tmp_path / "rows.parquet").exists()


def test_nothing_that_matches_is_2(partition: Path, tmp_path: Path) -> None:
    assert "nothing matches" in export("--key", "nobody", "-o", tmp_path / "x.csv", partition, code=2)


# --- size ---------------------------------------------------------------------------------------------

_PEAK = """
import re, sys
{before}
def peak():  # ru_maxrss would begin with the peak of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
base = peak()
from typer.testing import CliRunner
from kafkatool.cli import app
result = CliRunner().invoke(app, sys.argv[1:])
assert result.exit_code == 0, result.output
print(base, peak())
"""


@pytest.mark.long
@pytest.mark.parametrize("fmt", ["parquet", "arrow", "ndjson"])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, fmt: str) -> None:
    rows_in_batch, size = 150, 100 if fmt != "ndjson" else 2000
    records = [NewRecord(b"key-%d" % at, bytes([at]) * size, 1) for at in range(rows_in_batch)]
    count = (200 << 20) // (rows_in_batch * (size + 20))
    path = write_logs(tmp_path / "data", {}) / f"{0:020d}.log"
    batch = write_batch(records)
    with path.open("wb") as file:
        for at in range(count):
            file.write((at * rows_in_batch).to_bytes(8, "big") + batch[8:])
    arguments = ["export", "-q", "--format", fmt, "-o", str(tmp_path / f"out.{fmt}"), str(path.parent)]
    before = "" if fmt == "ndjson" else "import pyarrow, pyarrow.parquet"
    command = [sys.executable, "-c", _PEAK.format(before=before), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    base, peak = map(int, done.stdout.split())
    assert peak - (base if before else 0) < 150 << 10, (base, peak)
    if fmt == "parquet":
        assert pq.read_metadata(tmp_path / "out.parquet").num_rows == count * rows_in_batch
        assert pq.read_metadata(tmp_path / "out.parquet").num_row_groups >= 8


def test_the_rows_of_many_batches_come_back_in_order(tmp_path: Path) -> None:
    directory = write_logs(tmp_path / "data", {0: b"".join(batches(9000, per_batch=20))})
    export("-o", tmp_path / "out.parquet", directory)
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["offset"].to_pylist() == list(range(180_000))
    assert table["value"].to_pylist() == [b"value %d" % at for at in range(180_000)]


@pytest.fixture
def two_partitions(tmp_path: Path) -> Path:
    """t-0 and t-1, of seven segments with a record each."""
    for name in ("t-0", "t-1"):
        directory = tmp_path / "data" / name
        directory.mkdir(parents=True)
        for offset in range(7):
            batch = write_batch([NewRecord(None, b"%d" % offset, 1000 + offset)], base_offset=offset)
            (directory / f"{offset:020d}.log").write_bytes(batch)
    return tmp_path / "data"


def test_limit_counts_all_records_and_tail_those_of_each_partition(
    two_partitions: Path, tmp_path: Path
) -> None:
    target = tmp_path / "some.parquet"
    export("--limit", 9, "-o", target, two_partitions)
    offsets = [(row["partition"], row["offset"]) for row in parquet_rows(target)]
    assert offsets == [*((0, offset) for offset in range(7)), (1, 0), (1, 1)]
    export("--tail", 2, "-o", target, two_partitions)
    assert [(row["partition"], row["offset"]) for row in parquet_rows(target)] == [
        (0, 5),
        (0, 6),
        (1, 5),
        (1, 6),
    ]
    export("--tail", 2, "--limit", 3, "-o", target, two_partitions)
    assert len(parquet_rows(target)) == 3


def test_a_part_goes_to_one_file(two_partitions: Path, tmp_path: Path) -> None:
    assert "write one file" in export("--limit", 1, "-o", tmp_path / "dir", two_partitions, code=2)
    assert "nothing matches" in export("--limit", 0, "-o", tmp_path / "x.csv", two_partitions, code=2)


@pytest.mark.long
def test_any_number_of_processes_writes_the_same_files(two_partitions: Path, tmp_path: Path) -> None:
    said = {}
    for jobs in ("1", "3"):  # not in this process, which has threads and must not be forked
        words = ["export", "--jobs", jobs, "-o", str(tmp_path / jobs), str(two_partitions)]
        done = subprocess.run([sys.executable, "-m", "kafkatool", *words], capture_output=True, text=True)
        assert done.returncode == 0
        said[jobs] = done.stderr.replace(str(tmp_path / jobs), "")
    one, three = (
        {str(path.relative_to(tmp_path / jobs)): path.read_bytes() for path in (tmp_path / jobs).rglob("*.*")}
        for jobs in said
    )
    assert said["1"] == said["3"]
    assert len(one) == 15
    assert json.loads(one.pop(MANIFEST)) == json.loads(three.pop(MANIFEST))
    assert one == three


def test_records_with_secrets_are_left_out_if_wanted(tmp_path: Path) -> None:
    # Written by a broker that was given users with SCRAM credentials.
    log = next(path for path in LOG_DIRECTORIES if path.name == "__cluster_metadata-0")
    said = export("--all", "-o", tmp_path / "all.ndjson", log)
    assert "--redact leaves them out" in said
    said = export("--all", "--redact", "-o", tmp_path / "some.ndjson", log)
    assert "may show" not in said
    assert "left out because they contain secrets: " in said
    everything, some = ((tmp_path / name).read_text().splitlines() for name in ("all.ndjson", "some.ndjson"))
    assert len(some) < len(everything)
    assert set(some) < set(everything)
