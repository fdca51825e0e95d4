"""Check whether the user that a broker runs as may open its files, by owner, group and mode.

Access control lists may allow what the mode forbids: files that have one are not reported.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from kafkatool.engine.advice.table import Advice
from kafkatool.engine.batches.damage import FindingClass, Severity
from kafkatool.engine.broker.checkpoint_effects import Effect
from kafkatool.engine.broker.owner_checks import holds_metadata
from kafkatool.engine.directory.log_dir import FileEntry, LogDir, SegmentState
from kafkatool.engine.doctor.symptoms import Symptom, host_finding
from kafkatool.errors import UsageError
from kafkatool.format import kinds

_READ, _WRITE, _ENTER = 4, 2, 1
_WRITTEN = (kinds.LOG, kinds.OFFSET_INDEX, kinds.TIME_INDEX, kinds.TXN_INDEX, kinds.LOCK)
"""Files that a broker opens for writing; the rest it reads, and replaces as a whole."""


@dataclass(frozen=True, slots=True)
class User:
    """The user whose permissions are checked."""

    uid: int
    gids: frozenset[int]
    name: str | None
    """None if this host has no name for the number."""

    @property
    def label(self) -> str:
        return self.name if self.name is not None else str(self.uid)

    def may(self, found: os.stat_result, wanted: int) -> bool:
        if self.uid == 0:
            return True
        shift = 6 if found.st_uid == self.uid else 3 if found.st_gid in self.gids else 0
        return (found.st_mode >> shift) & wanted == wanted


def find_user(text: str | None, log_dirs: Iterable[LogDir]) -> User | None:
    """Return the given user, by name or number, else the owner of the first directory.

    Raises UsageError for an unknown name.
    """
    import pwd

    if text is None:
        owner = next((os.stat(one.path).st_uid for one in log_dirs), None)
        return None if owner is None else _by_number(owner)
    try:
        return _by_number(int(text)) if text.isdecimal() else _with_groups(pwd.getpwnam(text))
    except KeyError:
        raise UsageError(f"--user {text}: no such user on this host; a number is accepted too") from None


def _by_number(uid: int) -> User:
    import pwd

    try:
        return _with_groups(pwd.getpwuid(uid))
    except KeyError:
        return User(uid, frozenset(), None)


def _with_groups(entry: object) -> User:
    name, gid, uid = entry.pw_name, entry.pw_gid, entry.pw_uid  # type: ignore[attr-defined]  # pwd.struct_passwd
    return User(uid, frozenset(os.getgrouplist(name, gid)), name)


class _Denied(NamedTuple):
    path: str
    what: str
    effect: Effect


def permission_symptoms(log_dirs: Iterable[LogDir], user: User) -> Iterator[Symptom]:
    """Yield a symptom for each log directory with something that the user may not open."""
    for log_dir in log_dirs:
        denied = [*_ways(log_dir.path, user), *_inside(log_dir, user)]
        for effect in (Effect.OFFLINE, Effect.NOTE):
            same = [one for one in denied if one.effect is effect]
            if same:
                yield _symptom(log_dir, user, same, effect)


def _symptom(log_dir: LogDir, user: User, denied: list[_Denied], effect: Effect) -> Symptom:
    first = denied[0]
    more = f" and {len(denied) - 1} more" if len(denied) > 1 else ""
    message = f"{user.label} may not {first.what} it{more}"
    severity = Severity.DEGRADED
    if effect is Effect.OFFLINE:
        message += ": a broker takes the log directory offline, or does not start"
        severity = Severity.NO_START
        effect = Effect.REFUSE if holds_metadata(log_dir) else effect
    is_above = not first.path.startswith(log_dir.path)
    advice = (
        Advice.OPEN_WAY(where=first.path)
        if is_above
        else Advice.OWN_DIRECTORY(user=user.label, where=log_dir.path)
    )
    finding = host_finding(
        first.path, FindingClass.NO_PERMISSION, severity, message, advice, f"open to {user.label}", "closed"
    )
    return Symptom(finding, effect, log_dir.path)


def _ways(path: str, user: User) -> Iterator[_Denied]:
    """Yield parent directories that the user may not pass through."""
    above = os.path.dirname(os.path.realpath(path))
    while True:
        if not user.may(os.stat(above), _ENTER) and not _has_acl(above):
            yield _Denied(above, "pass through", Effect.OFFLINE)
        if above == os.path.dirname(above):
            return
        above = os.path.dirname(above)


def _inside(log_dir: LogDir, user: User) -> Iterator[_Denied]:
    for directory in (log_dir.path, *(partition.path for partition in log_dir.partitions)):
        yield from _closed(directory, user, _READ | _WRITE | _ENTER, Effect.OFFLINE)
    asleep = {
        entry.path
        for partition in log_dir.partitions
        for segment in partition.segments
        if segment.state is not SegmentState.ACTIVE and log_dir.was_shut_down_cleanly
        for entry in segment.files
        if entry.kind in (kinds.OFFSET_INDEX, kinds.TIME_INDEX)
    }
    for entry in log_dir.all_files:
        if not _is_opened(entry):
            continue
        wanted = _READ | _WRITE if entry.kind in _WRITTEN else _READ
        # The indexes of old segments are opened when somebody reads there.
        yield from _closed(entry.path, user, wanted, Effect.NOTE if entry.path in asleep else Effect.OFFLINE)


def _is_opened(entry: FileEntry) -> bool:
    return entry.kind is not kinds.UNKNOWN and not entry.is_leftover


def _closed(path: str, user: User, wanted: int, effect: Effect) -> Iterator[_Denied]:
    try:
        found = os.stat(path)
    except OSError:  # gone meanwhile, or not visible to us, which is reported elsewhere
        return
    if user.may(found, wanted) or _has_acl(path):
        return
    what = "read" if not user.may(found, _READ) else "write"
    if stat.S_ISDIR(found.st_mode) and what == "read":
        what = "list"
    yield _Denied(path, what, effect)


def _has_acl(path: str) -> bool:
    with suppress(OSError):
        return "system.posix_acl_access" in os.listxattr(path)
    return False
