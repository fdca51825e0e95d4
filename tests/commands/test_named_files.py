"""A file that is named by hand: read as what it is, or exit 2; never a clean bill for what was not read."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import threading
from functools import partial
from pathlib import Path

import pytest

from kafkatool.engine.files.source import Guest
from kafkatool.errors import UsageError
from kafkatool.format import kinds
from kafkatool.format.names import segment_file
from kafkatool.format.state.checkpoint import EpochStart, write_leader_epochs
from kafkatool.spark.planning import find_subjects, segments_of
from tests.cli import rows_of, run
from tests.logs import LOG, batches, write_log
from tests.places import FIXTURES

COUNT = 5
# Every command that takes files, with what else it needs.
READERS = (
    *(
        "verify",
        "report -o page.html",
        "stats",
        "dump-log",
        "dump-log --format ndjson",
        "cat",
        "ls",
        "cache-map",
    ),
    *("lookup --offset 1", "export -o exported.csv", "rebuild-index"),
)
OF_DIRECTORIES = ("doctor", "recover", "retention", "compact", "serve --list")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    return b"".join(batches(COUNT))


def foreign_files(directory: Path, log: bytes) -> list[Path]:
    """Files that are none of Kafka's."""
    directory.mkdir()
    content = {
        "passwd": b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
        f"{LOG}.gz": gzip.compress(log),
        "random.bin": random.Random(7).randbytes(3000),
        "random.log": random.Random(8).randbytes(3000),
        "text.index": b"just a text, and no index ......" * 8,
        "empty": b"",
        "zeros.bin": bytes(4096),
        "one": b"0",
        "config.json": b'{"version": 1}',
        "backup.tar": bytes(512) + log,
    }
    for name, data in content.items():
        (directory / name).write_bytes(data)
    return [directory / name for name in content]


rows = partial(rows_of, codes=[0])


@pytest.mark.parametrize("words", [*READERS, *OF_DIRECTORIES])
def test_a_file_that_is_none_of_kafkas_is_exit_2_and_says_so(words: str, log: bytes, tmp_path: Path) -> None:
    for path in foreign_files(tmp_path / "foreign", log):
        done = run(*words.split(), str(path))
        assert done.exit_code == 2, (path, done)
        assert path.name.encode() in done.stderr
        assert b"wrong" not in done.stdout + done.stderr
        assert not done.stdout


@pytest.mark.parametrize("words", READERS)
@pytest.mark.parametrize("name", ["odd/segment.log", "orders-0/copy of it", f"kept/{LOG}.kafkatool-1"])
def test_a_log_under_any_name_is_read_as_a_log(words: str, name: str, log: bytes, tmp_path: Path) -> None:
    path = write_log(tmp_path / Path(name).parent, log, Path(name).name)
    done = run(*words.split(), str(path))
    if words == "rebuild-index":
        assert (done.exit_code, done.stdout) == (2, b""), "the name of an index follows from that of its log"
    else:
        assert done.exit_code == 0, done
        assert done.stdout or " -o " in words


def test_what_is_read_under_an_odd_name_is_all_of_it(log: bytes, tmp_path: Path) -> None:
    path = str(write_log(tmp_path / "odd", log, "carved.bin"))
    assert [row["batches"] for row in rows("verify", path)] == [COUNT]
    assert len(rows("cat", path)) == len(rows("dump-log", "--deep-iteration", path))
    assert len(rows("dump-log", path)) == COUNT
    again = str(write_log(tmp_path / "odd", log, "other.bin"))
    assert [row["batches"] for row in rows("verify", path, again)] == [2 * COUNT], "each by itself"


def test_a_segment_with_its_own_name_is_a_damaged_log_whatever_its_bytes(tmp_path: Path) -> None:
    path = str(write_log(tmp_path / "orders-0", random.Random(1).randbytes(4000)))
    for words in ("verify", "stats", "dump-log --format ndjson", "cat"):
        assert run(*words.split(), path).exit_code == 4, words


def test_an_empty_segment_is_told_to_be_empty(tmp_path: Path) -> None:
    path = str(write_log(tmp_path / "orders-0", b""))
    done = run("verify", path)
    assert (done.exit_code, b"nothing is wrong" in done.stdout) == (0, False)
    assert b"there was no batch to check" in done.stdout
    done = run("report", "-o", str(tmp_path / "page.html"), path)
    assert b"There was no batch to check" in done.stderr
    assert "Nothing is wrong" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("state", [".deleted", ".cleaned", ".swap"])
