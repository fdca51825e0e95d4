"""A log directory in which nothing is wrong, made by our own writers, for tests that break one thing."""

from __future__ import annotations

import random
from pathlib import Path

from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.directory.targets import expand
from kafkatool.engine.jobs.worker_pool import workers
from kafkatool.engine.verify.finding import Finding
from kafkatool.engine.verify.verification import Verification, VerifyRequest
from kafkatool.format.batch import CONTROL_MASK, TRANSACTIONAL_MASK, Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.offset_index import OffsetEntry
from kafkatool.format.offset_index import write_entries as write_offset_index
from kafkatool.format.schema import Decoder, encode_record
from kafkatool.format.schema.control import write_end_marker
from kafkatool.format.state.checkpoint import (
    EpochStart,
    PartitionOffset,
    write_leader_epochs,
    write_offset_checkpoint,
)
from kafkatool.format.state.partition_metadata import PartitionMetadata, write_partition_metadata
from kafkatool.format.state.producer_snapshot import ProducerState, write_snapshot
from kafkatool.format.state.properties import MetaProperties, write_meta_properties
from kafkatool.format.time_index import TimeEntry
from kafkatool.format.time_index import write_entries as write_time_index
from kafkatool.format.txn_index import AbortedTxn
from kafkatool.format.txn_index import write_entries as write_txn_index
from tests.logs import TIME
from tests.mutations import mutated

TOPIC_ID = "Tq7dJ0sWRnSkcXmYq0bV1A"
OTHER_ID = "9uQxW2lzTfGv8hB3nM5kLw"
PRODUCER, SEGMENT = 7, 12
"""The id of the only producer, and how many batches of one record a segment holds."""


def batch(offset: int, *, epoch: int = 0, time_ms: int | None = None, size: int = 400) -> bytes:
    """One record of the producer, a second after the one before."""
    record = NewRecord(b"key", b"v" * size, TIME + 1000 * offset if time_ms is None else time_ms)
    return write_batch(
        [record],
        base_offset=offset,
        partition_leader_epoch=epoch,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=offset,
    )


def aborted_transaction(offset: int) -> list[bytes]:
    """Two batches of another producer, and the marker that aborts them."""
    data = [
        write_batch(
            [NewRecord(None, b"never", TIME + 1000 * at)],
            base_offset=at,
            attributes=TRANSACTIONAL_MASK,
            partition_leader_epoch=0,
            producer_id=9,
            producer_epoch=0,
            base_sequence=at - offset,
        )
        for at in (offset, offset + 1)
    ]
    key, value = write_end_marker(False, coordinator_epoch=3)
    marker = write_batch(
        [NewRecord(key, value, TIME + 1000 * (offset + 2))],
        base_offset=offset + 2,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK,
        partition_leader_epoch=0,
        producer_id=9,
        producer_epoch=0,
    )
    return [*data, marker]


def write_segment(directory: Path, base: int, batches: list[bytes], *, is_active: bool = False) -> None:
    """The log and its indexes, with an entry for every second batch."""
    log, positions, times = b"", [], []
    for number, raw in enumerate(batches):
        offset = int.from_bytes(raw[:8], "big")
        if number and number % 2 == 0:
            positions.append(OffsetEntry(offset - base, len(log)))
            times.append(TimeEntry(TIME + 1000 * offset, offset - base))
        log += raw
    last = int.from_bytes(batches[-1][:8], "big")
    if not is_active and (not times or times[-1].relative_offset < last - base):
        times.append(TimeEntry(TIME + 1000 * last, last - base))
    (directory / segment_file(base, ".log")).write_bytes(log)
    (directory / segment_file(base, ".index")).write_bytes(write_offset_index(positions))
    (directory / segment_file(base, ".timeindex")).write_bytes(write_time_index(times))


def write_partition(directory: Path, *, segments: int = 3, topic_id: str = TOPIC_ID) -> Path:
    """Segments of twelve batches; the last one ends with an aborted transaction."""
    directory.mkdir(parents=True)
    for number in range(segments):
        base = number * SEGMENT
        batches = [batch(base + at) for at in range(SEGMENT)]
        if number == segments - 1:
            batches[-3:] = aborted_transaction(base + SEGMENT - 3)
            entry = AbortedTxn(0, 9, base + SEGMENT - 3, base + SEGMENT - 1, base + SEGMENT)
            (directory / segment_file(base, ".txnindex")).write_bytes(write_txn_index([entry]))
        write_segment(directory, base, batches, is_active=number == segments - 1)
        if number:
            (directory / segment_file(base, ".snapshot")).write_bytes(write_snapshot([state(base - 1)]))
    end = segments * SEGMENT
    aborted = ProducerState(9, 0, 1, end - 2, 0, TIME + 1000 * (end - 1), 3, -1)
    (directory / segment_file(end, ".snapshot")).write_bytes(write_snapshot([state(end - 4), aborted]))
    (directory / "leader-epoch-checkpoint").write_bytes(write_leader_epochs([EpochStart(0, 0)]))
    (directory / "partition.metadata").write_bytes(write_partition_metadata(PartitionMetadata(0, topic_id)))
    return directory


