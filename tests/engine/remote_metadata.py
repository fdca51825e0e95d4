"""Partitions of `__remote_log_metadata`, record by record."""

from __future__ import annotations

from pathlib import Path

from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.schema.layout import Tree
from kafkatool.format.schema.remote_log_metadata import SEGMENT_STATES, TOPIC
from kafkatool.format.uuids import uuid_text
from tests.engine.disk import TOPIC_ID
from tests.logs import TIME


def _place(segment: int, topic_id: str, partition: int) -> Tree:
    place: Tree = {"name": "orders", "id": topic_id, "partition": partition}
    return {"topicIdPartition": place, "id": uuid_text(segment.to_bytes(16, "big"))}


def _record(name: str, value: Tree) -> NewRecord:
    return NewRecord(*TOPIC.encode(name, 0, None, value), TIME)


def started(
    segment: int,
    start: int,
    end: int,
    epochs: dict[int, int] | None = None,
    *,
    topic_id: str = TOPIC_ID,
    partition: int = 0,
) -> NewRecord:
    """A copy begins; `epochs`: leader epoch -> first offset."""
    entries = [{"leaderEpoch": epoch, "offset": at} for epoch, at in (epochs or {0: start}).items()]
    value: Tree = {
        "remoteLogSegmentId": _place(segment, topic_id, partition),
        "startOffset": start,
        "endOffset": end,
        "brokerId": 1,
        "maxTimestampMs": TIME,
        "eventTimestampMs": TIME,
        "segmentLeaderEpochs": entries,
        "segmentSizeInBytes": 1000,
        "customMetadata": None,
        "remoteLogSegmentState": SEGMENT_STATES.index("COPY_SEGMENT_STARTED"),
        "txnIndexEmpty": False,
    }
    return _record("RemoteLogSegmentMetadataRecord", value)


def now(segment: int, state: str, *, topic_id: str = TOPIC_ID, partition: int = 0) -> NewRecord:
    """What has become of a copy."""
    value: Tree = {
        "remoteLogSegmentId": _place(segment, topic_id, partition),
        "brokerId": 1,
        "eventTimestampMs": TIME,
        "customMetadata": None,
        "remoteLogSegmentState": SEGMENT_STATES.index(state),
    }
    return _record("RemoteLogSegmentMetadataUpdateRecord", value)


def copied(segment: int, start: int, end: int, epochs: dict[int, int] | None = None) -> list[NewRecord]:
    """A whole copy of orders-0."""
    return [started(segment, start, end, epochs), now(segment, "COPY_SEGMENT_FINISHED")]


def write_remote_metadata(log_dir: Path, *records: NewRecord, number: int = 0) -> Path:
    """One segment of a partition, a batch for each record; returns its log."""
    directory = log_dir / f"__remote_log_metadata-{number}"
    directory.mkdir(parents=True, exist_ok=True)
    batches = [
        write_batch([one], base_offset=offset, partition_leader_epoch=0) for offset, one in enumerate(records)
    ]
    path = directory / segment_file(0, ".log")
    path.write_bytes(b"".join(batches))
    return path
