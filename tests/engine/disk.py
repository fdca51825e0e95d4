"""Log directories made by hand, as a broker would leave them."""

from __future__ import annotations

import os
from pathlib import Path

from kafkatool.format.batch import NewRecord, read_header
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.offset_index import write_entries as write_offset_index
from kafkatool.format.state.quorum_state import QuorumState, write_quorum_state
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.time_index import write_entries as write_time_index
from tests.mutations import flip

START_MS = 1_700_000_000_000
TOPIC_ID = "Y2F0cyBhbmQgZG9ncyBydQ"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
METADATA = "__cluster_metadata-0"
OTHER_ID = "b3RoZXIgZGlyZWN0b3J5IQ"
VOTERS = QuorumState(0, 1, 1, -1, None, (1,))


def write_segment(
    directory: Path,
    base_offset: int,
    *,
    batches: int = 30,
    start_ms: int = START_MS,
    is_active: bool = False,
    suffix: str = "",
) -> tuple[int, int]:
    """One segment of batches of two 400-byte records, a second apart; returns next offset and time."""
    log, positions, times = bytearray(), [], []
    offset, time_ms, unindexed = base_offset, start_ms, 0
    for _ in range(batches):
        records = [NewRecord(b"key", b"v" * 400, time_ms + delta) for delta in (0, 1)]
        batch = write_batch(records, base_offset=offset, partition_leader_epoch=0)
        if unindexed > 4096:
            positions.append(OffsetEntry(offset + 1 - base_offset, len(log)))
            times.append(TimeEntry(time_ms + 1, offset + 1 - base_offset))
            unindexed = 0
        log += batch
        unindexed += len(batch)
        offset, time_ms = offset + 2, time_ms + 1000
    last_ms = time_ms - 999
    if not is_active and batches and (not times or times[-1].timestamp_ms < last_ms):
        times.append(TimeEntry(last_ms, offset - 1 - base_offset))
    stem = f"{base_offset:020d}"
    (directory / f"{stem}.log{suffix}").write_bytes(log)
    (directory / f"{stem}.index{suffix}").write_bytes(write_offset_index(positions))
    (directory / f"{stem}.timeindex{suffix}").write_bytes(write_time_index(times))
    if is_active:
        os.truncate(directory / f"{stem}.index{suffix}", 1 << 20)
        os.truncate(directory / f"{stem}.timeindex{suffix}", 12 * (1 << 16))
    return offset, time_ms


def write_partition(log_dir: Path, name: str, *, segments: int = 2, topic_id: str = TOPIC_ID) -> Path:
    directory = log_dir / name
    directory.mkdir(parents=True)
    offset, time_ms = 0, START_MS
    for number in range(segments):
        offset, time_ms = write_segment(directory, offset, start_ms=time_ms, is_active=number == segments - 1)
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return directory


def write_meta_properties(log_dir: Path) -> None:
    (log_dir / "meta.properties").write_text(
        f"version=1\nnode.id=7\ncluster.id={CLUSTER_ID}\ndirectory.id={TOPIC_ID}\n"
    )


def write_mixed_log_dir(path: Path) -> Path:
    """A log directory with a few partitions in several states, and things nobody knows."""
    path.mkdir(parents=True)
    for name in ("orders-0", "orders-2", "orders-10"):
        write_partition(path, name)
    write_partition(path, "gone-0.0123456789abcdef0123456789abcdef-delete", segments=1)
    write_partition(path, "lost-3.0123456789abcdef0123456789abcdef-stray", segments=1)
    write_meta_properties(path)
    (path / "replication-offset-checkpoint").write_text("0\n1\norders 0 120\n")
    (path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":17}')
    return path


def flip_second_batch(directory: Path, base: int) -> None:
    """A bit in the body of the second batch of a segment."""
    path = directory / segment_file(base, ".log")
    flip(path, read_header(path.read_bytes()).size + 100)


def write_node_dir(path: Path, *, metadata: bool = True, directory_id: str = TOPIC_ID) -> Path:
    """A log directory of a KRaft node, with nothing wrong in it."""
    write_partition(path, "orders-0", segments=1)
    (path / "meta.properties").write_text(
        f"version=1\nnode.id=7\ncluster.id={CLUSTER_ID}\ndirectory.id={directory_id}\n"
    )
    if metadata:
        (path / METADATA).mkdir()
        (path / METADATA / "quorum-state").write_bytes(write_quorum_state(VOTERS))
        (path / "bootstrap.checkpoint").write_bytes(
            write_batch([NewRecord(None, b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00", 0)])
        )
    return path
