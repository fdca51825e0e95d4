"""Undo what a plan changed.

The whole undo is worked out before its first step, stage by stage, over the names as they will be: so
everything that goes is shown, and obstacles are known before anything is done. A file that is neither what
the plan found nor what it wrote stops it. Nothing is unlinked except what the journal's own stages created
(same size, mtime and CRC-32C as recorded), temporary files of its run, and second copies of originals that
are back, byte for byte. It can be repeated after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.files.copying import Looks, are_same, content_of, keep_copy
from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.lock import hold_locks, refuse_if_in_use
from kafkatool.engine.files.owners import ConfinedDisk
from kafkatool.engine.plan.applying import Names, Never, Stop, Stopped, undo_command
from kafkatool.engine.plan.journal import (
    FoundFile,
    Journal,
    JournalWriter,
    Move,
    is_inside,
    is_regular,
    journals_in,
    kept_suffix,
)
from kafkatool.engine.plan.steps import Action, drop_clean_marker, existing
from kafkatool.errors import KafkatoolError, Refused

# How coarsely a volume of another kind may round times.
_COARSEST_TIME_NS = 2_000_000_000

Act = Callable[[Files], None]


@dataclass(frozen=True, slots=True)
class Reversal:
    """One change undone."""

    path: str
    what: str
    act: Act
    is_removal: bool = False


@dataclass(frozen=True, slots=True)
class StageBack:
    """One stage undone: the changes, then the removal of second copies of restored originals."""

    number: int
    changes: list[Reversal]
    copies: list[Reversal]


@dataclass(slots=True)
class WayBack:
    """What undoing a journal will do: the stages in order, then the removal of what is no longer needed."""

    stages: list[StageBack] = field(default_factory=list)
    cleaning: list[Reversal] = field(default_factory=list)

    @property
    def changes(self) -> list[Reversal]:
        return [one for stage in self.stages for one in stage.changes]

    @property
    def all(self) -> list[Reversal]:
        return [*(one for stage in self.stages for one in (*stage.changes, *stage.copies)), *self.cleaning]


def disk_for_undo(journal: Journal) -> Files:
    """Return a Files that can reach only what the journal is about, as the owners of the directories."""
    outside = [os.path.dirname(move.backup) for stage in journal.stages for move in stage if move.backup]
    homes = [os.path.dirname(journal.path), *(os.path.dirname(one) for one in journal.directories)]
    wanted = {*_log_dirs(journal), *outside, *homes}
    inside = {one for one in wanted if is_inside(one, journal.root)}
    return ConfinedDisk({journal.root, *map(existing, wanted - inside)})


def _log_dirs(journal: Journal) -> list[str]:
    """Return the log directories in which something was changed, its own first; links lead to others."""
    homes = {os.path.dirname(move.step.path) for stage in journal.stages for move in stage}
    return [
        journal.root,
        *sorted({os.path.dirname(one) for one in homes if not is_inside(one, journal.root)}),
    ]


def undo(journal: Journal, files: Files, *, offline: bool, now_ms: int, stop: Stop | None = None) -> int:
    """Undo what a plan changed; return the number of changes. Raises Refused like apply."""
    stop = stop or Never()
    log_dirs = _log_dirs(journal)
    for log_dir in log_dirs:
        refuse_if_in_use(log_dir, offline=offline, now_ms=now_ms)
    with hold_locks(log_dirs, files):
        way = plan_undo(journal, files)
        _refuse_unless_writable(journal.path, files)
        stop.hold_back(journal.path)
        if way.changes:
            for log_dir in log_dirs:
                drop_clean_marker(log_dir, files)
        try:
            _go(journal, way, files, stop)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            again = undo_command(journal.command, journal.path, journal.outside)
            raise KafkatoolError(f"{where}{error.strerror}; to go on: {again}") from error
    return len(way.changes)


def _refuse_unless_writable(journal: str, files: Files) -> None:
    """Check that the undo can record its progress: root may own the journal in another user's directory."""
    try:
        files.open(journal).close()
    except PermissionError:
        raise Refused(
            f"{journal}: cannot be written to by the owner of its directory: "
            f"{Advice.OWN_JOURNAL(where=os.path.dirname(journal), file=journal)}"
        ) from None


def _go(journal: Journal, way: WayBack, files: Files, stop: Stop) -> None:
    if journal.is_undone:
        return
    record = JournalWriter(journal.path, files)
    for count, stage in enumerate(way.stages):
        if stop.is_wanted() and count:
            again = undo_command(journal.command, journal.path, journal.outside)
            raise Stopped(
                f"{journal.path}: stopped after {count} of {len(way.stages)} stages; to go on: {again}"
            )
        _act(stage.changes, files)
        _act(stage.copies, files)
        record.tell_stage_undone(stage.number)
    _act(way.cleaning, files)
    record.tell_undone()


