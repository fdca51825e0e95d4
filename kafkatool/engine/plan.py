"""Every change of a log directory is a plan: shown first, then applied so that it can be undone.

A plan is a list of stages. The steps of one stage touch different files and may reach the disk in any order;
a stage is on the disk before the next one begins.

    write    the new content is written beside (`<name>.kafkatool-N.tmp`) and synced before anything changes;
             the original gets a second name, `<name>.kafkatool-N`, then the new file takes its place at once
    remove   the file is renamed to `<name>.kafkatool-N`
    rename   the file gets another name, which nobody has
    purge    the file is gone for good: there is no way back

At no time is a name without a file that has one before and after. With a backup directory, originals are
linked or copied there instead; what is removed may have a place of its own. See `journal.py` for what makes
it reversible.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from kafkatool.engine.fs import Files
from kafkatool.engine.lock import CLEAN_MARKER, hold_lock, refuse_if_in_use
from kafkatool.errors import KafkatoolError, Refused
from kafkatool.format.checksum import crc32c

CHUNK = 1 << 20


class Action(StrEnum):
    WRITE = "write"
    REMOVE = "remove"
    RENAME = "rename"
    PURGE = "purge"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes that stand in a file before the plan is applied: [start, end)."""

    path: str
    start: int
    end: int


Content = bytes | Stretch


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one file; `why` is a sentence for people."""

    action: Action
    path: str
    why: str
    content: Content | None = None
    target: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the new content."""
        if isinstance(self.content, Stretch):
            return self.content.end - self.content.start
        return len(self.content) if self.content is not None else 0


def write(path: str, content: Content, why: str) -> Step:
    return Step(Action.WRITE, path, why, content)


def remove(path: str, why: str, target: str | None = None) -> Step:
    """Take a file away: to `target`, whose directory must be there, else to where originals are kept."""
    return Step(Action.REMOVE, path, why, target=target)


def rename(path: str, target: str, why: str) -> Step:
    return Step(Action.RENAME, path, why, target=target)


def purge(path: str, why: str) -> Step:
    return Step(Action.PURGE, path, why)


@dataclass(frozen=True, slots=True)
class NewEnd:
    """Where a partition will end, and where its checkpoint says that it begins."""

    partition: str
    log_end_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done in one log directory, by which command."""

    command: str
    log_dir: str
    stages: tuple[tuple[Step, ...], ...]
    ends: tuple[NewEnd, ...] = ()
    unreadable: frozenset[str] = frozenset()
    """Files of which the disk did not give everything: they can be kept under another name, not copied."""

    @property
    def steps(self) -> list[Step]:
        return [step for stage in self.stages for step in stage]


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes needed and free on the volume of a directory."""

    directory: str
    needed: int
    free: int


@dataclass(frozen=True, slots=True)
class Applying:
    """How a plan is applied. `offline`: the user says that no broker uses the directory."""

    now_ms: int
    offline: bool = False
    backup_dir: str | None = None


def rooms(plan: Plan, files: Files, backup_dir: str | None = None) -> list[Room]:
    """What a plan needs, volume by volume: new content beside the old, and originals that are copied."""
    written = sum(step.size for step in plan.steps)
    found = [Room(plan.log_dir, written, files.free_space(plan.log_dir))]
    device = os.stat(plan.log_dir).st_dev
    kept: dict[str, int] = {}
    for step in plan.steps:
        target = backup_dir if step.target is None else os.path.dirname(step.target)
        if target is not None and step.action in (Action.WRITE, Action.REMOVE):
            home = _existing(target)
            if os.stat(home).st_dev != device:
                kept[home] = kept.get(home, 0) + _size(step.path)
    return found + [Room(home, needed, files.free_space(home)) for home, needed in kept.items()]


def refuse_if_unsafe(plan: Plan, files: Files, how: Applying) -> None:
    """Raise Refused where the plan must not be applied: in use, no room, or a log would be thrown away."""
    refuse_if_in_use(plan.log_dir, offline=how.offline, now_ms=how.now_ms)
    if how.backup_dir is not None:
        refuse_backup_dir(how.backup_dir, plan.log_dir)
    for room in rooms(plan, files, how.backup_dir):
        if room.needed > room.free:
            raise Refused(f"{room.directory}: {room.needed} bytes are needed, {room.free} are free")
    for step in plan.steps:
        if step.path in plan.unreadable and _must_be_copied(step, how.backup_dir):
            raise Refused(
                f"{step.path}: the disk does not give all of it, and it would have to be copied to be kept: "
                "image the disk first, or keep it on the same volume"
            )
    for end in plan.ends:
        if end.log_end_offset < end.log_start_offset:
            raise Refused(
                f"{end.partition}: it would end at {end.log_end_offset}, below its log start offset "
                f"{end.log_start_offset}: a broker would then delete all of it"
            )


