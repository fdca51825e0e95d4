"""What a broker does with an unreadable offset checkpoint, as seen on releases 3.9 and 4.3.

    what is wrong         version, count, number of fields        a number in a line, or a count below 0
    recovery points       the log directory goes offline          all logs are scanned from their start
    log start offsets     the same                                logs start at their first segment
    high watermarks       the same, when it begins to lead        the broker runs, and leads no partition
    cleaner offsets       the same, when it begins to clean       the cleaner stops, nothing is compacted

A node whose metadata log is in a directory that goes offline stops, and so does one that has no other. Of
other directories it leads the partitions it reaches before the first high watermark that it cannot read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kafkatool.errors import FormatError
from kafkatool.format import kinds
from kafkatool.format.java_text import parse_int, parse_long, split_fields, utf8_lines
from kafkatool.format.state.checkpoint import VERSION


class Effect(StrEnum):
    """How far a start gets."""

    REFUSE = "refuse"
    """The broker does not start."""
    LEADERLESS = "leaderless"
    """It starts, but leads no partition of the directory, and few others: it serves nothing."""
    OFFLINE = "offline"
    """The broker starts without the log directory."""
    NOTE = "note"
    """It starts, but something is wrong."""


class Consequence(NamedTuple):
    effect: Effect
    message: str


OFFLINE = Consequence(Effect.OFFLINE, "a broker takes the log directory offline")
_UNREADABLE_NUMBER = {
    kinds.RECOVERY_POINTS: Consequence(Effect.NOTE, "a broker scans every log from its start"),
    kinds.LOG_STARTS: Consequence(Effect.NOTE, "a broker lets every log start at its first segment"),
    kinds.HIGH_WATERMARKS: Consequence(Effect.LEADERLESS, "a broker starts with it, and leads no partition"),
    kinds.CLEANER_OFFSETS: Consequence(Effect.NOTE, "a broker's cleaner stops, and nothing is compacted"),
}
CHECKPOINTS = tuple(_UNREADABLE_NUMBER)


def consequence_of(kind: kinds.FileKind, raw: bytes) -> Consequence:
    """Return what happens with a checkpoint of this kind whose content is malformed."""
    return _UNREADABLE_NUMBER[kind] if is_only_a_number_wrong(raw) else OFFLINE


def is_only_a_number_wrong(raw: bytes, fields: int = 3) -> bool:
    """Return whether reading stops at one of the two numbers in a line, or at a count below 0.

    False if it stops earlier, at a malformed version, count or line.
    """
    try:
        lines = [line for _at, line in utf8_lines(raw, "checkpoint")]
    except FormatError:
        return False
    if len(lines) < 2 or parse_int(lines[0]) != VERSION:
        return False
    count = parse_int(lines[1])
    if count is None or count < 0:
        return count is not None
    for line in lines[2:]:
        found = split_fields(line)
        if len(found) != fields:
            return False
        if parse_int(found[-2]) is None or parse_long(found[-1]) is None:
            return True
    return False
