"""Every change of a log directory is a plan: shown first, then applied so that it can be undone.

A plan is a list of stages. The steps of one stage touch different files and may reach the disk in any order;
a stage is on disk before the next one begins. RUN is a random id, new for each run, so that no name is ever
used twice.

    write    the new content is written to `<name>.kafkatool-RUN.tmp` and synced before all changes; the
             original gets a second name, `<name>.kafkatool-RUN`, then the new file replaces it atomically
    remove   the file is renamed to `<name>.kafkatool-RUN`
    rename   the file gets another name, which must be free
    purge    the file is gone for good: this cannot be undone
    rmdir    the directory, empty by then, is removed

A name that has a file before and after has one at all times. With a backup directory, originals are linked or
copied there instead; a removed file may have a target of its own. `applying.py` carries plans out,
`journal.py` and `undo.py` make them reversible.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from kafkatool.engine.files.disk import Files
from kafkatool.engine.files.lock import CLEAN_MARKER, refuse_if_in_use
from kafkatool.engine.plan.evidence import Evidence
from kafkatool.errors import Refused

GO_ON = "run the same command again"


class Action(StrEnum):
    WRITE = "write"
    REMOVE = "remove"
    RENAME = "rename"
    PURGE = "purge"
    RMDIR = "rmdir"


@dataclass(frozen=True, slots=True)
class FileStretch:
    """The bytes [start, end) of a file, as they are before the plan is applied."""

    path: str
    start: int
    end: int
    patches: tuple[tuple[int, int], ...] = ()
    """Bytes written instead of those in the file: the position there, and the new byte."""

    def part(self, start: int, end: int) -> FileStretch:
        """Return a part of it, counted from its own start."""
        start, end = self.start + start, self.start + end
        within = tuple(patch for patch in self.patches if start <= patch[0] < end)
        return FileStretch(self.path, start, end, within)


Content = bytes | FileStretch


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one file; `why` is a sentence for the user."""

    action: Action
    path: str
    why: str
    content: Content | None = None
    target: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the new content."""
        if isinstance(self.content, FileStretch):
            return self.content.end - self.content.start
        return len(self.content) if self.content is not None else 0


def write(path: str, content: Content, why: str) -> Step:
    return Step(Action.WRITE, path, why, content)


def remove(path: str, why: str, target: str | None = None) -> Step:
    """Remove a file: to `target`, whose directory must exist, else to where originals are kept."""
    return Step(Action.REMOVE, path, why, target=target)


def rename(path: str, target: str, why: str) -> Step:
    return Step(Action.RENAME, path, why, target=target)


def purge(path: str, why: str) -> Step:
    return Step(Action.PURGE, path, why)


def remove_directory(path: str, why: str) -> Step:
    return Step(Action.RMDIR, path, why)


@dataclass(frozen=True, slots=True)
class NewEnd:
    """Where a partition will end, and where it begins by its checkpoint."""

    partition: str
    log_end_offset: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done in one log directory, and by which command."""

    command: str
    log_dir: str
    stages: tuple[tuple[Step, ...], ...]
    ends: tuple[NewEnd, ...] = ()
    unreadable: frozenset[str] = frozenset()
    """Files the disk could not read in full: they can be kept under another name, but not copied."""
    evidence: Evidence | None = None
    """The files it was made from; None if nothing was read for it."""
    directories: tuple[str, ...] = ()
    """Directories outside that have to be created first, outermost first."""
    go_on: str = GO_ON
    """What to do if it was stopped in the middle and is still wanted."""

    @property
    def steps(self) -> list[Step]:
        return [step for stage in self.stages for step in stage]


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """Bytes needed and free on the volume of a directory."""

    directory: str
    needed: int
    free: int


def new_run_id() -> str:
    """Return the id of a new run: 48 random bits."""
    return secrets.token_hex(6)


@dataclass(frozen=True, slots=True)
class Applying:
    """How a plan is applied. `offline`: the user confirms that no broker uses the directory."""

    now_ms: int
    offline: bool = False
    backup_dir: str | None = None
    run_ids: Callable[[], str] = new_run_id


