"""Measure look-ups of offsets and times in logs of growing size, up to a week at 1 MB/s, say.

The indexes are complete and real. Of the logs, only the batches looked up, and the one before each, are
written; the rest is a hole, which no look-up reads. So a week of data needs a few hundred megabytes.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafkatool.engine.bench.place import BenchPlace
from kafkatool.engine.broker.leader_epochs import LeaderEpochs
from kafkatool.engine.broker.producer_state import ProducerStates
from kafkatool.engine.cluster.topic_config import read_config
from kafkatool.engine.files.disk import Disk
from kafkatool.engine.files.whole_files import write_file
from kafkatool.engine.log.partition_log import Log, LogParts, no_jitter
from kafkatool.engine.log.reading import offset_for_time, read
from kafkatool.engine.log.segment import INDEX, LOG, TIME_INDEX, WritableSegment
from kafkatool.engine.log.snapshots import Snapshots
from kafkatool.format.batch import NewRecord
from kafkatool.format.batch_writing import write_batch
from kafkatool.format.release import NEWEST

RECORDS = 140
BATCH = 16384
_CHUNKS = 10


@dataclass(frozen=True, slots=True)
class Week:
    """How the log was supposedly written."""

    days: float = 7.0
    rate: int = 1_000_000
    segment_bytes: int = 1 << 30
    lookups: int = 500
    start_ms: int = 1_772_355_600_000

    @property
    def batches_each(self) -> int:
        return max(4, self.segment_bytes // BATCH)

    @property
    def segments(self) -> int:
        return max(1, round(self.days * 86400 * self.rate / (self.batches_each * BATCH)))

    def time_of(self, batch: int) -> int:
        return self.start_ms + batch * BATCH * 1000 // self.rate

    @property
    def index_size(self) -> int:
        return self.segments * self.batches_each * 20 + self.lookups * 3 * BATCH


@dataclass(frozen=True, slots=True)
class LookupResult:
    what: str
    is_cold: bool
    segments: int
    log_size: int
    rates: list[float]
    """Look-ups per second, in each tenth of the run."""


def _batch(number: int, week: Week) -> bytes:
    """Return a batch of 16 KiB; its last record is padded to that."""
    rows = [
        NewRecord(b"%016x" % (number * RECORDS + at), b"x" * 90, week.time_of(number))
        for at in range(RECORDS)
    ]
    offset = number * RECORDS
    short = BATCH - len(write_batch(rows, base_offset=offset, partition_leader_epoch=0))
    for size in range(90 + short, 80, -1):  # its length may need another byte
        rows[-1] = rows[-1]._replace(value=b"x" * size)
        data = write_batch(rows, base_offset=offset, partition_leader_epoch=0)
        if len(data) == BATCH:
            break
    return data


class Textbook:
    """The log, and the targets to look up in it."""

    def __init__(self, place: BenchPlace, week: Week, seed: int) -> None:
        self._week = week
        self._directory = os.path.join(place.path, "bench-0")
        self._random = random.Random(seed)
        self._config = read_config({}, NEWEST)
        self.steps = sorted({1, *(n for n in (10, 100) if n < week.segments), week.segments})
        Disk().make_directory(self._directory)
        self._segments = [self._write_segment(number) for number in range(week.segments)]
        self._targets = {step: self._write_targets(step) for step in self.steps}

    def _write_segment(self, number: int) -> WritableSegment:
        """Write indexes as a broker does: an entry for every batch but the first."""
        week = self._week
        first, count = number * week.batches_each, week.batches_each
        segment = WritableSegment(
            Disk(),
            self._directory,
            first * RECORDS,
            self._config,
            created_ms=week.time_of(first),
            jitter_ms=0,
        )
        each = np.arange(1, count, dtype=np.int64)
        offsets = np.stack((each * RECORDS + RECORDS - 1, each * BATCH), axis=1).astype(">i4")
        times = np.empty(count - 1, dtype=[("time", ">i8"), ("offset", ">i4")])
        times["time"] = week.start_ms + (first + each) * BATCH * 1000 // week.rate
        times["offset"] = each * RECORDS + RECORDS - 1
        for extension, data in ((INDEX, offsets.tobytes()), (TIME_INDEX, times.tobytes())):
            write_file(Disk(), segment.path(extension), data)
        file = Disk().create(segment.path(LOG))
        file.truncate(count * BATCH)
        file.close()
        segment.size = count * BATCH
        segment.accounting.offset_entries = segment.accounting.time_entries = count - 1
        segment.accounting.max_timestamp = week.time_of(first + count - 1)
        return segment

    def _write_targets(self, step: int) -> list[int]:
        """Write target batches in the first `step` segments, each with the batch before it."""
        week = self._week
        chosen = []
        for _ in range(week.lookups):
            segment = self._random.randrange(step)
            inside = self._random.randrange(2, week.batches_each)
            number = segment * week.batches_each + inside
            file = Disk().open(self._segments[segment].path(LOG))
            for at in (inside - 1, inside):
                file.write_at(at * BATCH, _batch(number - inside + at, week))
            file.close()
            chosen.append(number)
        return chosen

    def _log(self, step: int) -> Log:
        parts = LogParts(
            *(Disk(), self._directory, self._config, no_jitter, self._segments[:step]),
            *(LeaderEpochs(), ProducerStates(), Snapshots(Disk(), self._directory)),
        )
        end = step * self._week.batches_each * RECORDS
        return Log(
            parts, log_start_offset=0, log_end_offset=end, recovery_point=end, now_ms=self._week.start_ms
        )

    def measure(self) -> Iterator[LookupResult]:
        """Yield results for offsets and times, cold and warm, at each size."""
        for step in self.steps:
            log, size = self._log(step), step * self._week.batches_each * BATCH
            for what in ("offset", "time"):
                for is_cold in (True, False):
                    yield LookupResult(what, is_cold, step, size, self._rates(log, step, what, is_cold))

    def _rates(self, log: Log, step: int, what: str, is_cold: bool) -> list[float]:
        targets = self._targets[step]
        if not is_cold:
            for target in targets:
                self._find(log, what, target)
        each = max(1, len(targets) // _CHUNKS)
        rates = []
        for start in range(0, len(targets), each):
            taken = 0.0
            for target in targets[start : start + each]:
                if is_cold:
                    self._forget(target)
                begun = time.perf_counter()
                self._find(log, what, target)
                taken += time.perf_counter() - begun
            rates.append(len(targets[start : start + each]) / taken)
        return rates

    def _find(self, log: Log, what: str, target: int) -> None:
        offset = target * RECORDS + 7
        if what == "offset":
            found = read(log, offset, max_bytes=1).base_offset
            assert found == target * RECORDS, (found, target)
        else:
            timed = offset_for_time(log, self._week.time_of(target))
            assert timed is not None
            assert timed.timestamp_ms == self._week.time_of(target)

    def _forget(self, target: int) -> None:
        segment = self._segments[target // self._week.batches_each]
        for extension in (LOG, INDEX, TIME_INDEX):
            fd = os.open(segment.path(extension), os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
