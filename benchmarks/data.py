"""The logs that are measured: as large as real segments, made in seconds, the same every time."""

from __future__ import annotations

from pathlib import Path

from kafkatool.format.batch import NewRecord, write_batch

TIME = 1_700_000_000_000
VALUE_SIZE = 100
WIDE_BATCH = 16 << 10
WIDE_LOG = 1 << 30
NARROW_LOG = 256 << 20


def wide_log(directory: Path) -> Path:
    """1 GiB of 16 KiB batches, 100-byte values."""
    return _log(directory / "wide-0", WIDE_LOG, _records_of(WIDE_BATCH))


def narrow_log(directory: Path) -> Path:
    """256 MiB of batches that hold one record each."""
    return _log(directory / "narrow-0", NARROW_LOG, 1)


def four_logs(directory: Path) -> list[Path]:
    """4 GiB of 16 KiB batches, in 4 segments of one partition."""
    records = _records_of(WIDE_BATCH)
    logs: list[Path] = []
    base = 0
    for _ in range(4):
        logs.append(_log(directory / "four-0", WIDE_LOG, records, base))
        base += logs[-1].stat().st_size // _batch_size(records) * records
    return logs


def _batch_size(records: int) -> int:
    return len(write_batch(_records(records)))


def _records_of(size: int) -> int:
    one, two = (len(write_batch(_records(count))) for count in (1, 2))
    return (size - one) // (two - one) + 1


def _records(count: int) -> list[NewRecord]:
    return [NewRecord(None, b"x" * VALUE_SIZE, TIME + at) for at in range(count)]


def _log(directory: Path, size: int, records: int, base: int = 0) -> Path:
    path = directory / f"{base:020d}.log"
    batch = write_batch(_records(records), partition_leader_epoch=0)
    count = size // len(batch)
    if path.exists() and path.stat().st_size == count * len(batch):
        return path
    directory.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as log:
        # The base offset is outside the checksum, so one batch serves for all.
        log.writelines((base + at * records).to_bytes(8, "big") + batch[8:] for at in range(count))
    return path