def real_paths(plan: Plan) -> Plan:
    """Return the plan with absolute paths and links resolved, so that it holds from any directory."""

    real_directory = cache(os.path.realpath)

    def real(path: str) -> str:
        directory, name = os.path.split(path)
        return os.path.join(real_directory(directory), name)

    def of_step(step: Step) -> Step:
        content = step.content
        if isinstance(content, FileStretch):
            content = replace(content, path=real(content.path))
        target = real(step.target) if step.target is not None else None
        return replace(step, path=real(step.path), content=content, target=target)

    return replace(
        plan,
        log_dir=os.path.realpath(plan.log_dir),
        stages=tuple(tuple(of_step(step) for step in stage) for stage in plan.stages),
        unreadable=frozenset(map(real, plan.unreadable)),
        directories=tuple(map(os.path.realpath, plan.directories)),
    )


def real_log_dirs(plan: Plan) -> list[str]:
    """Return every log directory in which something changes, links resolved, the plan's own first.

    A partition may be a link into another log directory, with another lock.
    """
    root = os.path.realpath(plan.log_dir)
    directories = {os.path.dirname(step.path) for step in plan.steps}
    homes = {os.path.realpath(directory) for directory in directories}
    others = {os.path.dirname(home) for home in homes if home != root}
    return [root, *sorted(others - {root})]


def rooms(plan: Plan, files: Files, backup_dir: str | None = None) -> list[DiskRoom]:
    """Return the room a plan needs per volume, its own first: for new content and copied originals."""
    needed = {plan.log_dir: 0}
    volumes = {os.stat(plan.log_dir).st_dev: plan.log_dir}

    def count(directory: str, size: int) -> None:
        home = existing(directory)
        home = volumes.setdefault(os.stat(home).st_dev, home)
        needed[home] = needed.get(home, 0) + size

    for step in plan.steps:
        count(os.path.dirname(step.path), step.size)
        if _must_be_copied(step, backup_dir):
            count(_kept_in(step, backup_dir), _size(step.path))
    return [DiskRoom(home, size, files.free_space(home)) for home, size in needed.items()]


def refuse_if_unsafe(plan: Plan, files: Files, how: Applying) -> None:
    """Raise Refused if the plan must not be applied: in use, no room, or a log would be thrown away."""
    for log_dir in real_log_dirs(plan):
        refuse_if_in_use(log_dir, offline=how.offline, now_ms=how.now_ms)
    outside = [
        os.path.dirname(step.target) for step in plan.steps if step.action is Action.REMOVE and step.target
    ]
    for directory in {*outside, *([how.backup_dir] if how.backup_dir is not None else [])}:
        refuse_backup_dir(directory, plan.log_dir)
    for step in plan.steps:
        if step.path in plan.unreadable and _must_be_copied(step, how.backup_dir):
            raise Refused(
                f"{step.path}: the disk does not give all of it, and it would have to be copied to be kept: "
                "image the disk first, or keep it on the same volume"
            )
    for room in rooms(plan, files, how.backup_dir):
        if room.needed > room.free:
            raise Refused(f"{room.directory}: {room.needed} bytes are needed, {room.free} are free")
    for end in plan.ends:
        if end.log_end_offset < end.log_start_offset:
            raise Refused(
                f"{end.partition}: it would end at {end.log_end_offset}, below its log start offset "
                f"{end.log_start_offset}: a broker would then delete all of it"
            )


def _kept_in(step: Step, backup_dir: str | None) -> str:
    """Return the directory that the original of a step goes to."""
    if step.target is not None:
        return os.path.dirname(step.target)
    return backup_dir if backup_dir is not None else os.path.dirname(step.path)


def _must_be_copied(step: Step, backup_dir: str | None) -> bool:
    """Return whether keeping an original takes a copy, because a second name is not enough."""
    if step.action not in (Action.WRITE, Action.REMOVE) or not os.path.lexists(step.path):
        return False
    return os.stat(step.path).st_dev != os.stat(existing(_kept_in(step, backup_dir))).st_dev


def refuse_backup_dir(backup_dir: str, log_dir: str) -> None:
    """Raise Refused for a directory inside the log directory: a broker fails on one it does not know."""
    inside = os.path.realpath(backup_dir) + os.sep
    if inside.startswith(os.path.realpath(log_dir) + os.sep):
        raise Refused(f"{backup_dir}: must not lie inside the log directory {log_dir}: brokers fail on it")


def drop_clean_marker(log_dir: str, files: Files) -> None:
    """Remove the clean shutdown marker: with it a changed copy could be elected leader as if complete."""
    marker = os.path.join(log_dir, CLEAN_MARKER)
    if os.path.lexists(marker):
        files.unlink(marker)
        files.sync_directory(log_dir)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def existing(path: str) -> str:
    """Return a directory, or its nearest existing parent."""
    path = os.path.abspath(path)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
