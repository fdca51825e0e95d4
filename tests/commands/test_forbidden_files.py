"""What we may not read is told, the rest is shown, and the exit code says that it is not all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import run_without_privileges
from tests.engine.transaction_logs import LogMaker, write_logs
from tests.logs import LOG, batches, write_log

SECOND = "00000000000000000030.log"
OUTPUT = "OUTPUT"
"""Stands for a place to write to."""
COMMANDS = {
    "ls": ("ls", "--segments"),
    "dump-log": ("dump-log", "--print-data-log"),
    "dump-log ndjson": ("dump-log", "--print-data-log", "--format", "ndjson"),
    "dump-log table": ("dump-log", "--format", "table", "--print-data-log"),
    "dump-log tail": ("dump-log", "--print-data-log", "--tail", "200"),
    "cat": ("cat",),
    "cat tail": ("cat", "--tail", "200"),
    "export": ("export", "--format", "csv", "--output", OUTPUT),
    "stats": ("stats", "--by", "file"),
    "verify": ("verify", "--deep"),
    "doctor": ("doctor",),
    "report": ("report", "-o", "-"),
}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Of three partitions, one may not be listed, and one has a log that may not be read."""
    parts = batches(20)
    directory = tmp_path / "data"
    for name in ("a-0", "b-0", "c-0"):
        write_log(directory / name, b"".join(parts[:10]))
        write_log(directory / name, b"".join(parts[10:]), SECOND)
    (directory / "a-0").chmod(0)
    (directory / "b-0" / LOG).chmod(0)
    return directory


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_what_may_not_be_read_is_told_and_the_rest_is_shown(name: str, log_dir: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    words = [str(output) if word == OUTPUT else word for word in COMMANDS[name]]
    done = run_without_privileges(*words, str(log_dir))
    assert done.returncode == 3, done.stderr
    for path in (log_dir / "a-0", log_dir / "b-0" / LOG):
        assert done.stderr.count(f"{path}: Permission denied") == 1, done.stderr
    shown = done.stdout + "".join(path.read_text() for path in sorted(output.rglob("*.csv")))
    if "data-log" in " ".join(words) or words[0] in ("cat", "export"):
        assert "value 31" in shown  # behind the log that may not be read
        assert "value 1" in shown  # in a partition behind both
    elif words[0] not in ("verify", "doctor"):
        assert "c-0" in shown or "c  " in shown


def test_a_partition_is_not_blamed_for_its_neighbours(log_dir: Path) -> None:
    done = run_without_privileges("cat", "--high-watermark", "end", str(log_dir / "c-0"))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 60


def test_a_segment_that_may_not_be_read_is_exported_as_soon_as_it_may(log_dir: Path, tmp_path: Path) -> None:
    words = "export", "--format", "csv", "--output", str(tmp_path / "output"), str(log_dir / "b-0")
    assert run_without_privileges(*words).returncode == 3
    written = tmp_path / "output" / "b-0"
    assert sorted(path.name for path in written.iterdir()) == [SECOND.replace(".log", ".csv")]
    (log_dir / "b-0" / LOG).chmod(0o600)
    done = run_without_privileges(*words)
    assert done.returncode == 0
    assert "30 records in 1 file; 1 file done before and unchanged: skipped" in done.stderr


def test_transactions_across_a_log_that_may_not_be_read_are_unknown(tmp_path: Path) -> None:
    log = LogMaker().txn(1).txn(1)
    lost = LogMaker(offset=log.offset).commit(1).plain()
    rest = LogMaker(offset=lost.offset).plain()
    logs = {0: bytes(log.data), log.offset: bytes(lost.data), lost.offset: bytes(rest.data)}
    partition = write_logs(tmp_path, logs)
    (partition / f"{log.offset:020d}.log").chmod(0)
    done = run_without_privileges("cat", str(partition))
    assert done.returncode == 3
    assert done.stdout == f"v{lost.offset}\n"
    assert "hidden: 2 unknown" in done.stderr