def _act(backwards: list[Reversal], files: Files) -> None:
    """Undo some changes; they are on disk when this returns."""
    for back in backwards:
        back.act(files)
    for directory in sorted({os.path.dirname(back.path) for back in backwards}):
        if os.path.isdir(directory):  # unless it was removed with the rest
            files.sync_directory(directory)


# --- the way back ---------------------------------------------------------------------------------------


def plan_undo(journal: Journal, files: Files) -> WayBack:
    """Work out what would be undone now, the last step first; nothing if all is as it was before.

    Raises Refused if a file was changed since, or an original is gone.
    """
    if journal.is_undone:
        return WayBack()
    _refuse_if_overtaken(journal)
    return _Planning(journal, files).way()


def _refuse_if_overtaken(journal: Journal) -> None:
    """Raise Refused if a later run changed the same files: they may look as if this one wrote them."""
    touched = journal.touched
    homes = set(map(os.path.dirname, touched))
    for other in journals_in({journal.root, os.path.dirname(journal.path)}):
        is_later = other.created_ms > journal.created_ms and not other.is_undone
        if is_later and (other.touched & touched or other.removed_directories & homes):
            back = undo_command(other.command, other.path, journal.outside if other.leads_outside else ())
            raise Refused(f"{journal.path}: a later run changed the same files; undo that first: {back}")


class _Planning:
    """Plans the undo over names as they will be; every file is looked at where it is now."""

    def __init__(self, journal: Journal, files: Files) -> None:
        self._journal, self._files = journal, files
        self._names = Names(files)

    def way(self) -> WayBack:
        stages = [self._stage(number, moves) for number, moves in self._journal.begun]
        cleaning = list(self._temporaries())
        cleaning += [
            Reversal(path, "remove the directory, if it is empty", _directory_remover(path), is_removal=True)
            for path in reversed(self._journal.directories)
            if os.path.isdir(path)
        ]
        return WayBack(stages, cleaning)

    def _stage(self, number: int, moves: list[Move]) -> StageBack:
        self._copies: list[Reversal] = []
        changes = [back for move in moves for back in self._reversal(move)]
        return StageBack(number, changes, self._copies)

    def _temporaries(self) -> Iterator[Reversal]:
        for move in (move for stage in self._journal.stages for move in stage):
            for path in (move.temporary, self._undo_temporary(move.step.path)):
                if path is not None and is_regular(path, self._files) and self._is_our_temporary(path, move):
                    yield Reversal(path, "remove what was written beside", _sweeper(path), is_removal=True)

    def _is_our_temporary(self, path: str, move: Move) -> bool:
        """Judge by the name, unique to its run; version 1 names were used again, so check the content."""
        return self._journal.run is not None or self._is_written(path, move)

    def _undo_temporary(self, path: str) -> str | None:
        return None if self._journal.run is None else f"{path}{kept_suffix(self._journal.run)}.undo.tmp"

    def _reversal(self, move: Move) -> Iterator[Reversal]:
        action = move.step.action
        if action is Action.PURGE:
            raise Refused(f"{move.step.path}: was removed for good")
        if action is Action.RENAME:
            return self._undo_rename(move)
        if action is Action.RMDIR:
            return self._undo_rmdir(move)
        return self._undo_write(move) if action is Action.WRITE else self._undo_remove(move)

    def _undo_rename(self, move: Move) -> Iterator[Reversal]:
        path, target = move.step.path, move.step.target
        assert target is not None
        if self._names.source(path) is not None:
            # A file that the plan wrote itself has no state before; it is checked where its write is undone.
            self._refuse_unless(move.before is None or self._is_as_before(path, move), path)
            return
        self._refuse_unless(self._names.source(target) is not None, path)
        self._refuse_unless(move.before is None or self._is_as_before(target, move), target)
        self._names.rename(target, path)
        yield Reversal(path, f"rename it back from {os.path.basename(target)}", _renamer(target, path))

    def _undo_rmdir(self, move: Move) -> Iterator[Reversal]:
        path, before = move.step.path, move.before
        if self._names.source(path) is None:
            yield Reversal(path, "make the directory again", _directory_maker(path, before))

    def _undo_write(self, move: Move) -> Iterator[Reversal]:
        path, backup = move.step.path, move.backup
        is_ours = self._is_written(path, move)
        if backup is None:
            if self._names.source(path) is not None:
                self._refuse_unless(is_ours, path)
                self._names.remove(path)
                yield Reversal(path, "remove what was made", _unlinker(path), is_removal=True)
            return
        if self._names.source(backup) is None:
            if not self._is_as_before(path, move):
                self._refuse_unless(is_ours, path)
                raise self._gone(path, backup)
        elif is_ours and self._is_as_before(backup, move):
            yield self._restore(move, "bring the original back")
        else:
            self._refuse_unless(self._is_as_before(path, move), backup if is_ours else path)
            self._drop_second_copy(move)

    def _undo_remove(self, move: Move) -> Iterator[Reversal]:
        path, backup = move.step.path, move.backup
        if backup is None:
            return
        if self._names.source(path) is not None:
            self._refuse_unless(self._is_as_before(path, move), path)
            self._drop_second_copy(move)
            return
        if self._names.source(backup) is None:
            raise self._gone(path, backup)
        self._refuse_unless(self._is_as_before(backup, move), backup)
        yield self._restore(move, "bring it back")

    def _restore(self, move: Move, what: str) -> Reversal:
        path, backup = move.step.path, move.backup
        assert backup is not None
        if os.path.dirname(backup) == os.path.dirname(path):
            self._names.rename(backup, path)
            return Reversal(path, what, _renamer(backup, path))
        beside = self._undo_temporary(path) or f"{path}.undo.tmp"
        self._names.copy(backup, path)
        self._copies.append(_second_copy(backup, path))
        return Reversal(path, what, _restorer(backup, beside, path, move.before))

    def _drop_second_copy(self, move: Move) -> None:
        """Plan to remove the kept copy of an original that is back in its place, if they are the same."""
        path, backup = move.step.path, move.backup
        source = self._names.source(path)
        if backup is None or source is None or not is_regular(backup, self._files):
            return
        if are_same(source, backup, self._files):
            self._copies.append(_second_copy(backup, path))

    def _is_written(self, path: str, move: Move) -> bool:
        """Return whether a file is what the step wrote."""
        source, after = self._names.source(path), move.after
        if source is None or after is None or not is_regular(source, self._files):
            return False
        found = self._files.stat(source)
        if found.st_size != after.size or after.mtime_ns not in (None, found.st_mtime_ns):
            return False
        return content_of(source, self._files) == (after.size, after.crc)

    def _is_as_before(self, path: str, move: Move) -> bool:
        """Return whether a file is what the step found; a copy on another volume may have a coarser mtime."""
        source, before = self._names.source(path), move.before
        if source is None or before is None or not is_regular(source, self._files):
            return False
        found = self._files.stat(source)
        is_beside = os.path.dirname(source) == os.path.dirname(move.step.path)
        tolerated = 1 if is_beside else _COARSEST_TIME_NS
        if found.st_size != before.size or abs(found.st_mtime_ns - before.mtime_ns) >= tolerated:
            return False
        return before.crc is None or content_of(source, self._files)[1] == before.crc

    def _refuse_unless(self, condition: bool, path: str) -> None:
        if not condition:
            raise Refused(f"{path}: was changed since: undoing would lose what was written since")

    def _gone(self, path: str, backup: str) -> Refused:
        return Refused(f"{path}: the original, {backup}, is gone and cannot be restored")


