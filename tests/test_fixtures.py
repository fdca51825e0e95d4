"""The fixtures are complete: every kind of file a broker writes is there, small, and with its goldens."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures_of_logs import CASES
from tests.goldens import FILE_NAME, Golden, Run, load_goldens, read_runs, write_runs
from tests.kafka.peers import RELEASES
from tests.places import FIXTURES

REPLICAS = FIXTURES / "replicas"

FILE_KINDS = [
    *("*.log", "*.index", "*.timeindex", "*.txnindex", "*.snapshot"),
    *("leader-epoch-checkpoint", "partition.metadata", "meta.properties", "quorum-state"),
    *("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"),
    *("cleaner-offset-checkpoint", ".kafka_cleanshutdown", "bootstrap.checkpoint"),
    "00000000000000000000-0000000000.checkpoint",
    *("*.log.deleted", "*.index.deleted", "*.snapshot.deleted", "*.log.cleaned", "*.log.swap"),
    *("*-delete/*.log", "*-stray/*.log", "*-future/*.log", "remote-log-index-cache/*_*.index"),
    *("__consumer_offsets-0/*.log", "__transaction_state-0/*.log", "__cluster_metadata-0/*.log"),
    *("__cluster_metadata-0/*.checkpoint", "__share_group_state-0/*.log", "__remote_log_metadata-0/*.log"),
]

# What Kafka's own tool must have said about at least one batch.
BATCHES = [
    *(f"magic: 2 compresscodec: {codec} " for codec in ("none", "gzip", "snappy", "lz4", "zstd")),
    *(
        f"magic: {old} compresscodec: {codec} "
        for old in (0, 1)
        for codec in ("none", "gzip", "snappy", "lz4")
    ),
    *("CreateTime: ", "LogAppendTime: ", "NoTimestampType: "),
    *("isTransactional: true", "endTxnMarker: COMMIT", "endTxnMarker: ABORT"),
    *("count: 0 ", "deleteHorizonMs: OptionalLong[", "LeaderChange: ", "SnapshotHeader ", "SnapshotFooter "),
    *(
        "KRaftVersion ",
        "KRaftVoters ",
        "keySize: -1",
        "keySize: 0",
        "valueSize: -1",
        "valueSize: 0",
        "headerKeys: [h",
    ),
]

MODES = [
    *("--deep-iteration", "--print-data-log", "--skip-record-metadata", "--verify-index-only"),
    *(
        "--index-sanity-check",
        "--max-bytes",
        "--max-message-size",
        "--key-decoder-class",
        "--value-decoder-class",
    ),
    *("--offsets-decoder", "--transaction-log-decoder", "--cluster-metadata-decoder"),
    *("--remote-log-metadata-decoder", "--share-group-state-decoder"),
]


@pytest.fixture(scope="module")
def goldens() -> list[Golden]:
    return list(load_goldens())


@pytest.mark.parametrize("pattern", FILE_KINDS)
def test_every_kind_of_file_has_a_fixture(pattern: str) -> None:
    found = [path for path in FIXTURES.rglob(pattern) if path.is_file()]
    assert any(path.stat().st_size > 0 for path in found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_every_case_says_where_it_comes_from_and_what_kafka_printed(case: Path) -> None:
    assert "Apache Kafka" in (case / "ORIGIN.md").read_text()
    assert any(read_runs((case / FILE_NAME).read_text()))


@pytest.mark.parametrize("words", BATCHES)
def test_every_kind_of_batch_has_a_fixture(words: str, goldens: list[Golden]) -> None:
    assert any(words in golden.stdout for golden in goldens)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_goldens_of_every_release(mode: str, goldens: list[Golden]) -> None:
    # 3.9 does not know share groups.
    known = {release for release in RELEASES if not (mode.startswith("--share") and release.startswith("3."))}
    assert {golden.release for golden in goldens if mode in golden.args} == known


def batches(partition: Path) -> dict[int, bytes]:
    """The batches of a replica by base offset: here each is one record, so they are its offsets too."""
    return {base: batch for log in sorted(partition.glob("*.log")) for base, batch in cut(log.read_bytes())}


def cut(log: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(log):
        base, length = struct.unpack_from(">qi", log, at)
        yield base, log[at : at + 12 + length]
        at += 12 + length


def replica(case: str, node: str, name: str) -> Path:
    """The one directory of this partition on this node."""
    (found,) = (REPLICAS / case / node).glob(f"*/{name}")
    return found


def high_watermark(partition: Path) -> int:
    lines = (partition.parent / "replication-offset-checkpoint").read_text().splitlines()
    return next(int(line.split()[2]) for line in lines[2:] if line.split()[0] == partition.name[:-2])


def test_a_leader_and_a_follower_have_records_above_the_high_watermark() -> None:
    leader, follower, paused = (replica("behind-4.3", f"node{number}", "behind-0") for number in (1, 2, 3))
    assert batches(leader) == batches(follower)
    assert {high_watermark(copy) for copy in (leader, follower, paused)} == {8}
    assert (max(batches(follower)), max(batches(paused))) == (14, 7)


def test_replicas_of_several_leader_epochs_hold_the_same_bytes() -> None:
    copies = [replica("epochs-4.3", f"node{number}", "epochs-0") for number in (1, 2, 3)]
    assert batches(copies[0]) == batches(copies[1]) == batches(copies[2])
    told = [(copy / "leader-epoch-checkpoint").read_text().splitlines()[2:] for copy in copies]
    assert told[0] == told[1] == ["0 0", "1 12", "2 16", "3 20"]
    assert told[2] == [*told[0], "4 24"], "it led last, and nothing was written then"
    assert all(next(iter(copy.glob("*.txnindex"))).stat().st_size == 34 for copy in copies)


def test_a_deposed_leader_is_there_before_and_after_its_truncation() -> None:
    before, after, leader = (
        batches(replica("unclean-4.3", node, "unclean-0")) for node in ("node1-before", "node1", "node2")
    )
    assert (max(before), max(after), max(leader)) == (21, 14, 14)
    assert after == leader
    assert [base for base in leader if leader[base] != before[base]] == list(range(10, 15))


def test_a_replica_on_its_way_to_another_directory_holds_the_beginning_of_it() -> None:
    moving = replica("moving-4.3", "node2", "moving-0")
    future = replica("moving-4.3", "node2", "moving-0.*-future")
    assert moving.parent != future.parent
    assert list(batches(moving).items())[: len(batches(future))] == list(batches(future).items())
    assert 0 < len(batches(future)) < len(batches(moving))


def test_a_broker_went_on_without_one_of_its_directories() -> None:
    assert [path.name for path in (REPLICAS / "offline-4.3" / "node3").iterdir()] == ["logs1"]
    kept, lost = replica("offline-4.3", "node3", "kept-0"), replica("offline-4.3", "node1", "lost-0")
    assert len(batches(kept)) == len(batches(lost)) == 11
    assert (lost / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 6\n"


def test_a_broker_of_zookeeper_has_no_metadata_log() -> None:
    (log_dir,) = (REPLICAS / "zookeeper-3.9" / "node1").iterdir()
    assert not (log_dir / "__cluster_metadata-0").exists()
    assert {"version=0", "broker.id=1"} <= set((log_dir / "meta.properties").read_text().splitlines())


def test_every_cluster_keeps_the_metadata_log_of_one_node() -> None:
    for case in sorted(REPLICAS.glob("*-4.3")):
        assert len(list(case.glob("*/*/__cluster_metadata-0/00000000000000000000.log"))) == 1


def test_the_fixtures_stay_small() -> None:
    sizes = [path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()]
    assert sum(sizes) < 6 * 2**20
    assert len(sizes) < 1500


def test_a_golden_file_gives_back_what_was_put_into_it() -> None:
    long = "a line that is long enough to be worth a reference"
    first = Run(["--files", "@DIR@/a"], ["4.3.1"], f"one\n{long}\n{long} again\n", "", 0, False)
    second = Run(["--files", "@DIR@/b"], ["3.9.2"], f"{long}\n{long} again", "told\n", 1, True)
    written = write_runs([first, second])
    assert list(read_runs(written)) == [first, second]
    assert "[1, 2]" in written
