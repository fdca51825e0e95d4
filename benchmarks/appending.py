"""Compare appending and cache-map with the bare disk, fio, vmtouch and a broker with its own perf tool.

python -m benchmarks.appending JOB DIR [SIZE]      run one job of kafkatool; print its seconds

Encoding is measured on one core. Bare writes, and appends of records encoded in advance, have both cores, as
fio has: while they run, the kernel writes back and the log flushes rolled segments.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Program, Runner, Sample
from kafkatool.format.names import segment_file
from tests.kafka.broker import Broker
from tests.kafka.peers import NEWEST, classpath, require_java

if TYPE_CHECKING:
    from benchmarks.data import Inputs
    from benchmarks.table import Comparison

RECORDS = 2_000_000
BATCH_BYTES = 16_317
"""Size of a batch of 129 records with 16-byte keys and 100-byte values."""
MADE_BEFORE = 1 << 30
"""Bytes of memory for records that are made before the clock starts."""
SPARSE_EACH, SPARSE_SIZE = 100, 200 << 20
"""Files per partition, and the size that each claims to have."""
SYNC_EVERY = 4096
"""Batches, 64 MiB: then syncing three files of the log costs little compared with their data."""

DIRTY_LIMIT = 256 << 20
VM = Path("/proc/sys/vm")


def appending(inputs: Inputs, cleanup: ExitStack) -> Iterator[Comparison]:
    from benchmarks.table import Comparison, Row

    place = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=inputs.directory)))
    whole = inputs.size * 2
    ours = [
        Row("append, every record encoded, one core", job("append", place), None, 1.0, MADE_BEFORE),
        Row(
            "append, every record encoded, 64 batches at once",
            job("append-many", place),
            None,
            1.0,
            MADE_BEFORE,
        ),
    ]
    yield Comparison(f"one second per million records ({RECORDS:,})", lambda: Sample(RECORDS / 1e6, 0), ours)
    many = job("append-encoded", place, whole)
    encoded = Row("append, encoded in advance, 64 batches at once", many, None, 1 / 0.7, MADE_BEFORE)
    one_by_one = job("append-single", place, whole)
    single = Row("append, encoded in advance, one by one", one_by_one, None, 1 / 0.7, MADE_BEFORE)
    yield Comparison("bare writes of the same 16 KiB blocks", job("write", place, whole), [encoded, single])
    if shutil.which("fio"):
        run = job("append-synced", place, whole)
        synced = Row("append one by one, fsync each 64 MiB", run, memory=MADE_BEFORE, within=1.15)
        yield Comparison("fio, the same pattern", fio(place, whole, SYNC_EVERY), [synced])
        yield from _beyond_dirty_limit(place, 2 * whole, Comparison, Row)
    yield Comparison(
        f"kafka-producer-perf-test {NEWEST}, acks=1", perf_test(cleanup), [ours[0]._replace(at_most=None)]
    )
    if shutil.which("vmtouch"):
        files = half_resident_files(inputs.directory / "cache-map", min(inputs.size // 5, 100 << 20))
        row = Row(
            f"map {len(list(files.iterdir()))} files, half of them in memory", job("map", files), None, 1.2
        )
        yield Comparison("vmtouch", vmtouch(files), [row])
        yield _sparse(inputs, Comparison, Row)


def _beyond_dirty_limit(place: Path, size: int, make: Any, row: Any) -> Iterator[Any]:
    """Measure with a low dirty limit, if we may set it: a high one would measure memory, not the disk."""
    if not os.access(VM / "dirty_bytes", os.W_OK):
        return
    title = f"append {size >> 20} MiB one by one, beyond a dirty limit of {DIRTY_LIMIT >> 20} MiB"
    ours = row(title, job("append-closed", place, size), memory=MADE_BEFORE, within=1.15)
    before = _dirty_limits()
    try:
        _set_dirty_limits({"dirty_background_bytes": DIRTY_LIMIT // 2, "dirty_bytes": DIRTY_LIMIT})
        yield make("fio, the same pattern", fio(place, size, 0), [ours])
    finally:
        _set_dirty_limits(before)


def _dirty_limits() -> dict[str, int]:
    """Return the limits in force, the background's first; of bytes and ratio, the unused one is 0."""
    names = ("dirty_background_bytes", "dirty_background_ratio", "dirty_bytes", "dirty_ratio")
    found = {name: int((VM / name).read_text()) for name in names}
    return {name: value for name, value in found.items() if value}


def _set_dirty_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        (VM / name).write_text(str(value))


def _sparse(inputs: Inputs, make: Any, row: Any) -> Any:
    """Compare a run over far more files than a broker has with vmtouch on a few of them."""
    partitions = 500 if inputs.size >= 1 << 29 else 10
    directory = sparse_files(inputs.directory / f"cache-map-{partitions}", partitions)
    size = partitions * SPARSE_EACH * SPARSE_SIZE
    title = f"cache-map of {partitions * SPARSE_EACH:,} sparse files, {size / 1e12:.1f} TB"
    ours = Program([sys.executable, "-m", "kafkatool", "cache-map", str(directory)]).run
    few = vmtouch(directory / "sparse-0")

    def peer() -> Sample:
        return Sample(few().seconds * partitions, 0)

    return make(f"vmtouch, {partitions} times that of {SPARSE_EACH} files", peer, [row(title, ours)])