# --- acts -----------------------------------------------------------------------------------------------


def _unlinker(path: str) -> Act:
    return lambda files: files.unlink(path)


def _sweeper(path: str) -> Act:
    """Return an act that unlinks a file if it still exists: a repeated undo rewrites its temporary files."""

    def sweep(files: Files) -> None:
        if is_regular(path, files):
            files.unlink(path)

    return sweep


def _renamer(source: str, target: str) -> Act:
    return lambda files: files.rename(source, target)


def _directory_maker(path: str, before: FoundFile | None) -> Act:
    def make(files: Files) -> None:
        with suppress(FileExistsError):  # a repeated undo
            files.make_directory(path)
        if (looks := _looks(before)) is not None:
            with suppress(PermissionError):
                files.set_owner(path, looks.uid, looks.gid)
            files.set_mode(path, looks.mode)

    return make


def _directory_remover(path: str) -> Act:
    def remove(files: Files) -> None:
        with suppress(OSError):  # somebody put something there
            files.remove_directory(path)

    return remove


def _second_copy(backup: str, path: str) -> Reversal:
    def remove(files: Files) -> None:
        if is_regular(backup, files) and is_regular(path, files) and are_same(path, backup, files):
            files.unlink(backup)

    what = f"remove the second copy of {os.path.basename(path)}"
    return Reversal(backup, what, remove, is_removal=True)


def _restorer(backup: str, beside: str, path: str, before: FoundFile | None) -> Act:
    def restore(files: Files) -> None:
        if is_regular(beside, files):
            files.unlink(beside)
        keep_copy(backup, beside, files, _looks(before))
        files.rename(beside, path)

    return restore


def _looks(before: FoundFile | None) -> Looks | None:
    """Return what the journal knows of an original; None for version 1, which knows too little."""
    if before is None or before.mode is None or before.uid is None or before.gid is None:
        return None
    return Looks(before.mode, before.uid, before.gid, before.mtime_ns)
