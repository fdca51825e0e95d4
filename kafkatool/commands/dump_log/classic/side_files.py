"""What all dumps of side files share: base offset in the name, neighbouring files, runs of equal damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from kafkatool.commands.dump_log.classic.options import ClassicOptions
from kafkatool.engine.batches.damage import Damage, FindingClass, Severity
from kafkatool.engine.batches.finder import BatchFinder
from kafkatool.engine.batches.index_file import IndexFile
from kafkatool.engine.files.source import Source, open_source
from kafkatool.errors import KafkatoolError
from kafkatool.format.names import base_offset, parse_remote_index_name, split_state

Emit = Callable[[str], None]
"""Takes one line of stdout, or several joined by line ends, without the last end."""
Note = Callable[[Damage], None]

LINES_AT_ONCE = 256


class Lines:
    """Passes lines on in groups."""

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) >= LINES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self.emit("\n".join(self._lines))
            self._lines.clear()


class DamageRuns:
    """Joins equal damage of neighbouring entries: a truncated log causes a million of them."""

    def __init__(self, note: Note) -> None:
        self.note = note
        self._run: Damage | None = None

    def add(self, damage: Damage) -> None:
        run = self._run
        joins = run and run.end_position == damage.position and run.message == damage.message
        if run and joins:
            self._run = replace(run, end_position=damage.end_position, last_offset=damage.last_offset)
        else:
            self.flush()
            self._run = damage

    def flush(self) -> None:
        if self._run is not None:
            self.note(self._run)
            self._run = None


def file_damage(
    kind: FindingClass, message: str, *, size: int = 0, expected: str = "", found: str = ""
) -> Damage:
    """Build damage of a side file as a whole: its content can be rebuilt from the log."""
    return Damage(
        kind=kind,
        position=0,
        end_position=size,
        expected=expected,
        found=found,
        message=message,
        severity=Severity.DEGRADED,
    )


def offset_in_name(path: str, note: Note) -> int | None:
    """Return the base offset in a side file's name; None, with a note, if there is none."""
    name = os.path.basename(path)
    offset = base_offset(name)
    if offset is None:
        remote = parse_remote_index_name(name)
        offset = remote.start_offset if remote else None
    if offset is None:
        message = f"no offset in the name {name!r}: its entries cannot be understood"
        note(file_damage(FindingClass.BAD_INDEX, message, expected="an offset", found=name))
    return offset


def is_cached_remotely(path: str) -> bool:
    """Return whether the log of this index is in remote storage, never beside it."""
    return parse_remote_index_name(os.path.basename(path)) is not None


def open_beside(
    stack: ExitStack, path: str, extension: str, options: ClassicOptions, note: Note
) -> Source | None:
    """Open the segment's file of another kind, preferring one with the same state suffix."""
    directory, name = os.path.split(path)
    stem = name.partition(".")[0]
    plain = os.path.join(directory, stem + extension)
    state = name[len(split_state(name)[0]) :]
    if state and os.path.exists(plain + state):
        plain += state
    return open_noting(stack, plain, options, note)


def open_noting(stack: ExitStack, path: str, options: ClassicOptions, note: Note) -> Source | None:
    """Open a file for reading; None, with a note, if that fails."""
    try:
        source: Source = open_source(path, options.guest)
        return stack.enter_context(source)
    except FileNotFoundError:
        note(file_damage(FindingClass.MISSING_FILE, f"{path} is missing", expected="a file", found="none"))
    except KafkatoolError as error:
        note(file_damage(FindingClass.UNREADABLE, str(error), expected="a file", found="an error"))
    return None


def open_index(
    stack: ExitStack, path: str, entry_size: int, options: ClassicOptions, note: Note
) -> IndexFile | None:
    source = open_noting(stack, path, options, note)
    return None if source is None else IndexFile(source, entry_size)


def open_log(stack: ExitStack, path: str, options: ClassicOptions, note: Note) -> BatchFinder | None:
    """Open the log that an index belongs to."""
    if is_cached_remotely(path):
        return None
    source = open_beside(stack, path, ".log", options, note)
    if source is None:
        return None
    return BatchFinder(source, max_batch_size=options.max_batch_size, max_inflated=options.max_inflated)
