"""What of a whole log directory keeps a broker from starting, or from knowing where to begin.

The offset checkpoints are read as the broker does: one whose shape is wrong takes the directory offline, one
with a number that is none counts as empty.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kafkatool.engine.logdir import LogDir
from kafkatool.engine.source import Guest, read_small_file
from kafkatool.errors import FormatError, KafkatoolError
from kafkatool.format import kinds
from kafkatool.format.checkpoint import read_offset_checkpoint
from kafkatool.format.java_text import split_fields, utf8_lines

Offsets = dict[tuple[str, int], int]


@dataclass(slots=True)
class StartChecks:
    """Reasons not to start, things to know, and the offsets that the broker begins with."""

    refusals: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    recovery_points: Offsets = field(default_factory=dict)
    log_starts: Offsets = field(default_factory=dict)


def check_start(log_dir: LogDir, guest: Guest) -> StartChecks:
    """Look at a log directory as a broker does before it looks at any partition."""
    found = StartChecks()
    found.recovery_points = _offsets(
        found, log_dir, kinds.RECOVERY_POINTS.name, guest, "everything is scanned"
    )
    found.log_starts = _offsets(
        found, log_dir, kinds.LOG_STARTS.name, guest, "every log starts at its first segment"
    )
    _offsets(found, log_dir, kinds.HIGH_WATERMARKS.name, guest, "it starts, and leads no partition")
    found.refusals += [
        f"{path}: a directory whose name is no partition's" for path in log_dir.unknown_directories
    ]
    return found


def _offsets(found: StartChecks, log_dir: LogDir, name: str, guest: Guest, effect: str) -> Offsets:
    path = os.path.join(log_dir.path, name)
    try:
        raw = read_small_file(path, guest)
    except FileNotFoundError:
        return {}
    except KafkatoolError as error:
        found.refusals.append(f"{path}: {error}")
        return {}
    try:
        entries = read_offset_checkpoint(raw)
    except FormatError as error:
        if _is_shapeless(raw):
            found.refusals.append(f"{path}: {error}")
        else:
            found.notes.append(f"{path}: {error}: {effect}")
        return {}
    return {(entry.topic, entry.partition): entry.offset for entry in entries}


def _is_shapeless(raw: bytes) -> bool:
    """Whether version, count or the number of fields is wrong, and not merely a number in a line."""
    try:
        lines = [line for _at, line in utf8_lines(raw, "checkpoint")]
    except FormatError:
        return True
    if lines[0].strip() != "0" or len(lines) < 2 or not lines[1].isdigit():
        return True
    # A line that is no number ends the reading before the lines are counted.
    for line in lines[2:]:
        fields = split_fields(line)
        if len(fields) != 3:
            return True
        if not (_is_number(fields[1]) and _is_number(fields[2])):
            return False
    return True


def _is_number(text: str) -> bool:
    return text.removeprefix("-").removeprefix("+").isdigit()