def state(offset: int) -> ProducerState:
    return ProducerState(PRODUCER, 0, offset, offset, 0, TIME + 1000 * offset, -1, -1)


def write_healthy_log_dir(path: Path, *, isr: list[int] | None = None) -> Path:
    """`orders-0` and, if the replicas are given, the metadata that names them; nothing is wrong with it."""
    write_partition(path / "orders-0")
    (path / "meta.properties").write_bytes(
        write_meta_properties(MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg", 1, None))
    )
    end = 3 * SEGMENT
    for name, offset in (
        ("recovery-point-offset-checkpoint", 2 * SEGMENT),
        ("replication-offset-checkpoint", end),
        ("log-start-offset-checkpoint", 0),
        ("cleaner-offset-checkpoint", None),
    ):
        lines = [] if offset is None else [PartitionOffset("orders", 0, offset)]
        (path / name).write_bytes(write_offset_checkpoint(lines))
    if isr is not None:
        write_metadata(path / "__cluster_metadata-0", isr)
    return path


def write_metadata(
    directory: Path, isr: list[int], directories: list[str] | None = None, *, name: str = "orders"
) -> None:
    directory.mkdir()
    topic: dict[str, object] = {"name": name, "topicId": TOPIC_ID}
    partition: dict[str, object] = {
        "partitionId": 0,
        "topicId": TOPIC_ID,
        "replicas": [1, 2, 3],
        "isr": isr,
        "leader": isr[0],
        "leaderEpoch": 0,
        "partitionEpoch": 0,
        **({} if directories is None else {"directories": directories}),
    }
    version = 0 if directories is None else 1
    rows = [
        encode_record(Decoder.CLUSTER_METADATA, "TopicRecord", 0, topic),
        encode_record(Decoder.CLUSTER_METADATA, "PartitionRecord", version, partition),
    ]
    log = write_batch([NewRecord(None, value, TIME) for _, value in rows], partition_leader_epoch=1)
    (directory / segment_file(0, ".log")).write_bytes(log)
    (directory / segment_file(0, ".index")).write_bytes(b"")
    (directory / segment_file(0, ".timeindex")).write_bytes(b"")
    (directory / "leader-epoch-checkpoint").write_bytes(write_leader_epochs([EpochStart(1, 0)]))


def findings(
    *paths: Path, jobs: int = 1, least: Severity = Severity.DEGRADED, **options: object
) -> list[Finding]:
    """What verify finds, from this severity on."""
    run = Verification(expand([str(path) for path in paths]).targets, VerifyRequest(**options))  # type: ignore[arg-type]
    with workers(jobs) as pool:
        return [finding for finding in run.findings(pool) if finding.damage.severity >= least]


def kinds_of(found: list[Finding]) -> list[FindingClass]:
    return [finding.damage.kind for finding in found]


def random_segment(seed: random.Random) -> list[bytes]:
    """Some batches of every codec, of producers, and of a transaction."""
    batches = []
    offset = 0
    for _ in range(seed.randrange(4, 12)):
        if seed.random() < 0.15:
            batches += aborted_transaction(offset)
            offset += 3
        elif seed.random() < 0.5:
            batches.append(batch(offset, size=seed.randrange(1, 500)))
            offset += 1
        else:
            count = seed.randrange(1, 6)
            rows = [
                NewRecord(b"k", seed.randbytes(seed.randrange(80)), TIME + 1000 * (offset + at))
                for at in range(count)
            ]
            codec = seed.choice(list(Codec))
            batches.append(write_batch(rows, base_offset=offset, codec=codec, partition_leader_epoch=0))
            offset += count
    return batches


def with_something_done_to_it(seed: random.Random, batches: list[bytes]) -> bytes:
    def swap_blocks(raw: bytearray, _at: int) -> None:
        block = min(512, len(raw) // 3)
        at, to = seed.randrange(len(raw) - block), seed.randrange(len(raw) - block)
        raw[at : at + block], raw[to : to + block] = raw[to : to + block], raw[at : at + block]

    return mutated(seed, b"".join(batches), swap_blocks)


def log_of(log_dir: Path, number: int, extension: str = ".log") -> Path:
    return log_dir / "orders-0" / segment_file(number * SEGMENT, extension)
