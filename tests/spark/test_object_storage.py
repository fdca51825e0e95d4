"""Copies of log directories on object storage: the same findings, rows and tables, read by ranges."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kafkatool.engine.files import object_storage
from tests.cli import rows_of, run
from tests.spark.lakes import audit, tables
from tests.spark.matrix import NOW


@pytest.fixture(scope="session")
def bucket(s3: None, damaged: Path) -> str:
    """The damaged directory, uploaded."""
    from pyarrow import fs

    host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    system = fs.S3FileSystem(endpoint_override=host, scheme="http", allow_bucket_creation=True)
    system.create_dir("brokers")
    local = fs.LocalFileSystem()
    fs.copy_files(str(damaged), "brokers/one/data", source_filesystem=local, destination_filesystem=system)
    return "s3://brokers/one/data"


@pytest.mark.parametrize("words", [["verify", "--deep"], ["stats", "--by", "file", "--now", NOW]])
def test_a_command_says_the_same_of_a_copy(spark: Any, bucket: str, damaged: Path, words: list[str]) -> None:
    for more in ([], ["--spark", "local[2]"]):
        here = rows_of(*words, *more, damaged)
        there = rows_of(*words, *more, bucket)
        text = json.dumps(there).replace(bucket, str(damaged))
        assert json.loads(text) == here


def test_records_come_from_there(spark: Any, bucket: str, damaged: Path) -> None:
    query = "SELECT topic, count(*) AS n, max(offset) AS last FROM records GROUP BY topic ORDER BY topic"
    here, there = (rows_of("sql", query, path) for path in (damaged, bucket))
    assert there == here
    assert here


def test_an_audit_of_a_copy_has_the_same_tables(
    spark: Any, bucket: str, damaged: Path, tmp_path: Path
) -> None:
    for name, path in (("here", damaged), ("there", bucket)):
        assert audit(tmp_path / name, f"x={path}").exit_code == 4
    here, there = tables(tmp_path / "here"), tables(tmp_path / "there")
    for found in (here, there):
        for row in found["segments"]:
            del row["modified_ms"], row["retention_goes_ms"]
        for row in found["findings"]:
            row["file"] = row["file"].rpartition("/")[2]
            del row["fix"]
    assert there == here


def test_what_is_not_there_is_told(s3: None) -> None:
    done = run("verify", "s3://brokers/nothing")
    assert done.exit_code == 2
    assert b"s3://brokers/nothing" in done.stderr


def test_bytes_are_read_in_large_pieces(bucket: str, damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = sorted((damaged / "orders-none-0").glob("*.log"))[0].name
    whole = (damaged / "orders-none-0" / name).read_bytes()
    monkeypatch.setattr(object_storage, "PIECE", 100_000)
    asked = []
    with object_storage.RemoteSource(f"{bucket}/orders-none-0/{name}") as source:
        real = source._file.read_at

        class Counting:
            def read_at(self, size: int, position: int) -> bytes:
                asked.append((position, size))
                return bytes(real(size, position))

            def close(self) -> None: ...

        source._file = Counting()
        found = b"".join(source.read(at, 1000) for at in range(0, len(whole), 1000))
    assert found == whole
    assert len(asked) == -(-len(whole) // 100_000)
