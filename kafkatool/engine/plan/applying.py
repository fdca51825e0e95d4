"""Apply a plan so that a crash at any moment leaves every file old or new, and the change can be undone.

locks       of every affected log directory are held
evidence    the files the plan was made from must be unchanged
journal     with every step and name, synced before anything else is created
beside      all new content is written to temporary files and synced
stages      one after another, each on disk before the next one begins
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.files.copying import content_of, copy_content, keep_copy
from kafkatool.engine.files.disk import File, Files
from kafkatool.engine.files.lock import hold_locks
from kafkatool.engine.files.owners import ConfinedDisk
from kafkatool.engine.files.source import file_type
from kafkatool.engine.plan.evidence import SMALL
from kafkatool.engine.plan.journal import (
    FoundFile,
    JournalWriter,
    Move,
    Written,
    begin_journal,
    is_inside,
    is_regular,
    journal_home,
    kept_suffix,
    temporary_name,
)
from kafkatool.engine.plan.steps import (
    Action,
    Applying,
    FileStretch,
    Plan,
    Step,
    drop_clean_marker,
    existing,
    real_log_dirs,
    real_paths,
    refuse_if_unsafe,
)
from kafkatool.errors import ExitCode, KafkatoolError
from kafkatool.format.checksum import crc32c

_LONGEST_NAME = 255


class Stop(Protocol):
    """Reports whether the user wants the run to stop."""

    def hold_back(self, journal: str) -> None:
        """Only note and report a signal from now on: it must not end the run by itself."""

    def is_wanted(self) -> bool: ...


class Never:
    """A Stop that never asks to stop."""

    def hold_back(self, journal: str) -> None: ...

    def is_wanted(self) -> bool:
        return False


class Stopped(KafkatoolError):
    """A signal ended the run between two stages."""

    exit_code = ExitCode.INTERRUPTED


def disk_for(plan: Plan, how: Applying) -> Files:
    """Return a Files that can reach only what the plan is about, as the owners of the directories."""
    log_dirs = real_log_dirs(plan)
    wanted = [*plan.directories, *([how.backup_dir] if how.backup_dir is not None else [])]
    wanted += {os.path.dirname(step.target) for step in plan.steps if step.target is not None}
    wanted += {
        os.path.dirname(step.content.path) for step in plan.steps if isinstance(step.content, FileStretch)
    }
    outside = {os.path.realpath(one) for one in wanted}
    return ConfinedDisk([*log_dirs, *(existing(one) for one in outside if not is_inside(one, log_dirs[0]))])


def apply(
    plan: Plan,
    files: Files,
    how: Applying,
    progress: Callable[[int], None] | None = None,
    stop: Stop | None = None,
) -> str:
    """Apply a plan; return the path of the journal that can undo it.

    Raises Refused before anything is changed; Stopped or KafkatoolError if it could not be finished: their
    message says what was done and how to resume or undo it.
    """
    refuse_if_unsafe(plan, files, how)
    if how.backup_dir is not None:
        _make_directories([how.backup_dir], files)
    with hold_locks(real_log_dirs(plan), files):
        if plan.evidence is not None:
            plan.evidence.refuse_if_changed()
        return _Application(real_paths(plan), files, how, progress, stop or Never()).run()


def _make_directories(paths: Iterable[str], files: Files) -> list[str]:
    """Create directories that the user named, with their parents; return those that were missing."""
    made = []
    for path in map(os.path.realpath, paths):
        if not os.path.isdir(path):
            files.make_directory(path)
            files.sync_directory(os.path.dirname(path))
            made.append(path)
    return made


class _Application:
    """One plan being applied, under its locks."""

    def __init__(
        self,
        plan: Plan,
        files: Files,
        how: Applying,
        progress: Callable[[int], None] | None,
        stop: Stop,
    ) -> None:
        self._plan, self._files, self._how, self._stop = plan, files, how, stop
        self._progress = progress
        self._run = how.run_ids()
        self._journal: JournalWriter | None = None
        self._reached = -1
        self._stages: list[list[Move]] = []
        self._made: list[str] = []

    def run(self) -> str:
        """Apply the whole plan; return the journal's path."""
        try:
            self._prepare()
        except BaseException as error:
            self._clean_up()
            if isinstance(error, OSError):
                raise self._unfinished(error) from error
            raise
        assert self._journal is not None
        try:
            for number, stage in enumerate(self._stages):
                if self._stop.is_wanted():
                    raise self._stopped(number)
                self._journal.enter_stage(number)
                self._reached = number
                if number == 0:
                    for log_dir in real_log_dirs(self._plan):
                        drop_clean_marker(log_dir, self._files)
                carry_out(stage, self._files)
            self._journal.finish()
        except OSError as error:
            raise self._unfinished(error) from error
        return self._journal.path

    def _prepare(self) -> None:
        """Write the journal, and all new content to temporary files."""
        plan, files = self._plan, self._files
        self._stages = settle_names(plan, self._how.backup_dir, self._run, files)
        home = journal_home(plan, self._how.backup_dir)
        missing = [one for one in plan.directories if not os.path.isdir(one)]
        self._journal = begin_journal(plan, self._run, self._stages, missing, files, home, self._how.now_ms)
        self._made = _make_directories(missing, files)
        moves = [move for stage in self._stages for move in stage]
        write_beside(moves, files, self._how.now_ms, self._progress)
        self._journal.tell_written(move.after for move in moves if move.after is not None)
        self._stop.hold_back(self._journal.path)

    def _clean_up(self) -> None:
        """Remove what was created before the first stage: nothing has been changed yet."""
        moves = [move for stage in self._stages for move in stage]
        made = [move.temporary for move in moves if move.temporary is not None]
        # The journal last: it proves that the others are kafkatool's.
        for path in [*made, *([self._journal.path] if self._journal is not None else [])]:
            if os.path.lexists(path):
                with suppress(OSError):
                    self._files.unlink(path)
        for path in reversed(self._made):
            with suppress(OSError):
                self._files.remove_directory(path)

    def _stopped(self, number: int) -> BaseException:
        if number == 0:
            self._clean_up()
            return KeyboardInterrupt()
        return Stopped(
            f"{self._plan.log_dir}: stopped after {number} of {len(self._stages)} stages; {self._ways()}"
        )

    def _unfinished(self, error: OSError) -> KafkatoolError:
        """Return an error that tells the user how far the run came."""
        where = f"{error.filename}: " if error.filename else ""
        state = self._ways() if self._reached >= 0 else "nothing was changed"
        return KafkatoolError(f"{where}{error.strerror}; {state}")

    def _ways(self) -> str:
        assert self._journal is not None
        return f"to go on: {self._plan.go_on}; {way_back(self._plan, self._journal.path)}"


