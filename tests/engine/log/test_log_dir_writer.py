"""A log directory while we write to it: what it says of itself at every moment is true."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkatool.engine.broker.refusals import LogRefusal
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.directory.log_dir import read_log_dir
from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.lock import CLEAN_MARKER, LOCK_FILE, broker_is_alive
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.log_dir_writer import LogDirWriter, open_log_dir
from kafkatool.engine.log.partition_log import Log
from kafkatool.engine.log.reading import records
from kafkatool.errors import KafkatoolError, Refused, UsageError
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import Release
from tests.engine.crash_disk import CrashDisk, PowerCut, every_way
from tests.log_dirs import locked, read_tree
from tests.memory import MEMORY

NOW = 1_700_000_000_000
CONFIG = read_config({"segment.bytes": "300", "index.interval.bytes": "100"}, Release.V3_9)
TOPIC_ID = "Ob2FKdhwRpWEV8vCiHfnhg"


def add(log: Log, *values: bytes) -> None:
    for value in values:
        batch = write_batch([NewRecord(b"k", value, NOW)], partition_leader_epoch=0)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW)


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in records(log, log.log_start_offset)]


def open_one(writer: LogDirWriter, topic: str = "orders", partition: int = 0) -> Log:
    return writer.open_log(topic, partition, CONFIG, now_ms=NOW, topic_id=TOPIC_ID)


def write(directory: Path, topic: str = "orders", *given: bytes, files: Files | None = None) -> None:
    with open_log_dir(files or Disk(), str(directory), now_ms=NOW, offline=True) as writer:
        add(open_one(writer, topic), *given)


def test_a_directory_is_left_as_by_a_clean_shutdown(tmp_path: Path) -> None:
    with open_log_dir(Disk(), str(tmp_path), now_ms=NOW) as writer:
        assert broker_is_alive_elsewhere(tmp_path)
        add(open_one(writer), b"one", b"two")
        log = open_one(writer, "orders", 1)
        add(log, b"three", b"four", b"five")
        log.advance_start(2)
    left = read_log_dir(str(tmp_path))
    assert left.problems == []
    assert left.was_shut_down_cleanly
    assert left.recovery_points == left.high_watermarks == {("orders", 0): 2, ("orders", 1): 3}
    assert left.log_starts == {("orders", 1): 2}
    assert {part.topic_id for part in left.partitions} == {TOPIC_ID}
    assert (tmp_path / CLEAN_MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert not (tmp_path / LOCK_FILE).exists()
    with open_log_dir(Disk(), str(tmp_path), now_ms=NOW, offline=True) as writer:
        assert not (tmp_path / CLEAN_MARKER).exists()
        assert values(open_one(writer)) == [b"one", b"two"]
        assert values(open_one(writer, "orders", 1)) == [b"five"]


def test_a_partition_behind_a_link_is_not_written_to(tmp_path: Path) -> None:
    """Its lock is another one, and somebody may hold it."""
    other, mine = tmp_path / "other", tmp_path / "mine"
    for path in (other, mine):
        path.mkdir()
    write(other, "orders", b"theirs")
    (mine / "orders-0").symlink_to(other / "orders-0")
    before = read_tree(other)
    with pytest.raises(Refused, match="is a link"):
        write(mine, "orders", b"ours")
    assert read_tree(other) == before


def broker_is_alive_elsewhere(directory: Path) -> bool:
    """As another process sees it: closing the file here would give up our own lock."""
    code = (
        f"from kafkatool.engine.files.lock import broker_is_alive; print(broker_is_alive({str(directory)!r}))"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_what_is_said_of_other_partitions_stays(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one", b"two")
    write(tmp_path, "payments", b"three")
    assert read_log_dir(str(tmp_path)).recovery_points == {("orders", 0): 2, ("payments", 0): 1}


def test_an_error_leaves_what_a_crash_leaves(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one")
    with pytest.raises(LogRefusal), open_log_dir(Disk(), str(tmp_path), now_ms=NOW, offline=True) as writer:
        open_one(writer).append_as_leader(b"nothing that is a batch", leader_epoch=0, now_ms=NOW)
    left = read_log_dir(str(tmp_path))
    assert not left.was_shut_down_cleanly
    assert left.recovery_points == {("orders", 0): 1}
    assert not broker_is_alive(str(tmp_path))


def test_no_mark_is_given_while_a_partition_waits_for_its_recovery(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one")
    write(tmp_path, "payments", b"two")
    (tmp_path / CLEAN_MARKER).unlink()
    write(tmp_path, "orders", b"three")
    assert not (tmp_path / CLEAN_MARKER).exists()
    with open_log_dir(Disk(), str(tmp_path), now_ms=NOW, offline=True) as writer:
        open_one(writer, "orders")
        open_one(writer, "payments")
    assert (tmp_path / CLEAN_MARKER).exists()


def test_a_cut_is_written_down_before_anything_is_appended_again(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one", b"two", b"three")
    with open_log_dir(Disk(), str(tmp_path), now_ms=NOW, offline=True) as writer:
        open_one(writer)
        writer.truncate_to("orders", 0, 1, NOW)
        assert read_log_dir(str(tmp_path)).recovery_points == {("orders", 0): 1}


def test_another_topics_partition_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one")
    with (
        pytest.raises(Refused, match="of the topic with the id"),
        open_log_dir(Disk(), str(tmp_path), now_ms=NOW, offline=True) as writer,
    ):
        writer.open_log("orders", 0, CONFIG, now_ms=NOW, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.mark.parametrize("topic", ["", "..", "a/b", "orders"])
def test_a_name_that_is_none_or_is_open_is_refused(tmp_path: Path, topic: str) -> None:
    with open_log_dir(Disk(), str(tmp_path), now_ms=NOW, offline=True) as writer:
        open_one(writer, "orders")
        with pytest.raises(UsageError):
            open_one(writer, topic)


def test_checkpoints_that_cannot_be_read_are_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one")
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"0\n9\norders 0 1\n")
    with pytest.raises(KafkatoolError, match="recovery-point-offset-checkpoint"):
        write(tmp_path, "orders", b"two")
    assert (tmp_path / CLEAN_MARKER).exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "orders", b"one")
    with locked(tmp_path):
        with pytest.raises(Refused, match="is held"):
            write(tmp_path, "orders", b"two")
        assert (tmp_path / CLEAN_MARKER).exists()


# --- power cuts ---------------------------------------------------------------------------------------


class Story:
    """What was appended so far, and how much of it must survive."""

    def __init__(self) -> None:
        self.given: list[bytes] = [b"0", b"1", b"2", b"3"]
        self.promised = 4
        self.is_over = False

    def add(self, log: Log, *more: bytes) -> None:
        self.given += more
        add(log, *more)


def session(story: Story, files: Files, directory: Path) -> None:
    """A clean directory is opened, written to, cut and written to again, and closed."""
    with open_log_dir(files, str(directory), now_ms=NOW, offline=True) as writer:
        log = open_one(writer)
        story.add(log, b"4", b"5")
        log.flush(NOW)
        story.promised = 6
        writer.checkpoint()
        story.promised = 2
        writer.truncate_to("orders", 0, 2, NOW)
        story.given = story.given[:2]
        story.add(log, b"two", b"three", b"four")
        log.flush(NOW)
        story.promised = 5
        story.add(log, b"five", b"six")
    story.is_over = True


def check(story: Story, directory: Path, way: str) -> None:
    """Open what is left by what it says of itself, as a broker does."""
    left = read_log_dir(str(directory))
    assert left.problems == [], way
    key = ("orders", 0)
    opening = LeftLog(
        left.recovery_points.get(key, 0), left.log_starts.get(key, 0), left.was_shut_down_cleanly
    )
    log = open_log(Disk(), str(directory / "orders-0"), CONFIG, now_ms=NOW, left=opening)
    found = values(log)
    log.abandon()
    assert found == story.given[: len(found)], f"{way}: something was invented"
    assert len(found) >= story.promised, f"{way}: something is lost"
    if story.is_over:
        assert left.was_shut_down_cleanly, way
        assert len(found) == len(story.given), way


def cut_everywhere(work: Callable[[Story, Files, Path], None]) -> None:
    for number in range(1000):
        root = Path(tempfile.mkdtemp(prefix="kafkatool-dir-", dir=MEMORY))
        try:
            (root / "disk").mkdir()
            write(root / "disk", "orders", b"0", b"1", b"2", b"3")
            disk, story = CrashDisk(root / "disk", stop_at=number), Story()
            with suppress(PowerCut):
                work(story, disk, root / "disk")
            for way, keep, tear in every_way(number):
                left = disk.survivors(root / way, keep=keep, tear=tear)
                check(story, left, f"operation {number} {disk.operations[-1]}, {way}")
        finally:
            shutil.rmtree(root)
        if not disk.is_cut:
            return
    raise AssertionError("the work does not end")


def test_after_a_power_cut_the_directory_says_the_truth() -> None:
    cut_everywhere(session)
