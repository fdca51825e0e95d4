"""Every runbook, from the symptom to the end, on directories that real brokers wrote and we damaged.

Those that end in a living broker are in `tests/kafka/advising/test_runbooks_live.py`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkatool.engine.files.lock import CLEAN_MARKER
from kafkatool.format.batch import NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from tests.cli import run
from tests.engine.cold import evict_or_skip, resident_pages
from tests.log_dirs import locked
from tests.mutations import flip, put
from tests.places import FIXTURES, ROOT
from tests.runbooks import RUNBOOKS, Desk, unchanged
from tests.serving import served
from tests.transcripts import write_sample

SCRIPTS = sorted(path.stem for path in RUNBOOKS.glob("*.sh"))
every_runbook = pytest.mark.parametrize("name", SCRIPTS)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    write_sample(tmp_path / "its data")
    return tmp_path / "its data"


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The directory of a broker that was not stopped cleanly, some time ago."""
    directory = tmp_path / "its data"
    shutil.copytree(FIXTURES / "log-dir" / "clean-4.3" / "logs1", directory)
    (directory / CLEAN_MARKER).unlink()
    for path in directory.rglob("*"):
        os.utime(path, (1_700_000_000,) * 2)
    return directory


@pytest.fixture
def config(crashed: Path, tmp_path: Path) -> Path:
    """The server.properties of that broker."""
    path = tmp_path / "server.properties"
    path.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={crashed}\n")
    return path


# --- all of them --------------------------------------------------------------------------------------


@every_runbook
def test_without_arguments_a_runbook_tells_its_story(name: str, desk: Desk) -> None:
    told = desk.run(name)
    assert told.exit_code == 2
    assert f"Usage: {name}.sh " in told.text
    assert "Exit code" in told.text or "exit code" in told.text or "Call somebody: " in told.text
    assert max(map(len, told.text.splitlines())) <= 130


@every_runbook
def test_a_runbook_is_found_by_its_symptom(name: str) -> None:
    assert f"({name}.sh)" in (RUNBOOKS / "README.md").read_text()


@every_runbook
def test_a_runbook_is_run_by_a_test(name: str) -> None:
    tests = Path(__file__), ROOT / "tests" / "kafka" / "advising" / "test_runbooks_live.py"
    assert any(f'"{name}"' in path.read_text() for path in tests)


@every_runbook
def test_a_runbook_is_plain_shell(name: str) -> None:
    script = RUNBOOKS / f"{name}.sh"
    assert script.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(script)], check=True)


# --- a broker will not start --------------------------------------------------------------------------


def test_a_start_is_foretold_with_what_comes_next(desk: Desk, crashed: Path, config: Path) -> None:
    with unchanged(crashed):
        assert desk.run("broker-will-not-start", config).exit_code == 0
    (crashed / "recovery-point-offset-checkpoint").write_text("0\n5\n")
    put(crashed / "compacted-0" / "00000000000000000007.log", 0, (1).to_bytes(8, "big"))
    with unchanged(crashed):
        ended = desk.run("broker-will-not-start", config)
    assert ended.exit_code == 4
    assert "will not start" in ended.text
    assert "recovery-point-offset-checkpoint" in ended.text
    assert "Split operation is only permitted" in ended.text


def test_a_corrupt_index_is_made_anew(desk: Desk, sample: Path, tmp_path: Path) -> None:
    index = sample / "orders-0" / "00000000000000000003.index"
    index.write_bytes(b"\xff" * 16)
    kept = tmp_path / "kept"
    with unchanged(sample):
        assert desk.run("corrupt-index", sample / "orders-0", kept).exit_code == 4
    ended = desk.run("corrupt-index", sample / "orders-0", kept, "--apply")
    assert ended.exit_code == 0, ended.text
    assert run("verify", str(sample / "orders-0")).exit_code == 0
    assert [path.read_bytes() for path in kept.glob("*.index.*")] == [b"\xff" * 16]


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "a.topic-1-0/leader-epoch-checkpoint",
        "__cluster_metadata-0/quorum-state",
    ],
)
def test_a_bad_checkpoint_is_done_without(name: str, desk: Desk, crashed: Path, tmp_path: Path) -> None:
    file, kept = crashed / name, tmp_path / "kept"
    file.write_text("0\n7\ngarbage\n")
    assert b"refuse" in run("recover", str(crashed)).stdout
    with unchanged(crashed):
        assert desk.run("bad-checkpoint", file, kept).exit_code == 4
    ended = desk.run("bad-checkpoint", file, kept, "--apply")
    assert ended.exit_code == 0, ended.text
    assert b"refuse" not in run("recover", str(crashed)).stdout
    assert [path.read_text() for path in kept.iterdir()] == ["0\n7\ngarbage\n"]


def test_what_says_whose_directory_it_is_cannot_be_done_without(desk: Desk, crashed: Path) -> None:
    with unchanged(crashed):
        assert desk.run("bad-checkpoint", crashed / "meta.properties", "kept", "--apply").exit_code == 5


