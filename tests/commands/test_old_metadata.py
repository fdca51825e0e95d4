"""Metadata that ended before its broker did: settings may have changed since, and nothing goes by them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkatool.engine.cluster.view import read_cluster_view
from kafkatool.engine.directory.log_dir import read_partition
from kafkatool.engine.files.source import Guest
from tests.cli import Run, run
from tests.log_dirs import read_tree
from tests.places import FIXTURES

CASES = FIXTURES / "log-dir"
EXPLICIT = {
    "retention": (
        *("cleanup.policy=delete", "retention.ms=604800000", "retention.bytes=-1"),
        "remote.storage.enable=false",
    ),
    "compact": (
        *("cleanup.policy=compact", "delete.retention.ms=86400000", "min.compaction.lag.ms=0"),
        *("segment.bytes=1073741824", "segment.index.bytes=10485760", "index.interval.bytes=4096"),
    ),
}
TOPICS = {"retention": "trimmed", "compact": "compacted"}
both = pytest.mark.parametrize("command", list(TOPICS))


class Disk:
    """What a real broker wrote, each file as old as its last metadata record, and its configuration."""

    def __init__(self, folder: Path) -> None:
        self.log_dir, self.config = folder / "logs1", folder / "server.properties"
        shutil.copytree(CASES / "clean-4.3" / "logs1", self.log_dir)
        (self.log_dir / "cleaner-offset-checkpoint").unlink()
        self.config.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={self.log_dir}\n")
        metadata = read_partition(str(self.log_dir / "__cluster_metadata-0"), [])
        self.end_ms = read_cluster_view([metadata], Guest()).last_ms
        for path in self.log_dir.rglob("*"):
            self.touch(path, 0)

    def touch(self, path: Path, seconds: int) -> None:
        """Say that it was written so many seconds after the metadata ended."""
        at = self.end_ms * 1_000_000 + seconds * 1_000_000_000
        os.utime(path, ns=(at, at))

    def run(self, command: str, *options: str, config: Path | None = None) -> Run:
        partition = self.log_dir / f"{TOPICS[command]}-0"
        return run(command, *options, "--config", str(config or self.config), str(partition))


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def explicit(command: str) -> list[str]:
    return [word for one in EXPLICIT[command] for word in ("--set", one)]


@both
def test_what_ended_with_its_metadata_goes_by_it(disk: Disk, command: str) -> None:
    disk.touch(disk.log_dir / "a.topic-1-0" / "00000000000000000000.log", 60)
    told = disk.run(command)
    assert b"metadata on this disk ends" not in told.stderr
    done = disk.run(command, "--apply")
    assert done.exit_code == 0, done.stderr


@both
@pytest.mark.parametrize(
    "name", ["a.topic-1-0/00000000000000000000.log", "replication-offset-checkpoint", ".kafka_cleanshutdown"]
)
def test_nothing_goes_by_metadata_that_ended_before_the_directory(
    disk: Disk, command: str, name: str, tmp_path: Path
) -> None:
    """Whichever file of the broker shows it, also one of another topic."""
    disk.touch(disk.log_dir / name, 61)
    before = read_tree(disk.log_dir, ours=True)
    told = disk.run(command)
    assert told.exit_code == 0
    assert b"the metadata on this disk ends at 2026-" in told.stderr
    assert f"1m1s before {disk.log_dir / name} was written".encode() in told.stderr
    refused = disk.run(command, "--apply")
    assert refused.exit_code == 5
    assert f"ends 61 s before {disk.log_dir / name} was written".encode() in refused.stderr
    for setting in EXPLICIT[command]:
        assert setting.partition("=")[0].encode() in refused.stderr, "all that has to be said is named"
    # All but one is not enough, also where a server.properties has a value: a topic may have had its own.
    disk.config.write_text(disk.config.read_text() + "log.retention.bytes=-1\nlog.segment.bytes=1073741824\n")
    some = [word for one in EXPLICIT[command][:-1] for word in ("--set", one)]
    assert disk.run(command, *some, "--apply").exit_code == 5
    assert read_tree(disk.log_dir, ours=True) == before

    settings = tmp_path / "topic.properties"
    settings.write_text("\n".join(EXPLICIT[command]))
    assert disk.run(command, config=settings).stderr.count(b"metadata on this disk ends") == 0
    done = disk.run(command, *explicit(command), "--apply")
    assert (done.exit_code, b"metadata on this disk ends" in done.stderr) == (0, False), done.stderr


@both
def test_what_kafkatool_wrote_itself_does_not_count(disk: Disk, command: str) -> None:
    """A plan that was applied before leaves new files, and is no sign of a broker."""
    (disk.log_dir / "a.topic-1-0" / "00000000000000000000.timeindex").write_bytes(b"")
    made = run("rebuild-index", "--apply", "--offline", str(disk.log_dir / "a.topic-1-0"))
    assert made.exit_code == 0, made.stderr
    gone = run("retention", "--apply", "--config", str(disk.config), str(disk.log_dir / "a.topic-1-0"))
    assert gone.exit_code == 0, gone.stderr
    assert list((disk.log_dir / "a.topic-1-0").glob("*.log.deleted"))
    (disk.log_dir / "notes.txt").write_text("by somebody")
    done = disk.run(command, "--apply")
    assert done.exit_code == 0, done.stderr


def test_a_high_watermark_checkpoint_that_set_aside_wrote_does_not_count(disk: Disk, tmp_path: Path) -> None:
    """It is the one file of a broker at work that a plan of ours writes anew: its journal tells."""
    picture = tmp_path / "describe"
    topics = ("a.topic-1", "compacted", "trimmed", "__consumer_offsets")
    picture.write_text(
        "".join(
            f"Topic: {topic}\tTopicId: x\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: \n"
            f"\tTopic: {topic}\tPartition: {number}\tLeader: 2\tReplicas: 1,2\tIsr: 2\n"
            for topic in topics
            for number in range(2 if topic == "a.topic-1" else 1)
        )
    )
    aside = run(
        *("set-aside", str(disk.log_dir / "a.topic-1-1"), "--move-to", str(tmp_path / "aside")),
        *("--describe", str(picture), "--accept-loss", "--offline", "--apply"),
    )
    assert aside.exit_code == 0, aside.stderr
    done = disk.run("retention", "--apply", "--offline")
    assert done.exit_code == 0, done.stderr
