"""Make the logs to be measured: as large as real segments, in seconds, the same every time."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkatool.engine.broker.index_accounting import IndexAccounting
from kafkatool.format import offset_index, time_index
from kafkatool.format.batch import BatchHeader, Codec, NewRecord, seal
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.kernel import loops
from kafkatool.format.names import segment_file
from kafkatool.format.state.producer_snapshot import write_snapshot

TIME = 1_700_000_000_000
VALUE_SIZE = 100
WIDE, LARGE, NARROW = 16 << 10, 256 << 10, 0
"""Bytes per batch; the last size means one record."""
_VARIETY = 16


class Inputs:
    """Logs of one size, made if they are missing."""

    def __init__(self, directory: Path, size: int) -> None:
        self.directory = directory / f"{size >> 20}-mib"
        self.size = size

    def log(self, batch_size: int) -> Path:
        """Return a log of batches of about this size, with 100-byte values, not compressed."""
        count = _records_of(batch_size)
        batch = write_batch(_plain_records(count), partition_leader_epoch=0)
        return self._write(f"batches-of-{batch_size >> 10}-kib-0", [batch], count)

    def text_log(self, codec: Codec, share: int = 4) -> Path:
        """Return a log of 16 KiB batches that compress like real messages; `share` divides its size."""
        count = _records_of(WIDE)
        source = random.Random(17)
        batches = [
            write_batch(_text_records(source, count), codec=codec, partition_leader_epoch=0)
            for _ in range(_VARIETY)
        ]
        plain = len(write_batch(_text_records(random.Random(17), count)))
        return self._write(f"text-{codec.label}-0", batches, count, self.size // share // plain)

    def segments(self, number: int) -> list[Path]:
        """Return segments of one partition, with 16 KiB batches and indexes as a broker writes them."""
        count = _records_of(WIDE)
        batch = write_batch(_plain_records(count), partition_leader_epoch=0)
        each = self.size // len(batch)
        bases = [at * each * count for at in range(number)]
        logs = [self._write(f"{number}-segments-0", [batch], count, each, base=base) for base in bases]
        for log, base in zip(logs, bases, strict=True):
            _write_indexes(log, base, len(batch), count, each)
        return logs

    def keyed_partition(self, keys: int) -> Path:
        """Return a partition of 16 KiB batches with repeated keys: closed segments, and an empty one."""
        directory = self.directory / f"{keys}-keys-0"
        done = directory.with_suffix(".complete")
        if not done.exists():
            directory.mkdir(parents=True, exist_ok=True)
            _write_keyed_segments(directory, self.size, keys)
            done.touch()
        for log in directory.glob("*.log"):
            _warm(log)
        return directory

    def _write(
        self, name: str, batches: list[bytes], records: int, number: int | None = None, base: int = 0
    ) -> Path:
        path = self.directory / name / f"{base:020d}.log"
        number = self.size // len(batches[0]) if number is None else number
        size = sum(len(batches[at % len(batches)]) for at in range(number))
        if path.exists() and path.stat().st_size == size:
            _warm(path)
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as log:
            # The checksum does not cover the base offset, so a few batches are enough for all.
            log.writelines(
                (base + at * records).to_bytes(8, "big") + batches[at % len(batches)][8:]
                for at in range(number)
            )
        return path


_KEYED_SEGMENTS = 8


def _write_keyed_segments(directory: Path, size: int, keys: int) -> None:
    numbers, offset = np.random.default_rng(17), 0
    for _ in range(_KEYED_SEGMENTS):
        log = directory / segment_file(offset, ".log")
        base, entries = offset, IndexAccounting(offset, 4096, 10 << 20)
        offsets, times = bytearray(), bytearray()
        with log.open("wb") as file:
            while file.tell() < size // _KEYED_SEGMENTS:
                batch = _keyed_batch(numbers.integers(0, keys, 134), offset)
                new = entries.add(file.tell(), len(batch), offset + 133, TIME + offset + 133)
                offsets += b"" if new.offset is None else offset_index.write_entry(new.offset)
                times += b"" if new.time is None else time_index.write_entry(new.time)
                file.write(batch)
                offset += 134
        closing = entries.close()
        times += b"" if closing is None else time_index.write_entry(closing)
        (directory / segment_file(base, ".index")).write_bytes(offsets)
        # No producer had an id; a broker records that at every roll.
        (directory / segment_file(offset, ".snapshot")).write_bytes(write_snapshot([]))
        (directory / segment_file(base, ".timeindex")).write_bytes(times)
    (directory / segment_file(offset, ".log")).write_bytes(
        _keyed_batch(np.zeros(134, dtype=np.int64), offset)
    )


def _keyed_batch(keys: NDArray[np.int64], base_offset: int) -> bytes:
    """Return a batch of records with an 11-byte key and a 100-byte value."""
    data = b"".join(b"key-%07d" % key for key in keys.tolist()) + b"x" * VALUE_SIZE
    rows = np.empty((6, len(keys)), dtype=np.int64)
    each = np.arange(len(keys))
    rows[0], rows[1] = base_offset + each, TIME + base_offset + each
    rows[2], rows[3], rows[4], rows[5] = 11 * each, 11, 11 * len(keys), VALUE_SIZE
    first, last = int(rows[1, 0]), int(rows[1, -1])
    header = BatchHeader(base_offset, 0, 0, 2, 0, 0, len(keys) - 1, first, last, -1, -1, -1, len(keys))
    return seal(header, loops.record_bytes(data, rows, base_offset, int(rows[1, 0])))


def _write_indexes(log: Path, base: int, size: int, records: int, number: int) -> None:
    """Write indexes as a broker with the default interval does for this many equal batches."""
    accounting = IndexAccounting(base, 4096, 10 << 20)
    entries = [
        accounting.add(at * size, size, base + (at + 1) * records - 1, TIME + records - 1)
        for at in range(number)
    ]
    times = [entry.time for entry in entries if entry.time is not None]
    if (closing := accounting.close()) is not None:
        times.append(closing)
    offsets = [entry.offset for entry in entries if entry.offset is not None]
    log.with_suffix(".index").write_bytes(b"".join(map(offset_index.write_entry, offsets)))
    log.with_suffix(".timeindex").write_bytes(b"".join(map(time_index.write_entry, times)))


def _warm(path: Path) -> None:
    """Read the file into the page cache, in pieces: a child inherits its parent's peak memory."""
    with path.open("rb", buffering=0) as log:
        while log.read(1 << 20):
            pass


def _records_of(size: int, records: Callable[[int], list[NewRecord]] | None = None) -> int:
    make = records or _plain_records
    one, two = (len(write_batch(make(count))) for count in (1, 2))
    return max(1, (size - one) // (two - one) + 1)


def _plain_records(count: int) -> list[NewRecord]:
    return [NewRecord(None, b"x" * VALUE_SIZE, TIME + at) for at in range(count)]


def _text_records(source: random.Random, count: int) -> list[NewRecord]:
    """Return records whose keys repeat, and whose values that are partly the same words and partly noise."""
    return [
        NewRecord(
            b"user-%06d" % source.randrange(100_000),
            (
                b'{"id":"%016x","page":"/shop/item/%05d","ms":%d,"agent":"Mozilla/5.0","country":"%s","ok":true}'
            )
            % (
                source.getrandbits(64),
                source.randrange(50_000),
                TIME + at,
                source.choice([b"DE", b"FR", b"US"]),
            ),
            TIME + at,
        )
        for at in range(count)
    ]