def _must_be_copied(step: Step, backup_dir: str | None) -> bool:
    """Whether a second name is not enough to keep an original."""
    target = backup_dir if step.target is None else os.path.dirname(step.target)
    if step.action in (Action.RENAME, Action.PURGE) or (step.action is Action.REMOVE and target is None):
        return False
    home = _existing(target or os.path.dirname(step.path))
    return os.stat(step.path).st_dev != os.stat(home).st_dev


def refuse_backup_dir(backup_dir: str, log_dir: str) -> None:
    """Raise Refused for a directory inside the log directory: a broker fails on one it does not know."""
    inside = os.path.realpath(backup_dir) + os.sep
    if inside.startswith(os.path.realpath(log_dir) + os.sep):
        raise Refused(f"{backup_dir}: must not lie inside the log directory {log_dir}: brokers fail on it")


@dataclass(slots=True)
class Move:
    """A step with all its names settled, as the journal records it."""

    step: Step
    temporary: str | None
    backup: str | None
    """None where there is no original."""
    before: tuple[int, int] | None = None
    """Size and mtime in nanoseconds of the file that the step finds."""
    after: tuple[int, int] | None = None
    """Size and CRC-32C of what is written."""


def apply(plan: Plan, files: Files, how: Applying, progress: Callable[[int], None] | None = None) -> str:
    """Carry out a plan; returns the path of the journal, with which it can be undone.

    Raises Refused before anything is changed; KafkatoolError where it could not be finished, which names
    the journal if anything was.
    """
    from kafkatool.engine import journal

    refuse_if_unsafe(plan, files, how)
    if how.backup_dir is not None and not os.path.isdir(how.backup_dir):
        files.make_directory(how.backup_dir)
        files.sync_directory(os.path.dirname(os.path.abspath(how.backup_dir)))
    with hold_lock(plan.log_dir, files):
        stages = settle_names(plan, how.backup_dir)
        moves = [move for stage in stages for move in stage]
        try:
            write_beside(moves, files, progress)
            record = journal.begin(plan, stages, files, how)
        except Exception as error:
            _clean_up(moves, files)
            raise _unfinished(error, None) from error
        try:
            drop_clean_marker(plan.log_dir, files)
            for number, stage in enumerate(stages):
                record.enter_stage(number)
                carry_out(stage, files)
            record.finish()
        except OSError as error:
            raise _unfinished(error, record.path) from error
    return record.path


def _unfinished(error: Exception, journal: str | None) -> Exception:
    if not isinstance(error, OSError):
        return error
    where = f"{error.filename}: " if error.filename else ""
    advice = f"; to go back: --undo {journal} --apply" if journal else "; nothing was changed"
    return KafkatoolError(f"{where}{error.strerror}{advice}")


def drop_clean_marker(log_dir: str, files: Files) -> None:
    """Take away the mark of a clean shutdown: with it a changed copy could be elected as if it were whole."""
    marker = os.path.join(log_dir, CLEAN_MARKER)
    if os.path.lexists(marker):
        files.unlink(marker)
        files.sync_directory(log_dir)


def settle_names(plan: Plan, backup_dir: str | None) -> list[list[Move]]:
    """Choose the names of what is written beside and of what is kept; none of them is taken."""
    taken: set[str] = set()
    there = _Names()
    stages = []
    for stage in plan.stages:
        stages.append([_settle(step, backup_dir, taken, there) for step in stage])
        for step in stage:
            there.after(step)
    return stages


def _settle(step: Step, backup_dir: str | None, taken: set[str], there: _Names) -> Move:
    if step.action is Action.RENAME:
        assert step.target is not None
        if there.source(step.target) is not None:
            raise KafkatoolError(f"{step.target}: is in the way of {os.path.basename(step.path)}")
        return Move(step, None, None, _state(there.source(step.path)))
    if step.action is Action.PURGE:
        return Move(step, None, None, _state(step.path))
    if step.target is not None:
        if os.path.lexists(step.target):
            raise KafkatoolError(f"{step.target}: is in the way of {os.path.basename(step.path)}")
        return Move(step, None, step.target, _state(there.source(step.path)))
    number = 1
    while True:
        backup = _backup_name(step.path, backup_dir, number)
        temporary = f"{step.path}.kafkatool-{number}.tmp"
        if not any(name in taken or os.path.lexists(name) for name in (backup, temporary)):
            break
        number += 1
    taken.update((backup, temporary))
    original = there.source(step.path)
    return Move(
        step,
        temporary if step.action is Action.WRITE else None,
        backup if original is not None else None,
        _state(original),
    )


