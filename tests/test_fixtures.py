"""The fixtures are complete: every kind of file a broker writes is there, small, and with its goldens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.goldens import FILE_NAME, FIXTURES, Golden, Run, load_goldens, read_runs, write_runs
from tests.kafka.peers import RELEASES

CASES = sorted(path for path in FIXTURES.glob("*/*") if path.is_dir())

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
