"""The record of what was done to a log directory, so that it can be undone.

A journal is a text file with one JSON object per line: `<command>.kafkatool-RUN` in the backup directory,
else in the log directory, else (for a stand-alone partition) in the partition's directory.

    {"journal": 2, "run": …, "command": …, "root": …, "stages": [[{…}, …], …]}   synced before all else
    {"written": [[size, mtime, crc], …]}   the temporary files, in the order of the steps that write
    {"stage": 0}                           synced before that stage begins
    {"finished": true}
    {"undone_stage": 0}                    that stage is undone, and all after it
    {"undone": true}                       everything is back

Paths are relative to `root`, the log directory, and absolute outside of it. If the journal lies inside
`root`, `root` is relative to the journal, so that the whole may be mounted elsewhere.

A journal is trusted only so far: the broker's account can edit it, and root may undo it. So every path has to
be in the log directory itself, in a directory directly below it, or in a directory that the user names; and a
journal that names a log directory elsewhere must belong to the current user or to that directory's owner.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafkatool.engine.files.disk import Disk, Files
from kafkatool.engine.files.lock import LOCK_FILE
from kafkatool.engine.plan.steps import Action, Plan, Step
from kafkatool.errors import KafkatoolError, Refused
from kafkatool.format.kinds import BY_NAME, parse_kept_name

VERSION = 2
_OLDEST = 1
_LARGEST = 256 << 20


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file as a step finds it; unknown values are None."""

    size: int
    mtime_ns: int
    crc: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A file as a step leaves it."""

    size: int
    crc: int
    mtime_ns: int | None


@dataclass(slots=True)
class Move:
    """A step with all its names settled, as the journal records it."""

    step: Step
    temporary: str | None
    backup: str | None
    """None if there is no original."""
    before: FoundFile | None = None
    after: Written | None = None


@dataclass(slots=True)
class Journal:
    """A plan with the names it settled on, and how far it came."""

    path: str
    command: str
    root: str
    stages: list[list[Move]]
    run: str | None = None
    """None in a version 1 journal, whose names later runs may have used again."""
    created_ms: int = 0
    directories: list[str] = field(default_factory=list)
    """The directories created outside to hold what is moved, outermost first."""
    outside: list[str] = field(default_factory=list)
    """Directories that the user trusts it with."""
    reached: int = -1
    """The last stage that was begun and is not undone."""
    is_finished: bool = False
    is_undo_begun: bool = False
    is_undone: bool = False

    @property
    def begun(self) -> list[tuple[int, list[Move]]]:
        """The stages that were begun and are not undone, each with its number, last one first."""
        return list(enumerate(self.stages[: self.reached + 1]))[::-1]

    @property
    def leads_outside(self) -> bool:
        """Whether originals went to a directory that has to be named again."""
        homes = (self.root, os.path.dirname(self.path))
        kept = [move.backup for stage in self.stages for move in stage if move.backup is not None]
        return any(not any(is_inside(path, home) for home in homes) for path in kept)

    @property
    def touched(self) -> set[str]:
        """The names changed by the stages that were begun and are not undone."""
        moves = [move for _number, stage in self.begun for move in stage]
        return {path for move in moves for path in (move.step.path, move.step.target) if path is not None}

    @property
    def removed_directories(self) -> set[str]:
        """The directories removed by the stages that were begun and are not undone."""
        moves = [move for _number, stage in self.begun for move in stage]
        return {move.step.path for move in moves if move.step.action is Action.RMDIR}

    @property
    def is_open(self) -> bool:
        """Whether it, or its undo, was stopped in the middle."""
        is_whole = self.is_finished and not self.is_undo_begun
        return self.reached >= 0 and not is_whole and not self.is_undone


@dataclass(frozen=True, slots=True)
class JournalWriter:
    """A journal being written, line by line."""

    path: str
    _files: Files

    def tell_written(self, written: Iterable[Written]) -> None:
        """Record the temporary files that were written; synced with the first stage."""
        self._append({"written": [[one.size, one.mtime_ns, one.crc] for one in written]}, is_synced=False)

    def enter_stage(self, number: int) -> None:
        """Record that this stage begins; return once that is on disk."""
        self._append({"stage": number})

    def finish(self) -> None:
        self._append({"finished": True})

    def tell_stage_undone(self, number: int) -> None:
        """Record that a stage is undone, so that it is not judged again by what earlier stages left."""
        self._append({"undone_stage": number})

    def tell_undone(self) -> None:
        self._append({"undone": True})

    def _append(self, line: dict[str, Any], *, is_synced: bool = True) -> None:
        file = self._files.open(self.path)
        try:
            end = file.size()
            # A line torn by a crash would swallow this one.
            torn = end > 0 and file.read_at(end - 1, 1) != b"\n"
            file.write_at(end, (b"\n" if torn else b"") + _line(line))
            if is_synced:
                file.sync()
        finally:
            file.close()


def begin_journal(
    plan: Plan,
    run: str,
    stages: list[list[Move]],
    directories: list[str],
    files: Files,
    home: str,
    now_ms: int,
) -> JournalWriter:
    """Write the journal of a plan that is about to be applied; it is on disk when this returns."""
    path = os.path.join(home, f"{plan.command}.kafkatool-{run}")
    root = plan.log_dir
    if is_inside(home, root):
        root = os.path.relpath(root, home)
    head = {
        "journal": VERSION,
        "run": run,
        "command": plan.command,
        "created_ms": now_ms,
        "root": root,
        "directories": directories,
        "stages": [[_move_row(move, plan.log_dir) for move in stage] for stage in stages],
    }
    file = files.create(path)
    try:
        file.write_at(0, _line(head))
        file.sync()
    finally:
        file.close()
    files.sync_directory(home)
    return JournalWriter(path, files)


def journal_home(plan: Plan, backup_dir: str | None) -> str:
    """Return the directory that the journal of a plan goes to."""
    if backup_dir is not None:
        return os.path.realpath(backup_dir)
    # The lock may be kafkatool's own.
    if any(name in BY_NAME and name != LOCK_FILE for name in os.listdir(plan.log_dir)):
        return plan.log_dir
    return os.path.dirname(plan.steps[0].path)


def is_inside(path: str, root: str) -> bool:
    """Return whether a path is a directory or lies below it; links are not resolved."""
    return (os.path.normpath(path) + os.sep).startswith(os.path.normpath(root).rstrip(os.sep) + os.sep)


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _move_row(move: Move, root: str) -> dict[str, Any]:
    def short(path: str | None) -> str | None:
        return os.path.relpath(path, root) if path is not None and is_inside(path, root) else path

    before = move.before
    return {
        "action": str(move.step.action),
        "path": short(move.step.path),
        "why": move.step.why,
        "target": short(move.step.target),
        "temporary": short(move.temporary),
        "backup": short(move.backup),
        "before": None
        if before is None
        else [before.size, before.mtime_ns, before.crc, before.mode, before.uid, before.gid],
    }


# --- reading back -------------------------------------------------------------------------------------


def read_journal(path: str, outside: Iterable[str] = ()) -> Journal:
    """Read a journal; `outside` are the directories beyond its own that the user trusts it with.

    Raises KafkatoolError unless it is one; a torn last line counts as not written. Raises Refused if it leads
    to any other place.
    """
    outside = list(outside)
    journal, owner = _parse(path)
    _confine(journal, owner, outside)
    journal.outside = outside
    return journal


def look_at_journal(path: str) -> Journal:
    """Read a journal only to report what it says, wherever it leads: it must not be followed."""
    return _parse(path)[0]


def _parse(path: str) -> tuple[Journal, int]:
    """Return the journal and its owner. Raises KafkatoolError unless it is one."""
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    rows, owner = _read_rows(path)
    try:
        journal = _head(path, rows[0])
        for row in rows[1:]:
            _follow(journal, row)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise KafkatoolError(f"{path}: is not a journal of kafkatool") from error
    return journal, owner


def _read_rows(path: str) -> tuple[list[Any], int]:
    """Return the lines that can be read, and the file's owner. Raises KafkatoolError."""
    try:
        with Disk().open_to_read(path) as file:
            found = file.stat()
            if found.st_size > _LARGEST:
                raise KafkatoolError(f"{path}: {found.st_size} bytes: is not a journal of kafkatool")
            lines = file.read_at(0, found.st_size).split(b"\n")[:-1]
    except OSError as error:
        raise KafkatoolError(f"{path}: {error.strerror}") from error
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            break
    if not rows or not isinstance(rows[0], dict) or "journal" not in rows[0]:
        raise KafkatoolError(f"{path}: is not a journal of kafkatool")
    return rows, found.st_uid


