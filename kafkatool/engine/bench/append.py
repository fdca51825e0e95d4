"""Append to real logs at full or limited speed, and measure everything meanwhile.

Each writer is a process with its own partitions. It sends a `Sample` every interval and `WrittenLogs` at the
end; on SIGINT it ends early with what it has. `limits` measures the bare disk for comparison.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from time import perf_counter, perf_counter_ns, time_ns
from typing import Any

from kafkatool.engine.bench.load import Batches, Load, Pool, make_pool
from kafkatool.engine.bench.place import BenchPlace, device_written, dirty_memory
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import Disk, DiskFile, File
from kafkatool.engine.jobs.histogram import Histogram
from kafkatool.engine.log.flusher import BackgroundFlusher
from kafkatool.engine.log.loading import open_log
from kafkatool.engine.log.partition_log import Log
from kafkatool.errors import KafkatoolError
from kafkatool.format.primitives import Buffer
from kafkatool.format.release import Release

_LOOK_EVERY = 64 << 20
"""Bytes after which a writer checks whether the volume still has room."""
_MOST_TIMES = 1 << 16
_MOST_READY = 32
"""Most pre-encoded appends to write in a row without checking anything else."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one writer did in one interval."""

    seconds: float
    length: float
    records: int
    size: int
    p99_ns: int
    dirty: int
    writeback: int


@dataclass(slots=True)
class WrittenLogs:
    """Totals of one or all writers; times in seconds, latencies in nanoseconds."""

    records: int = 0
    payload_size: int = 0
    log_size: int = 0
    seconds: float = 0.0
    closing_seconds: float = 0.0
    cpu_seconds: float = 0.0
    write_seconds: float = 0.0
    sync_seconds: float = 0.0
    """In syncs that appends waited for; rolled segments, synced in the background, count in `syncs` only."""
    write_calls: int = 0
    kernel_size: int = 0
    """Bytes of dirtied pages, counted each time they were dirtied."""
    device_size: int | None = None
    """Bytes that reached the device meanwhile, from any process."""
    service: Histogram = field(default_factory=Histogram)
    response: Histogram = field(default_factory=Histogram)
    syncs: Histogram = field(default_factory=Histogram)
    is_cycled: bool = False
    stopped: str | None = None

    def add(self, other: WrittenLogs) -> None:
        for name in ("records", "payload_size", "log_size", "cpu_seconds", "write_seconds", "sync_seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.write_calls += other.write_calls
        self.kernel_size += other.kernel_size
        self.seconds = max(self.seconds, other.seconds)
        self.closing_seconds = max(self.closing_seconds, other.closing_seconds)
        for mine, others in (
            (self.service, other.service),
            (self.response, other.response),
            (self.syncs, other.syncs),
        ):
            mine.add(others)
        self.is_cycled = self.is_cycled or other.is_cycled
        self.stopped = self.stopped or other.stopped


# --- a disk that is timed -----------------------------------------------------------------------------


class _TimedFile(DiskFile):
    def __init__(self, path: str, fd: int, into: WrittenLogs) -> None:
        super().__init__(path, fd)
        self._into = into

    def write_at(self, position: int, data: Buffer) -> None:
        begun = perf_counter()
        written = os.pwrite(self._fd, data, position)
        if written < len(data):
            super().write_at(position + written, memoryview(data)[written:])
        into = self._into
        into.write_calls += 1
        into.write_seconds += perf_counter() - begun

    def sync(self) -> None:
        begun = perf_counter_ns()
        super().sync()
        taken = perf_counter_ns() - begun
        self._into.syncs.record(taken)
        if threading.current_thread() is threading.main_thread():
            self._into.sync_seconds += taken / 1e9


class _TimedDisk(Disk):
    """The disk, with every write and sync timed."""

    def __init__(self, into: WrittenLogs) -> None:
        self._into = into

    def open(self, path: str) -> File:
        return _TimedFile(path, self._open(path, os.O_RDWR), self._into)

    def create(self, path: str, *, mode: int = 0o644) -> File:
        return _TimedFile(path, self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), self._into)


# --- one writer ---------------------------------------------------------------------------------------


