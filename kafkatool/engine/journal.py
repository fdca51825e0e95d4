"""What was done to a log directory, so that it can be undone.

A journal is a text file of one JSON object a line: `<command>.kafkatool-N` in the backup directory, else in
the log directory, else (where the partition stands alone) in the partition's directory.

    {"journal": 1, "command": …, "root": …, "stages": [[{…}, …], …]}   every step, before the first of them
    {"stage": 0}                                                     synced before that stage begins
    {"finished": true}

Paths are relative to `root`, the log directory, and that to the journal where it lies inside: the whole may
be mounted elsewhere. Undoing looks at what is there, so it may be repeated after a crash; a file that is
neither what the plan found nor what it wrote stops it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafkatool.engine.fs import Files
from kafkatool.engine.lock import LOCK_FILE, hold_lock, refuse_if_in_use
from kafkatool.engine.plan import (
    CHUNK,
    Action,
    Applying,
    Move,
    Plan,
    Step,
    drop_clean_marker,
    keep_copy,
)
from kafkatool.errors import KafkatoolError, Refused
from kafkatool.format.checksum import crc32c
from kafkatool.format.kinds import BY_NAME

VERSION = 1
_TEMPORARY = ".undo.tmp"


@dataclass(slots=True)
class Journal:
    """A plan with the names it settled on, and how far it came."""

    path: str
    command: str
    root: str
    stages: list[list[Move]]
    reached: int = -1
    is_finished: bool = False

    @property
    def moves(self) -> list[Move]:
        """The steps that were begun, those of the last stage first."""
        return [move for stage in self.begun for move in stage]

    @property
    def begun(self) -> list[list[Move]]:
        """The stages that were begun, the last one first."""
        return self.stages[: self.reached + 1][::-1]


@dataclass(slots=True)
class Record:
    """A journal being written."""

    path: str
    _files: Files
    _size: int = field(default=0)

    def enter_stage(self, number: int) -> None:
        """Say that this stage begins, and do not return before the disk knows."""
        self._append({"stage": number})

    def finish(self) -> None:
        self._append({"finished": True})

    def _append(self, line: dict[str, Any]) -> None:
        file = self._files.open(self.path)
        try:
            file.write_at(file.size(), _line(line))
            file.sync()
        finally:
            file.close()


def begin(plan: Plan, stages: list[list[Move]], files: Files, how: Applying) -> Record:
    """Write the journal of a plan that is about to be applied; it is on the disk with its first stage."""
    home = _home(plan, how.backup_dir)
    path = _free_name(os.path.join(home, plan.command))
    root = plan.log_dir
    if _is_inside(home, root):
        root = os.path.relpath(root, home)
    head = {
        "journal": VERSION,
        "command": plan.command,
        "created_ms": how.now_ms,
        "root": root,
        "stages": [[_move_row(move, plan.log_dir) for move in stage] for stage in stages],
    }
    file = files.create(path)
    try:
        file.write_at(0, _line(head))  # synced with the line of the first stage
    finally:
        file.close()
    files.sync_directory(home)
    return Record(path, files)


def _home(plan: Plan, backup_dir: str | None) -> str:
    if backup_dir is not None:
        return backup_dir
    # The lock may be our own.
    if any(name in BY_NAME and name != LOCK_FILE for name in os.listdir(plan.log_dir)):
        return plan.log_dir
    return os.path.dirname(plan.steps[0].path)


def _free_name(stem: str) -> str:
    number = 1
    while os.path.lexists(f"{stem}.kafkatool-{number}"):
        number += 1
    return f"{stem}.kafkatool-{number}"


def _is_inside(path: str, root: str) -> bool:
    return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(root) + os.sep)


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _move_row(move: Move, root: str) -> dict[str, Any]:
    def short(path: str | None) -> str | None:
        return os.path.relpath(path, root) if path is not None and _is_inside(path, root) else path

    return {
        "action": str(move.step.action),
        "path": short(move.step.path),
        "why": move.step.why,
        "target": short(move.step.target),
        "temporary": short(move.temporary),
        "backup": short(move.backup),
        "before": move.before,
        "after": move.after,
    }


def read_journal(path: str) -> Journal:
    """Read a journal back. Raises KafkatoolError unless it is one; a torn last line is one not written."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")[:-1]
        rows = [json.loads(line) for line in lines]
        head = rows[0]
        if head["journal"] != VERSION:
            raise KafkatoolError(f"{path}: journal version {head['journal']}, expected {VERSION}")
        root = os.path.normpath(os.path.join(os.path.dirname(path), head["root"]))
        stages = [[_read_move(row, root) for row in stage] for stage in head["stages"]]
        journal = Journal(path, head["command"], root, stages)
    except OSError as error:
        raise KafkatoolError(f"{path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise KafkatoolError(f"{path}: is not a journal of kafkatool") from error
    for row in rows[1:]:
        journal.reached = max(journal.reached, int(row.get("stage", -1)))
        journal.is_finished = journal.is_finished or bool(row.get("finished"))
    journal.reached = min(journal.reached, len(stages) - 1)
    return journal


def _read_move(row: dict[str, Any], root: str) -> Move:
    def whole(key: str) -> str | None:
        return os.path.join(root, row[key]) if row[key] is not None else None

    path = whole("path")
    if path is None:
        raise ValueError("a step without a path")
    step = Step(Action(row["action"]), path, str(row["why"]), target=whole("target"))
    before, after = (tuple(row[key]) if row[key] else None for key in ("before", "after"))
    return Move(step, whole("temporary"), whole("backup"), before, after)


@dataclass(frozen=True, slots=True)
class Reversal:
    """One change back, as it will be made now."""

    path: str
    what: str
    act: Callable[[Files], None]


def plan_undo(journal: Journal) -> list[Reversal]:
    """What would be changed back now, the last step first; nothing where all is as it was before.

    For a plan of several stages only the last one begun is judged by what is there now: earlier ones are
    judged when it has been undone. Raises Refused where a file was changed since.
    """
    found: list[Reversal] = []
    for stage in journal.begun:
        found += [back for move in stage if (back := _foreseen(move, bool(found))) is not None]
    return found + [
        Reversal(move.temporary, "remove what was written beside", _unlinker(move.temporary))
        for stage in journal.stages
        for move in stage
        if move.temporary is not None and os.path.lexists(move.temporary)
    ]


def undo(journal: Journal, files: Files, *, offline: bool, now_ms: int) -> int:
    """Change back what a plan changed; returns the number of changes. Raises Refused like apply."""
    refuse_if_in_use(journal.root, offline=offline, now_ms=now_ms)
    done = 0
    with hold_lock(journal.root, files):
        for stage in journal.begun:
            backwards = [back for move in stage if (back := _reversal(move)) is not None]
            if backwards and not done:
                drop_clean_marker(journal.root, files)
            _act(backwards, files)
            done += len(backwards)
        for path in _leftovers(journal):
            files.unlink(path)
    return done


def _act(backwards: list[Reversal], files: Files) -> None:
    """Undo one stage; it is on the disk when this returns."""
    for back in backwards:
        back.act(files)
    for directory in sorted({os.path.dirname(back.path) for back in backwards}):
        files.sync_directory(directory)


def _leftovers(journal: Journal) -> Iterator[str]:
    """What is of no use once everything is back: unfinished files, and second copies of originals."""
    for move in (move for stage in journal.stages for move in stage):
        for path in (move.temporary, move.step.path + _TEMPORARY, move.backup):
            if path is not None and os.path.lexists(path):
                yield path


def _reversal(move: Move) -> Reversal | None:
    if move.step.action is Action.RENAME:
        return _undo_rename(move)
    if move.step.action is Action.REMOVE:
        return _undo_remove(move)
    if move.step.action is Action.PURGE:
        raise Refused(f"{move.step.path}: was unlinked for good")
    return _undo_write(move)


def _foreseen(move: Move, is_earlier: bool) -> Reversal | None:
    """The same, where a later stage may still be in the way: what is there now is not what will be."""
    try:
        return _reversal(move)
    except Refused:
        if not is_earlier or move.step.action is Action.PURGE:
            raise
        return Reversal(move.step.path, "bring back what was there before", _nothing)


def _nothing(_files: Files) -> None:
    """What is only shown does nothing."""


def _undo_write(move: Move) -> Reversal | None:
    path, backup = move.step.path, move.backup
    is_ours = move.after is not None and _content(path) == move.after
    if backup is None:
        if not os.path.lexists(path):
            return None
        _refuse_unless(is_ours, path)
        return Reversal(path, "remove what was made", _unlinker(path))
    if not os.path.lexists(backup):
        if is_ours and _state(path) != move.before:
            raise Refused(f"{path}: the original, {backup}, is gone: it cannot be brought back")
        return None
    if not is_ours:
        _refuse_unless(_state(path) == move.before, path)
        return None
    return Reversal(path, "bring the original back", _restorer(backup, path))


def _undo_remove(move: Move) -> Reversal | None:
    path, backup = move.step.path, move.backup
    if backup is None:
        return None
    if os.path.lexists(path):
        _refuse_unless(_state(path) == move.before, path)
        return None
    if not os.path.lexists(backup):
        raise Refused(f"{path}: the original, {backup}, is gone: it cannot be brought back")
    return Reversal(path, "bring it back", _restorer(backup, path))


def _undo_rename(move: Move) -> Reversal | None:
    path, target = move.step.path, move.step.target
    assert target is not None
    if os.path.lexists(path):
        return None
    # A file that the plan wrote itself has no state before; it is looked at where that is undone.
    is_as_it_was = os.path.lexists(target) if move.before is None else _state(target) == move.before
    _refuse_unless(is_as_it_was, target)
    return Reversal(path, f"rename it back from {os.path.basename(target)}", _renamer(target, path))


def _refuse_unless(condition: bool, path: str) -> None:
    if not condition:
        raise Refused(f"{path}: was changed since: going back would lose what was written meanwhile")


def _unlinker(path: str) -> Callable[[Files], None]:
    return lambda files: files.unlink(path)


def _renamer(source: str, target: str) -> Callable[[Files], None]:
    return lambda files: files.rename(source, target)


def _restorer(backup: str, path: str) -> Callable[[Files], None]:
    def restore(files: Files) -> None:
        if os.path.dirname(backup) == os.path.dirname(path):
            files.rename(backup, path)
            return
        beside = path + _TEMPORARY
        if os.path.lexists(beside):
            files.unlink(beside)
        keep_copy(backup, beside, files)
        files.rename(beside, path)

    return restore


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


def _content(path: str) -> tuple[int, int] | None:
    """Size and CRC-32C of a file; None where there is none."""
    try:
        with open(path, "rb") as file:
            size = crc = 0
            while piece := file.read(CHUNK):
                size += len(piece)
                crc = crc32c(piece, crc)
    except FileNotFoundError:
        return None
    return size, crc