def _head(path: str, head: dict[str, Any]) -> Journal:
    version = head["journal"]
    if not _OLDEST <= version <= VERSION:
        raise KafkatoolError(f"{path}: journal version {version}, expected {_OLDEST} to {VERSION}")
    home = os.path.dirname(path)
    root = os.path.normpath(os.path.join(home, head["root"]))
    run = str(head["run"]) if version > 1 else None
    named = parse_kept_name(os.path.basename(path))
    if run is not None and (named is None or named.run != run):
        raise ValueError("another run's name")
    stages = [[_read_move(row, root, run) for row in stage] for stage in head["stages"]]
    directories = [os.path.normpath(os.path.join(root, one)) for one in head.get("directories", [])]
    created_ms = int(head.get("created_ms", 0))
    return Journal(path, str(head["command"]), root, stages, run, created_ms, directories)


def _read_move(row: dict[str, Any], root: str, run: str | None) -> Move:
    def whole(key: str) -> str | None:
        return os.path.normpath(os.path.join(root, row[key])) if row[key] is not None else None

    path = whole("path")
    if path is None:
        raise ValueError("a step without a path")
    step = Step(Action(row["action"]), path, str(row["why"]), target=whole("target"))
    move = Move(step, whole("temporary"), whole("backup"))
    # What may be removed is recognized by its name.
    if run is not None and move.temporary not in (None, temporary_name(path, run)):
        raise ValueError("a temporary file of another name")
    if (
        run is not None
        and move.backup not in (None, step.target)
        and not move.backup.endswith(kept_suffix(run))
    ):
        raise ValueError("a kept original of another name")
    if row["before"] is not None:
        move.before = FoundFile(*(None if one is None else int(one) for one in row["before"]))  # type: ignore[arg-type]
    if row.get("after") is not None:
        size, crc = map(int, row["after"])
        move.after = Written(size, crc, None)
    return move


