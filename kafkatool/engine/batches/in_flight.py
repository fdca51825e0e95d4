"""Recognize a tail that is incomplete only because a broker is writing it right now."""

from __future__ import annotations

import os
from dataclasses import replace

from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.files.lock import broker_is_alive
from kafkatool.engine.files.source import Source
from kafkatool.engine.files.stdin_log import STDIN


def in_flight(damage: Damage, source: Source) -> Damage:
    """Return the damage, or a note if it is the tail of a log that a running broker is writing.

    That requires that the file grew since it was opened, or that a broker holds the lock of its directory.
    """
    if damage.kind not in (FindingClass.TORN_TAIL, FindingClass.ZERO_FILLED) or source.name == STDIN:
        return damage
    if damage.end_position != source.size_hint or not (_grew(source) or broker_is_alive(source.name)):
        return damage
    return replace(
        damage,
        kind=FindingClass.IN_FLIGHT,
        severity=Severity.NOTE,
        message="the last batch is still being written",
    )


def _grew(source: Source) -> bool:
    """Whether the file is larger now than when it was opened."""
    try:
        return source.size_hint is not None and os.stat(source.name).st_size > source.size_hint
    except OSError:
        return False
