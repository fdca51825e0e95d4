"""Shared parts of the library's queries: which partitions and offsets to read, and how to treat damage."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from kafkatool.engine.batches.damage import Damage, Severity
from kafkatool.engine.batches.seek import Range
from kafkatool.engine.files.source import Guest
from kafkatool.engine.jobs.events import Caution, Failure, Note
from kafkatool.engine.records.subject import Subject
from kafkatool.errors import KafkatoolError, UsageError

OnTrouble = Literal["fail", "skip"]
Bound = int | datetime | None
"""An offset, or a time with a time zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GREATEST_MS = 253_402_300_799_999
"""The last millisecond that a datetime can hold."""

log = logging.getLogger("kafkatool")


class DamagedLog(KafkatoolError):
    """The log being read is damaged; with `on_damage="skip"` reading continues after the damage."""

    def __init__(self, path: str, damage: Damage) -> None:
        what = f"{path}: byte {damage.position}: {damage.kind}: {damage.message}"
        super().__init__(f"{what}; on_damage='skip' goes on after it")
        self.path = path
        self.damage = damage

    def __reduce__(self) -> tuple[type[DamagedLog], tuple[str, Damage]]:
        return DamagedLog, (self.path, self.damage)


class ArrowStream:
    """A query that pyarrow, polars, pandas and DuckDB can read as it is."""

    __slots__ = ()

    def reader(self) -> Any:
        """Return a pyarrow.RecordBatchReader that reads the disk as it is consumed."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return everything as a pyarrow.Table, in memory."""
        return self.reader().read_all()

    def to_pandas(self) -> Any:
        """Return everything as a pandas.DataFrame, in memory."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class NamedSubject:
    """One partition to read, and the full name of its topic."""

    topic: str | None
    subject: Subject

    @property
    def partition(self) -> int | None:
        return self.subject.partition.partition


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Which partitions and range to read, and how to treat damage."""

    subjects: tuple[NamedSubject, ...]
    wanted: Range
    on_damage: OnTrouble
    guest: Guest

    def met(self, path: str, damage: Damage) -> None:
        """Skip damage, or raise DamagedLog. What a running broker is still writing is no damage."""
        if damage.severity is Severity.NOTE:
            return
        if self.on_damage == "fail":
            raise DamagedLog(path, damage)
        log.warning("%s: byte %d: %s: %s", path, damage.position, damage.kind, damage.message)

    def say(self, found: Note | Caution | Failure) -> None:
        """Log an event of a record stream; raise KafkatoolError as `fail` does."""
        if isinstance(found, Failure):
            self.fail(found.message)
        else:
            log.log(logging.INFO if isinstance(found, Note) else logging.WARNING, "%s", found.message)

    def fail(self, message: str) -> None:
        """Skip something that cannot be read, or raise KafkatoolError."""
        if self.on_damage == "fail":
            raise KafkatoolError(f"{message}; on_damage='skip' reads the rest")
        log.warning("%s", message)


def read_range(start: Bound, end: Bound) -> Range:
    """Return the range from `start` (inclusive) to `end` (exclusive)."""
    return Range(_offset(start), _offset(end), _milliseconds(start), _milliseconds(end))


def _offset(bound: Bound) -> int | None:
    return bound if isinstance(bound, int) else None


def _milliseconds(bound: Bound) -> int | None:
    if not isinstance(bound, datetime):
        return None
    if bound.tzinfo is None:
        raise UsageError(f"{bound}: a time needs a time zone, such as datetime.UTC")
    return (bound - _EPOCH) // timedelta(milliseconds=1)


def as_datetime(timestamp_ms: int) -> datetime | None:
    """Return the same moment; None if there is none, or if a datetime cannot hold it."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms) if 0 <= timestamp_ms <= GREATEST_MS else None
