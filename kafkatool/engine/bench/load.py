"""What a benchmark writes: records created before the clock starts, and batches encoded from them.

load = Load(num_records=1_000_000)
pool = make_pool(load, seed)           keys and payloads, all different if asked for
Batches(load, pool).next(offset, now)  the next bytes to append
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from kafkatool.errors import KafkatoolError
from kafkatool.format.batch import BatchHeader, Codec, seal
from kafkatool.format.compression import compress
from kafkatool.format.kernel import loops
from kafkatool.format.primitives import Buffer

MOST_POOL = 512 << 20
_OFFSET = Struct(">q")
_FILLER = b"the quick brown fox jumps over the lazy dog. "


@dataclass(frozen=True, slots=True)
class Load:
    """The settings of a run, named as in Kafka's perf tools where possible."""

    num_records: int = 1_000_000
    record_size: int = 100
    batch_size: int = 16384
    key_size: int = 16
    num_keys: int = 0
    """Number of different keys; 0: every record has its own."""
    key_distribution: str = "uniform"
    compressible: float = 0.0
    payload_file: str | None = None
    codec: str = "none"
    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    flush_messages: int = 0
    flush_ms: int = 0
    partitions: int = 1
    writers: int = 1
    preallocate: bool = False
    throughput: int = -1
    batches_per_append: int = 1
    pre_encoded: bool = False
    reporting_interval_ms: int = 1000


@dataclass(frozen=True, slots=True)
class Pool:
    """Records in memory: per record a timestamp, and start and size of its key and value."""

    data: bytes
    rows: NDArray[np.int64]
    is_cycled: bool

    def __len__(self) -> int:
        return len(self.rows)