def test_a_batch_of_another_segment_is_cut_out(desk: Desk, crashed: Path, tmp_path: Path) -> None:
    partition, kept = crashed / "compacted-0", tmp_path / "kept"
    log = partition / "00000000000000000007.log"
    before = _offsets(partition)
    put(log, read_header(log.read_bytes(), 0).size, (1).to_bytes(8, "big"))
    damaged = log.read_bytes()
    assert b"refuse" in run("recover", str(crashed)).stdout
    with unchanged(crashed):
        assert desk.run("offsets-outside-a-segment", partition, kept).exit_code == 4
    with locked(crashed):
        assert desk.run("offsets-outside-a-segment", partition, kept, "--apply").exit_code == 5
    ended = desk.run("offsets-outside-a-segment", partition, kept, "--apply")
    assert ended.exit_code == 0, ended.text
    assert b"refuse" not in run("recover", str(crashed)).stdout
    lost = set(before) - set(_offsets(partition))
    assert lost == {8}
    assert {path.read_bytes() for path in kept.glob(f"compacted-0.*/{log.name}")} == {damaged}
    assert not list(partition.glob("*.tmp"))
    assert run("verify", str(crashed)).exit_code == 0


def _offsets(partition: Path) -> list[int]:
    lines = run("cat", "--all", "--format", "ndjson", str(partition)).stdout.splitlines()
    return [json.loads(line)["offset"] for line in lines]


# --- damage under a checksum --------------------------------------------------------------------------