def temporary_name(path: str, run: str) -> str:
    """Return the name under which new content is written first."""
    return f"{path}{kept_suffix(run)}.tmp"


def kept_suffix(run: str) -> str:
    """Return the suffix of the names of a run's files."""
    return f".kafkatool-{run}"


def _follow(journal: Journal, row: dict[str, Any]) -> None:
    """Apply one line after the first."""
    if "written" in row:
        writes = [move for stage in journal.stages for move in stage if move.step.action is Action.WRITE]
        for move, (size, mtime_ns, crc) in zip(writes, row["written"], strict=True):
            move.after = Written(int(size), int(crc), int(mtime_ns))
    reached = int(row.get("stage", -1))
    journal.reached = min(max(journal.reached, reached), len(journal.stages) - 1)
    if "undone_stage" in row:
        journal.is_undo_begun = True
        journal.reached = min(journal.reached, int(row["undone_stage"]) - 1)
    journal.is_finished = journal.is_finished or bool(row.get("finished"))
    journal.is_undone = journal.is_undone or bool(row.get("undone"))


def _confine(journal: Journal, owner: int, outside: Iterable[str]) -> None:
    """Raise Refused if a journal leads to places it must not touch."""
    home = os.path.dirname(journal.path)
    if not os.path.isdir(journal.root):
        raise KafkatoolError(f"{journal.path}: the log directory {journal.root} is not there")
    root = journal.root = os.path.realpath(journal.root)
    trusted = [os.path.realpath(one) for one in outside]
    if home != root and owner not in (os.geteuid(), os.stat(root).st_uid):
        raise Refused(
            f"{journal.path}: belongs to user {owner}, and the log directory that it names, {root}, to "
            "another user: it is not followed"
        )
    if not is_inside(home, root):
        trusted.append(home)
    elif home not in (root, *_directories_below(root)):
        raise Refused(f"{journal.path}: names a log directory that it does not lie in: {root}")
    places = _Places(root, trusted)
    for stage in journal.stages:
        for move in stage:
            _confine_move(journal.path, move, places)
    for directory in journal.directories:
        if not any(is_inside(directory, one) for one in trusted):
            raise _stranger(journal.path, directory)