def test_a_log_that_was_set_aside_is_checked_where_it_is_named(
    state: str, log: bytes, tmp_path: Path
) -> None:
    path = write_log(tmp_path / "orders-0", log, LOG + state)
    [summary] = rows("verify", str(path))
    assert summary["batches"] == COUNT
    path.write_bytes(log[:-3])
    assert run("verify", str(path)).exit_code == 4


def test_queries_and_audits_take_no_file_that_is_none_of_kafkas(log: bytes, tmp_path: Path) -> None:
    for path in foreign_files(tmp_path / "foreign", log):
        with pytest.raises(UsageError, match="foreign"):
            find_subjects([str(path)], Guest())
    odd = write_log(tmp_path / "odd", log, "carved.bin")
    [(_root, subject)] = find_subjects([str(odd)], Guest()).subjects
    assert [one.log.path for one in segments_of(subject) if one.log] == [str(odd)]


def test_read_as_says_what_a_file_is(log: bytes, tmp_path: Path) -> None:
    garbage = write_log(tmp_path / "odd", random.Random(2).randbytes(900), "garbage.bin")
    assert run("verify", "--read-as", "log", str(garbage)).exit_code == 4
    epochs = tmp_path / "odd" / "e"
    epochs.write_bytes(write_leader_epochs([EpochStart(3, 9)]))
    assert [row["epoch"] for row in rows("dump-log", str(epochs))] == [3]
    assert run("verify", "--read-as", "partition.metadata", str(epochs)).exit_code == 4
    offsets = tmp_path / "odd" / "offsets"
    offsets.write_text("0\n1\norders 0 7\n")
    done = run("verify", str(offsets))
    assert done.exit_code == 2
    assert b"--read-as recovery-point-offset-checkpoint|" in done.stderr
    [row] = rows("dump-log", "--read-as", kinds.LOG_STARTS.name, str(offsets))
    assert (row["checkpoint"], row["offset"]) == (kinds.LOG_STARTS.name, 7)


def test_read_as_takes_known_words_and_needs_a_file(log: bytes, tmp_path: Path) -> None:
    path = write_log(tmp_path / "orders-0", log)
    done = run("verify", "--read-as", "lock", str(path))
    assert (done.exit_code, b"timeindex" in done.stderr) == (2, True)
    assert run("verify", "--read-as", "log", str(path.parent)).exit_code == 2


@pytest.mark.parametrize("extension", ["index", "timeindex"])
def test_an_index_without_its_log_is_checked_by_itself(extension: str, tmp_path: Path) -> None:
    half = {"index": 4, "timeindex": 6}[extension]
    path = tmp_path / segment_file(0, f".{extension}")
    path.write_bytes(b"".join(number.to_bytes(half, "big") * 2 for number in (1, 2, 3)))
    [summary] = rows("verify", str(path))
    assert summary["side_files"] == 1
    path.write_bytes(b"".join(number.to_bytes(half, "big") * 2 for number in (9, 8, 7)))
    assert run("verify", str(path)).exit_code == 4


def test_files_named_kafkas_way_keep_its_text_and_end_with_2_where_it_ignores_them(
    log: bytes, tmp_path: Path
) -> None:
    odd = write_log(tmp_path / "odd", log, "carved.bin")
    done = run("dump-log", "--files", str(odd))
    assert done.stdout == f"Dumping {odd}\n".encode()
    assert done.kafka_stderr == [f"Ignoring unknown file {odd}".encode()]
    assert done.exit_code == 2
    assert run("dump-log", "--files", str(odd), "--read-as", "log").exit_code == 0


def test_a_pipe_is_a_log_for_dump_log_only(log: bytes, tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    assert run("verify", str(fifo)).exit_code == 2
    writer = threading.Thread(target=fifo.write_bytes, args=(log,))
    writer.start()
    assert len(rows("dump-log", str(fifo))) == COUNT
    writer.join()


def test_the_files_of_a_partition_are_all_read_where_they_are_named(log: bytes, tmp_path: Path) -> None:
    source = FIXTURES / "log-dir"
    [partition, *_] = sorted(path.parent for path in source.rglob("leader-epoch-checkpoint"))
    copied = Path(shutil.copytree(partition, tmp_path / partition.name))
    for path in sorted(copied.iterdir()):
        done = run("verify", str(path))
        assert done.exit_code == 0, (path, done)
        assert b"nothing is wrong" in done.stdout or path.stat().st_size == 0
