"""What the queries of the library share: which partitions and offsets are read, and what damage does."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

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
    """A log is damaged where it is read; with `on_damage="skip"` reading goes on after it."""

    def __init__(self, path: str, damage: Damage) -> None:
        what = f"{path}: byte {damage.position}: {damage.kind}: {damage.message}"
        super().__init__(f"{what}; on_damage='skip' goes on after it")
        self.path = path
        self.damage = damage

    def __reduce__(self) -> tuple[type[DamagedLog], tuple[str, Damage]]:
        return DamagedLog, (self.path, self.damage)


@dataclass(frozen=True, slots=True)
class NamedSubject:
    """One partition to read, by the real name of its topic."""

    topic: str | None
    subject: Subject

    @property
    def partition(self) -> int | None:
        return self.subject.partition.partition


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Which partitions are read, from where to where, and what happens at damage."""

    subjects: tuple[NamedSubject, ...]
    wanted: Range
    on_damage: OnTrouble
    guest: Guest

    def met(self, path: str, damage: Damage) -> None:
        """Pass over damage, or raise DamagedLog. What a running broker still writes is no damage."""
        if damage.severity is Severity.NOTE:
            return
        if self.on_damage == "fail":
            raise DamagedLog(path, damage)
        log.warning("%s: byte %d: %s: %s", path, damage.position, damage.kind, damage.message)

    def say(self, found: Note | Caution | Failure) -> None:
        """Log what a stream says of its logs; raise KafkatoolError as `fail` does."""
        if isinstance(found, Failure):
            self.fail(found.message)
        else:
            log.log(logging.INFO if isinstance(found, Note) else logging.WARNING, "%s", found.message)

    def fail(self, message: str) -> None:
        """Pass over something that cannot be read, or raise KafkatoolError."""
        if self.on_damage == "fail":
            raise KafkatoolError(f"{message}; on_damage='skip' reads the rest")
        log.warning("%s", message)


def read_range(start: Bound, end: Bound) -> Range:
    """From inclusive, to exclusive."""
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
    """The same moment; None where there is none, or none that a datetime can hold."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms) if 0 <= timestamp_ms <= GREATEST_MS else None