def _directories_below(root: str) -> list[str]:
    return [os.path.realpath(entry.path) for entry in os.scandir(root) if entry.is_dir()]


@dataclass(slots=True)
class _Places:
    """Where a journal may lead: the log directory, what lies directly below it, and what the user named."""

    root: str
    trusted: list[str]
    _linked: set[str] | None = None

    def holds(self, path: str, *, is_kept: bool) -> bool:
        directory = os.path.dirname(path)
        if directory == self.root or os.path.dirname(directory) == self.root:
            return True
        if is_kept and any(is_inside(directory, one) for one in self.trusted):
            return True
        if self._linked is None:
            self._linked = set(_directories_below(self.root))
        return directory in self._linked


def _confine_move(journal: str, move: Move, places: _Places) -> None:
    is_moved_away = move.step.action is Action.REMOVE
    wanted = (
        (move.step.path, False),
        (move.step.target, is_moved_away),
        (move.temporary, False),
        (move.backup, True),
    )
    for path, is_kept in wanted:
        if path is not None and not places.holds(path, is_kept=is_kept):
            raise _stranger(journal, path)


def _stranger(journal: str, path: str) -> Refused:
    return Refused(
        f"{journal}: leads to {path}, outside of its log directory: only if you know that originals were "
        "kept there, name that directory with --backup-dir"
    )


def is_called_like_a_journal(path: str) -> bool:
    """Check for a journal's name: it is a command, while originals' names have a dot or a number."""
    named = parse_kept_name(os.path.basename(path))
    if named is None or named.is_temporary:
        return False
    return named.original.replace("-", "").isalpha() and named.original.islower()


def journals_in(directories: Iterable[str]) -> Iterator[Journal]:
    """Yield the readable journals in these directories, only to be looked at."""
    for directory in sorted(set(directories)):
        with suppress(OSError):
            for name in sorted(os.listdir(directory)):
                if is_called_like_a_journal(name):
                    with suppress(KafkatoolError):
                        yield look_at_journal(os.path.join(directory, name))


def is_torn_journal(path: str) -> bool:
    """Return whether a file is part of a journal's first line: its run was killed before it did anything."""
    beginning = b'{"journal":'
    try:
        with Disk().open_to_read(path) as file:
            size = file.stat().st_size
            start = file.read_at(0, len(beginning))
            if start != beginning[: len(start)] or size > _LARGEST:
                return False
            return b"\n" not in file.read_at(0, size)
    except OSError:
        return False


def is_regular(path: str, files: Files) -> bool:
    """Return whether there is a regular file of this name, not a link, pipe or directory."""
    try:
        return stat.S_ISREG(files.stat(path).st_mode)
    except FileNotFoundError:
        return False