def test_one_bad_replica_of_three_is_set_aside(desk: Desk, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes"
    shutil.copytree(FIXTURES / "replicas" / "behind-4.3", nodes)
    for path in nodes.rglob("*"):
        os.utime(path, (1_700_000_000,) * 2)
    bad = nodes / "node1" / "logs1"
    flip(bad / "behind-0" / "00000000000000000000.log", 180, 4)
    (bad / CLEAN_MARKER).write_text('{"version":0,"brokerEpoch":9}')
    kept = tmp_path / "kept"
    with unchanged(nodes):
        looked = {
            node: desk.run("crc-errors-one-bad-replica", nodes / node / "logs1" / "behind-0", kept)
            for node in ("node1", "node2", "node3")
        }
    assert {node: ended.exit_code for node, ended in looked.items()} == {"node1": 4, "node2": 0, "node3": 0}
    assert "node 2, 3 has it in sync" in looked["node1"].text
    described = tmp_path / "described"
    words = ("crc-errors-one-bad-replica", bad / "behind-0", kept, described)
    described.write_text("\tTopic: behind\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1\n")
    with unchanged(nodes):
        told = desk.run(*words, "--apply")
        assert (told.exit_code, "acknowledged records could be lost" in told.text) == (5, True), told.text
        described.write_text("\tTopic: behind\tPartition: 0\tLeader: 2\tReplicas: 1,2,3\tIsr: 2,3\n")
        assert desk.run(*words).exit_code == 4
    with locked(bad):
        assert desk.run(*words, "--apply").exit_code == 5
    os.utime(described)  # the lock is new
    ended = desk.run(*words, "--apply")
    assert ended.exit_code == 0, ended.text
    assert not (bad / "behind-0").exists()
    assert not (bad / CLEAN_MARKER).exists(), "an empty replica could be elected"
    assert (kept / "behind-0" / "00000000000000000000.log").exists()


def test_consumers_get_past_damage_in_the_only_copy(desk: Desk, sample: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "clicks-1"
    with unchanged(sample):
        ended = desk.run("crc-errors-only-copy", sample / "clicks-1", tmp_path / "kept")
    assert ended.exit_code == 0, ended.text
    next_good = re.findall(r"--topic clicks:1 --reset-offsets --to-offset ([0-9]+) --execute", ended.text)
    assert next_good == ["4"]
    saved = [json.loads(line)["offset"] for line in (kept / "around-damage.ndjson").read_text().splitlines()]
    assert saved == [0, 1, 4, 5, 6, 7]
    assert (kept / "00000000000000000000.log").exists()
    with served(sample) as running, running.client() as client:
        assert client.fetch("clicks", 2, partition=1)["errorCode"] != 0
        assert client.fetch("clicks", int(next_good[0]), partition=1)["errorCode"] == 0


# --- space, and what should have given it back --------------------------------------------------------


def test_a_full_disk_tells_why_and_what_would_help(desk: Desk, crashed: Path, config: Path) -> None:
    ahead = write_batch([NewRecord(None, b"a clock was ahead", 4_102_444_800_000)] * 12)
    (crashed / "a.topic-1-0" / "00000000000000000000.log").write_bytes(ahead)
    with unchanged(crashed):
        ended = desk.run("disk-full", config, "1K")
    assert "unexplained" in ended.text
    assert re.search(r"trimmed-0 .* delete +time", ended.text)
    assert re.search(r"compacted-0 .* keep +policy", ended.text)
    assert re.search(r"a\.topic-1-0 .* keep +time .*future", ended.text)


def test_a_full_disk_is_relieved_by_a_rule(desk: Desk, crashed: Path, config: Path, tmp_path: Path) -> None:
    rule = (config, "1K", crashed / "a.topic-1-*", "retention.ms=3600000", tmp_path / "elsewhere")
    with unchanged(crashed):
        assert desk.run("disk-full", *rule).exit_code == 0
    ended = desk.run("disk-full", *rule, "--apply")
    assert ended.exit_code == 0, ended.text
    assert (tmp_path / "elsewhere" / "a.topic-1-0" / "00000000000000000000.log").stat().st_size > 0
    assert (crashed / "trimmed-0" / "00000000000000000000.log").stat().st_size > 0, "another topic"
    assert run("verify", str(crashed)).exit_code == 0


def test_compaction_that_stopped_tells_where(desk: Desk, crashed: Path, config: Path, tmp_path: Path) -> None:
    (crashed / "cleaner-offset-checkpoint").unlink()
    partition, kept = crashed / "compacted-0", tmp_path / "kept"
    with unchanged(crashed):
        assert desk.run("compaction-stopped", config, partition, kept).exit_code == 0
        flipped = partition / "00000000000000000000.log"
        good = flipped.read_bytes()
        flip(flipped, 100, 4)
        ended = desk.run("compaction-stopped", config, partition, kept)
        assert ended.exit_code == 4
        assert "00000000000000000000.log" in ended.text
        flipped.write_bytes(good)


def test_compaction_can_be_done_while_a_broker_is_stopped(
    desk: Desk, crashed: Path, config: Path, tmp_path: Path
) -> None:
    (crashed / "cleaner-offset-checkpoint").unlink()
    partition = crashed / "compacted-0"
    before = _offsets(partition)
    ended = desk.run("compaction-stopped", config, partition, tmp_path / "kept", "--apply")
    assert ended.exit_code == 0, ended.text
    assert _offsets(partition) == before, "a broker had compacted it already"
    assert run("verify", str(crashed)).exit_code == 0


# --- the others ---------------------------------------------------------------------------------------


def test_a_dead_brokers_disk_tells_what_is_whole(desk: Desk, sample: Path) -> None:
    with unchanged(sample):
        ended = desk.run("dead-broker", sample)
    assert ended.exit_code == 4
    assert re.search(r"clicks-1 +loss +2 +2-3, 8-", ended.text), ended.text


def test_what_is_no_log_directory_is_not_waited_for(desk: Desk, tmp_path: Path) -> None:
    assert desk.run("dead-broker", tmp_path / "nothing", "127.0.0.1:1", "orders").exit_code == 2


def test_a_backfill_is_put_out_of_memory_and_the_newest_back_into_it(desk: Desk, sample: Path) -> None:
    old, new = (sample / "orders-0" / f"{base:020}.log" for base in (3, 11))
    for path in (old, new):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            assert file.read()
    before = "2026-03-01T09:04:00Z"
    desk.run("page-cache-thrash", sample, sample / "orders-*", before)
    assert all(map(all, (resident_pages(old), resident_pages(new))))
    evict_or_skip(old)
    old.read_bytes()
    ended = desk.run("page-cache-thrash", sample, sample / "orders-*", before, "--apply")
    assert ended.exit_code == 0, ended.text
    assert not any(resident_pages(old))
    assert all(resident_pages(new))


def test_an_upgrade_may_go_on_where_nothing_is_wrong(desk: Desk, crashed: Path, config: Path) -> None:
    with unchanged(crashed):
        ended = desk.run("before-an-upgrade", config)
    assert ended.exit_code == 0, ended.text
    assert ended.text.endswith("one per line:\n")


def test_an_upgrade_waits_for_damage_zookeeper_and_old_formats(
    desk: Desk, crashed: Path, config: Path
) -> None:
    old = FIXTURES / "legacy" / "mixed" / "mixed-0" / "00000000000000000000.log"
    shutil.copy(old, crashed / "trimmed-0")
    assert desk.run("before-an-upgrade", config).text.endswith("one per line:\ntrimmed\n")
    config.write_text(config.read_text() + "zookeeper.connect=localhost:2181\n")
    flip(crashed / "compacted-0" / "00000000000000000000.log", 100, 4)
    ended = desk.run("before-an-upgrade", config)
    assert ended.exit_code == 4
    assert "migrated to KRaft" in ended.text
    assert re.search(r"compacted-0 +loss", ended.text)


def test_the_nightly_scrub_is_silent_until_something_is_wrong(
    desk: Desk, crashed: Path, tmp_path: Path
) -> None:
    state = tmp_path / "scrub.json"
    for _night in range(2):
        assert desk.run("nightly-scrub", crashed, state) == (0, "")
    flip(crashed / "compacted-0" / "00000000000000000007.log", 100, 4)
    ended = desk.run("nightly-scrub", crashed, state)
    assert ended.exit_code == 4
    assert "loss" in ended.text
    assert "00000000000000000007.log" in ended.text
    with (tmp_path / "scrub.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert desk.run("nightly-scrub", crashed, state) == (0, ""), "one at a time"