def undo_command(command: str, journal: str, outside: Iterable[str] = ()) -> str:
    """Return the command that undoes a journal, ready to be pasted in any directory."""
    named = [word for one in outside for word in ("--backup-dir", one)]
    return Advice.UNDO(command=command, journal=os.path.abspath(journal), backup_dirs=named)


def way_back(plan: Plan, journal: str) -> str:
    """Return how to undo the applied part of a plan, or that it cannot be undone."""
    if any(step.action is Action.PURGE for step in plan.steps):
        return "there is no way back"
    outside = [os.path.realpath(one) for one in plan.directories[:1]]
    return f"to go back: {undo_command(plan.command, journal, outside)}"


# --- names ----------------------------------------------------------------------------------------------


class Names:
    """Maps a name after some changes to the present file it stands for; None if there is none."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._moved: dict[str, str | None] = {}

    def source(self, path: str) -> str | None:
        if path in self._moved:
            return self._moved[path]
        try:
            self._files.stat(path)
        except FileNotFoundError:
            return None
        return path

    def find(self, source: str) -> FoundFile:
        """Look at a present file; raise KafkatoolError unless it is a regular one."""
        found = self._files.stat(source)
        if not stat.S_ISREG(found.st_mode):
            raise KafkatoolError(
                f"{source}: is {file_type(found.st_mode)}, expected a file: it is not touched"
            )
        crc = content_of(source, self._files)[1] if found.st_size <= SMALL else None
        return _found(found, found.st_size, crc)

    def find_directory(self, path: str) -> FoundFile:
        """Look at a present directory; raise KafkatoolError unless it is one, and not a link."""
        found = self._files.stat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise KafkatoolError(f"{path}: is {file_type(found.st_mode)}, expected a directory")
        return _found(found, 0, None)

    def rename(self, path: str, target: str) -> None:
        self._moved[target] = self.source(path)
        self._moved[path] = None

    def copy(self, path: str, target: str) -> None:
        self._moved[target] = self.source(path)

    def remove(self, path: str) -> None:
        self._moved[path] = None


def _found(found: os.stat_result, size: int, crc: int | None) -> FoundFile:
    mode = found.st_mode & 0o7777
    return FoundFile(size, found.st_mtime_ns, crc, mode, found.st_uid, found.st_gid)


def settle_names(plan: Plan, backup_dir: str | None, run: str, files: Files) -> list[list[Move]]:
    """Choose the names of temporary files and of kept originals.

    Raises KafkatoolError if a name is taken, or an original is not a regular file.
    """
    names = Names(files)
    taken: set[str] = set()
    stages = []
    for stage in plan.stages:
        stages.append([_settle(step, backup_dir, run, names, taken) for step in stage])
        for step in stage:
            if step.action in (Action.REMOVE, Action.RMDIR):
                names.remove(step.path)
            elif step.action is Action.RENAME:
                assert step.target is not None
                names.rename(step.path, step.target)
    return stages


def _settle(step: Step, backup_dir: str | None, run: str, names: Names, taken: set[str]) -> Move:
    if step.action is Action.RMDIR:
        return Move(step, None, None, names.find_directory(step.path))
    source = names.source(step.path)
    before = names.find(source) if source is not None else None
    if step.target is not None:
        if names.source(step.target) is not None:
            raise KafkatoolError(f"{step.target}: is in the way of {os.path.basename(step.path)}")
        kept = step.target if step.action is Action.REMOVE and source is not None else None
        return Move(step, None, kept, before)
    if step.action is Action.PURGE:
        return Move(step, None, None, before)
    temporary = temporary_name(step.path, run) if step.action is Action.WRITE else None
    backup = _backup_name(step.path, backup_dir, run, len(taken)) if source is not None else None
    for name in filter(None, (temporary, backup)):
        if name in taken or names.source(name) is not None:
            raise KafkatoolError(f"{name}: is in the way of {os.path.basename(step.path)}")
        taken.add(name)
    return Move(step, temporary, backup, before)


def _backup_name(path: str, backup_dir: str | None, run: str, number: int) -> str:
    directory, name = os.path.split(path)
    ending = kept_suffix(run)
    if backup_dir is None:
        return path + ending
    # A topic's name may use up the full length of a file name.
    partition = os.path.basename(directory)
    room = _LONGEST_NAME - len(f".{name}{ending}")
    if len(partition) > room:
        partition = f"{partition[: room - 12]}~{number}"
    return os.path.join(os.path.realpath(backup_dir), f"{partition}.{name}{ending}")


# --- doing ----------------------------------------------------------------------------------------------


def write_beside(
    moves: Iterable[Move], files: Files, now_ms: int, progress: Callable[[int], None] | None = None
) -> None:
    """Write and sync all new content under temporary names, with the owner and mode of what it replaces."""
    for move in moves:
        if move.temporary is None:
            continue
        file = files.create(move.temporary)
        try:
            size, crc = _write_content(move.step, file, files, progress)
            mtime_ns = _take_after(move.temporary, move.step, files, now_ms)
            file.sync()
        finally:
            file.close()
        move.after = Written(size, crc, mtime_ns)


def _write_content(
    step: Step, file: File, files: Files, progress: Callable[[int], None] | None
) -> tuple[int, int]:
    """Write the new content; return its size and CRC-32C."""
    content = step.content
    assert content is not None
    if isinstance(content, bytes):
        if content:
            file.write_at(0, content)
        if progress:
            progress(len(content))
        return len(content), crc32c(content)
    crc = 0
    with files.open_to_read(content.path) as source:
        copied = copy_content(source, content.start, content.end, file, dict(content.patches))
        for size, crc in copied:  # noqa: B007
            if progress:
                progress(size)
    return content.end - content.start, crc


def _take_after(path: str, step: Step, files: Files, now_ms: int) -> int:
    """Give a new file the owner, group and mode of the one it replaces, and to a log also its mtime.

    A file that replaces nothing takes them from a log beside it: the broker must be able to write to it.
    Returns the mtime in nanoseconds, which is always set, so that it is known.
    """
    mtime_ns = now_ms * 1_000_000
    model = _model(step, files)
    if model is not None:
        found, mine = files.stat(model), files.stat(path)
        if (mine.st_uid, mine.st_gid) != (found.st_uid, found.st_gid):
            # In another user's directory the process has that user's rights, and the file is theirs already.
            with suppress(PermissionError):
                files.set_owner(path, found.st_uid, found.st_gid)
        files.set_mode(path, found.st_mode & 0o7777)
        if isinstance(step.content, FileStretch) and step.path.endswith(".cleaned"):
            mtime_ns = files.stat(step.content.path).st_mtime_ns
        elif step.path.endswith(".log"):
            mtime_ns = found.st_mtime_ns
    files.set_mtime(path, mtime_ns)
    return mtime_ns


def _model(step: Step, files: Files) -> str | None:
    directory = os.path.dirname(step.path)
    if isinstance(step.content, FileStretch) and os.path.dirname(step.content.path) == directory:
        return step.content.path
    if is_regular(step.path, files):
        return step.path
    names = sorted(os.listdir(directory))
    logs = (os.path.join(directory, name) for name in names if name.endswith(".log"))
    return next((path for path in logs if is_regular(path, files)), None)


def carry_out(stage: list[Move], files: Files) -> None:
    """Carry out the steps of one stage; they are on disk when this returns."""
    for move in stage:
        if move.backup is not None and _is_kept_by_link(move):
            keep_copy(move.step.path, move.backup, files)
    homes = {os.path.dirname(move.backup) for move in stage if move.backup and _is_kept_by_link(move)}
    for home in sorted(homes):
        files.sync_directory(home)
    for move in stage:
        _change(move, files)
    for directory in sorted({os.path.dirname(move.step.path) for move in stage}):
        files.sync_directory(directory)


def _is_kept_by_link(move: Move) -> bool:
    """Return whether the original needs a second name first; a removal within the directory is one rename."""
    assert move.backup is not None
    beside = os.path.dirname(move.backup) == os.path.dirname(move.step.path)
    return move.step.action is Action.WRITE or not beside


def _change(move: Move, files: Files) -> None:
    step = move.step
    if step.action is Action.WRITE:
        assert move.temporary is not None
        files.rename(move.temporary, step.path)
    elif step.action is Action.RENAME:
        assert step.target is not None
        files.rename(step.path, step.target)
    elif step.action is Action.PURGE:
        files.unlink(step.path)
    elif step.action is Action.RMDIR:
        files.remove_directory(step.path)
    elif move.backup is None:
        pass  # it was gone already
    elif _is_kept_by_link(move):
        files.unlink(step.path)
    else:
        files.rename(step.path, move.backup)
