"""Our cleaner beside the broker's: the same passes over a copy leave the same log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkatool.engine.batches.records import records_of
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.compaction.cleanable_log import open_cleanable
from kafkatool.engine.compaction.cleaner import Cleaning
from kafkatool.engine.compaction.passes import PassWork, compact
from kafkatool.engine.files.disk import Disk
from kafkatool.format.batch import Codec
from kafkatool.format.legacy import write_message, write_wrapper
from kafkatool.format.names import segment_file
from kafkatool.format.release import Release
from tests.cli import run
from tests.engine.compaction_logs import read_batches
from tests.engine.swap_crashes import crashed_swaps, offsets_found
from tests.kafka import peers
from tests.kafka.compaction_workloads import (
    TINY,
    CleaningBroker,
    PlainWorkload,
    Workload,
    clean_and_compare,
    clean_in_one_run,
    let_clean,
    run_rounds,
    settle,
    write_round,
)
from tests.kafka.librdkafka import Record
from tests.kafka.making.logs import small_segments

TIME_MS = 1_700_000_000_000

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("cleaner")]


@pytest.fixture(scope="module", params=[peers.NEWEST, pytest.param(peers.OLDEST, marks=pytest.mark.soak)])
def broker(request: pytest.FixtureRequest) -> Iterator[CleaningBroker]:
    peers.require_kafka(request.param)
    with CleaningBroker(request.param) as running:
        yield running


newest_first = pytest.mark.parametrize(
    "broker", [peers.NEWEST, pytest.param(peers.OLDEST, marks=pytest.mark.soak)], indirect=True
)


def test_every_pass_of_the_broker_is_predicted(broker: CleaningBroker, tmp_path: Path) -> None:
    run_rounds([Workload(seed, broker) for seed in (0, 1, 3)], tmp_path, rounds=2)


def last_values(broker: CleaningBroker, topic: str) -> dict[bytes | None, bytes | None]:
    """What a consumer of committed records knows in the end."""
    found = broker.client.consume_all(topic, [0])[0]
    last = {placed.record.key: placed.record.value for placed in found}
    return {key: value for key, value in last.items() if key is not None and value is not None}


@newest_first
def test_what_compact_applied_is_loaded_served_and_cleaned_on(broker: CleaningBroker, tmp_path: Path) -> None:
    workload = Workload(1003, broker)
    workload.create()
    workload.write(0)
    settle([workload])
    known = last_values(broker, workload.name)
    broker.stop()
    directory = workload.leader.directory
    options = ("--config", str(broker.root / "server.properties"), "--kafka-version", broker.version)
    done = run("compact", *options, "--until-stable", "--apply", "--offline", str(directory))
    assert done.exit_code == 0, done.stderr
    logs = {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))[:-1]}
    broker.start()
    assert last_values(broker, workload.name) == known
    let_clean([workload])
    assert workload.leader.passes() == []
    assert {name: (directory / name).read_bytes() for name in logs} == logs
    workload.write(1)
    clean_and_compare([workload], tmp_path)


@pytest.fixture
def tiny_map(broker: CleaningBroker) -> Iterator[None]:
    """Six keys and small buffers, while the broker runs."""
    usual = {name: broker.properties.get(name, "524288") for name in TINY}
    broker.client.alter_broker(1, TINY)
    yield
    broker.client.alter_broker(1, usual)


def merge_and_clean_on(
    broker: CleaningBroker, codecs: list[str], seed: int, tmp_path: Path, merged_bytes: int = 100_000
) -> None:
    workloads = [PlainWorkload(seed, broker, codec, merged_bytes) for codec in codecs]
    for workload in workloads:
        workload.create()
    write_round(workloads, 0, is_last=True)
    clean_in_one_run(workloads, tmp_path)


@newest_first
@pytest.mark.usefixtures("tiny_map")
def test_passes_after_a_merge_leave_what_the_broker_leaves(broker: CleaningBroker, memory_path: Path) -> None:
    merge_and_clean_on(broker, ["none", "zstd"], 1, memory_path)


@pytest.mark.soak
@pytest.mark.usefixtures("tiny_map")
@pytest.mark.parametrize("seed", range(10, 13))
@pytest.mark.parametrize("merged_bytes", [2_500, 5_000, 100_000])
def test_passes_after_a_merge_leave_what_the_broker_leaves_of_any_codec(
    broker: CleaningBroker, memory_path: Path, seed: int, merged_bytes: int
) -> None:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    merge_and_clean_on(broker, codecs, seed * merged_bytes, memory_path, merged_bytes)


@newest_first
def test_old_messages_are_kept_as_this_release_keeps_them(broker: CleaningBroker, tmp_path: Path) -> None:
    workload = Workload(1004, broker)
    workload.is_compressed = False
    broker.client.create_topic(workload.name, workload.config)
    directory = workload.leader.directory
    broker.stop()
    for path in directory.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for base, data in old_segments().items():
        (directory / segment_file(base, ".log")).write_bytes(data)
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    broker.start()
    assert clean_and_compare([workload], tmp_path)


@newest_first
def test_a_broker_that_starts_in_the_middle_of_a_swap_finds_the_old_log_or_the_new_one(
    broker: CleaningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One log, a swap that a power cut ends at each of its steps, a partition for all that may be left."""
    config = read_config(SWAPPED[broker.version], Release.parse(broker.version))
    source, now_ms = Path(broker.log_dir, "swapped-0"), int(time.time() * 1000)
    broker.client.create_topic("swapped", SWAPPED[broker.version])
    broker.client.create_topic("swap", SWAPPED[broker.version], partitions=MOST_CRASHES)
    steps = [[Record(b"key %d" % (at % 7), b"value %d" % at)] for at in range(30)]
    broker.client.produce_steps("swapped", steps)
    broker.stop()
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    log = open_cleanable(str(source), now_ms=now_ms)
    how = Cleaning(config, now_ms, 1000)
    done = compact(log, None, how, PassWork(Disk(), str(tmp_path), "swapped-0"), 1)
    assert len(done.written) > 1
    crashes = {one.files: one for one in crashed_swaps(done, source, "swapped", tmp_path)}
    assert 20 < len(crashes) < MOST_CRASHES
    for number, crash in enumerate(crashes.values()):
        put_in_place(crash.directory, broker.log_dir / f"swap-{number}")
    (broker.log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()
    served = broker.client.consume_all("swap", range(len(crashes)), isolation_level="read_uncommitted")
    old = list(range(30))
    new = sorted(offset for segment in done.after.segments for offset in offsets_of(Path(segment.path)))
    for number, crash in enumerate(crashes.values()):
        found = [placed.offset for placed in served[number]]
        assert found in (old, new), crash
        assert found == offsets_found(crash.directory, config, now_ms), crash
    assert {len(served[number]) for number in range(len(crashes))} == {len(old), len(new)}


MOST_CRASHES = 160
SWAPPED = {
    version: {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",
        "compression.type": "uncompressed",
        "segment.index.bytes": "1200",
        **small_segments(version, 700),
    }
    for version in (peers.NEWEST, peers.OLDEST)
}


def put_in_place(left: Path, partition: Path) -> None:
    """What a crash left, under the identity of another partition."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in left.iterdir():
        if path.name != "partition.metadata":
            shutil.copy2(path, partition)


def offsets_of(path: Path) -> list[int]:
    batches = read_batches(path)
    return [record.offset for batch in batches for record in records_of(batch.header, batch.data or b"")]


def old_segments() -> dict[int, bytes]:
    """Messages of both old magics, by themselves and in wrappers, and tombstones among them."""
    segments, offset = {}, 0
    for magic in (0, 1, 1, 0):
        base, data = offset, bytearray()
        for number in range(6):
            value = None if number == 4 else b"value %d" % offset
            key = b"key %d" % (offset % 7)
            data += write_message(offset, key, value, magic=magic, timestamp_ms=TIME_MS + offset)
            offset += 1
        entries = []
        for number in range(4):
            value = None if number == 2 else b"wrapped %d" % offset
            stamp = TIME_MS + offset
            entries.append(
                write_message(offset, b"key %d" % (offset % 5), value, magic=magic, timestamp_ms=stamp)
            )
            offset += 1
        data += write_wrapper(entries, Codec.GZIP, magic=magic, timestamp_ms=TIME_MS + offset - 1)
        segments[base] = bytes(data)
    return segments


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 150, 10))
def test_every_pass_of_many_random_workloads_is_predicted(
    broker: CleaningBroker, tmp_path: Path, first: int
) -> None:
    run_rounds([Workload(seed, broker) for seed in range(first, first + 10)], tmp_path, rounds=3)
