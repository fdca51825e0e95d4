"""What real brokers wrote, appended again by our log: the files must be the brokers' own.

A broker's batches are handed in one by one as a follower gets them; each of them was one append there too.
Of a broker that was killed, the preallocated rest of the files is cut before they are compared.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.engine.cluster.topic_config import TopicConfig, read_config
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.log.loading import LeftLog, open_log
from kafkatool.engine.log.partition_log import LEADER_EPOCHS, Log
from kafkatool.engine.log.segment import NewBatch
from kafkatool.engine.log.validation import split_batches
from kafkatool.format.names import segment_file
from kafkatool.format.release import Release
from kafkatool.format.state.checkpoint import EpochStart, read_leader_epochs, write_leader_epochs
from tests.engine.crash_disk import CrashDisk
from tests.logs import content, walk
from tests.places import FIXTURES

GLOBS = (
    "index/segments-*/segments-0",
    "index/killed-*/*-0",
    "transactions/segments-*/txn-0",
    "transaction-state/*/__transaction_state-0",
    "consumer-offsets/*/__consumer_offsets-0",
    "share-group-state/*/__share_group_state-0",
    "log/*/*-0",
    "odd/*/*-0",
    "log-dir/clean-*/logs1/a.topic-1-*",
    "log-dir/clean-*/logs1/trimmed-0",
    "replicas/behind-4.3/node*/logs1/behind-0",
    "replicas/moving-4.3/node*/logs1/moving-0",
    "replicas/offline-4.3/node*/logs*/*t-0",
    "replicas/unclean-4.3/node*/logs1/unclean-0",
)
REPLICATED = {"internal.segment.bytes": "900", "index.interval.bytes": "200"}
TRUNCATED = FIXTURES / "replicas" / "unclean-4.3" / "node1" / "logs1" / "unclean-0"
PARTITIONS = sorted({path for pattern in GLOBS for path in FIXTURES.glob(pattern)} - {TRUNCATED})


def config_of(directory: Path) -> TopicConfig:
    """The topic's settings, as the fixture's ORIGIN.md tells them."""
    if FIXTURES / "replicas" in directory.parents:
        return read_config(REPLICATED if directory.name != "moving-0" else {"index.interval.bytes": "200"})
    origin = next(parent / "ORIGIN.md" for parent in directory.parents if (parent / "ORIGIN.md").exists())
    text = origin.read_text()
    release = re.search(r"Kafka (\d\.\d)", text)
    topic = directory.name.rpartition("-")[0]
    line = re.search(rf"- topic `{re.escape(topic)}`:(.*)", text)
    settings = dict(pair.split("=", 1) for pair in re.findall(r"`([^`]*)`", line[1])) if line else {}
    return read_config(settings, Release.parse(release[1]) if release else Release.V4_3)


def batches_of(directory: Path) -> Iterator[NewBatch]:
    for path in sorted(directory.glob("*.log")):
        end = sum(batch.header.size for batch in walk(path)[0])
        yield from split_batches(path.read_bytes()[:end])


def stops_of(directory: Path) -> set[int]:
    """Where the broker was stopped and started again: a snapshot there is no segment's."""
    stops = {int(path.stem) for path in directory.glob("*.snapshot")}
    return stops - {int(path.stem) for path in directory.glob("*.log")}


def replay(log: Log, directory: Path) -> Log:
    """Append what a broker appended; its leaders began where its epochs say."""
    epochs: list[EpochStart] = read_leader_epochs((directory / LEADER_EPOCHS).read_bytes())
    for batch in batches_of(directory):
        if log.log_end_offset in stops_of(directory):
            log.close()
            log = open_log(Disk(), log.directory, log.config, now_ms=0, left=LeftLog(is_clean=True))
        for epoch, start in epochs:
            if start == log.log_end_offset:
                log.become_leader(epoch)
        log.append_as_follower(bytes(batch.data), now_ms=0)
    for epoch, start in epochs:
        if start == log.log_end_offset:
            log.become_leader(epoch)
    log.advance_start(start_of(directory))
    return log


def start_of(directory: Path) -> int:
    """Where the log begins: records were deleted from `trimmed`."""
    return 5 if directory.name == "trimmed-0" else 0


def is_closed(directory: Path, end: int) -> bool:
    return end == 0 or (directory / segment_file(end, ".snapshot")).exists()


@pytest.mark.parametrize("directory", PARTITIONS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_brokers_batches_give_the_brokers_files(directory: Path, tmp_path: Path) -> None:
    ours = tmp_path / directory.name
    log = replay(open_log(Disk(), str(ours), config_of(directory), now_ms=0), directory)
    if is_closed(directory, log.log_end_offset):
        log.close()
    else:
        log.abandon()
    assert content(ours) == content(directory)


@pytest.mark.parametrize("directory", PARTITIONS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_log_cut_off_after_a_flush_comes_back_as_it_was(directory: Path, tmp_path: Path) -> None:
    """Recovery writes the indexes that appending wrote, and the closing time entry."""
    if stops_of(directory) - {max((b.header.last_offset for b in batches_of(directory)), default=0) + 1}:
        pytest.skip("restarted: a recovery from the start does not know where")
    (tmp_path / "a").mkdir()
    disk = CrashDisk(tmp_path / "a")
    log = open_log(disk, str(tmp_path / "a" / directory.name), config_of(directory), now_ms=0)
    replay(log, directory)
    log.flush(0)
    left = disk.survivors(tmp_path / "b", keep=lambda: False) / directory.name
    log.close()
    for recovery_point in {0, log.recovery_point}:
        opening = LeftLog(recovery_point, start_of(directory))
        again = open_log(Disk(), str(left), config_of(directory), now_ms=0, left=opening)
        assert again.log_end_offset == log.log_end_offset
        assert again.producers.rows() == log.producers.rows()
        again.close()
        expected = content(tmp_path / "a" / directory.name)
        # A leader that has written nothing is forgotten, as by a broker.
        written = [entry for entry in log.epochs.entries if entry.start_offset < log.log_end_offset]
        expected[LEADER_EPOCHS] = write_leader_epochs(written)
        assert content(left) == expected


def test_a_replica_is_recovered_truncated_and_goes_on_as_a_brokers_was(tmp_path: Path) -> None:
    """After an unclean election a real follower had to give up twelve records that only it had."""
    before = FIXTURES / "replicas" / "unclean-4.3" / "node1-before" / "logs1" / "unclean-0"
    ours = tmp_path / "unclean-0"
    shutil.copytree(before, ours)
    log = open_log(Disk(), str(ours), config_of(before), now_ms=0)
    assert log.log_end_offset == 22
    log.truncate_to(10, 0)
    for batch in batches_of(TRUNCATED):
        if batch.header.base_offset >= 10:
            log.append_as_follower(bytes(batch.data), now_ms=0)
    log.close()
    expected = {name: data for name, data in content(TRUNCATED).items() if not name.endswith(".deleted")}
    assert content(ours) == expected


def test_there_are_fixtures_to_replay() -> None:
    assert len(PARTITIONS) > 40
