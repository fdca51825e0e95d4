"""What a task must not silently skip: a path that it cannot see, and damage.

A planned directory that is missing on a task's host is an error: that host has not mounted it, or it was
renamed. A segment missing from an existing directory was deleted by a broker.
"""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from enum import StrEnum

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.files.object_storage import list_names, status
from kafkatool.engine.files.source import Source
from kafkatool.errors import KafkatoolError
from kafkatool.spark.planning import FoundSubjects, LogStretch


class OnDamage(StrEnum):
    """What happens at damage: an error, nothing, or a row with an `error`."""

    FAIL = "fail"
    SKIP = "skip"
    ROWS = "rows"


class DataLoss(KafkatoolError):
    """What was planned cannot be read here."""


class DamageMet(KafkatoolError):
    """A log is damaged, and damage is an error by request."""


def need_all(found: FoundSubjects, fails_on_loss: bool) -> None:
    """Raise DataLoss if the planning host cannot read something that was named."""
    if found.unread and fails_on_loss:
        more = f" and {len(found.unread) - 3} more" if len(found.unread) > 3 else ""
        raise DataLoss(
            f"cannot be read on host {socket.gethostname()}: {'; '.join(found.unread[:3])}{more}; "
            "failOnDataLoss=false reads the rest"
        )


def need_directory(path: str) -> None:
    """Raise DataLoss if this host does not see a directory, or sees an empty one."""
    try:
        why = None if list_names(path) else "it is empty there"
    except OSError as error:
        why = error.strerror or type(error).__name__
    except KafkatoolError as error:
        why = str(error)
    if why is not None:
        raise DataLoss(
            f"{path}: cannot be read on host {socket.gethostname()} ({why}): every host that runs tasks must "
            "see what is read, by the same path"
        )


def is_there(stretch: LogStretch) -> bool:
    """Return whether a planned log can be opened; False if only that segment is gone.

    Raises DataLoss if its directory is gone too, or the log is not the planned one.
    """
    try:
        size = status(stretch.path).st_size
    except (OSError, KafkatoolError) as error:
        need_directory(stretch.directory)
        if not isinstance(error, FileNotFoundError):
            raise DataLoss(f"{stretch.path}: on host {socket.gethostname()}: {error}") from None
        return False
    if size < stretch.size or (stretch.state == "closed" and size != stretch.size):
        raise DataLoss(
            f"{stretch.path}: has {size} bytes on host {socket.gethostname()}, and had {stretch.size} when "
            "the read was planned: it was truncated, compacted or is another copy; read again"
        )
    return True


def settled(damage: Damage, source: Source, stretch: LogStretch) -> Damage:
    """Return the damage, as a note if the log still grows, or is preallocated after its end."""
    is_tail = damage.end_position == source.size_hint and stretch.state == "active"
    grows = stretch.to_offset is not None or (source.size_hint or 0) > stretch.size
    is_torn = damage.kind is FindingClass.TORN_TAIL and grows
    if is_tail and (is_torn or damage.kind is FindingClass.ZERO_FILLED):
        return replace(damage, severity=Severity.NOTE)
    return damage


def concerns(damage: Damage, stretch: LogStretch) -> bool:
    """Return whether the damage affects offsets that a stream asked for; always, without such limits."""
    if stretch.to_offset is None or stretch.from_offset is None:
        return True
    is_before = damage.last_offset is not None and damage.last_offset < stretch.from_offset
    is_behind = damage.first_offset is not None and damage.first_offset >= stretch.to_offset
    return not (is_before or is_behind)


def damage_met(damage: Damage, stretch: LogStretch) -> DamageMet:
    """Return the error to raise for damage."""
    return DamageMet(
        f"{stretch.path} at byte {damage.position} on host {socket.gethostname()}: {damage.kind}: "
        f"{damage.message}; onDamage=skip leaves it out, onDamage=rows shows it as rows, and "
        f"{Advice.VERIFY(where=stretch.path)}"
    )


def note(message: str) -> None:
    """Print a message to the log of an executor."""
    print(f"kafkatool: {message}", file=sys.stderr)
