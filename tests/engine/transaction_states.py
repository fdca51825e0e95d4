"""Partitions of `__transaction_state`, record by record."""

from __future__ import annotations

from pathlib import Path

from kafkatool.format.batch import Codec, NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.names import segment_file
from kafkatool.format.schema import Decoder, encode_record
from tests.logs import TIME

ONGOING = 1


def state(name: str, producer_id: int, *, version: int = 1, **fields: object) -> NewRecord:
    """What a coordinator writes of a transactional id."""
    value: dict[str, object] = {
        "producerId": producer_id,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": ONGOING,
        "transactionPartitions": [{"topic": "users", "partitionIds": [0]}],
        "transactionLastUpdateTimestampMs": TIME,
        "transactionStartTimestampMs": TIME,
        **fields,
    }
    return _record(name, version, value)


def expired(name: str) -> NewRecord:
    """A tombstone."""
    return _record(name, 0, None)


def _record(name: str, version: int, value: dict[str, object] | None) -> NewRecord:
    key: dict[str, object] = {"transactionalId": name}
    return NewRecord(*encode_record(Decoder.TRANSACTION_LOG, "TransactionLog", version, value, key), TIME)


def write_states(
    log_dir: Path, *batches: list[NewRecord], number: int = 0, base: int = 0, codec: Codec = Codec.NONE
) -> Path:
    """One segment of a partition; returns its log."""
    directory = log_dir / f"__transaction_state-{number}"
    directory.mkdir(parents=True, exist_ok=True)
    data, offset = b"", base
    for records in batches:
        data += write_batch(records, base_offset=offset, partition_leader_epoch=0, codec=codec)
        offset += len(records)
    path = directory / segment_file(base, ".log")
    path.write_bytes(data)
    return path


def write_all_states(log_dir: Path, *records: NewRecord, count: int = 50) -> None:
    """Every partition of the topic, all records in the first: what is not there, no coordinator knows."""
    for number in range(count):
        write_states(log_dir, *([list(records)] if records and not number else []), number=number)