class BenchWriter:
    def __init__(
        self, load: Load, place: BenchPlace, number: int, pool: Pool, tell: Callable[[Any], None]
    ) -> None:
        self.load, self.tell = load, tell
        self._place = place
        self.done = WrittenLogs(is_cycled=pool.is_cycled)
        self.stop: str | None = None
        config = read_config(_settings(load), Release.V4_0)
        self._logs = [
            open_log(
                _TimedDisk(self.done),
                os.path.join(place.path, f"bench-{at}"),
                config,
                now_ms=time_ns() // 1_000_000,
                flusher=BackgroundFlusher(),
            )
            for at in range(number, load.partitions, load.writers)
        ]
        self._share = _share(load, number)
        # Paced appends have a time each, and several partitions take turns.
        is_free = load.throughput <= 0 and len(self._logs) == 1
        self._batches = Batches(load, pool, _MOST_READY if is_free else 1)

    def run(self) -> WrittenLogs:
        done, before = self.done, _usage()
        done.write_seconds = done.sync_seconds = 0.0
        done.syncs, kernel_before = Histogram(), _kernel_written()
        begun = perf_counter_ns()
        try:
            self._append_all(begun)
            done.seconds = (perf_counter_ns() - begun) / 1e9
            done.cpu_seconds = _usage() - before
            for log in self._logs:
                log.close()
        except OSError as error:
            self.stop = f"{error.filename or self._place.path}: {error.strerror}"
            done.seconds = done.seconds or (perf_counter_ns() - begun) / 1e9
            for log in self._logs:
                log.abandon()  # half an append may be in it
        done.closing_seconds = (perf_counter_ns() - begun) / 1e9
        done.kernel_size = _kernel_written() - kernel_before
        done.payload_size = done.records * (self.load.key_size + self.load.record_size)
        done.stopped = self.stop
        return done

    def _append_all(self, begun: int) -> None:
        load, done, logs = self.load, self.done, self._logs
        each_ns = 1e9 * load.writers / load.throughput if load.throughput > 0 else 0.0
        watch, number, look_at = _Watch(self, begun), 0, _LOOK_EVERY
        while done.records < self._share and self.stop is None:
            due = 0
            if each_ns:
                due = begun + int(done.records * each_ns)
                if (early := due - perf_counter_ns()) > 0:
                    time.sleep(early / 1e9)
            start = perf_counter_ns()
            watch.see(start, due, self._append(logs[number % len(logs)]))
            number += 1
            if done.log_size >= look_at:
                look_at += _LOOK_EVERY
                if self._place.room() <= 0:
                    self.stop = "a tenth of the volume stays free"
        watch.end(perf_counter_ns())

    def _append(self, log: Log) -> list[int]:
        """Append the next batches; return when each append was done."""
        now, done = time_ns() // 1_000_000, self.done
        appends, count = self._batches.next(log.log_end_offset, now, self._share - done.records)
        ends = log.append_each(appends, now_ms=now, clock=perf_counter_ns)
        done.log_size += sum(map(len, appends))
        done.records += count
        return ends


class _Watch:
    """Time each append, and send a sample every interval."""

    def __init__(self, writer: BenchWriter, begun: int) -> None:
        self._done, self._tell = writer.done, writer.tell
        self._interval_ns = writer.load.reporting_interval_ms * 1_000_000
        self._begun = self._since = begun
        self._times: list[int] = []
        self._delays: list[int] = []
        self._part = Histogram()
        self._records = self._size = 0

    def see(self, start: int, due: int, ends: list[int]) -> None:
        """Record consecutive appends from `start` on; with a pace, a single one that was due at `due`."""
        times = self._times
        for end in ends:
            times.append(end - start)
            start = end
        if due:
            self._delays.append(end - due)
        if end - self._since >= self._interval_ns:
            self._report(end)
        elif len(times) >= _MOST_TIMES:
            self._take_times()

    def end(self, now: int) -> None:
        self._take_times()
        if self._done.records > self._records:
            self._report(now)

    def _take_times(self) -> None:
        """Add the times to the histograms: in bulk this takes a tenth of the time."""
        done, seen = self._done, self._delays or self._times
        done.service.record_all(self._times)
        done.response.record_all(seen)
        self._part.record_all(seen)
        self._times.clear()
        self._delays.clear()

    def _report(self, now: int) -> None:
        self._take_times()
        done, since = self._done, self._since
        self._tell(
            Sample(
                (now - self._begun) / 1e9,
                (now - since) / 1e9,
                done.records - self._records,
                done.log_size - self._size,
                self._part.percentile(99),
                *dirty_memory(),
            )
        )
        self._since, self._records, self._size, self._part = now, done.records, done.log_size, Histogram()


def _settings(load: Load) -> dict[str, str]:
    settings = {
        "segment.bytes": load.segment_bytes,
        "index.interval.bytes": load.index_interval_bytes,
        "preallocate": str(load.preallocate).lower(),
    }
    if load.flush_messages:
        settings["flush.messages"] = load.flush_messages
    if load.flush_ms:
        settings["flush.ms"] = load.flush_ms
    return {name: str(value) for name, value in settings.items()}


def _share(load: Load, number: int) -> int:
    return load.num_records // load.writers + (number < load.num_records % load.writers)


