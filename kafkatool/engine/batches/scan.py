"""Walk a log from batch to batch, as Kafka chains them, and continue where Kafka gives up.

Kafka follows the length fields and stops, or throws, at the first impossible one. The walk here is the same
up to that point; then it finds the next whole batch with a matching checksum, reports what lies between, and
continues. It never raises because of the bytes it reads.

    walk = scan(source)               forensic: batches hidden inside a damaged one are found too
    walk = scan(source, chain=True)   Kafka's chain: exactly its batches, up to where Kafka stops
    walk = scan_runs(source)          the same, with the good batches of a window as one run
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.resync import Resync, zero_run
from kafkatool.engine.files.source import Source
from kafkatool.errors import Truncated
from kafkatool.format import legacy
from kafkatool.format.batch import CRC_START, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, BatchHeader
from kafkatool.format.checksum import crc32c
from kafkatool.format.kernel.loops import good_run
from kafkatool.format.legacy import Header, LegacyHeader, read_legacy_header

WINDOW = 1 << 20
DEFAULT_MAX_BATCH_SIZE = 64 << 20
SHORTEST_ENTRY = 17  # this many bytes or fewer at the end are ignored
NO_END = 1 << 62
_GOING_BACK = 16  # times the file size


class Batch(NamedTuple):
    """One entry of a log. `data` is None if it is larger than the scan may hold in memory."""

    position: int
    header: Header
    is_valid: bool
    data: memoryview | None


class BatchRun(NamedTuple):
    """Consecutive good batches of magic 2 in `window[start:end]`; the first is at `position`."""

    position: int
    window: bytes
    start: int
    end: int
    batch_count: int

    def batches(self) -> Iterator[Batch]:
        """Yield the batches one by one, in as few steps as Python allows."""
        position, window, at, end, _count = self
        # tuple.__new__ skips the checks of named tuples, which cost more than making them.
        unpack, make, view, overhead = HEADER.unpack_from, tuple.__new__, memoryview(window), LOG_OVERHEAD
        batch, header = Batch, BatchHeader
        while at < end:
            fields = unpack(window, at)
            size = fields[1] + overhead
            yield make(batch, (position, make(header, fields), True, view[at : at + size]))
            position += size
            at += size

    def before(self, end: int) -> BatchRun:
        """Return the batches that begin before a position."""
        limit = self.start + end - self.position
        if limit >= self.end:
            return self
        at, count = self.start, 0
        while at < limit:
            at, count = at + self._size(at), count + 1
        return self._replace(end=at, batch_count=count)

    def after_first(self) -> BatchRun:
        size = self._size(self.start)
        return BatchRun(self.position + size, self.window, self.start + size, self.end, self.batch_count - 1)

    def _size(self, at: int) -> int:
        return int(HEADER.unpack_from(self.window, at)[1]) + LOG_OVERHEAD


def scan(
    source: Source,
    start: int = 0,
    end: int | None = None,
    *,
    chain: bool = False,
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
) -> Iterator[Batch | Damage]:
    """Yield the batches between two positions and the damage among them, in file order.

    A batch whose checksum fails is yielded, followed by its damage. With `chain`, a batch found after the
    chain broke may lie before the position where it broke.
    """
    return each(scan_runs(source, start, end, chain=chain, max_batch_size=max_batch_size))


def each(items: Iterable[BatchRun | Batch | Damage]) -> Iterator[Batch | Damage]:
    """Yield the same walk, batch by batch."""
    for item in items:
        if isinstance(item, BatchRun):
            yield from item.batches()
        else:
            yield item


def scan_runs(
    source: Source,
    start: int = 0,
    end: int | None = None,
    *,
    chain: bool = False,
    max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
) -> Iterator[BatchRun | Batch | Damage]:
    """Yield the same walk, with plainly good batches as runs."""
    return _Scanner(source, start, end, chain, max_batch_size).walk()


class _Scanner:
    def __init__(self, source: Source, start: int, end: int | None, chain: bool, max_batch_size: int) -> None:
        self.source = source
        self.chain = chain
        self.max_batch_size = max_batch_size
        self.position = start
        self.limit = _limit(source, end)
        self.last_offset = -1
        self.any_good = False
        # Nothing is proven from here on: a search starts here if the chain breaks.
        self.suspect = start
        self.gone_back = 0
        self.base = start
        self.window = b""
        self.resync = Resync(source, max_batch_size)

    def walk(self) -> Iterator[BatchRun | Batch | Damage]:
        while True:
            while self._fill(self.position, HEADER_SIZE):
                run = self._good_run()
                if run is not None:
                    yield run
                else:
                    yield from self._step()
            if self.position >= self.limit:
                return
            # Too few bytes for an entry; but good batches may be hidden in bad ones before.
            yield from self._break(throws=False, found=f"{self.limit - self.position} bytes")

    def _good_run(self) -> BatchRun | None:
        """Return the run of whole good batches in the window: the common case."""
        window, at = self.window, self.position - self.base
        end, count, last_offset = good_run(window, at, self.limit - self.base, self.last_offset)
        if not count:
            return None
        run = BatchRun(self.position, window, at, end, count)
        self.any_good = True
        self.suspect = self.position = self.base + end
        self.last_offset = last_offset
        self.resync.legacy = False
        self.window = b""  # the rest of it is less than a batch, or not a good one
        return run

    def _fill(self, position: int, size: int) -> bool:
        """Make the window hold `size` bytes from `position` on, or up to the end of the file.

        Return False if too few bytes are left for an entry.
        """
        missing = position + size > self.base + len(self.window) or position < self.base
        if missing and self._remaining(position) > SHORTEST_ENTRY:
            self.window = self.source.read(position, max(WINDOW, size))
            self.base = position
            if len(self.window) < max(WINDOW, size):
                self.limit = min(self.limit, position + len(self.window))
        return self._remaining(position) > SHORTEST_ENTRY

    def _remaining(self, position: int) -> int:
        return self.limit - position

    def _step(self) -> Iterator[Batch | Damage]:
        """Walk one entry that is not a plain good batch of magic 2."""
        position = self.position
        self._fill(position, HEADER_SIZE)
        at = position - self.base
        size = int.from_bytes(self.window[at + 8 : at + 12], "big", signed=True)
        if size < legacy.MIN_SIZE:
            yield from self._break(throws=True, found=f"length {size}")
            return
        size += LOG_OVERHEAD
        self._fill(position, min(size, self.max_batch_size))
        if size > self._remaining(position):
            yield from self._break(throws=False, found=f"length {size - LOG_OVERHEAD}")
            return
        header = self._header(position)
        if header is None:
            yield from self._break(throws=True, found="a header cut short by the end of the file")
            return
        yield from self._entry(header, size)

    def _header(self, position: int) -> Header | None:
        at = position - self.base
        if 2 <= self.window[at + MAGIC_POSITION] < 0x80:
            if len(self.window) - at < HEADER_SIZE:
                return None
            return BatchHeader._make(HEADER.unpack_from(self.window, at))
        try:
            return read_legacy_header(self.window, at)
        except Truncated:
            return None

    def _entry(self, header: Header, size: int) -> Iterator[Batch | Damage]:
        position = self.position
        data = self._data(position, size)
        valid = self._checks_out(header, position, size, data)
        yield Batch(position, header, valid, data)
        self.position = position + size
        problem = self._problem(header, position, size, valid)
        if valid:
            self.any_good = True
            self.suspect = self.position
        elif problem:
            if not self.chain:
                self._look_inside(size)
            problem = self._bounded(problem, self.position)
        if problem:
            yield problem
        if valid:
            self.last_offset = header.last_offset
            self.resync.legacy = isinstance(header, LegacyHeader)

    def _data(self, position: int, size: int) -> memoryview | None:
        if size > self.max_batch_size:
            return None
        self._fill(position, size)
        at = position - self.base
        return memoryview(self.window)[at : at + size]

    def _checks_out(self, header: Header, position: int, size: int, data: memoryview | None) -> bool:
        if isinstance(header, LegacyHeader):
            return data is not None and legacy.is_valid(data)
        if size < HEADER_SIZE:
            return False
        if data is not None:
            return crc32c(data[CRC_START:]) == header.crc
        return self._checksum(position + CRC_START, position + size) == header.crc

    def _checksum(self, position: int, end: int) -> int:
        value = 0
        while position < end:
            piece = self.source.read(position, min(WINDOW, end - position))
            if not piece:
                break
            value = crc32c(piece, value)
            position += len(piece)
        return value

    def _problem(self, header: Header, position: int, size: int, valid: bool) -> Damage | None:
        if not valid:
            return self._invalid(header, position, size)
        first = header.base_offset
        severity = Severity.DEGRADED
        if header.magic not in (0, 1, 2):
            # The checksum does not cover it: a broker keeps the batch and serves it unchanged.
            kind, severity = FindingClass.BAD_MAGIC, Severity.LOSS
            expected, found = "magic 0, 1 or 2", f"magic {header.magic}"
            message = f"{found} where {expected} should stand: brokers keep the batch, no consumer reads it"
        elif self.any_good and first <= self.last_offset:
            kind = FindingClass.BAD_OFFSET
            expected, found = f"an offset above {self.last_offset}", f"offset {first}"
            message = f"{found} where {expected} should stand"
        else:
            return None
        return Damage(
            kind=kind,
            position=position,
            end_position=position + size,
            expected=expected,
            found=found,
            message=message,
            severity=severity,
            first_offset=first,
            last_offset=header.last_offset,
        )

    def _invalid(self, header: Header, position: int, size: int) -> Damage:
        kind, found = FindingClass.BAD_CRC, f"crc {header.crc}"
        expected, message = "a matching checksum", "checksum does not match"
        if isinstance(header, BatchHeader) and size < HEADER_SIZE:
            kind, found = FindingClass.BAD_LENGTH, f"{size} bytes"
            expected, message = f"at least {HEADER_SIZE} bytes", "batch is shorter than its header"
        if self._unreadable(position, position + size):
            kind, found = FindingClass.UNREADABLE, "an input/output error"
            expected, message = "readable bytes", "the disk does not give these bytes"
        return Damage(
            kind=kind,
            position=position,
            end_position=position + size,
            expected=expected,
            found=found,
            message=message,
            first_offset=self.last_offset + 1 if self.any_good else None,
        )

    def _unreadable(self, position: int, end: int) -> bool:
        return any(first < end and position < last for first, last in self.source.unreadable)

    def _look_inside(self, size: int) -> None:
        """Continue at the next good batch: a bad length may have skipped some, or point to a wrong place."""
        start = self.position - size
        stop = self.position if self._length_holds(self.position) else self.limit
        if self._may_go_back(size):
            found = self.resync.search(start + 1, stop, self.limit, self._floor())
            self.position = stop if found is None else found

    def _length_holds(self, position: int) -> bool:
        """Whether the file ends here, or a whole entry can begin here."""
        if self._remaining(position) == 0:
            return True
        if not self._fill(position, HEADER_SIZE):
            return False
        at = position - self.base
        size = int.from_bytes(self.window[at + 8 : at + 12], "big", signed=True)
        if not (0 if self.resync.legacy else 2) <= self.window[at + MAGIC_POSITION] <= 2:
            return False
        return legacy.MIN_SIZE <= size <= self._remaining(position) - LOG_OVERHEAD

    def _may_go_back(self, size: int) -> bool:
        """Limit going back: otherwise malicious lengths could make us read the same bytes forever."""
        self.gone_back += size
        return self.gone_back <= _GOING_BACK * max(self.limit, WINDOW)

    def _floor(self) -> int:
        return self.last_offset if self.any_good else -1

    def _bounded(self, damage: Damage, end: int) -> Damage:
        """Return the damage with its end, and the good batch that follows, if there is one."""
        following = self.resync.offset_at(end, self.limit, self._floor())
        if following is None:
            return replace(damage, end_position=end)
        return replace(damage, end_position=end, next_good_offset=following, last_offset=following - 1)

    def _break(self, *, throws: bool, found: str) -> Iterator[Damage]:
        """Report that the chain ends here, and continue at the next good batch."""
        broken = self.position
        start = broken
        if self.chain and self._may_go_back(broken - self.suspect):
            start = self.suspect
        if self.limit == NO_END:
            self.limit = _end_of(self.source, broken)
        resumed = self.resync.search(start + 1, self.limit, self.limit, self._floor())
        self.position = self.limit if resumed is None else resumed
        damage = self._describe_break(min(broken, self.position - 1), throws, found, resumed)
        yield self._bounded(damage, self.position)
        self.suspect = self.position

    def _describe_break(self, broken: int, throws: bool, found: str, resumed: int | None) -> Damage:
        zeros = zero_run(self.source, broken, self.limit)
        severity = Severity.LOSS
        if self._unreadable(broken, broken + LOG_OVERHEAD):
            kind, message = FindingClass.UNREADABLE, "the disk does not give these bytes"
        elif zeros == self.limit - broken and zeros >= LOG_OVERHEAD:
            kind, message = FindingClass.ZERO_FILLED, "nothing but zeros to the end of the file"
            severity = Severity.DEGRADED
        elif zeros >= LOG_OVERHEAD:
            kind, message = FindingClass.ZERO_FILLED, f"{zeros} zero bytes in the place of a batch"
        elif resumed is None and not throws:
            kind, message = FindingClass.TORN_TAIL, "the last batch is cut short by the end of the file"
        else:
            kind, message = FindingClass.BAD_LENGTH, "the length field cannot be right"
        return Damage(
            kind=kind,
            position=broken,
            end_position=self.limit,
            expected=f"a length of {legacy.MIN_SIZE} to {max(0, self.limit - broken - LOG_OVERHEAD)}",
            found=found,
            message=message,
            severity=severity,
            first_offset=self.last_offset + 1 if self.any_good else None,
            ends_chain=True,
            throws=throws,
        )


def _limit(source: Source, end: int | None) -> int:
    size = source.size_hint if source.size_hint is not None else NO_END
    return size if end is None else min(size, end)


def _end_of(source: Source, position: int) -> int:
    while piece := source.read(position, WINDOW):
        position += len(piece)
    return position