def make_pool(load: Load, count: int, seed: int, payload: bytes | None) -> Pool:
    """Create `count` records, or as many as fit into memory, to be used repeatedly."""
    numbers = np.random.default_rng(seed)
    lines = [line for line in payload.split(b"\n") if line] if payload is not None else None
    if lines == []:
        raise KafkatoolError(f"{load.payload_file}: no payload in it")
    each = load.key_size + (load.record_size if lines is None else 0) + 40
    fitting = max(1, min(count, MOST_POOL // each))
    keys = _keys(load, fitting, seed, numbers)
    if lines is None:
        table = np.concatenate((keys, _values(load, fitting, numbers)), axis=1)
        starts = np.arange(fitting, dtype=np.int64) * table.shape[1] + load.key_size
        sizes = np.full(fitting, load.record_size)
        return Pool(table.tobytes(), _rows(load, starts - load.key_size, starts, sizes), fitting < count)
    blob = b"".join(lines)
    lengths = np.array([len(line) for line in lines])
    chosen = numbers.integers(0, len(lines), fitting)
    starts = (np.cumsum(lengths) - lengths)[chosen] + keys.size
    key_starts = np.arange(fitting, dtype=np.int64) * load.key_size
    rows = _rows(load, key_starts, starts, lengths[chosen])
    return Pool(keys.tobytes() + blob, rows, fitting < count)


def _rows(
    load: Load, key_starts: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    rows = np.zeros((len(starts), 5), dtype=np.int64)
    rows[:, 1], rows[:, 2] = key_starts, load.key_size if load.key_size else -1
    rows[:, 3], rows[:, 4] = starts, sizes
    return rows


def _keys(load: Load, count: int, seed: int, numbers: np.random.Generator) -> NDArray[np.uint8]:
    """Return keys: hexadecimal numbers with as many digits as a key has bytes."""
    if not load.num_keys:
        chosen = np.arange(count, dtype=np.uint64) + np.uint64(seed << 40)
    elif load.key_distribution == "zipf":
        chosen = (numbers.zipf(1.2, count) % load.num_keys).astype(np.uint64)
    elif load.key_distribution == "sequential":
        chosen = np.arange(count, dtype=np.uint64) % np.uint64(load.num_keys)
    else:
        chosen = numbers.integers(0, load.num_keys, count, dtype=np.uint64)
    table = np.full((count, load.key_size), ord("0"), dtype=np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    for place in range(min(16, load.key_size)):
        table[:, load.key_size - 1 - place] = digits[
            (chosen >> np.uint64(4 * place) & np.uint64(15)).astype(np.intp)
        ]
    return table


def _values(load: Load, count: int, numbers: np.random.Generator) -> NDArray[np.uint8]:
    """Return values: noise, and compressible words for the requested share of each value."""
    noise = load.record_size - int(load.record_size * load.compressible)
    table = np.empty((count, load.record_size), dtype=np.uint8)
    table[:, :noise] = np.frombuffer(numbers.bytes(count * noise), dtype=np.uint8).reshape(count, noise)
    words = (_FILLER * (load.record_size // len(_FILLER) + 1))[: load.record_size - noise]
    table[:, noise:] = np.frombuffer(words, dtype=np.uint8)
    return table


class Batches:
    """The batches of a pool, one after another, starting over at its end."""

    def __init__(self, load: Load, pool: Pool, most_ready: int = 1) -> None:
        """Prepare the batches; `most_ready`: most appends to return at once if they are pre-encoded."""
        self._load, self._pool = load, pool
        self._codec = Codec[load.codec.upper()]
        self.records_each = _records_each(load, pool)
        self._at, self._most_ready = 0, most_ready
        self._encoded: list[tuple[bytearray, list[tuple[int, int]], int]] = []
        if load.pre_encoded:
            self._encode_all()

    def next(self, offset: int, now_ms: int, most: int) -> tuple[list[Buffer], int]:
        """Return the next append, or several if pre-encoded, from this offset on, and their record count."""
        if self._encoded:
            return self._stamped(offset, most)
        start = self._at
        wanted = min(self.records_each * self._load.batches_per_append, most)
        stop = min(start + wanted, len(self._pool))
        self._at = 0 if stop == len(self._pool) else stop
        return [self._encode(start, stop, offset, now_ms)], stop - start

    def _encode(self, start: int, stop: int, offset: int, now_ms: int) -> bytes:
        rows = self._pool.rows[start:stop]
        rows[:, 0] = now_ms
        count = stop - start
        ends = array("q", [*range(self.records_each, count, self.records_each), count])
        if self._codec is Codec.NONE:
            return loops.encode_batches(self._pool.data, rows, ends, offset, 0)
        return b"".join(self._compressed(rows, ends, offset))

    def _compressed(self, rows: NDArray[np.int64], ends: Sequence[int], offset: int) -> list[bytes]:
        first, found = 0, []
        for end in ends:
            part, count = rows[first:end].T, end - first
            base, time = offset + first, int(part[0, 0])
            placed = np.empty((6, count), dtype=np.int64)
            placed[0], placed[1:] = np.arange(base, base + count), part
            body = loops.record_bytes(self._pool.data, placed, base, time)
            header = BatchHeader(base, 0, 0, 2, 0, int(self._codec), count - 1, time, time, -1, -1, -1, count)
            found.append(seal(header, compress(self._codec, body)))
            first = end
        return found

    # --- pre-encoded ------------------------------------------------------------------------------------

    def _encode_all(self) -> None:
        wanted = self.records_each * self._load.batches_per_append
        for start in range(0, len(self._pool), wanted):
            stop = min(start + wanted, len(self._pool))
            data = bytearray(self._encode(start, stop, 0, 0))
            places, at = list[tuple[int, int]](), 0
            while at < len(data):
                places.append((at, len(places) * self.records_each))
                at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
            self._encoded.append((data, places, stop - start))
        self._again = cycle(self._encoded)
        # Never the same one twice at once: it cannot have two offsets.
        self._most_ready = min(self._most_ready, len(self._encoded))

    def _stamped(self, offset: int, most: int) -> tuple[list[Buffer], int]:
        """Stamp new offsets only: they are outside the checksum, and a leader stamps them too."""
        appends: list[Buffer] = []
        records = 0
        for data, places, count in islice(self._again, self._most_ready):
            for place, records_before in places:
                _OFFSET.pack_into(data, place, offset + records + records_before)
            appends.append(data)
            records += count
            if records >= most:
                break
        return appends, records


def _records_each(load: Load, pool: Pool) -> int:
    """Return how many records make a batch of the wanted size, uncompressed."""
    some = pool.rows[:1000]
    count = len(some)
    whole = len(loops.encode_batches(pool.data, some, array("q", [count]), 0, 0)) - 61
    return max(1, int((load.batch_size - 61) * count // max(1, whole)))
