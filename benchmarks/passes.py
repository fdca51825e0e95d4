"""Make one pass over logs and print its seconds: `python -m benchmarks.passes NAME LOG…`.

Everything is imported before the clock starts, so start-up is not counted.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import lz4.block
import lz4.frame
import snappy.snappy  # noqa: F401
import zstandard

from kafkatool.engine.files.page_cache import keep_freed_memory

PIECE = 1 << 20


def _pieces(path: str) -> Iterator[bytes]:
    fd, position = os.open(path, os.O_RDONLY), 0
    try:
        while piece := os.pread(fd, PIECE, position):
            yield piece
            position += len(piece)
    finally:
        os.close(fd)


def read(paths: list[str]) -> Callable[[], None]:
    """Only read, in pieces of 1 MiB."""

    def run() -> None:
        for path in paths:
            for _ in _pieces(path):
                pass

    return run


def read_by_two(paths: list[str]) -> Callable[[], None]:
    """Only read, by two processes with half of the files each: the most that two cores can gain."""
    from kafkatool.engine.jobs.worker_pool import workers

    def run() -> None:
        with workers(2) as pool:
            halves = [pool.submit(_read_all, half) for half in (paths[::2], paths[1::2])]
            while not all(half.is_done for half in halves):
                pool.wait()

    return run


def _read_all(paths: list[str]) -> None:
    read(paths)()


def checksum(paths: list[str]) -> Callable[[], None]:
    """Read, and compute the checksum of each piece with the crc32c library."""
    from crc32c import crc32c

    def run() -> None:
        for path in paths:
            for piece in _pieces(path):
                crc32c(piece)

    return run


def verify(paths: list[str], *, deep: bool = False, jobs: int = 1) -> Callable[[], None]:
    from kafkatool.engine.directory.targets import FileTarget
    from kafkatool.engine.jobs.worker_pool import workers
    from kafkatool.engine.verify.verification import Verification, VerifyRequest

    def run() -> None:
        checking = Verification([FileTarget(path) for path in paths], VerifyRequest(deep=deep))
        with workers(jobs) as pool:
            for _finding in checking.findings(pool):
                pass
        assert checking.summary.batches

    return run


def decode(paths: list[str]) -> Callable[[], None]:
    """Decode every record to columns: offset, time, positions of key and value."""
    from kafkatool.engine.batches.scan import BatchRun, scan_runs
    from kafkatool.engine.files.source import Guest, open_source
    from kafkatool.format.columns import RecordColumns, RecordDecoder

    def run() -> None:
        decoder = RecordDecoder()
        for path in paths:
            with open_source(path, Guest(cache_keep=True)) as source:
                for item in scan_runs(source):
                    assert isinstance(item, BatchRun)
                    for found in decoder.decode(item.window, item.start, item.end, item.position):
                        assert isinstance(found, RecordColumns)

    return run


def parse(paths: list[str]) -> Callable[[], None]:
    """Decode every record to columns, from batches in memory whose checksums were checked before."""
    from kafkatool.engine.batches.scan import BatchRun, scan_runs
    from kafkatool.engine.files.source import open_source
    from kafkatool.format.columns import RecordColumns, RecordDecoder

    runs: list[BatchRun] = []
    for path in paths:
        with open_source(path) as source:
            runs += (item for item in scan_runs(source) if isinstance(item, BatchRun))

    def run() -> None:
        decoder = RecordDecoder()
        for item in runs:
            for found in decoder.decode(item.window, item.start, item.end, item.position):
                assert isinstance(found, RecordColumns)

    return run


def inflate(paths: list[str]) -> Callable[[], None]:
    """Only decompress every batch with its library, from memory."""
    from kafkatool.engine.batches.scan import Batch, scan
    from kafkatool.engine.files.source import open_source
    from kafkatool.format.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, Codec
    from kafkatool.format.compression import decompress

    libraries: dict[int, Callable[[memoryview], object]] = {
        Codec.GZIP: lambda body: zlib.decompress(body, 31),
        Codec.SNAPPY: lambda body: decompress(Codec.SNAPPY, body, limit=64 << 20),
        Codec.LZ4: lz4.frame.decompress,
        Codec.ZSTD: lambda body: zstandard.ZstdDecompressor().decompressobj().decompress(body),
    }
    bodies: list[tuple[Callable[[memoryview], object], memoryview]] = []
    for path in paths:
        with open_source(path) as source:
            for item in scan(source):
                assert isinstance(item, Batch)
                assert isinstance(item.header, BatchHeader)
                assert item.data is not None
                bodies.append((libraries[item.header.attributes & CODEC_MASK], item.data[HEADER_SIZE:]))

    def run() -> None:
        for inflate_one, body in bodies:
            inflate_one(body)

    return run


def aiokafka(paths: list[str]) -> Callable[[], None]:
    """Decode every record with aiokafka's compiled parser: offset, timestamp, key and value."""
    from aiokafka.record.memory_records import MemoryRecords

    contents = [Path(path).read_bytes() for path in paths]

    def run() -> None:
        for content in contents:
            records = MemoryRecords(content)
            while (batch := records.next_batch()) is not None:
                for record in batch:
                    _ = record.offset, record.timestamp, record.key, record.value

    return run


def rebuild(paths: list[str]) -> Callable[[], None]:
    """Make the plan of rebuild-index for the partitions of the logs."""
    from kafkatool.engine.directory.log_dir import read_partition
    from kafkatool.engine.files.source import Guest
    from kafkatool.engine.rebuild.planning import Rebuilding, plan_rebuild

    partitions = sorted({os.path.dirname(path) for path in paths})
    guest = Guest(cache_keep=True)
    import kafkatool.engine.broker.run_accounting  # noqa: F401

    def run() -> None:
        for directory in partitions:
            plan_rebuild(read_partition(directory, [], guest), None, Rebuilding(now_ms=0), guest)

    return run


PASSES = {
    "read": read,
    "read-by-two": read_by_two,
    "checksum": checksum,
    "verify": verify,
    "verify-by-two": lambda paths: verify(paths, jobs=2),
    "verify-deep": lambda paths: verify(paths, deep=True),
    "verify-deep-by-two": lambda paths: verify(paths, deep=True, jobs=2),
    "decode": decode,
    "parse": parse,
    "inflate": inflate,
    "aiokafka": aiokafka,
    "rebuild": rebuild,
}


def main() -> None:
    name, *paths = sys.argv[1:]
    keep_freed_memory()
    run = PASSES[name](paths)
    start = time.perf_counter()
    run()
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()