class _Names:
    """Which file of now a name will stand for, stage after stage; None: no file, or one that we wrote."""

    def __init__(self) -> None:
        self._moved: dict[str, str | None] = {}

    def source(self, path: str) -> str | None:
        if path in self._moved:
            return self._moved[path]
        return path if os.path.lexists(path) else None

    def after(self, step: Step) -> None:
        if step.action is Action.REMOVE:
            self._moved[step.path] = None
        elif step.action is Action.RENAME:
            assert step.target is not None
            self._moved[step.target] = self.source(step.path)
            self._moved[step.path] = None


def _backup_name(path: str, backup_dir: str | None, number: int) -> str:
    directory, name = os.path.split(path)
    if backup_dir is None:
        return f"{path}.kafkatool-{number}"
    return os.path.join(backup_dir, f"{os.path.basename(directory)}.{name}.kafkatool-{number}")


def _state(path: str | None) -> tuple[int, int] | None:
    if path is None:
        return None
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def write_beside(moves: Iterable[Move], files: Files, progress: Callable[[int], None] | None = None) -> None:
    """Write and sync all new content under temporary names, with the owner and mode of what it replaces."""
    for move in moves:
        if move.temporary is None or move.step.content is None:
            continue
        file = files.create(move.temporary)
        try:
            position = crc = 0
            for piece in pieces(move.step.content):
                file.write_at(position, piece)
                crc = crc32c(piece, crc)
                position += len(piece)
                if progress:
                    progress(len(piece))
            take_after(move.temporary, move.step, files)
            file.sync()
        finally:
            file.close()
        move.after = (position, crc)


def pieces(content: Content) -> Iterator[bytes]:
    """The bytes of a content, a piece at a time."""
    if isinstance(content, bytes):
        yield content
        return
    with open(content.path, "rb") as source:
        source.seek(content.start)
        left = content.end - content.start
        while left:
            piece = source.read(min(CHUNK, left))
            if not piece:
                raise OSError(errno.EIO, "is shorter than it was", content.path)
            yield piece
            left -= len(piece)


def take_after(path: str, step: Step, files: Files) -> None:
    """Give a new file the owner, group and mode of the one it replaces, and a log its time of change.

    A file that replaces nothing takes after a log beside it: the broker must be able to write to it.
    """
    model = _model(step)
    if model is None:
        return
    found = os.stat(model)
    mine = os.stat(path)
    if (mine.st_uid, mine.st_gid) != (found.st_uid, found.st_gid):
        files.set_owner(path, found.st_uid, found.st_gid)
    files.set_mode(path, found.st_mode & 0o7777)
    if isinstance(step.content, Stretch) and step.path.endswith(".cleaned"):
        files.set_mtime(path, os.stat(step.content.path).st_mtime_ns)
    elif step.path.endswith(".log"):
        files.set_mtime(path, found.st_mtime_ns)


def _model(step: Step) -> str | None:
    directory = os.path.dirname(step.path)
    if isinstance(step.content, Stretch) and os.path.dirname(step.content.path) == directory:
        return step.content.path
    if os.path.lexists(step.path):
        return step.path
    names = sorted(os.listdir(directory))
    return next((os.path.join(directory, name) for name in names if name.endswith(".log")), None)


def carry_out(stage: list[Move], files: Files) -> None:
    """Do the steps of one stage; when this returns they are on the disk."""
    directories = {os.path.dirname(move.step.path) for move in stage}
    for move in stage:
        if move.backup is not None and _is_kept_by_link(move):
            keep_copy(move.step.path, move.backup, files)
    homes = {os.path.dirname(move.backup) for move in stage if move.backup and _is_kept_by_link(move)}
    for home in sorted(homes):
        files.sync_directory(home)
    for move in stage:
        _change(move, files)
    for directory in sorted(directories):
        files.sync_directory(directory)


def _is_kept_by_link(move: Move) -> bool:
    """Whether the original needs a second name first; a removal within the directory is one rename."""
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
    elif move.backup is None:
        pass  # it was gone already
    elif _is_kept_by_link(move):
        files.unlink(step.path)
    else:
        files.rename(step.path, move.backup)


def keep_copy(path: str, copy: str, files: Files) -> None:
    """A second name for a file, or, where the volume cannot do that, a synced copy of it."""
    try:
        files.link(path, copy)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        _copy(path, copy, files)


def _copy(path: str, copy: str, files: Files) -> None:
    found = os.stat(path)
    file = files.create(copy)
    try:
        position = 0
        for piece in pieces(Stretch(path, 0, found.st_size)):
            file.write_at(position, piece)
            position += len(piece)
        files.set_mode(copy, found.st_mode & 0o7777)
        with suppress(PermissionError):
            files.set_owner(copy, found.st_uid, found.st_gid)
        files.set_mtime(copy, found.st_mtime_ns)
        file.sync()
    finally:
        file.close()


def _clean_up(moves: Iterable[Move], files: Files) -> None:
    for move in moves:
        if move.temporary is not None and os.path.lexists(move.temporary):
            with suppress(OSError):
                files.unlink(move.temporary)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _existing(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