def job(name: str, place: Path, size: int = 0) -> Runner:
    command = [sys.executable, "-m", "benchmarks.appending", name, str(place), str(size)]
    return Program(command, tells_time=True).run


# --- peers --------------------------------------------------------------------------------------------


def fio(place: Path, size: int, sync_every: int) -> Runner:
    command = ["fio", "--name=bench", f"--directory={place}", "--rw=write", f"--bs={BATCH_BYTES}"]
    command += [f"--size={size}", "--ioengine=psync", "--end_fsync=1", "--output-format=json"]
    command += ["--unlink=1", "--fallocate=none"] + ([f"--fsync={sync_every}"] if sync_every else [])

    def run() -> Sample:
        os.sync()
        told = subprocess.run(command, capture_output=True, check=True).stdout
        write = json.loads(told)["jobs"][0]
        for left in place.glob("bench.*"):
            left.unlink()
        return Sample(write["job_runtime"] / 1000, 0)

    return run


def vmtouch(files: Path) -> Runner:
    def run() -> Sample:
        told = subprocess.run(["vmtouch", str(files)], capture_output=True, text=True, check=True).stdout
        found = re.search(r"Elapsed: ([\d.e-]+) seconds", told)
        assert found is not None
        return Sample(float(found[1]), 0)

    return run


def perf_test(cleanup: ExitStack) -> Runner:
    """Run the producer's own benchmark, against a broker on the same disk."""
    broker = cleanup.enter_context(Broker(NEWEST))
    broker.client.create_topic("measured")
    java = [require_java(), "-Xmx512M", "-server", "-cp", classpath(NEWEST)]
    command = [*java, "org.apache.kafka.tools.ProducerPerformance", "--topic", "measured"]
    command += [
        "--num-records",
        str(RECORDS),
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--producer-props",
    ]
    command += [f"bootstrap.servers={broker.bootstrap}", "acks=1", "batch.size=16384"]

    def run() -> Sample:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
        rate = re.findall(rf"^{RECORDS} records sent, ([\d.]+) records/sec", told, re.MULTILINE)[-1]
        return Sample(RECORDS / float(rate), 0)

    return run


def sparse_files(directory: Path, partitions: int) -> Path:
    """Make segments that take no space."""
    for number in range(partitions):
        partition = directory / f"sparse-{number}"
        partition.mkdir(parents=True, exist_ok=True)
        for at in range(SPARSE_EACH):
            with (partition / segment_file(at * 1_000_000, ".log")).open("ab") as file:
                file.truncate(SPARSE_SIZE)
    return directory


def half_resident_files(directory: Path, size: int) -> Path:
    """Make 200 real files, every other one in memory."""
    directory.mkdir(parents=True, exist_ok=True)
    block = os.urandom(1 << 20)
    for number in range(200):
        path = directory / f"{number:020d}.log"
        if not path.exists() or path.stat().st_size != size:
            with path.open("wb") as file:
                for at in range(0, size, len(block)):
                    file.write(block[: size - at])
                os.fsync(file.fileno())
        with path.open("rb", buffering=0) as file:
            if number % 2:
                while file.read(1 << 20):
                    pass
            else:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return directory


# --- ours ---------------------------------------------------------------------------------------------


def main() -> None:
    name, place, size = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if name == "map":
        print(_map(place))
        return
    os.sync()  # do not wait for what the run before has written and removed
    if name in ("append", "append-many"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(_write(place, size) if name == "write" else _append(name, place, size))


def _map(directory: str) -> float:
    from kafkatool.engine.files.residency import map_path

    map_path(sys.executable)  # what is loaded only once
    begun = time.perf_counter()
    with os.scandir(directory) as entries:
        for entry in entries:
            map_path(entry.path)
    return time.perf_counter() - begun


def _append(name: str, directory: str, size: int) -> float:
    from kafkatool.engine.bench.append import BenchWriter
    from kafkatool.engine.bench.load import Load, make_pool
    from kafkatool.engine.bench.place import take

    load = Load(num_records=RECORDS)
    if name in ("append-many", "append-encoded"):
        load = replace(load, batches_per_append=64)
    if size:
        load = replace(load, num_records=size // BATCH_BYTES * 129, pre_encoded=True)
    if name == "append-synced":
        load = replace(load, flush_messages=SYNC_EVERY * 129)
    place = take(os.path.join(directory, "log"), 0, on_live_volume=True)
    pool = make_pool(load, min(load.num_records, RECORDS if not size else 500_000), 1, None)
    writer = BenchWriter(load, place, 0, pool, lambda _: None)
    done = writer.run()
    place.clean()
    if writer.stop:
        raise SystemExit(f"not all was written: {writer.stop}")
    is_synced = name in ("append-synced", "append-closed")
    return done.closing_seconds if is_synced else done.seconds


def _write(directory: str, size: int) -> float:
    from kafkatool.engine.bench.append import limits
    from kafkatool.engine.bench.load import Load
    from kafkatool.engine.bench.place import BenchPlace

    return next(limits(Load(), BenchPlace(directory, made=False), size, None, 1)).seconds


if __name__ == "__main__":
    main()