def _usage() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _kernel_written() -> int:
    """Return the bytes that the kernel wrote or will write for this process."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            fields = dict(line.split(": ") for line in file)
        return int(fields["write_bytes"])
    except (OSError, KeyError, ValueError):
        return 0


# --- all writers --------------------------------------------------------------------------------------


def append(load: Load, place: BenchPlace, payload: bytes | None, seed: int) -> Iterator[Sample | WrittenLogs]:
    """Run the writers; yield their samples, and finally their totals."""
    context = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    workers = []
    begin = context.Event()
    for number in range(load.writers):
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(
            target=_work, args=(load, place, number, payload, seed + number, theirs, begin), daemon=True
        )
        worker.start()
        theirs.close()
        pipes.append(ours)
        workers.append(worker)
    device = os.stat(place.path).st_dev
    before = device_written(device)
    total = WrittenLogs()
    try:
        for message in _messages(pipes, begin):
            if isinstance(message, WrittenLogs):
                total.add(message)
            elif isinstance(message, str):
                raise KafkatoolError(message)
            else:
                yield message
    finally:
        for worker in workers:
            worker.join(timeout=60)
    after = device_written(device)
    if before is not None and after is not None:
        total.device_size = after - before
    yield total


def _messages(pipes: list[Connection], begin: Any) -> Iterator[Any]:
    """Yield what the writers send, once all are ready; on Ctrl-C go on, as they get it too."""
    open_pipes = list(pipes)
    ready = 0
    while open_pipes:
        try:
            for pipe in wait(open_pipes):
                assert isinstance(pipe, Connection)
                try:
                    message = pipe.recv()
                except EOFError:
                    open_pipes.remove(pipe)
                    continue
                if message == "ready":
                    ready += 1
                    begin.set() if ready == len(pipes) else None
                else:
                    yield message
        except KeyboardInterrupt:
            continue


def _work(
    load: Load, place: BenchPlace, number: int, payload: bytes | None, seed: int, pipe: Connection, begin: Any
) -> None:
    """Run a writer process."""
    writer: BenchWriter | None = None
    is_stopped = False

    def interrupt(*_: object) -> None:
        nonlocal is_stopped
        is_stopped = True
        if writer is not None:
            writer.stop = writer.stop or "interrupted"

    signal.signal(signal.SIGINT, interrupt)
    try:
        pool = make_pool(load, _share(load, number), seed, payload)
        writer = BenchWriter(load, place, number, pool, pipe.send)
        writer.stop = "interrupted" if is_stopped else None
        pipe.send("ready")
        while not begin.wait(0.2) and writer.stop is None:
            pass
        pipe.send(writer.run())
    except Exception as error:
        pipe.send(str(error) or type(error).__name__)
    finally:
        pipe.close()
        os._exit(0)


# --- limits -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """What the bare disk did: until `write` returned, and until everything was synced."""

    name: str
    size: int
    seconds: float
    synced_seconds: float


def limits(load: Load, place: BenchPlace, size: int, payload: bytes | None, seed: int) -> Iterator[Limit]:
    """Measure the same blocks written in order to one file, and random writes of 4 KiB."""
    path = os.path.join(place.path, "bench-limit")
    plain = replace(load, pre_encoded=True, batches_per_append=1)
    pool = make_pool(
        plain, min(load.num_records, (64 << 20) // (load.record_size + load.key_size)), seed, payload
    )
    batches = Batches(plain, pool)
    count = max(1, len(pool) // batches.records_each)
    blocks = [bytes(block) for _ in range(count) for block in batches.next(0, 0, 1 << 60)[0]]
    each = load.flush_messages // batches.records_each if load.flush_messages else 0
    size = min(size, max(0, place.room()))
    fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        yield _sequential(fd, blocks, size, each)
        yield _random(fd, size, seed, load, batches.records_each)
    finally:
        os.close(fd)
        os.unlink(path)


def _sequential(fd: int, blocks: list[bytes], size: int, sync_each: int) -> Limit:
    begun, at, number = perf_counter(), 0, 0
    while at < size:
        at += os.pwrite(fd, blocks[number % len(blocks)], at)
        number += 1
        if sync_each and number % sync_each == 0:
            os.fsync(fd)
    accepted = perf_counter() - begun
    os.fsync(fd)
    return Limit("sequential write", at, accepted, perf_counter() - begun)


_RANDOM_SECONDS = 5.0


def _random(fd: int, size: int, seed: int, load: Load, records_each: int) -> Limit:
    """Write for a few seconds at most: slow disks are very slow at this."""
    import random

    numbers = random.Random(seed)
    block, pages = numbers.randbytes(4096), max(1, size // 4096)
    sync_each = load.flush_messages * load.batch_size // (records_each * 4096) if load.flush_messages else 0
    begun, number = perf_counter(), 0
    while number < pages and (number % 64 or perf_counter() - begun < _RANDOM_SECONDS):
        os.pwrite(fd, block, numbers.randrange(pages) * 4096)
        number += 1
        if sync_each and number % sync_each == 0:
            os.fsync(fd)
    accepted = perf_counter() - begun
    os.fsync(fd)
    return Limit("random 4 KiB writes", number * 4096, accepted, perf_counter() - begun)
